package kernels

import (
	"sync"
	"sync/atomic"

	"github.com/weft-ml/weft/internal/caller"
)

// Waits counts how often the host waited for a device although the program did not ask for that: to read a tensor, for
// space in a staging buffer, for memory.
type Waits struct {
	n    atomic.Uint64
	warn atomic.Pointer[func(site, why string)]
	seen sync.Map // what was reported
}

// Waiter is a backend that may make the host wait.
type Waiter interface {
	Backend
	Waits() *Waits
}

// Note counts a wait. The first of each kind at each line of the program is reported.
func (w *Waits) Note(why string) {
	w.n.Add(1)
	if f := w.warn.Load(); f != nil && *f != nil {
		site := caller.Site()
		if _, again := w.seen.LoadOrStore([2]string{site, why}, true); !again {
			(*f)(site, why)
		}
	}
}

// Count is how many waits there have been.
func (w *Waits) Count() uint64 { return w.n.Load() }

// Warn calls f for waits from now on, nil for none: with the line of the program, as file:line, and why.
func (w *Waits) Warn(f func(site, why string)) {
	w.seen.Clear()
	w.warn.Store(&f)
}

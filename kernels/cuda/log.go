//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

const (
	logSize   = 1024 // launches remembered; about as many as a driver queues
	markEvery = 32   // launches between marks of progress
)

// launchLog remembers the launches of a stream that the device may not have finished. A fault is reported late, by
// some other call, and does not say who made it: one of these did.
//
// After every 32 launches the device writes their number to pinned memory, which can be read when the context is
// dead too.
type launchLog struct {
	mu        sync.Mutex
	ring      [logSize]logged
	next      uint64         // launches queued so far: the number of the next
	confirmed uint64         // launches known to be finished
	mark      unsafe.Pointer // *uint32 in pinned memory; nil: no marks
	markAddr  driver.Ptr     // the same for the device
}

// logged is a launch.
type logged struct{ op, kernel, site string }

// open gets memory for marks; a driver that has none to give only makes reports less exact.
func (g *launchLog) open(ctx driver.Context) {
	var rc driver.Result
	if g.mark, g.markAddr, rc = ctx.AllocHost(4); rc != driver.Success {
		g.mark, g.markAddr = nil, 0
	} else {
		*(*uint32)(g.mark) = 0
	}
}

// dropMarks stops asking for marks. Those that are queued still come.
func (g *launchLog) dropMarks() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.markAddr = 0
}

// free gives the memory of marks back. The context is current.
func (g *launchLog) free() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mark != nil {
		driver.FreeHost(g.mark)
	}
	g.mark, g.markAddr = nil, 0
}

// add notes the launches of an operation that site asked for. It returns the number of launches so far, and whether
// that is to be marked.
func (g *launchLog) add(op, site string, kernels []string) (queued uint64, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.next / markEvery
	for _, k := range kernels {
		g.note(logged{op, k, site})
	}
	return g.next, g.next/markEvery != before
}

// note notes a launch. g.mu is held.
func (g *launchLog) note(l logged) {
	g.ring[g.next%logSize] = l
	g.next++
}

// addGraph notes the launches of a graph, which its own log has, and returns the number of launches so far.
func (g *launchLog) addGraph(of *launchLog) (queued uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range min(of.next, logSize) {
		g.note(of.ring[i])
	}
	return g.next
}

// drop takes the last n launches back: they were not queued.
func (g *launchLog) drop(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next -= uint64(n)
}

// queued is the number of launches so far.
func (g *launchLog) queued() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.next
}

// confirm notes that the first n launches are finished.
func (g *launchLog) confirm(n uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.confirmed = max(g.confirmed, n)
}

// finished tells whether the first n launches are known to be finished.
func (g *launchLog) finished(n uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	from, _ := g.window()
	return from >= n
}

// window is the numbers of the launches that are not known to be finished.
func (g *launchLog) window() (from, to uint64) {
	if g.mark != nil {
		// The mark is the low half of a number between confirmed and next.
		done := atomic.LoadUint32((*uint32)(g.mark))
		if ahead := uint64(done - uint32(g.confirmed)); ahead <= g.next-g.confirmed {
			g.confirmed += ahead
		}
	}
	return g.confirmed, g.next
}

// suspects describes the launches that are not known to be finished; "" if there are none.
func (g *launchLog) suspects(id kernels.Stream) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	from, to := g.window()
	if from == to {
		return ""
	}
	n := to - from
	from = max(from, to-min(to, logSize))
	var m strings.Builder
	fmt.Fprintf(&m, "; not known to be finished on stream %d: %d launches:", id, n)
	const shown = 8 // at either end
	for i := from; i < to; i++ {
		if i > from {
			m.WriteString(",")
		}
		if i == from+shown && to-from > 2*shown {
			m.WriteString(" ...,")
			i = to - shown
		}
		l := g.ring[i%logSize]
		fmt.Fprintf(&m, " %s (%s) at %s", l.op, l.kernel, l.site)
	}
	return m.String()
}

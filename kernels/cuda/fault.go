//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"strings"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// failed makes the error for a code other than CUDA_SUCCESS that a call returned while op was doing something, which a
// gerund says: "copying 100 bytes". A fault or loss of the device ends its use: see latch.
func (b *Backend) failed(op, doing string, code driver.Result) *kernels.Error {
	switch code.Class() {
	case driver.NoMemory:
		return kernels.Errorf(kernels.ErrMemory, op, "%s on %s: %s", doing, b.Name(), code.String())
	case driver.Faulted:
		return b.latch(ErrFault, op, doing, code)
	case driver.Lost:
		return b.latch(ErrLost, op, doing, code)
	}
	return kernels.Errorf(kernels.ErrDevice, op, "%s on %s: %s", doing, b.Name(), code.String())
}

// check is failed for a code that may be CUDA_SUCCESS.
func (b *Backend) check(op, doing string, code driver.Result) error {
	if code == driver.Success {
		return nil
	}
	return b.failed(op, doing, code)
}

// latch notes that the device cannot be used any more, in this process, and why: the call that saw it is seldom
// the one that caused it, so the message names the launches that had not been confirmed. The first report wins.
func (b *Backend) latch(kind error, op, doing string, code driver.Result) *kernels.Error {
	var m strings.Builder
	m.WriteString(b.Name() + ": " + code.String() + "; seen while " + op + " was " + doing)
	known := m.Len()
	for _, s := range b.allStreams() {
		m.WriteString(s.log.suspects(s.id))
	}
	if m.Len() > known && !b.sync {
		m.WriteString("; WEFT_CUDA_SYNC=1 finds which")
	}
	m.WriteString("; what was on the device is lost, and only a new process can use it again")
	e := kernels.Errorf(kind, op, "%s", m.String())
	if !b.fault.CompareAndSwap(nil, e) {
		return b.fault.Load()
	}
	deadMu.Lock()
	defer deadMu.Unlock()
	dead[b.gpu.Ordinal] = e
	return e
}

// usable refuses work on a dead or closed device.
func (b *Backend) usable(op string) error {
	e := b.fault.Load()
	if e == nil {
		if b.closed.Load() {
			return kernels.Errorf(kernels.ErrDevice, op, "%s was closed", b.Name())
		}
		return nil
	}
	return kernels.Errorf(e.Kind, op, "refused: %s", strings.TrimPrefix(e.Error(), e.Op+": "))
}

// postpone keeps an error of a call that returns none; the next Run or Synchronize returns it. The first one stays.
func (b *Backend) postpone(err error) {
	var e *kernels.Error
	if errors.As(err, &e) {
		b.deferred.CompareAndSwap(nil, e)
	}
}

// takeDeferred returns the postponed error and forgets it.
func (b *Backend) takeDeferred() error {
	if b.deferred.Load() != nil {
		if e := b.deferred.Swap(nil); e != nil {
			return e
		}
	}
	return nil
}

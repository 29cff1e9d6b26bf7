//go:build cuda && cgo && linux

package cuda

// #include "shim.h"
import "C"

import (
	"errors"
	"strings"

	"github.com/weft-ml/weft/kernels"
)

// class is what an error code means for the device.
type class int

const (
	callFailed class = iota // this call failed, nothing else is harmed
	noMemory
	faulted // a kernel failed; the context is dead, and no other can be made in this process
	lost    // the GPU or the driver failed
)

// classify follows the documentation of CUresult: where that says that the process must be terminated and
// relaunched, the class is faulted or lost.
func classify(code int) class {
	switch code {
	case C.CUDA_ERROR_OUT_OF_MEMORY:
		return noMemory
	case C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_ASSERT, C.CUDA_ERROR_HARDWARE_STACK_ERROR,
		C.CUDA_ERROR_ILLEGAL_INSTRUCTION, C.CUDA_ERROR_MISALIGNED_ADDRESS, C.CUDA_ERROR_INVALID_ADDRESS_SPACE,
		C.CUDA_ERROR_INVALID_PC, C.CUDA_ERROR_LAUNCH_FAILED, C.CUDA_ERROR_CONTAINED, C.CUDA_ERROR_TENSOR_MEMORY_LEAK:
		return faulted
	case C.CUDA_ERROR_DEINITIALIZED, C.CUDA_ERROR_ECC_UNCORRECTABLE, C.CUDA_ERROR_NVLINK_UNCORRECTABLE, C.CUDA_ERROR_CONTEXT_IS_DESTROYED,
		C.CUDA_ERROR_MPS_CLIENT_TERMINATED, C.CUDA_ERROR_EXTERNAL_DEVICE, C.CUDA_ERROR_UNKNOWN:
		return lost
	}
	return callFailed
}

// failed makes the error for a code other than CUDA_SUCCESS that a call returned while op was doing something, which a
// gerund says: "copying 100 bytes". A fault or loss of the device ends its use: see latch.
func (b *Backend) failed(op, doing string, code int) *kernels.Error {
	switch classify(code) {
	case noMemory:
		return kernels.Errorf(kernels.ErrMemory, op, "%s on %s: %s", doing, b.Name(), describe(code))
	case faulted:
		return b.latch(ErrFault, op, doing, code)
	case lost:
		return b.latch(ErrLost, op, doing, code)
	}
	return kernels.Errorf(kernels.ErrDevice, op, "%s on %s: %s", doing, b.Name(), describe(code))
}

// check is failed for a code that may be CUDA_SUCCESS.
func (b *Backend) check(op, doing string, code int) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return b.failed(op, doing, code)
}

// latch notes that the device cannot be used any more, in this process, and why: the call that saw it is seldom
// the one that caused it, so the message names the launches that had not been confirmed. The first report wins.
func (b *Backend) latch(kind error, op, doing string, code int) *kernels.Error {
	var m strings.Builder
	m.WriteString(b.Name() + ": " + describe(code) + "; seen while " + op + " was " + doing)
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

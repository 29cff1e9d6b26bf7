//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"

	"gorgonia.org/cu"
)

// Context is a GPU's primary context, which it shares with other CUDA code of the process.
type Context struct {
	dev    cu.Device
	handle C.CUcontext
	event  cu.EventFlags
}

// Retain makes the primary context of a GPU, or takes a share in it. While the host waits for the device, its thread
// spins, which sees the end soonest, or, if waits are to be blocking, sleeps; other code that has made the context
// before has decided that for streams.
func Retain(ordinal int, blocking bool) (Context, Result) {
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return Context{}, resultOf(err)
	}
	c := Context{dev: dev, event: cu.DisableTiming}
	if blocking {
		c.event |= cu.BlockingSyncEvent
		rc := Result(C.cuDevicePrimaryCtxSetFlags(C.CUdevice(dev), C.CU_CTX_SCHED_BLOCKING_SYNC))
		if rc != Success && rc != C.CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE {
			return Context{}, rc
		}
	}
	ctx, err := dev.RetainPrimaryCtx()
	c.handle = handleOf[C.CUcontext](ctx)
	return c, resultOf(err)
}

// Release gives the share back; the last one destroys the context.
func (c Context) Release() Result { return resultOf(c.dev.ReleasePrimaryCtx()) }

// Do calls f on a thread on which the context is current. The result is that of making it so, or of f.
func (c Context) Do(f func() Result) Result {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if rc := C.cuCtxSetCurrent(c.handle); rc != C.CUDA_SUCCESS {
		return Result(rc)
	}
	return f()
}

// call calls f, one function of the driver, on a thread on which the context is current.
func (c Context) call(f func() C.CUresult) Result { return c.Do(func() Result { return Result(f()) }) }

// do is Do for functions of package cu.
func (c Context) do(f func() error) Result { return c.Do(func() Result { return resultOf(f()) }) }

// handleOf is the driver's handle in a value of package cu, which is a struct around it.
func handleOf[H, T any](v T) H {
	var h H
	if unsafe.Sizeof(h) != unsafe.Sizeof(v) {
		panic("cuda: gorgonia.org/cu has changed the layout of its handles")
	}
	return *(*H)(unsafe.Pointer(&v))
}

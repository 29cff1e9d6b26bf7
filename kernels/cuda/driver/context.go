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
}

// Retain makes the primary context of a GPU, or takes a share in it.
func Retain(ordinal int) (Context, Result) {
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return Context{}, resultOf(err)
	}
	ctx, err := dev.RetainPrimaryCtx()
	return Context{dev, handleOf[C.CUcontext](ctx)}, resultOf(err)
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

//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

import (
	"unsafe"

	"gorgonia.org/cu"
)

// Module is a loaded image. The zero value is none.
type Module struct{ handle C.CUmodule }

// Function is an entry point of a module.
type Function struct {
	handle    uintptr
	Registers int // of a thread
	Local     int // bytes of local memory of a thread; spills are there
}

// Load loads an image, a cubin or PTX with a zero at its end. The log has what a compiler of the driver said.
func (c Context) Load(image []byte) (m Module, log string, rc Result) {
	text := make([]byte, 4096)
	rc = Result(C.weft_module_load(c.handle, unsafe.Pointer(&image[0]), &m.handle,
		(*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text))))
	return m, C.GoString((*C.char)(unsafe.Pointer(&text[0]))), rc
}

// Unload gives the module back. The context is current: see [Context.Do].
func (m Module) Unload() { m.cu().Unload() }

// cu is the module as a value of package cu.
func (m Module) cu() cu.Module { return *(*cu.Module)(unsafe.Pointer(&m)) }

// Function looks up an entry point and its figures, and lets it have all shared memory of a block: without asking,
// static and dynamic together are 48 KiB.
func (c Context) Function(m Module, symbol string) (f Function, rc Result) {
	var handle C.CUfunction
	var static int
	rc = c.do(func() error {
		fn, err := m.cu().Function(symbol)
		if err == nil {
			handle, f.handle = handleOf[C.CUfunction](fn), handleOf[uintptr](fn)
			f.Registers, _ = fn.Attribute(cu.NumRegs) // 0 where the driver does not tell
			f.Local, _ = fn.Attribute(cu.LocalSizeBytes)
			static, _ = fn.Attribute(cu.SharedSizeBytes)
		}
		return err
	})
	if rc != Success {
		return f, rc
	}
	return f, c.call(func() C.CUresult {
		var most C.int
		rc := C.cuDeviceGetAttribute(&most, C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, C.CUdevice(c.dev))
		if rc != C.CUDA_SUCCESS {
			return C.CUDA_SUCCESS // a launch that needs more is refused
		}
		return C.cuFuncSetAttribute(handle, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most-C.int(static))
	})
}

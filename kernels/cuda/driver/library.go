//go:build cuda && cgo && linux

package driver

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -L${SRCDIR}/link -Wl,--as-needed -ldl -lpthread
#include "library.h"
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"

	"gorgonia.org/cu"
)

// Open loads the driver library, once in the life of the program. The error says why it cannot be used, and the way
// out.
func Open() (Library, error) {
	s := C.weft_driver_open()
	path, detail := C.GoString(s.library), C.GoString(s.detail)
	if path == "" {
		if os.Getenv("WEFT_CUDA_DRIVER") != "" {
			return Library{}, fmt.Errorf("WEFT_CUDA_DRIVER names no driver library: %s", detail)
		}
		return Library{}, fmt.Errorf("no NVIDIA driver found (%s); install the driver (nvidia-smi must work), "+
			"and in a container pass the GPU in (docker run --gpus all)", detail)
	}
	if s.status != C.CUDA_SUCCESS {
		return Library{}, fmt.Errorf("the NVIDIA driver %s does not work: %s", path,
			initFailure(Result(s.status), detail))
	}
	return Library{path, max(cu.Version(), 0)}, nil
}

// initFailure says what a failure of cuInit means and what to do.
func initFailure(code Result, detail string) string {
	switch code {
	case C.CUDA_ERROR_NO_DEVICE:
		if v, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
			return "it sees no GPU; CUDA_VISIBLE_DEVICES=" + v + " may hide them"
		}
		return "it sees no GPU; is one plugged in, and does nvidia-smi list it?"
	case C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
		return "its version differs from the kernel module's (803); restart the machine after an update of the driver"
	case C.CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		return "it is a compatibility package that this GPU does not support (804); remove it from LD_LIBRARY_PATH"
	case C.CUDA_ERROR_SYSTEM_NOT_READY:
		return "the system is not ready (802); on machines with NVSwitch the service nvidia-fabricmanager must run"
	case C.CUDA_ERROR_STUB_LIBRARY:
		return "it is the stub library of a toolkit (34), which is only for linking; " +
			"take its directory out of LD_LIBRARY_PATH"
	case C.CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
		return detail
	case C.CUDA_ERROR_UNKNOWN:
		return "cuInit failed with an unknown error (999); is the kernel module loaded (nvidia-modprobe), " +
			"may this user open /dev/nvidia*?"
	}
	return "cuInit failed: " + code.String()
}

// Kernels is an image of kernels that the library itself has, "" if it has none: that of a GPU has none, one that
// stands in for it may.
func Kernels() string { return C.GoString(C.weft_driver_kernels()) }

// PTXCompiler is the path of the library by which the driver compiles PTX, or "" and why it cannot be opened.
func PTXCompiler() (path, detail string) {
	var why *C.char
	path = C.GoString(C.weft_ptx_compiler_open(&why))
	return path, C.GoString(why)
}

//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

import (
	"reflect"
	"strconv"
)

// Result is the driver's answer to a call, a CUresult.
type Result int

// Results that callers tell apart.
const (
	Success                Result = C.CUDA_SUCCESS
	NotReady               Result = C.CUDA_ERROR_NOT_READY
	OutOfMemory            Result = C.CUDA_ERROR_OUT_OF_MEMORY
	DeviceUnavailable      Result = C.CUDA_ERROR_DEVICE_UNAVAILABLE
	NotFound               Result = C.CUDA_ERROR_NOT_FOUND
	NoBinaryForGPU         Result = C.CUDA_ERROR_NO_BINARY_FOR_GPU
	JITCompilerNotFound    Result = C.CUDA_ERROR_JIT_COMPILER_NOT_FOUND
	JITCompilationDisabled Result = C.CUDA_ERROR_JIT_COMPILATION_DISABLED
	UnsupportedPTXVersion  Result = C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
)

// String names the code: "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered".
func (r Result) String() string {
	var name, meaning *C.char
	text := "CUDA error"
	if C.cuGetErrorName(C.CUresult(r), &name) == C.CUDA_SUCCESS && name != nil {
		text = C.GoString(name)
	}
	text += " (" + strconv.Itoa(int(r)) + ")"
	if C.cuGetErrorString(C.CUresult(r), &meaning) == C.CUDA_SUCCESS && meaning != nil {
		text += ": " + C.GoString(meaning)
	}
	return text
}

// Class is what a result means for the device.
type Class int

const (
	CallFailed Class = iota // this call failed, nothing else is harmed
	NoMemory
	Faulted // a kernel failed; the context is dead, and no other can be made in this process
	Lost    // the GPU or the driver failed
)

// Class follows the documentation of CUresult: where that says that the process must be terminated and relaunched, the
// class is Faulted or Lost.
func (r Result) Class() Class {
	switch r {
	case C.CUDA_ERROR_OUT_OF_MEMORY:
		return NoMemory
	case C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_ASSERT,
		C.CUDA_ERROR_HARDWARE_STACK_ERROR,
		C.CUDA_ERROR_ILLEGAL_INSTRUCTION, C.CUDA_ERROR_MISALIGNED_ADDRESS, C.CUDA_ERROR_INVALID_ADDRESS_SPACE,
		C.CUDA_ERROR_INVALID_PC, C.CUDA_ERROR_LAUNCH_FAILED, C.CUDA_ERROR_CONTAINED, C.CUDA_ERROR_TENSOR_MEMORY_LEAK:
		return Faulted
	case C.CUDA_ERROR_DEINITIALIZED, C.CUDA_ERROR_ECC_UNCORRECTABLE, C.CUDA_ERROR_NVLINK_UNCORRECTABLE,
		C.CUDA_ERROR_CONTEXT_IS_DESTROYED, C.CUDA_ERROR_MPS_CLIENT_TERMINATED, C.CUDA_ERROR_EXTERNAL_DEVICE,
		C.CUDA_ERROR_UNKNOWN:
		return Lost
	}
	return CallFailed
}

// resultOf is the code in an error of package cu, which does not export its type.
func resultOf(err error) Result {
	if err == nil {
		return Success
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return Result(v.Int())
	}
	return C.CUDA_ERROR_UNKNOWN
}

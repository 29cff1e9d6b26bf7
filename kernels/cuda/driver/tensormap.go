//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// TensorMap describes boxes of a tensor to the tensor memory accelerator (TMA) of Hopper and later GPUs: matrix
// products and attention there are to load their operands by it. It is in C memory, aligned to 128 bytes, and freed
// with the value.
type TensorMap struct{ p *C.CUtensorMap }

// TensorMapType is the type of the elements.
type TensorMapType int

// Element types of tensor maps.
const (
	MapFloat32  TensorMapType = C.CU_TENSOR_MAP_DATA_TYPE_FLOAT32
	MapFloat16  TensorMapType = C.CU_TENSOR_MAP_DATA_TYPE_FLOAT16
	MapBFloat16 TensorMapType = C.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
)

// Swizzle permutes 16-byte units of rows in shared memory, so that columns are read without bank conflicts.
type Swizzle int

// Swizzles are by the bytes of a row.
const (
	NoSwizzle  Swizzle = C.CU_TENSOR_MAP_SWIZZLE_NONE
	Swizzle128 Swizzle = C.CU_TENSOR_MAP_SWIZZLE_128B
)

// NewTensorMap describes boxes of a tensor of up to five axes, the fastest first. strides are in bytes, for all axes
// but the fastest, and multiples of 16, as is the address.
func (c Context) NewTensorMap(t TensorMapType, address Ptr, dims, strides []uint64, box []uint32, sw Swizzle) (*TensorMap, Result) {
	m := &TensorMap{}
	strides = append(strides[:len(strides):len(strides)], 0) // so that there is a first one
	rc := C.weft_tensor_map(c.handle, C.CUtensorMapDataType(t), C.int(len(dims)), C.CUdeviceptr(address), (*C.cuuint64_t)(&dims[0]),
		(*C.cuuint64_t)(&strides[0]), (*C.cuuint32_t)(&box[0]), C.CUtensorMapSwizzle(sw), &m.p)
	if rc != C.CUDA_SUCCESS {
		return nil, Result(rc)
	}
	runtime.AddCleanup(m, func(p *C.CUtensorMap) { C.free(unsafe.Pointer(p)) }, m.p)
	return m, Success
}

// Bytes are the map as a kernel takes it by value. They live as long as m.
func (m *TensorMap) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(m.p)), unsafe.Sizeof(*m.p))
}

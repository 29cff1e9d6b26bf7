//go:build cuda && cgo && linux

package cuda

// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
)

// tensorMap tells the tensor memory accelerator of Hopper and later GPUs where a box of a tensor lies. It is in
// C memory, aligned to 128 bytes, and freed with the value.
type tensorMap struct{ p *C.CUtensorMap }

// dataTypes are the element types that tensor maps know.
var dataTypes = map[kernels.DType]C.CUtensorMapDataType{
	kernels.Float32: C.CU_TENSOR_MAP_DATA_TYPE_FLOAT32, kernels.Float64: C.CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
	kernels.Float16: C.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, kernels.BFloat16: C.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
	kernels.Int64: C.CU_TENSOR_MAP_DATA_TYPE_INT64, kernels.Int32: C.CU_TENSOR_MAP_DATA_TYPE_INT32,
	kernels.Uint8: C.CU_TENSOR_MAP_DATA_TYPE_UINT8, kernels.Bool: C.CU_TENSOR_MAP_DATA_TYPE_UINT8,
}

// swizzle permutes 16-byte pieces of rows in shared memory, so that columns are read without bank conflicts.
type swizzle int

const (
	noSwizzle  swizzle = C.CU_TENSOR_MAP_SWIZZLE_NONE
	swizzle32  swizzle = C.CU_TENSOR_MAP_SWIZZLE_32B
	swizzle64  swizzle = C.CU_TENSOR_MAP_SWIZZLE_64B
	swizzle128 swizzle = C.CU_TENSOR_MAP_SWIZZLE_128B
)

// newTensorMap describes boxes of a tensor of up to five axes, the fastest first. strides are in bytes, for all axes
// but the fastest, and multiples of 16, as is the address.
func newTensorMap(b *Backend, dtype kernels.DType, address C.CUdeviceptr, dims, strides []uint64, box []uint32, sw swizzle) (*tensorMap, error) {
	m := &tensorMap{}
	strides = append(strides[:len(strides):len(strides)], 0) // so that there is a first one
	rc := C.weft_tensor_map(b.ctx.handle, dataTypes[dtype], C.int(len(dims)), address, (*C.cuuint64_t)(&dims[0]), (*C.cuuint64_t)(&strides[0]),
		(*C.cuuint32_t)(&box[0]), C.CUtensorMapSwizzle(sw), &m.p)
	if err := b.check("tensor map", "encoding a tensor map", int(rc)); err != nil {
		return nil, err
	}
	runtime.AddCleanup(m, func(p *C.CUtensorMap) { C.free(unsafe.Pointer(p)) }, m.p)
	return m, nil
}

package checkpoint

import (
	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/tensor"
)

// inFiles is what element types are called in files.
var inFiles = map[tensor.DType]safetensors.DType{
	tensor.Float32: safetensors.F32, tensor.Float64: safetensors.F64, tensor.Float16: safetensors.F16,
	tensor.BFloat16: safetensors.BF16, tensor.Int64: safetensors.I64, tensor.Int32: safetensors.I32,
	tensor.Uint8: safetensors.U8, tensor.Bool: safetensors.BOOL,
}

// here is the element type that files call d; false if there is none.
func here(d safetensors.DType) (tensor.DType, bool) {
	for dt, name := range inFiles {
		if name == d {
			return dt, true
		}
	}
	return tensor.DType{}, false
}

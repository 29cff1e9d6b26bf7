package nn

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// engine is what package tensor has for the other packages of the library.
var engine = tensor.Engine(seam.Key{})

// newFull is all elements v, in the step and on the device of x.
func newFull(x *tensor.Tensor, v float64, dt tensor.DType, shape ...int) *tensor.Tensor {
	return engine.Beside(x, func() *tensor.Tensor { return x.Scope().Full(v, dt, shape...) })
}

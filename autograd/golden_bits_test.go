package autograd_test

import "github.com/weft-ml/weft/tensor"

func init() {
	does(map[string]call{
		"bit_and": binary((*tensor.Tensor).BitAnd), "bit_or": binary((*tensor.Tensor).BitOr),
		"bit_xor": binary((*tensor.Tensor).BitXor), "bit_not": unary((*tensor.Tensor).BitNot),
		"shift_left": binary((*tensor.Tensor).ShiftLeft), "shift_right": binary((*tensor.Tensor).ShiftRight),
	})
}

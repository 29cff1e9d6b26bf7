package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

var full Op

func init() {
	define(&full, entry{
		Op:     kernels.Op{Name: "full", Expr: expr.Must("a", nil, []string{"a"})},
		Doc:    "a everywhere",
		Args:   []string{},
		Ints:   []string{"dtype", "shape..."},
		Floats: []string{"a"},
		NoGrad: "there is no tensor operand",
		Shape:  func(c *ctx) { c.result(kernels.DTypeOf(c.Ints[0]), c.Ints[1:]...) },
	})
}

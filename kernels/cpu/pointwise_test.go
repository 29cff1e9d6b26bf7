package cpu

import (
	"fmt"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

func TestSmoke(t *testing.T) {
	f := expr.Must("gelu(x + b)", []string{"x", "b"}, nil)
	m := newMem(4 * 6)
	copy(view[float32](m.data), []float32{1, 2, 3, 4, 5, 6})
	o := newMem(24)
	l := &kernels.Launch{Op: &kernels.Op{Name: "g", Expr: f}, In: []kernels.Arg{
		{Buf: m, DType: kernels.Float32, Layout: kernels.Layout{Shape: []int{2, 3}, Strides: []int{1, 2}}},
		{Buf: m, DType: kernels.Float32, Layout: kernels.Layout{Shape: []int{2, 3}, Strides: []int{0, 1}}},
	}, Out: []kernels.Arg{{Buf: o, DType: kernels.Float32, Layout: kernels.Layout{Shape: []int{2, 3}, Strides: []int{3, 1}}}}}
	if err := (Backend{}).Run(l); err != nil {
		t.Fatal(err)
	}
	fmt.Println(view[float32](o.data))
}

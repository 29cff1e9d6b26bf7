package tensor_test

import (
	"fmt"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

func TestIndex(t *testing.T) {
	all, at, from, span := tensor.All, tensor.At, tensor.From, tensor.Span
	x := tensor.Arange(tensor.Int64, 0, 24, 1).Reshape(2, 3, 4)
	i64 := tensor.Int64
	wantTensor(t, "all, from, at", x.Index(all, from(1), at(-1)), i64, []int{2, 2}, 7, 11, 19, 23)
	wantTensor(t, "at, at", x.Index(at(1), at(-3)), i64, []int{4}, 12, 13, 14, 15)
	wantTensor(t, "span", x.Index(at(0), span(-2, tensor.End), span(0, 4).Step(3)), i64, []int{2, 2}, 4, 7, 8, 11)
	wantTensor(t, "element", x.Index(at(1), at(1), at(1)), i64, nil, 17)
	wantTensor(t, "empty", x.Index(all, span(2, 1)), i64, []int{2, 0, 4})
	if y := x.Index(); !x.AllEqual(y) {
		t.Errorf("no index: %v", y)
	}
	g := gradient(t, tensor.Zeros(tensor.Float64, 2, 3), func(x *tensor.Tensor) *tensor.Tensor {
		return x.Index(at(-1), from(1)).Mul(vector(2.0, 5))
	})
	if fmt.Sprint(g) != "[0 0 0 0 2 5]" {
		t.Errorf("the gradient is %v", g)
	}

	wantMisuse(t, func() { x.Index(all, at(3)) }, tensor.ErrIndex,
		"index: index 3 is outside [-3, 3): axis 1 of int64[2 3 4]")
	wantMisuse(t, func() { x.Index(at(-3), at(0)) }, tensor.ErrIndex,
		"index: index -3 is outside [-2, 2): axis 0 of int64[2 3 4]")
	wantMisuse(t, func() { x.Index(all, all, all, all) }, tensor.ErrShape,
		"index: 4 indices are given, int64[2 3 4] has 3 axes")
	wantMisuse(t, func() { x.Index(all, span(0, 1).Step(0)) }, tensor.ErrValue,
		"index: step 0 on axis 1 of int64[2 3 4]; steps are 1 or more, Flip reverses an axis")
	wantMisuse(t, func() { x.Index(tensor.Index{}) }, tensor.ErrValue, "index: step 0 on axis 0")
	var none *tensor.Tensor
	wantMisuse(t, func() { none.Index(all) }, tensor.ErrStep, "index: an operand is nil")
}

func ExampleTensor_Index() {
	x := tensor.Arange(tensor.Int64, 0, 24, 1).Reshape(2, 3, 4)
	fmt.Println(x.Index(tensor.All, tensor.From(1), tensor.At(-1)))
	// Output:
	// int64[2 2]
	// [[ 7 11]
	//  [19 23]]
}

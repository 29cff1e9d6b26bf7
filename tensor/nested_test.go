package tensor_test

import (
	"fmt"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

func TestFromNested(t *testing.T) {
	f64, i64 := tensor.Float64, tensor.Int64
	wantTensor(t, "scalar", tensor.FromNested(2.5), f64, nil, 2.5)
	wantTensor(t, "int", tensor.FromNested([]int{3, -4}), i64, []int{2}, 3, -4)
	wantTensor(t, "bool", tensor.FromNested([][]bool{{true}, {false}}), tensor.Bool, []int{2, 1}, 1, 0)
	wantTensor(t, "array", tensor.FromNested([][2]int32{{1, 2}, {3, 4}, {5, 6}}), tensor.Int32, []int{3, 2},
		1, 2, 3, 4, 5, 6)
	wantTensor(t, "rank 4", tensor.FromNested([][][][]float32{{{{1, 2}}, {{3, 4}}, {{5, 6}}}}), tensor.Float32,
		[]int{1, 3, 1, 2}, 1, 2, 3, 4, 5, 6)
	wantTensor(t, "no rows", tensor.FromNested([][]float64{}), f64, []int{0, 0})
	wantTensor(t, "empty rows", tensor.FromNested([][]uint8{{}, {}}), tensor.Uint8, []int{2, 0})
	rows := [][]float64{{1, 2}}
	x := tensor.FromNested(rows)
	rows[0][0] = 7 // a copy
	wantTensor(t, "copy", x, f64, []int{1, 2}, 1, 2)

	wantMisuse(t, func() { tensor.FromNested([][]float32{{1, 2, 3}, {4, 5}}) }, tensor.ErrShape,
		"from_nested: the slice at [1] has 2 elements, that at [0] has 3")
	wantMisuse(t, func() { tensor.FromNested([][][]int{{{1}, {2}}, {{3}, {4, 5}}}) }, tensor.ErrShape,
		"from_nested: the slice at [1 1] has 2 elements, that at [0 0] has 1")
	wantMisuse(t, func() { tensor.FromNested([][]float32{{}, {1}}) }, tensor.ErrShape,
		"from_nested: the slice at [1] has 1 elements, that at [0] has 0")
	wantMisuse(t, func() { tensor.FromNested([]string{"a"}) }, tensor.ErrDType,
		"from_nested: []string holds no elements")
	wantMisuse(t, func() { tensor.FromNested(nil) }, tensor.ErrDType, "from_nested: <nil> holds no elements")
	wantMisuse(t, func() { tensor.FromNested([]any{1, 2}) }, tensor.ErrDType, "from_nested: []interface")
}

func ExampleFromNested() {
	x := tensor.FromNested([][]float32{{1, 2, 3}, {4, 5, 6}})
	labels := tensor.FromSlice([]int{0, 2}, 2)
	fmt.Println(x)
	fmt.Println(labels)
	// Output:
	// float32[2 3]
	// [[1. 2. 3.]
	//  [4. 5. 6.]]
	// int64[2] [0 2]
}

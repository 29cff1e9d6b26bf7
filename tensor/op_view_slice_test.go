package tensor_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// values are the elements of a tensor as integers.
func values(x *tensor.Tensor) []int64 { return tensor.ToSlice[int64](x) }

// ascending is int64 host data 0, 1, 2, ... of a shape.
func ascending(shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return tensor.Arange(tensor.Int64, 0, float64(n), 1).Reshape(shape...)
}

func TestSliceBounds(t *testing.T) {
	x := ascending(6)
	for _, c := range []struct {
		start, stop, step int
		want              []int64
	}{
		{1, 4, 1, []int64{1, 2, 3}}, {0, 6, 2, []int64{0, 2, 4}}, {1, 6, 2, []int64{1, 3, 5}}, {0, 6, 4, []int64{0, 4}},
		{-2, tensor.End, 1, []int64{4, 5}}, {1, -1, 1, []int64{1, 2, 3, 4}}, {-4, -1, 2, []int64{2, 4}},
		{0, 100, 5, []int64{0, 5}}, {-100, 2, 1, []int64{0, 1}}, {4, 2, 1, nil}, {6, tensor.End, 1, nil},
		{9, tensor.End, 1, nil}, {2, -9, 1, nil}, {0, 6, 1 << 62, []int64{0}},
	} {
		if got := values(x.Slice(0, c.start, c.stop, c.step)); !slices.Equal(got, c.want) {
			t.Errorf("[%d:%d:%d] is %v, want %v", c.start, c.stop, c.step, got, c.want)
		}
	}
	// Slices of slices, and of strided axes.
	y := ascending(4, 6).T().Slice(0, 1, tensor.End, 2).Slice(-1, -2, tensor.End).Slice(0, 1, 3)
	if got, want := values(y), []int64{15, 21, 17, 23}; !slices.Equal(got, want) {
		t.Errorf("slice of a transposed slice: %v, want %v", got, want)
	}
	if x.Slice(0, 0, 6) != x {
		t.Error("the whole axis is not the tensor itself")
	}
	if got := values(ascending(2, 3).Slice(1, 3, 3).Slice(0, 1, 2)); len(got) != 0 {
		t.Errorf("a slice of an empty slice: %v", got)
	}
}

func TestSelect(t *testing.T) {
	x := ascending(2, 3, 2)
	for _, c := range []struct {
		axis, index int
		shape       []int
		want        []int64
	}{
		{0, 1, []int{3, 2}, []int64{6, 7, 8, 9, 10, 11}}, {1, -1, []int{2, 2}, []int64{4, 5, 10, 11}},
		{-1, 0, []int{2, 3}, []int64{0, 2, 4, 6, 8, 10}},
	} {
		y := x.Select(c.axis, c.index)
		if got := values(y); !slices.Equal(got, c.want) || !slices.Equal(y.Shape(), c.shape) {
			t.Errorf("axis %d index %d: %v %v, want %v %v", c.axis, c.index, y, got, c.shape, c.want)
		}
	}
	if y := ascending(3).Select(0, 2); y.Rank() != 0 || y.Item() != 2 {
		t.Errorf("an element of a vector is %v", y)
	}
}

func TestSplitAndChunk(t *testing.T) {
	sizes := func(parts []*tensor.Tensor, axis int) (all []int) {
		for _, p := range parts {
			all = append(all, p.Dim(axis))
		}
		return all
	}
	parts := ascending(2, 6).Split(1, 1, 0, 3, 2)
	if got := sizes(parts, 1); !slices.Equal(got, []int{1, 0, 3, 2}) {
		t.Errorf("split into %v", got)
	}
	if got := values(parts[2]); !slices.Equal(got, []int64{1, 2, 3, 7, 8, 9}) {
		t.Errorf("third part %v", got)
	}
	for _, c := range []struct {
		size, n int
		want    []int
	}{
		{6, 3, []int{2, 2, 2}}, {7, 3, []int{3, 3, 1}}, {6, 4, []int{2, 2, 2}},
		{3, 1, []int{3}}, {2, 5, []int{1, 1}}, {0, 2, []int{0, 0}},
	} {
		if got := sizes(ascending(2, c.size).Chunk(-1, c.n), 1); !slices.Equal(got, c.want) {
			t.Errorf("%d in %d chunks: %v, want %v", c.size, c.n, got, c.want)
		}
	}
}

func TestSliceErrors(t *testing.T) {
	x := ascending(2, 3)
	wantMisuse(t, func() { x.Slice(2, 0, 1) }, tensor.ErrShape, "slice: axis 2 is outside [-2, 2)")
	wantMisuse(t, func() { x.Slice(1, 0, 1, 0) }, tensor.ErrValue,
		"slice: step 0 on axis 1 of int64[2 3]; steps are 1 or more, Flip reverses an axis")
	wantMisuse(t, func() { x.Slice(1, 0, 1, -1) }, tensor.ErrValue, "step -1")
	wantMisuse(t, func() { x.Slice(1, 0, 1, 1, 2) }, tensor.ErrValue, "steps [1 2] are given, an axis has one")
	wantMisuse(t, func() { x.Select(1, 3) }, tensor.ErrIndex,
		"select: index 3 is outside [-3, 3): axis 1 of int64[2 3]")
	wantMisuse(t, func() { x.Select(1, -4) }, tensor.ErrIndex, "index -4")
	wantMisuse(t, func() { x.Split(1, 1, 1) }, tensor.ErrShape,
		"split: sizes [1 1] add up to 2, axis 1 of int64[2 3] has 3")
	wantMisuse(t, func() { x.Split(1, 4, -1) }, tensor.ErrShape, "split: size -1 of part 1 is negative")
	wantMisuse(t, func() { x.Chunk(1, 0) }, tensor.ErrValue, "chunk: int64[2 3] cannot be cut into 0 parts")
	wantMisuse(t, func() { (*tensor.Tensor)(nil).Slice(0, 0, 1) }, tensor.ErrStep, "slice: an operand is nil")
}

func ExampleTensor_Slice() {
	x := tensor.FromSlice([]int64{0, 1, 2, 3, 4, 5}, 6)
	fmt.Println(tensor.ToSlice[int64](x.Slice(0, 1, 4)), tensor.ToSlice[int64](x.Slice(0, -3, tensor.End, 2)))
	// Output: [1 2 3] [3 5]
}

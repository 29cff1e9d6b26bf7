package tensor_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

func TestIndexTypes(t *testing.T) {
	x := ascending(3, 2).To(tensor.Float32)
	for _, dt := range []tensor.DType{tensor.Int64, tensor.Int32, tensor.Uint8} {
		i := tensor.FromSlice([]int64{2, 0, 2, 1}, 2, 2).To(dt).T() // 2 2 0 1
		if got, want := values(x.Embedding(i)), []int64{4, 5, 4, 5, 0, 1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("embedding of %v indices: %v, want %v", dt, got, want)
		}
		if got, want := values(x.Gather(0, i)), []int64{4, 5, 0, 3}; !slices.Equal(got, want) {
			t.Errorf("gather by %v indices: %v, want %v", dt, got, want)
		}
		if got, want := values(i.OneHot(3)), []int64{0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0}; !slices.Equal(got, want) {
			t.Errorf("one-hot of %v: %v, want %v", dt, got, want)
		}
	}
}

// Elements with one index are added in ascending order, whatever the number of threads: 2^24 + 1 is rounded to 2^24, so
// each 1 after it is lost, but the sum of those before it is not.
func TestScatteredAddsAreOrdered(t *testing.T) {
	dev := open(t)
	const big, width = 1 << 24, 130
	column := []float32{1, 1, 1, big, 1, 1}
	want := float32(big) + 4 // 3 + 2^24, rounded to even; the last two 1s are lost
	y := tensor.FromSlice(column, 6, 1).Expand(6, width)
	zero := tensor.FromSlice([]int64{1, 1, 1, 1, 1, 1}, 6)
	x, xT := tensor.Zeros(tensor.Float32, 2, width), tensor.Zeros(tensor.Float32, width, 2)
	results := map[string]func() *tensor.Tensor{
		"index_add":            func() *tensor.Tensor { return x.IndexAdd(0, zero, y).Select(0, 1) },
		"index_add of clones":  func() *tensor.Tensor { return x.IndexAdd(0, zero, y.Clone()).Select(0, 1) },
		"index_add of columns": func() *tensor.Tensor { return xT.IndexAdd(1, zero, y.T()).Select(1, 1) },
		"scatter_add": func() *tensor.Tensor {
			return x.ScatterAdd(0, zero.Unsqueeze(1).Expand(6, width), y).Select(0, 1)
		},
		"scatter_add to columns": func() *tensor.Tensor {
			return xT.ScatterAdd(1, zero.Expand(width, 6), y.T()).Select(1, 1)
		},
		"embedding gradient": func() *tensor.Tensor {
			w := tensor.Randn(tensor.Seed(1), 2, width)
			return gradOf(t, dev, func(x *tensor.Tensor) *tensor.Tensor { return x.Embedding(zero) }, w, y).Select(0, 1)
		},
		"gather gradient": func() *tensor.Tensor {
			x := tensor.Randn(tensor.Seed(1), 2, width)
			return gradOf(t, dev, func(x *tensor.Tensor) *tensor.Tensor {
				return x.Gather(0, zero.Unsqueeze(1).Expand(6, width))
			}, x, y).Select(0, 1)
		},
	}
	for name, f := range results {
		threads(t, name, func() []*tensor.Tensor {
			got := f()
			for i, v := range tensor.ToSlice[float32](got) {
				if v != want {
					t.Errorf("%s: element %d is %v, want %v", name, i, v, want)
					break
				}
			}
			return []*tensor.Tensor{got}
		})
	}
}

// With many indices, and entries that several goroutines add to, the sums have the bits of a loop.
func TestEmbeddingGradLarge(t *testing.T) {
	dev := open(t)
	const entries, width, n = 50, 193, 3000
	g := tensor.Randn(tensor.Seed(2), n, width)
	indices := make([]int64, n)
	want := make([]float32, entries*width)
	v := tensor.ToSlice[float32](g)
	for k := range indices {
		i := k * k % entries
		indices[k] = int64(i)
		for c := range width {
			want[i*width+c] += v[k*width+c]
		}
	}
	threads(t, "embedding gradient", func() []*tensor.Tensor {
		got := gradOf(t, dev, func(w *tensor.Tensor) *tensor.Tensor {
			return w.Embedding(tensor.FromSlice(indices, n))
		}, tensor.Randn(tensor.Seed(1), entries, width), g)
		if i := differentBits(tensor.ToSlice[float32](got), want); i >= 0 {
			t.Errorf("element %d differs from the loop", i)
		}
		return []*tensor.Tensor{got}
	})
}

func TestIndexErrors(t *testing.T) {
	w := tensor.Zeros(tensor.Float32, 4, 3)
	ids := func(v ...int64) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }
	wantMisuse(t, func() { w.Embedding(ids(0, 4)) }, tensor.ErrIndex,
		"embedding: the index at [1] is 4, outside [0, 4), axis 0 of [4 3]")
	wantMisuse(t, func() { w.Embedding(ids(0, -1)) }, tensor.ErrIndex,
		"embedding: the index at [1] is -1, outside [0, 4)")
	wantMisuse(t, func() { w.Embedding(ids(0, 1, 2, 9).Reshape(2, 2).T()) }, tensor.ErrIndex, "the index at [1 1] is 9")
	wantMisuse(t, func() { w.To(tensor.Float16).Embedding(ids(7)) }, tensor.ErrIndex, "the index at [0] is 7")
	wantMisuse(t, func() { w.Embedding(ids(0).To(tensor.Float32)) }, tensor.ErrDType,
		"embedding: indices float32[1] must be int64 or int32 or uint8")
	wantMisuse(t, func() { tensor.Zeros(tensor.Float32, 4).Embedding(ids(0)) }, tensor.ErrShape,
		"embedding: weight float32[4] must have two axes, [entries width]")
	wantMisuse(t, func() { tensor.Of[float32](1).Embedding(ids(0)) }, tensor.ErrShape,
		"embedding: weight float32[] must have two axes, [entries width]")
	wantMisuse(t, func() { w.IndexSelect(1, ids(3)) }, tensor.ErrIndex,
		"index_select: the index at [0] is 3, outside [0, 3), axis 1 of [4 3]")
	wantMisuse(t, func() { w.IndexSelect(2, ids(0)) }, tensor.ErrShape, "index_select: axis 2 is outside [-2, 2)")
	wantMisuse(t, func() { w.IndexAdd(0, ids(4), tensor.Zeros(tensor.Float32, 1, 3)) }, tensor.ErrIndex,
		"index_add: the index at [0] is 4, outside [0, 4), axis 0 of [4 3]")
	wantMisuse(t, func() { w.IndexAdd(0, ids(1, 2), tensor.Zeros(tensor.Float32, 1, 3)) }, tensor.ErrShape,
		"y float32[1 3] must have shape [2 3]")
	wantMisuse(t, func() { w.IndexAdd(0, ids(1), tensor.Zeros(tensor.Float64, 1, 3)) }, tensor.ErrDType,
		"x float32[4 3] and y float64[1 3] must hold numbers of one type")
	wantMisuse(t, func() { w.Gather(0, ids(4, 0, 0).Reshape(1, 3)) }, tensor.ErrIndex,
		"gather: the index at [0 0] is 4, outside [0, 4), axis 0 of [4 3]")
	wantMisuse(t, func() { w.Gather(0, ids(0)) }, tensor.ErrShape, "gather: indices [1] have 1 axes, x [4 3] has 2")
	wantMisuse(t, func() { w.Gather(0, ids(0, 0, 0, 0).Reshape(1, 4)) }, tensor.ErrShape,
		"gather: indices [1 4] have 4 on axis 1, x [4 3] has only 3")
	wantMisuse(t, func() { w.ScatterAdd(0, ids(-1, 0, 0).Reshape(1, 3), w.Slice(0, 0, 1)) }, tensor.ErrIndex,
		"scatter_add: the index at [0 0] is -1, outside [0, 4), axis 0 of [4 3]")
	wantMisuse(t, func() { w.ScatterAdd(0, ids(0, 0, 0).Reshape(1, 3), w) }, tensor.ErrShape,
		"indices int64[1 3] and y float32[4 3] must have one shape")
	wantMisuse(t, func() { ids(0, 3).OneHot(3) }, tensor.ErrIndex, "one_hot: the index at [1] is 3, outside [0, 3)")
	wantMisuse(t, func() { ids(0).OneHot(-1) }, tensor.ErrShape, "one_hot: shape [1 -1] has size -1 on axis 1")
	wantMisuse(t, func() { w.OneHot(2) }, tensor.ErrDType, "one_hot: indices float32[4 3] must be int64")
}

// Indices are checked where the result is empty, too.
func TestIndexErrorsOfEmptyResults(t *testing.T) {
	zeros := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	type call = func(in function, ids *tensor.Tensor) *tensor.Tensor
	for name, c := range map[string]struct {
		call call
		size int
	}{
		"embedding": {func(in function, ids *tensor.Tensor) *tensor.Tensor {
			return in(zeros(4, 0)).Embedding(ids)
		}, 4},
		"index_select": {func(in function, ids *tensor.Tensor) *tensor.Tensor {
			return in(zeros(0, 4)).IndexSelect(1, ids)
		}, 4},
		"index_add": {func(in function, ids *tensor.Tensor) *tensor.Tensor {
			return in(zeros(3, 0)).IndexAdd(0, ids, zeros(2, 2, 0))
		}, 3},
		"scatter_add": {func(in function, ids *tensor.Tensor) *tensor.Tensor {
			return in(zeros(0, 2)).ScatterAdd(0, ids, zeros(2, 2))
		}, 0},
		"one_hot": {func(in function, ids *tensor.Tensor) *tensor.Tensor { return in(ids).OneHot(0) }, 0},
	} {
		outside := fmt.Sprintf("%s: the index at [1 0] is 4, outside [0, %d)", name, c.size)
		if c.size == 0 {
			outside = fmt.Sprintf("%s: the index at [0 0] is 1, outside [0, 0)", name)
		}
		bad := tensor.FromSlice([]int64{1, 0, 4, 1}, 2, 2)
		same := func(x *tensor.Tensor) *tensor.Tensor { return x }
		wantMisuse(t, func() { c.call(same, bad) }, tensor.ErrIndex, outside)
		err := open(t).Step(func(s *tensor.Scope) error { c.call(s.In, bad); return nil })
		wantError(t, err, tensor.ErrIndex, "op_index_test.go:", outside)
		if c.size > 0 {
			err = open(t).Step(func(s *tensor.Scope) error {
				if y := c.call(s.In, tensor.FromSlice([]int64{1, 0, 2, 1}, 2, 2)); y.Len() != 0 {
					t.Errorf("%s: %v", name, y)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// A wrong index names the line of the caller, as other errors do.
func TestIndexErrorSite(t *testing.T) {
	err := open(t).Step(func(s *tensor.Scope) error {
		s.In(tensor.Zeros(tensor.Float32, 2, 2)).Embedding(tensor.FromSlice([]int64{5}, 1))
		return nil
	})
	wantError(t, err, tensor.ErrIndex, "op_index_test.go:")
}

type function = func(x *tensor.Tensor) *tensor.Tensor

// gradOf is the gradient of f at x for the gradient g of its result.
func gradOf(t *testing.T, dev *tensor.Device, f function, x, g *tensor.Tensor) (dx *tensor.Tensor) {
	t.Helper()
	err := dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, x)
		dx = autograd.Grad(f(x), []*tensor.Tensor{x}, autograd.GradOutput(g))[0].Clone().Keep()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dx
}

func ExampleTensor_Embedding() {
	weight := tensor.FromSlice([]float32{0, 0, 1, 10, 2, 20}, 3, 2)
	tokens := tensor.FromSlice([]int64{2, 1}, 2)
	fmt.Println(tensor.ToSlice[float32](weight.Embedding(tokens)))
	// Output: [2 20 1 10]
}

// TestNonzeroShapes compares with a loop over the elements: axes of size 1 anywhere, none, and none of any size.
func TestNonzeroShapes(t *testing.T) {
	for _, shape := range [][]int{{}, {7}, {1}, {0}, {5, 1}, {1, 5}, {3, 1, 4}, {2, 3, 1, 1}, {1, 1, 6, 1, 2},
		{3, 0, 2}, {4, 5, 6, 7}} {
		x := tensor.Uniform(tensor.Seed(3), -1, 1, shape...).ReLU()
		want := []int64{}
		for i, v := range tensor.ToSlice[float32](x) {
			if v == 0 {
				continue
			}
			at := make([]int64, len(shape))
			for axis := len(shape) - 1; axis >= 0; axis-- {
				at[axis], i = int64(i%shape[axis]), i/shape[axis]
			}
			want = append(want, at...)
		}
		got := x.Nonzero()
		if y := tensor.ToSlice[int64](got); !slices.Equal(y, want) || got.Dim(1) != len(shape) {
			t.Errorf("of shape %v: %v, want %v", shape, y, want)
		}
	}
}

package tensor_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// TestOrderMisuse: what sorting, scattering and choosing by values refuse, and what the errors name.
func TestOrderMisuse(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 2, 3)
	ids := tensor.Zeros(tensor.Int64, 2, 3)
	far := tensor.FromSlice([]int64{0, 3}, 2)
	bools := tensor.Zeros(tensor.Bool, 3)
	for _, c := range []struct {
		f     func()
		kind  error
		words []string
	}{
		{func() { x.Sort(2, false) }, tensor.ErrShape, []string{"sort", "axis 2", "[2 3]"}},
		{func() { x.TopK(4, 1, true) }, tensor.ErrValue, []string{"topk", "k is 4", "axis 1", "3 elements"}},
		{func() { x.TopK(-1, 0, true) }, tensor.ErrValue, []string{"topk", "k is -1"}},
		{func() { x.KthValue(0, 1) }, tensor.ErrValue, []string{"kthvalue", "k is 0", "[1, 3]"}},
		{func() { x.Median(0, 1) }, tensor.ErrValue, []string{"median", "KeepDims", "[1]"}},
		{func() { tensor.Zeros(tensor.Float32, 2, 0).Median(1) }, tensor.ErrShape,
			[]string{"median", "axis 1", "[2 0]"}},
		{func() { x.Quantile([]float64{2}, 0, "linear") }, tensor.ErrValue, []string{"quantile", "q 2"}},
		{func() { x.Quantile([]float64{math.NaN()}, 0, "linear") }, tensor.ErrValue, []string{"quantile", "NaN"}},
		{func() { x.Quantile([]float64{0.5}, 0, "cubic") }, tensor.ErrValue,
			[]string{"quantile", `"cubic"`, "midpoint"}},
		{func() { ids.Quantile([]float64{0.5}, 0, "linear") }, tensor.ErrDType, []string{"quantile", "int64"}},
		{func() { x.SearchSorted(tensor.Zeros(tensor.Float32, 3, 3), true) }, tensor.ErrShape,
			[]string{"searchsorted", "[3 3]", "[2 3]"}},
		{func() { x.SearchSorted(ids, true) }, tensor.ErrDType, []string{"searchsorted", "float32", "int64"}},
		{func() { x.Scatter(1, ids, ids) }, tensor.ErrDType, []string{"scatter", "float32", "int64"}},
		{func() { x.ScatterReduce(1, ids, x, "max", true) }, tensor.ErrValue,
			[]string{"scatter_reduce", `"max"`, "amax"}},
		{func() { bools.ScatterReduce(0, bools.To(tensor.Int64), bools, "sum", true) }, tensor.ErrDType,
			[]string{"scatter_reduce", "bool"}},
		{func() { x.IndexBy(far, far) }, tensor.ErrIndex, []string{"index_by", "3"}},
		{func() { x.IndexBy() }, tensor.ErrShape, []string{"index_by", "0 tensors"}},
		{func() { x.IndexBy(tensor.Zeros(tensor.Int64, 2), tensor.Zeros(tensor.Int64, 3)) }, tensor.ErrShape,
			[]string{"index_by", "[2]", "[3]"}},
		{func() { x.MaskedSelect(x) }, tensor.ErrDType, []string{"masked_select", "float32"}},
		{func() { x.MaskedSelect(tensor.Zeros(tensor.Bool, 2)) }, tensor.ErrShape, []string{"masked_select", "[2]"}},
		{func() { tensor.FromSlice([]int64{-1}, 1).BinCount(nil, 0) }, tensor.ErrIndex, []string{"bincount", "-1"}},
		{func() { x.BinCount(nil, 0) }, tensor.ErrDType, []string{"bincount", "float32"}},
		{func() { x.Histc(0, 0, 1) }, tensor.ErrValue, []string{"histc", "0 bins"}},
		{func() { x.Histc(3, 1, math.Inf(1)) }, tensor.ErrValue, []string{"histc", "Inf"}},
		{func() { x.Diagonal(0, 1, -1) }, tensor.ErrShape, []string{"diagonal", "axis 1", "twice"}},
		{func() { x.Tile(math.MaxInt, 2) }, tensor.ErrShape, []string{"tile"}},
		{func() { x.RepeatInterleave(0, -1) }, tensor.ErrValue, []string{"repeat_interleave", "-1 times", "axis 0"}},
		{func() { x.Meshgrid() }, tensor.ErrShape, []string{"meshgrid", "operand 0", "[2 3]"}},
	} {
		err := engine.Try(c.f)
		var e *tensor.Error
		if !errors.As(err, &e) || !errors.Is(err, c.kind) || !strings.HasPrefix(e.Site, "op_sort_test.go:") {
			t.Errorf("%v: got %v, want an error of kind %v at this file", c.words, err, c.kind)
			continue
		}
		for _, word := range c.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%v does not contain %q", err, word)
			}
		}
	}
}

// TestUniqueNaN: every NaN is different from the others.
func TestUniqueNaN(t *testing.T) {
	nan := math.NaN()
	values, inverse, counts := tensor.FromSlice([]float64{nan, 1, nan, 1}, 4).Unique()
	v := tensor.ToSlice[float64](values)
	if len(v) != 3 || v[0] != 1 || v[1] == v[1] || v[2] == v[2] {
		t.Errorf("values %v, want 1 NaN NaN", v)
	}
	wantTensor(t, "inverse", inverse, tensor.Int64, []int{4}, 1, 0, 2, 0)
	wantTensor(t, "counts", counts, tensor.Int64, []int{3}, 2, 1, 1)
}

// TestScatterLast: of elements that go to one place the last stays, and it alone gets the gradient.
func TestScatterLast(t *testing.T) {
	x, ids := tensor.FromSlice([]float64{1, 2, 3}, 3), tensor.FromSlice([]int64{0, 2, 0}, 3)
	y := tensor.FromSlice([]float64{7, 8, 9}, 3)
	wantTensor(t, "scatter", x.Scatter(0, ids, y), tensor.Float64, []int{3}, 9, 2, 8)
	g := gradient(t, y, func(y *tensor.Tensor) *tensor.Tensor { return x.Scatter(0, ids, y) })
	for i, want := range []float64{0, 1, 1} {
		if g[i] != want {
			t.Errorf("gradient %v, want 0 1 1", g)
		}
	}
}

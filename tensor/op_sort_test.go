package tensor_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// TestOrderMisuse: what sorting, scattering and choosing by values refuse, and what the errors name.
func TestOrderMisuse(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 2, 3)
	ids := tensor.Zeros(tensor.Int64, 2, 3)
	near, far := tensor.FromSlice([]int64{0, 1}, 2), tensor.FromSlice([]int64{0, 3}, 2)
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
		{func() { x.IndexPut([]*tensor.Tensor{near, far}, tensor.Zeros(tensor.Float32, 1), false) }, tensor.ErrIndex,
			[]string{"index_put", "axis 1", "3"}},
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

// TestUniqueAlong: entries along an axis in their order, also where they hold NaN, and what is refused.
func TestUniqueAlong(t *testing.T) {
	nan := math.NaN()
	x := tensor.FromSlice([]float64{1, 0, 5, nan, 1, 0, 1, nan, 1, -1, 1, nan}, 6, 2)
	values, inverse, counts := x.Unique(0)
	if got, want := fmt.Sprint(tensor.ToSlice[float64](values)), "[1 -1 1 0 1 NaN 1 NaN 5 NaN]"; got != want {
		t.Errorf("entries %v, want %v", got, want)
	}
	if got, want := tensor.ToSlice[int64](inverse), []int64{1, 4, 1, 2, 0, 3}; !slices.Equal(got, want) {
		t.Errorf("indices %v, want %v", got, want)
	}
	if got, want := tensor.ToSlice[int64](counts), []int64{1, 2, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
	wantError(t, engine.Try(func() { x.Unique(0, 1) }), tensor.ErrValue, "unique: takes one axis or none, got [0 1]")
	wantError(t, engine.Try(func() { x.Unique(2) }), tensor.ErrShape, "unique: axis 2 is outside")
	wantError(t, engine.Try(func() { x.Slice(1, 0, 0).Unique(0) }), tensor.ErrShape, "axis 0 have no elements")
}

// TestUniqueAlongRandom compares with the order of slices of Go, over widths that are no powers of two.
func TestUniqueAlongRandom(t *testing.T) {
	for width := range 12 {
		x := tensor.Uniform(tensor.Seed(uint64(width)), 0, 2.5, 40, width+1).To(tensor.Int32)
		if width > 3 { // so that entries are equal
			x = tensor.Cat(0, x, x.Slice(0, 3, 17))
		}
		var rows [][]int32
		for i := range x.Dim(0) {
			rows = append(rows, tensor.ToSlice[int32](x.Select(0, i)))
		}
		values, inverse, counts := x.Unique(0)
		sorted := slices.Clone(rows)
		slices.SortFunc(sorted, slices.Compare[[]int32])
		sorted = slices.CompactFunc(sorted, slices.Equal[[]int32])
		if got, want := tensor.ToSlice[int32](values), slices.Concat(sorted...); !slices.Equal(got, want) {
			t.Errorf("width %d: entries %v, want %v", width+1, got, want)
		}
		found := make([]int64, len(sorted))
		for i, k := range tensor.ToSlice[int64](inverse) {
			if found[k]++; !slices.Equal(sorted[k], rows[i]) {
				t.Errorf("width %d: entry %d is number %d", width+1, i, k)
			}
		}
		if got := tensor.ToSlice[int64](counts); !slices.Equal(got, found) {
			t.Errorf("width %d: counts %v, want %v", width+1, got, found)
		}
	}
}

// TestQuantileOfElements: lower, higher and nearest are elements, also beside elements far from them.
func TestQuantileOfElements(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, c := range []struct {
		x             []float32
		q             float64
		interpolation string
		want          float32
	}{
		{[]float32{-1e8, -1}, 0.9, "higher", -1}, {[]float32{-3e38, 3e38}, 0.9, "higher", 3e38},
		{[]float32{inf, 1, 2, 3}, 0.1, "higher", 1}, {[]float32{inf, 1, 2, 3}, 0.1, "lower", inf},
		{[]float32{-1e8, -1}, 0.9, "nearest", -1},
	} {
		got := tensor.FromSlice(c.x, len(c.x)).Quantile([]float64{c.q}, 0, c.interpolation)
		if v := tensor.ToSlice[float32](got)[0]; v != c.want {
			t.Errorf("%s %g of %v is %v, want %v", c.interpolation, c.q, c.x, v, c.want)
		}
	}
}

// TestScatterReduceBools: without the elements of t, the largest of bools that are false is false.
func TestScatterReduceBools(t *testing.T) {
	x := tensor.FromSlice([]bool{true, false, false}, 3)
	at, y := tensor.FromSlice([]int64{0, 1, 1}, 3), tensor.Zeros(tensor.Bool, 3)
	if got := tensor.ToSlice[bool](x.ScatterReduce(0, at, y, "amax", false)); slices.Contains(got, true) {
		t.Errorf("amax %v, want false", got)
	}
}

// TestResampleBeyond: with a scale of its own and a filter, what is beyond the axis is its last element.
func TestResampleBeyond(t *testing.T) {
	for _, mode := range []string{"linear", "cubic"} {
		x := tensor.FromSlice([]float32{1, 1, 1, 1, 1, 1, 1, 1}, 1, 4, 2)
		for i, v := range tensor.ToSlice[float32](x.Resample(1, 12, mode, 1, false, true)) {
			if v != 1 {
				t.Errorf("%s: element %d of ones is %v", mode, i, v)
			}
		}
	}
}

// TestIndexByAll: as many indices as axes, with as many axes each.
func TestIndexByAll(t *testing.T) {
	ones := slices.Repeat([]int{1}, 8)
	i := tensor.Zeros(tensor.Int64, ones...)
	y := tensor.Full(2, tensor.Float32, ones...).IndexBy(i, i, i, i, i, i, i, i)
	if y.Rank() != 8 || tensor.ToSlice[float32](y)[0] != 2 {
		t.Errorf("%v", y)
	}
}

package tensor_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// wantTensor compares type, shape and elements; NaN equals NaN.
func wantTensor(t *testing.T, name string, y *tensor.Tensor, dt tensor.DType, shape []int, want ...float64) {
	t.Helper()
	if y.DType() != dt || !slices.Equal(y.Shape(), shape) {
		t.Errorf("%s: got %v, want %v%v", name, y, dt, shape)
		return
	}
	got := tensor.ToSlice[float64](y)
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

// gradient is the gradient of the sum of f(x) for x.
func gradient(t *testing.T, x *tensor.Tensor, f func(x *tensor.Tensor) *tensor.Tensor) []float64 {
	t.Helper()
	var g []float64
	err := open(t).Step(func(s *tensor.Scope) error {
		w := autograd.Watch(s, x)
		g = tensor.ToSlice[float64](autograd.Grad(f(w).Sum(), []*tensor.Tensor{w})[0])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// vector is host data of one axis.
func vector[T tensor.Elem](v ...T) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }

func floats(shape []int, v ...float64) *tensor.Tensor {
	return tensor.FromSlice(v, shape...).To(tensor.Float32)
}

func TestReductionValues(t *testing.T) {
	f32, f64, i64 := tensor.Float32, tensor.Float64, tensor.Int64
	x := floats([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	wantTensor(t, "sum", x.Sum(), f32, nil, 21)
	wantTensor(t, "sum last", x.Sum(-1), f32, []int{2}, 6, 15)
	wantTensor(t, "sum first", x.Sum(0), f32, []int{3}, 5, 7, 9)
	wantTensor(t, "sum both", x.Sum(1, 0), f32, nil, 21)
	wantTensor(t, "sum transposed", x.T().Sum(0), f32, []int{2}, 6, 15)
	wantTensor(t, "sum in float64", x.To(f64).Sum(0), f64, []int{3}, 5, 7, 9)
	wantTensor(t, "sum keep", x.Sum(-1, tensor.KeepDims), f32, []int{2, 1}, 6, 15)
	wantTensor(t, "sum keep all", x.Sum(tensor.KeepDims), f32, []int{1, 1}, 21)
	wantTensor(t, "mean", x.Mean(0), f32, []int{3}, 2.5, 3.5, 4.5)
	wantTensor(t, "mean keep", x.Mean(tensor.KeepDims, 0), f32, []int{1, 3}, 2.5, 3.5, 4.5)
	wantTensor(t, "max", x.Max(1), f32, []int{2}, 3, 6)
	wantTensor(t, "max keep", x.Max(1, tensor.KeepDims), f32, []int{2, 1}, 3, 6)
	wantTensor(t, "min", x.Min(), f32, nil, 1)
	wantTensor(t, "min keep", x.Min(tensor.KeepDims), f32, []int{1, 1}, 1)
	wantTensor(t, "prod", x.Prod(1), f32, []int{2}, 6, 120)
	wantTensor(t, "var", x.Var(1, 1), f32, []int{2}, 1, 1)
	wantTensor(t, "var biased", floats([]int{4}, 1, 1, 3, 3).Var(0), f32, nil, 1)
	wantTensor(t, "any keep", x.Any(0, tensor.KeepDims), tensor.Bool, []int{1, 3}, 1, 1, 1)
	wantTensor(t, "std keep", x.Std(0, tensor.KeepDims, 0), f32, []int{1, 3}, 1.5, 1.5, 1.5)
	wantTensor(t, "sum of squares keep", x.SumSquares(nil, 0, tensor.KeepDims), f32, []int{1, 3}, 17, 29, 45)
	wantTensor(t, "rank 0 keep", tensor.Of[float32](2).Sum(tensor.KeepDims), f32, nil, 2)
	wantTensor(t, "var keep", x.Var(1, 1, tensor.KeepDims), f32, []int{2, 1}, 1, 1)
	wantTensor(t, "std", floats([]int{3}, 2, 4, 6).Std(1), f32, nil, 2)
	wantTensor(t, "cumsum", x.CumSum(1), f32, []int{2, 3}, 1, 3, 6, 4, 9, 15)
	wantTensor(t, "cumsum first", x.CumSum(0), f32, []int{2, 3}, 1, 2, 3, 5, 7, 9)
	wantTensor(t, "argmax", x.ArgMax(0), i64, []int{3}, 1, 1, 1)
	wantTensor(t, "argmin", x.ArgMin(-1), i64, []int{2}, 0, 0)
	half := x.To(tensor.BFloat16)
	wantTensor(t, "sum of halves", half.Sum(1), tensor.BFloat16, []int{2}, 6, 15)
	wantTensor(t, "max of halves", half.Max(1), tensor.BFloat16, []int{2}, 3, 6)
}

// Sums of integers and bools are exact, not computed in floats.
func TestReductionTypes(t *testing.T) {
	i64 := tensor.Int64
	big := int64(1)<<53 + 1
	wantSum := func(name string, y *tensor.Tensor, want int64) {
		t.Helper()
		if y.DType() != i64 || tensor.ToSlice[int64](y)[0] != want {
			t.Errorf("%s: got %v of %v, want %d", name, tensor.ToSlice[int64](y), y, want)
		}
	}
	wantSum("int64", vector[int64](big, 2).Sum(), big+2)
	wantSum("int32", vector[int32](math.MaxInt32, 1).Sum(), 1<<31)
	wantSum("uint8", vector[uint8](255, 255).Sum(), 510)
	wantSum("bool", vector[bool](true, false, true).Sum(), 2)
	wantSum("prod", vector[uint8](255, 255).Prod(), 65025)
	wantSum("max", vector[int64](big, big-1).Max(), big)
	wantSum("argmax", vector[int64](big-1, big).ArgMax(0), 1)
	wantSum("argmin", vector[uint8](7, 3, 3).ArgMin(0), 1)
	wantSum("cumsum", vector[int64](big, 0).CumSum(0), big)
	wantSum("count", floats([]int{4}, 0, nan, -1, math.Copysign(0, -1)).CountNonzero(), 2)
	wantTensor(t, "mean of integers", vector[int32](1, 2).Mean(), tensor.Float32, nil, 1.5)
	wantTensor(t, "mean of bools", vector[bool](true, false).Mean(), tensor.Float32, nil, 0.5)
	wantTensor(t, "max of int32", vector[int32](-3, -2).Max(), tensor.Int32, nil, -2)
	wantTensor(t, "min of bools", vector[bool](true, false).Min(), tensor.Bool, nil, 0)
	wantTensor(t, "any", floats([]int{2, 2}, 0, 0, 0, nan).Any(1), tensor.Bool, []int{2}, 0, 1)
	wantTensor(t, "all", floats([]int{2, 2}, 1, 0, nan, 2).All(1), tensor.Bool, []int{2}, 0, 1)
	wantTensor(t, "all of bools", vector[bool](true, true).All(), tensor.Bool, nil, 1)
}

func TestReductionsOfNothingAndNaN(t *testing.T) {
	f32 := tensor.Float32
	none := tensor.Zeros(f32, 2, 0)
	wantTensor(t, "sum", none.Sum(1), f32, []int{2}, 0, 0)
	wantTensor(t, "prod", none.Prod(1), f32, []int{2}, 1, 1)
	wantTensor(t, "nansum", none.NaNSum(1), f32, []int{2}, 0, 0)
	wantTensor(t, "mean", none.Mean(1), f32, []int{2}, nan, nan)
	wantTensor(t, "var", none.Var(0, 1), f32, []int{2}, nan, nan)
	wantTensor(t, "logsumexp", none.LogSumExp(1), f32, []int{2}, -inf, -inf)
	wantTensor(t, "any", none.Any(1), tensor.Bool, []int{2}, 0, 0)
	wantTensor(t, "all", none.All(1), tensor.Bool, []int{2}, 1, 1)
	wantTensor(t, "sum to no results", none.Sum(0), f32, []int{0})
	wantTensor(t, "max to no results", none.Max(0), f32, []int{0})
	wantTensor(t, "mean of integers", tensor.Zeros(tensor.Int64, 0).Mean(), f32, nil, nan)
	wantTensor(t, "softmax", none.Softmax(1), f32, []int{2, 0})

	one := tensor.Of[float32](3)
	wantTensor(t, "rank 0", one.Sum(), f32, nil, 3)
	wantTensor(t, "rank 0 max", one.Max(), f32, nil, 3)
	wantTensor(t, "one element", one.Var(1), f32, nil, nan)

	x := floats([]int{2, 3}, 1, nan, 3, 2, -inf, 2)
	wantTensor(t, "max", x.Max(1), f32, []int{2}, nan, 2)
	wantTensor(t, "min", x.Min(1), f32, []int{2}, nan, -inf)
	for _, d := range []tensor.DType{f32, tensor.Float64, tensor.Float16} {
		wantTensor(t, "nansum of rows", x.To(d).NaNSum(1, tensor.KeepDims), d, []int{2, 1}, 4, -inf)
		wantTensor(t, "nansum of columns", x.To(d).NaNSum(0), d, []int{3}, 3, -inf, 5)
	}
	wantTensor(t, "nansum of NaN", floats([]int{2}, nan, nan).NaNSum(), f32, nil, 0)
	wantTensor(t, "nansum of infinities", floats([]int{2}, inf, -inf).NaNSum(), f32, nil, nan)
	wantTensor(t, "argmax", x.ArgMax(1), tensor.Int64, []int{2}, 1, 0)
	wantTensor(t, "argmin", x.ArgMin(1), tensor.Int64, []int{2}, 1, 1)
	values, indices := x.MaxIndex(1)
	wantTensor(t, "max with index", values, f32, []int{2}, nan, 2)
	wantTensor(t, "its index", indices, tensor.Int64, []int{2}, 1, 0)
	infinities := floats([]int{3, 2}, -inf, -inf, inf, 0, inf, -inf)
	wantTensor(t, "logsumexp of infinities", infinities.LogSumExp(1), f32, []int{3}, -inf, inf, inf)
	wantTensor(t, "softmax of -Inf", floats([]int{2}, -inf, -inf).Softmax(0), f32, []int{2}, nan, nan)
	wantTensor(t, "softmax beside -Inf", floats([]int{2}, -inf, 5).Softmax(0), f32, []int{2}, 0, 1)
	wantTensor(t, "softmax of large elements", floats([]int{2}, 1e30, 1e30).Softmax(0), f32, []int{2}, 0.5, 0.5)
}

// The conventions for gradients where the derivative does not exist.
func TestReductionGradients(t *testing.T) {
	x := floats([]int{4}, 2, 5, 5, 1)
	check := func(name string, got []float64, want ...float64) {
		t.Helper()
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
			t.Errorf("%s: gradient %v, want %v", name, got, want)
		}
	}
	check("max shares", gradient(t, x, func(x *tensor.Tensor) *tensor.Tensor { return x.Max() }), 0, 0.5, 0.5, 0)
	check("min", gradient(t, x, func(x *tensor.Tensor) *tensor.Tensor { return x.Min() }), 0, 0, 0, 1)
	check("max with index takes the first", gradient(t, x, func(x *tensor.Tensor) *tensor.Tensor {
		v, _ := x.MaxIndex(0)
		return v
	}), 0, 1, 0, 0)
	check("min with index", gradient(t, x, func(x *tensor.Tensor) *tensor.Tensor {
		v, _ := x.MinIndex(0)
		return v
	}), 0, 0, 0, 1)
	prod := func(x *tensor.Tensor) *tensor.Tensor { return x.Prod() }
	check("prod with a zero", gradient(t, floats([]int{3}, 2, 0, 5), prod), 0, 10, 0)
	check("prod with two zeros", gradient(t, floats([]int{3}, 0, 0, 5), prod), 0, 0, 0)
	check("logsumexp of -Inf", gradient(t, floats([]int{2}, -inf, -inf), func(x *tensor.Tensor) *tensor.Tensor {
		return x.LogSumExp()
	}), nan, nan)
	check("nansum", gradient(t, floats([]int{3}, nan, -inf, 2), func(x *tensor.Tensor) *tensor.Tensor {
		return x.NaNSum()
	}), 0, 1, 1)
	check("mean", gradient(t, x, func(x *tensor.Tensor) *tensor.Tensor { return x.Mean() }), 0.25, 0.25, 0.25, 0.25)
	check("cumsum", gradient(t, x, func(x *tensor.Tensor) *tensor.Tensor { return x.CumSum(0) }), 4, 3, 2, 1)
	check("max of halves", gradient(t, x.To(tensor.Float16), func(x *tensor.Tensor) *tensor.Tensor {
		return x.Max()
	}), 0, 0.5, 0.5, 0)
}

func TestReductionErrors(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 2, 3)
	wantMisuse(t, func() { x.Sum(2) }, tensor.ErrShape, "reduce_test.go:",
		"sum: axis 2 is outside [-2, 2): float32[2 3] has 2 axes")
	wantMisuse(t, func() { x.Mean(0, -2) }, tensor.ErrShape, "mean: axis 0 of float32[2 3] is named twice in [0 -2]")
	wantMisuse(t, func() { x.Sum(1, 1, tensor.KeepDims) }, tensor.ErrShape,
		"sum: axis 1 of float32[2 3] is named twice in [1 1]")
	wantMisuse(t, func() { tensor.Zeros(tensor.Float32, 3, 0).Max(1) }, tensor.ErrShape,
		"max: float32[3 0] has no elements along axes [1]; max needs at least one")
	wantMisuse(t, func() { tensor.Zeros(tensor.Float32, 3, 0).ArgMin(1) }, tensor.ErrShape,
		"argmin: float32[3 0] has no elements along axes [1]")
	wantMisuse(t, func() { x.ArgMax(5) }, tensor.ErrShape, "argmax: axis 5 is outside")
	wantMisuse(t, func() { x.Softmax(-3) }, tensor.ErrShape, "softmax: axis -3 is outside [-2, 2)")
	wantMisuse(t, func() { tensor.Of[float32](1).LogSoftmax(-1) }, tensor.ErrShape,
		"log_softmax: axis -1 is outside [0, 0)")
	wantMisuse(t, func() { tensor.Zeros(tensor.Int64, 2).Softmax(0) }, tensor.ErrDType,
		"softmax: x int64[2] must hold floating numbers", "x.To(tensor.Float32)")
	wantMisuse(t, func() { tensor.Zeros(tensor.Int64, 2).Var(1) }, tensor.ErrDType,
		"var: x int64[2] must hold floating numbers")
	wantMisuse(t, func() { tensor.Zeros(tensor.Bool, 2).LogSumExp() }, tensor.ErrDType,
		"logsumexp: x bool[2] must hold floating numbers")
	wantMisuse(t, func() { x.Var(-1) }, tensor.ErrValue, "var: the correction -1 is negative")
	wantMisuse(t, func() { (*tensor.Tensor)(nil).Sum() }, tensor.ErrStep, "sum: an operand is nil")
}

func ExampleTensor_MaxIndex() {
	x := tensor.FromSlice([]float32{3, 9, 9, 5, 4, 1}, 2, 3)
	values, indices := x.MaxIndex(-1)
	fmt.Println(tensor.ToSlice[float32](values), tensor.ToSlice[int64](indices))
	// Output:
	// [9 5] [1 0]
}

// KeepDims behind the axis of reductions that take one keeps it.
func TestIndexKeepDims(t *testing.T) {
	x := tensor.FromSlice([]float32{1, 5, 2, 9, 0, 4}, 2, 3)
	wantTensor(t, "argmax", x.ArgMax(-1, tensor.KeepDims), tensor.Int64, []int{2, 1}, 1, 0)
	wantTensor(t, "argmin", x.ArgMin(0, tensor.KeepDims), tensor.Int64, []int{1, 3}, 0, 1, 0)
	values, indices := x.MaxIndex(0, tensor.KeepDims)
	wantTensor(t, "max", values, tensor.Float32, []int{1, 3}, 9, 5, 4)
	wantTensor(t, "its index", indices, tensor.Int64, []int{1, 3}, 1, 0, 1)
	_, indices = x.MinIndex(1)
	wantTensor(t, "index of min", indices, tensor.Int64, []int{2}, 0, 1)
	wantMisuse(t, func() { x.ArgMax(0, 1) }, tensor.ErrValue,
		"argmax: takes one axis, and KeepDims; got [1] behind axis 0")
	wantMisuse(t, func() { x.ArgMax(tensor.KeepDims) }, tensor.ErrShape, "argmax: axis")
}

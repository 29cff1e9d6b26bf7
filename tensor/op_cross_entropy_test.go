package tensor_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// wantClose compares elements with a tolerance.
func wantClose(t *testing.T, name string, got []float64, tolerance float64, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %v, want %v", name, got, want)
		return
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
			t.Errorf("%s: element %d is %v, want %v", name, i, got[i], want[i])
		}
	}
}

// The losses of logits (0, 0), (0, log 3) and (log 3, 0) for class 1 are log 2, log 4/3 and log 4.
func TestCrossEntropyValues(t *testing.T) {
	ln := math.Log
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
		x := tensor.FromSlice([]float64{0, 0, 0, ln(3), ln(3), 0}, 3, 2).To(dt)
		tolerance := 1e-6
		if dt == tensor.Float64 {
			tolerance = 1e-14
		}
		ones := vector[int64](1, 1, 1)
		check := func(name string, y *tensor.Tensor, want ...float64) {
			t.Helper()
			if y.DType() != dt {
				t.Errorf("%s: loss %v of logits %v", name, y, x)
			}
			wantClose(t, name, tensor.ToSlice[float64](y), tolerance, want...)
		}
		a, b, c := ln(2), ln(4.0/3), ln(4)
		check("mean", x.CrossEntropy(ones), (a+b+c)/3)
		check("sum", x.CrossEntropy(ones, tensor.ReduceSum), a+b+c)
		check("none", x.CrossEntropy(ones, tensor.ReduceNone), a, b, c)
		check("int32", x.CrossEntropy(ones.To(tensor.Int32)), (a+b+c)/3)
		check("uint8", x.CrossEntropy(ones.To(tensor.Uint8)), (a+b+c)/3)
		some := vector[int64](1, -100, 1)
		check("ignored", x.CrossEntropy(some), (a+c)/2)
		check("ignored, sum", x.CrossEntropy(some, tensor.ReduceSum), a+c)
		check("ignored, none", x.CrossEntropy(some, tensor.ReduceNone), a, 0, c)
		check("another mark", x.CrossEntropy(vector[int64](0, 1, 0), tensor.IgnoreIndex(0)), b)
		check("smooth", x.CrossEntropy(ones, tensor.LabelSmoothing(0.5), tensor.ReduceNone), a, 0.75*b+0.25*c, 0.75*c+0.25*b)
		check("one row", x.Select(0, 1).CrossEntropy(tensor.Of(int64(1))), b)
		rows := x.Reshape(3, 1, 2).CrossEntropy(ones.Reshape(3, 1), tensor.ReduceNone)
		wantTensor(t, "shape", rows.Greater(rows.Scale(2)), tensor.Bool, []int{3, 1}, 0, 0, 0)
		all := x.CrossEntropy(vector[int64](7, 7, 7), tensor.IgnoreIndex(7))
		wantTensor(t, "all ignored", all, dt, nil, nan)
		wantTensor(t, "no rows", tensor.Zeros(dt, 0, 4).CrossEntropy(tensor.Zeros(tensor.Int64, 0), tensor.ReduceSum), dt, nil, 0)
	}
}

// Rows that are ignored have no gradient, even if all are.
func TestCrossEntropyIgnoredGradient(t *testing.T) {
	x := floats([]int{2, 2}, 1, 2, 3, 4)
	g := gradient(t, x, func(x *tensor.Tensor) *tensor.Tensor { return x.CrossEntropy(vector[int64](-100, -100)) })
	wantClose(t, "all ignored", g, 0, 0, 0, 0, 0)
	g = gradient(t, x, func(x *tensor.Tensor) *tensor.Tensor { return x.CrossEntropy(vector[int64](-100, 0)) })
	p := 1 / (1 + math.Exp(1))
	wantClose(t, "one ignored", g, 1e-6, 0, 0, p-1, 1-p)
}

// The second derivative of a fused gradient is that of its composition, with ignored rows, smoothing and all reductions.
func TestCrossEntropySecondDerivative(t *testing.T) {
	dev := open(t)
	x := tensor.Uniform(3, -2, 2, 4, 3).To(tensor.Float64)
	targets := vector[int64](2, 7, 0, 1)
	for _, r := range []tensor.Reduction{tensor.ReduceMean, tensor.ReduceSum, tensor.ReduceNone} {
		err := autograd.GradGradcheck(dev, func(x []*tensor.Tensor) *tensor.Tensor {
			return x[0].CrossEntropy(targets, tensor.IgnoreIndex(7), tensor.LabelSmoothing(0.2), r)
		}, x)
		if err != nil {
			t.Errorf("reduction %d: %v", r, err)
		}
	}
}

func TestCrossEntropyErrors(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 2, 3, 5)
	targets := tensor.Zeros(tensor.Int64, 2, 3)
	for _, c := range []struct {
		f     func()
		kind  error
		parts []string
	}{
		{func() { x.CrossEntropy(tensor.FromSlice([]int64{0, 1, 2, 3, 4, 5}, 2, 3)) }, tensor.ErrIndex,
			[]string{"op_cross_entropy_test.go:", "cross_entropy: target [1 2] is 5, outside the classes [0, 5); -100 marks rows to ignore"}},
		{func() { x.To(tensor.Float64).CrossEntropy(tensor.FromSlice([]int64{0, -1, 2, 3, 4, 5}, 2, 3)) }, tensor.ErrIndex,
			[]string{"cross_entropy: target [0 1] is -1, outside the classes [0, 5)"}},
		{func() { x.CrossEntropy(tensor.Zeros(tensor.Int64, 2, 5)) }, tensor.ErrShape,
			[]string{"cross_entropy: logits float32[2 3 5] have rows [2 3], the last axis being the classes; targets int64[2 5] hold one class for each of [2 5]"}},
		{func() { x.CrossEntropy(tensor.Zeros(tensor.Float32, 2, 3)) }, tensor.ErrDType,
			[]string{"cross_entropy: targets float32[2 3] must be int64 or int32 or uint8"}},
		{func() { tensor.Zeros(tensor.Int64, 2, 3).CrossEntropy(targets) }, tensor.ErrDType,
			[]string{"cross_entropy: logits int64[2 3] must hold floating numbers"}},
		{func() { tensor.Of[float32](1).CrossEntropy(tensor.Of(int64(0))) }, tensor.ErrShape,
			[]string{"cross_entropy: logits float32[] has 0 axes, at least 1 are needed"}},
		{func() { x.CrossEntropy(targets, tensor.LabelSmoothing(1.5)) }, tensor.ErrValue,
			[]string{"cross_entropy: the label smoothing 1.5 is outside [0, 1]"}},
		{func() { x.CrossEntropy(targets, tensor.LabelSmoothing(nan)) }, tensor.ErrValue,
			[]string{"cross_entropy: the label smoothing NaN is outside [0, 1]"}},
		{func() { x.CrossEntropy(targets, tensor.Reduction(9)) }, tensor.ErrValue, []string{"cross_entropy: there is no reduction 9"}},
		{func() { x.CrossEntropy(nil) }, tensor.ErrStep, []string{"cross_entropy: an operand is nil"}},
	} {
		wantError(t, tensor.Try(c.f), c.kind, c.parts...)
	}
}

func ExampleTensor_CrossEntropy() {
	logits := tensor.FromSlice([]float32{0, 0, 10, -10}, 2, 2)
	targets := tensor.FromSlice([]int64{1, 0}, 2)
	fmt.Printf("%.4f\n", logits.CrossEntropy(targets).Item())
	fmt.Printf("%.4f\n", tensor.ToSlice[float32](logits.CrossEntropy(targets, tensor.ReduceNone)))
	fmt.Printf("%.4f\n", logits.CrossEntropy(targets, tensor.IgnoreIndex(1), tensor.LabelSmoothing(0.1)).Item())
	// Output:
	// 0.3466
	// [0.6931 0.0000]
	// 1.0000
}

package autograd_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

var halves = []tensor.DType{tensor.Float16, tensor.BFloat16}

// halfOperands are the operands of a sample with floating values rounded to dt.
func halfOperands(op *tensor.Op, s seam.Sample[*tensor.Tensor], dt tensor.DType) []*tensor.Tensor {
	in := operands(op, s)
	for i, x := range in {
		if x.DType().IsFloat() {
			in[i] = x.To(dt)
		}
	}
	return in
}

// TestHalfOps runs every sample of every operation in both half types, forwards and backwards, in several layouts, and
// holds every operation that runs to the rule: the result is that of float32 on the same numbers, rounded once.
func TestHalfOps(t *testing.T) {
	dev := open(t)
	ran := map[string]bool{}
	for _, op := range engine.Ops() {
		t.Run(op.Name, func(t *testing.T) {
			for _, s := range engine.Samples(op) {
				for j, l := range layouts {
					if j > 0 && (s.Fixed || testing.Short()) {
						break
					}
					for _, dt := range halves {
						in := halfOperands(op, s, dt)
						where := fmt.Sprintf("%s %v, %v, %s", s.Name, shapes(s), dt, l.name)
						check := func(_ string, c seam.Applied[*tensor.Op, *tensor.Tensor]) {
							if roundedOnce(t, where, c, dt) {
								ran[c.Op.Name] = true
							}
						}
						err := dev.Step(func(step *tensor.Scope) error {
							var xs, watched []*tensor.Tensor
							for _, x := range in {
								x = step.In(x)
								if x.DType().IsFloat() {
									x = autograd.Watch(step, x)
									watched = append(watched, x)
								}
								xs = append(xs, l.of(x))
							}
							y := s.Call(xs)
							if y.NeedsGrad() {
								seed := tensor.Uniform(tensor.Seed(7), 0.5, 1.5, y.Shape()...).To(y.DType())
								autograd.Grad(y, watched, autograd.GradOutput(seed), autograd.AllowUnused())
							}
							return nil
						}, tensor.RandomStream(1), engine.Observe(check))
						if err != nil {
							t.Errorf("%s: %v", where, err)
						}
					}
				}
			}
		})
	}
	for _, op := range engine.Ops() {
		if (op.CPU != nil || op.Expr != nil) && takesFloats(op) && !ran[op.Name] && !heldElsewhere(op) {
			t.Errorf("%s never ran in half precision", op.Name)
		}
	}
}

// heldElsewhere tells whether the rule does not fit: dropout draws new numbers (TestHalfDropout), any and all give
// bools (TestPlainFolds of package tensor), an operation of parts rounds the result of the first (TestAddNormBits
// there), and batch norm in one pass is for float32 alone.
func heldElsewhere(op *tensor.Op) bool {
	return slices.Contains([]string{"dropout", "any", "all"}, op.Name) || op.Parts != nil ||
		strings.HasPrefix(op.Name, "batch_norm_train")
}

// roundedOnce repeats an operation that has operands of type dt on these in float32, and tells whether there are such.
func roundedOnce(t *testing.T, where string, c seam.Applied[*tensor.Op, *tensor.Tensor], dt tensor.DType) bool {
	t.Helper()
	if c.Op.View != nil || heldElsewhere(c.Op) {
		return false
	}
	found := false
	in := slices.Clone(c.In)
	for i, x := range in {
		if x.DType() == dt {
			in[i], found = x.To(tensor.Float32), true
		}
	}
	if !found {
		return false
	}
	got := slices.Clone(c.Out)
	for k, y := range engine.ApplyAll(c.Op, in, slices.Clone(c.Ints), slices.Clone(c.Floats)) {
		want := y.To(got[k].DType())
		if !slices.Equal(bits(got[k]), bits(want)) {
			t.Errorf("%s: %s of %v, result %d: %v, in float32 and rounded %v", where, c.Op.Name, c.In, k,
				tensor.ToSlice[float64](got[k]), tensor.ToSlice[float64](want))
			return true
		}
	}
	return true
}

// The numbers that dropout draws do not depend on the type.
func TestHalfDropout(t *testing.T) {
	dev := open(t)
	x := tensor.Uniform(tensor.Seed(3), -2, 2, 1000)
	for _, dt := range halves {
		x := x.To(dt)
		pass := func(in tensor.DType) (values [][]uint64) {
			err := dev.Step(func(s *tensor.Scope) error {
				x := autograd.Watch(s, x.To(in))
				y := x.Dropout(0.3)
				values = append(values, bits(y.To(dt)), bits(autograd.Grad(y, []*tensor.Tensor{x},
					autograd.GradOutput(x))[0].To(dt)))
				return nil
			}, tensor.RandomStream(1))
			if err != nil {
				t.Fatal(err)
			}
			return values
		}
		got, want := pass(dt), pass(tensor.Float32)
		if !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
			t.Errorf("dropout in %v is not that of float32, rounded", dt)
		}
	}
}

// bits are the elements' bits as float64, in which halves and float32 are exact; all NaNs are alike.
func bits(x *tensor.Tensor) []uint64 {
	var all []uint64
	for _, v := range tensor.ToSlice[float64](x) {
		if v != v {
			v = math.NaN()
		}
		all = append(all, math.Float64bits(v))
	}
	return all
}

// takesFloats tells whether an operation has a floating operand, as far as samples tell.
func takesFloats(op *tensor.Op) bool {
	for _, s := range engine.Samples(op) {
		for _, a := range s.In {
			if a.DType.IsFloat() {
				return true
			}
		}
	}
	return len(engine.Samples(op)) == 0 && len(op.Args) > 0
}

// TestSharedCast uses the half copy of a weight four times, with gradients 256 (in float16 2048), 1, 1 and 1: added in
// half precision each 1 would be lost. So would it be in a view of the copy.
func TestSharedCast(t *testing.T) {
	for dt, large := range map[tensor.DType]float64{tensor.Float16: 2048, tensor.BFloat16: 256} {
		testSharedCast(t, dt, large, func(half *tensor.Tensor) *tensor.Tensor { return half })
		testSharedCast(t, dt, large, func(half *tensor.Tensor) *tensor.Tensor { return half.Unsqueeze(0).T() })
		testSharedCast(t, dt, large, func(half *tensor.Tensor) *tensor.Tensor { return half.Slice(0, 0, tensor.End) })
	}
}

func testSharedCast(t *testing.T, dt tensor.DType, large float64, view func(half *tensor.Tensor) *tensor.Tensor) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.FromSlice([]float32{1, 1}, 2))
	err := dev.Step(func(s *tensor.Scope) error {
		half := view(s.In(w).To(dt))
		y := half.Add(half).Add(half).Add(half.Scale(large)) // whose gradient comes first
		autograd.Hook(half, func(g *tensor.Tensor) *tensor.Tensor {
			wantValues(t, "gradient at the cast", g, large+3, large+3)
			return g.Scale(1)
		})
		inner := autograd.Grad(y, []*tensor.Tensor{half}, autograd.GradOutput(half))[0]
		if inner.DType() != dt {
			t.Errorf("the gradient of %v is %v", half, inner)
		}
		recorded := autograd.Grad(y, []*tensor.Tensor{s.In(w)}, autograd.GradOutput(half), autograd.CreateGraph())[0]
		wantValues(t, "recorded gradient", recorded, large+3, large+3)
		autograd.Backward(y, autograd.GradOutput(half))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "gradient", w.Grad(), large+3, large+3)
}

// TestHalfGolden compares with PyTorch: rounding to the bit; operations to one unit in the last place, since the
// float32 results that both round are not the same.
func TestHalfGolden(t *testing.T) {
	f, err := golden.Open("half.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		dt := map[string]tensor.DType{"float16": tensor.Float16, "bfloat16": tensor.BFloat16}[c.Text("dtype")]
		var in []*tensor.Tensor
		for _, name := range c.Inputs {
			x := load(f, name, dt)
			if x.DType().IsFloat() {
				x = x.To(dt)
			}
			in = append(in, x)
		}
		want, ulps := load(f, c.Outputs[0], dt), 1.0
		var got *tensor.Tensor
		if c.Op == "round" {
			got, ulps = in[0], 0
		} else {
			got = calls[c.Op](c, in)[0]
		}
		if worst := ulpsApart(got, want, 0); got.DType() != dt || !(worst <= ulps) {
			t.Errorf("%s: %v is %.3g ulp off, at most %g", c.Name, got, worst, ulps)
		} else {
			t.Logf("%s: %.3g ulp", c.Name, worst)
		}
	}
}

// ulpsApart is the largest difference of x from want, in units in the last place of x's type at want, or at least where
// it is larger; unlike NaNs, infinities and signs of zeros are infinitely far apart.
func ulpsApart(x, want *tensor.Tensor, least float64) (worst float64) {
	digits, smallest := 11, math.Ldexp(1, -24)
	if x.DType() == tensor.BFloat16 {
		digits, smallest = 8, math.Ldexp(1, -133)
	}
	w := tensor.ToSlice[float64](want)
	for i, v := range tensor.ToSlice[float64](x) {
		d := math.Abs(v - w[i])
		switch {
		case v != v && w[i] != w[i], v == w[i] && math.Signbit(v) == math.Signbit(w[i]):
			continue
		case math.IsInf(v, 0) || math.IsInf(w[i], 0) || d != d || d == 0:
			return math.Inf(1)
		}
		_, exp := math.Frexp(max(math.Abs(w[i]), least))
		worst = max(worst, d/max(math.Ldexp(1, exp-digits), smallest))
	}
	return worst
}

// TestHalfGradients compares values and gradients of each operation in half precision with those of float64 at the same
// numbers. They differ by roundings of the result, its gradient and what both read: 2.5 units in the last place of the
// largest element. The gradients of fused gradients are compositions of many operations, each rounded, whose terms
// cancel: 16. The gradient of a gate that is repeated is a sum of rounded terms, which cancel in a sample of geglu: 3.
func TestHalfGradients(t *testing.T) {
	if testing.Short() {
		t.Skip("TestHalfOps runs the same kernels")
	}
	dev := open(t)
	for _, op := range engine.Ops() {
		limit := 2.5
		switch {
		case op.Compose != nil:
			limit = 16
		case op.Name == "geglu":
			limit = 3
		}
		t.Run(op.Name, func(t *testing.T) {
			for _, s := range engine.Samples(op) {
				for _, dt := range halves {
					in := halfOperands(op, s, dt)
					got, want := valuesAndGradients(t, dev, s, in, dt, dt),
						valuesAndGradients(t, dev, s, in, tensor.Float64, dt)
					for i := range got {
						if got[i] == nil || !got[i].DType().IsFloat() {
							continue
						}
						largest := 0.0
						for _, v := range tensor.ToSlice[float64](want[i]) {
							if !math.IsInf(v, 0) {
								largest = max(largest, math.Abs(v))
							}
						}
						if worst := ulpsApart(got[i], want[i], largest); !(worst <= limit) {
							t.Errorf("%s %v, %v: number %d of the result and the gradients is %.3g ulp off, at most %g",
								s.Name, shapes(s), dt, i, worst, limit)
						}
					}
				}
			}
		})
	}
}

// valuesAndGradients are the result of a sample on operands in type dt, and the gradients of its sum with weights of
// type of.
func valuesAndGradients(t *testing.T, dev *tensor.Device, s seam.Sample[*tensor.Tensor], in []*tensor.Tensor, dt,
	of tensor.DType) (all []*tensor.Tensor) {
	t.Helper()
	err := dev.Step(func(step *tensor.Scope) error {
		var xs, watched []*tensor.Tensor
		for _, x := range in {
			if x.DType().IsFloat() {
				x = autograd.Watch(step, x.To(dt))
				watched = append(watched, x)
			}
			xs = append(xs, x)
		}
		y := s.Call(xs)
		all = append(all, host(y))
		if !y.NeedsGrad() {
			return nil
		}
		seed := step.In(tensor.Uniform(tensor.Seed(7), 0.5, 1.5, y.Shape()...)).To(of).To(y.DType())
		for _, g := range autograd.Grad(y, watched, autograd.GradOutput(seed), autograd.AllowUnused()) {
			if g != nil {
				g = host(g)
			}
			all = append(all, g)
		}
		return nil
	}, tensor.RandomStream(1))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// host is a copy of x that outlives its step.
func host(x *tensor.Tensor) *tensor.Tensor {
	return tensor.FromSlice(tensor.ToSlice[float64](x), x.Shape()...).To(x.DType())
}

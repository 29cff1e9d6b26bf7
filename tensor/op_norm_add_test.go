package tensor_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// addNorms are the operations with two outputs, and what they stand for.
var addNorms = map[string][2]func(x, y, w, b *tensor.Tensor) (sum, norm *tensor.Tensor){
	"layer_norm": {
		func(x, y, w, b *tensor.Tensor) (sum, norm *tensor.Tensor) { return x.AddLayerNorm(y, w, b, 1e-5) },
		func(x, y, w, b *tensor.Tensor) (sum, norm *tensor.Tensor) {
			sum = x.Add(y)
			return sum, sum.LayerNorm(w, b, 1e-5)
		},
	},
	"rms_norm": {
		func(x, y, w, _ *tensor.Tensor) (sum, norm *tensor.Tensor) { return x.AddRMSNorm(y, w, 1e-5) },
		func(x, y, w, _ *tensor.Tensor) (sum, norm *tensor.Tensor) {
			sum = x.Add(y)
			return sum, sum.RMSNorm(w, 1e-5)
		},
	},
}

// A sum and its norm in one operation have the bits that they have apart, and so have their gradients, whichever of
// the two outputs reach the loss.
func TestAddNormBits(t *testing.T) {
	dev := open(t)
	for name, f := range addNorms {
		for i, c := range []struct {
			shape, weight []int
			x, y          tensor.DType
		}{
			{[]int{3, 5}, nil, tensor.Float32, tensor.Float32},
			{[]int{70, 33}, []int{33}, tensor.Float32, tensor.Float32},
			{[]int{4, 700}, []int{700}, tensor.Float32, tensor.Float16},
			{[]int{4, 65}, []int{65}, tensor.BFloat16, tensor.Float32},
			{[]int{2, 3, 4}, []int{3, 4}, tensor.Float64, tensor.Float64},
			{[]int{9, 17}, []int{17}, tensor.Float16, tensor.Float16},
			{[]int{9, 17}, []int{17}, tensor.BFloat16, tensor.BFloat16},
			{[]int{9, 17}, []int{17}, tensor.Float16, tensor.BFloat16},
			{[]int{0, 4}, []int{4}, tensor.Float32, tensor.Float32},
		} {
			for _, losses := range []string{"sum", "norm", "sum norm"} {
				var got [2][][]uint64
				for k := range got {
					step(t, dev, func(s *tensor.Scope) {
						x := autograd.Watch(s, tensor.Randn(tensor.Seed(1), c.shape...).To(c.x))
						y := autograd.Watch(s, tensor.Randn(tensor.Seed(2), c.shape...).To(c.y))
						in := []*tensor.Tensor{x, y}
						var w, b *tensor.Tensor
						if c.weight != nil {
							dt := x.Add(y).DType()
							w = autograd.Watch(s, tensor.Randn(tensor.Seed(3), c.weight...).To(dt))
							b = autograd.Watch(s, tensor.Randn(tensor.Seed(4), c.weight...).To(dt))
							in = append(in, w, b)
						}
						sum, norm := f[k](x.Transpose(0, 1).Contiguous().Transpose(0, 1), y, w, b)
						loss := s.Full(0, tensor.Float64)
						if losses != "norm" {
							loss = loss.Add(sum.To(tensor.Float64).Mul(tensor.Randn(tensor.Seed(5), c.shape...)).Sum())
						}
						if losses != "sum" {
							loss = loss.Add(norm.To(tensor.Float64).Mul(tensor.Randn(tensor.Seed(6), c.shape...)).Sum())
						}
						got[k] = append(got[k], bitsOf(sum), bitsOf(norm))
						for _, g := range autograd.Grad(loss, in, autograd.AllowUnused()) {
							got[k] = append(got[k], bitsOf(g))
						}
					})
				}
				if !slices.EqualFunc(got[0], got[1], slices.Equal) {
					t.Errorf("%s, case %d, loss of %s: %v, apart %v", name, i, losses, got[0], got[1])
				}
			}
		}
	}
}

// bitsOf are the bits of the elements, nil without a gradient.
func bitsOf(x *tensor.Tensor) (bits []uint64) {
	if x == nil {
		return nil
	}
	for _, v := range tensor.ToSlice[float64](x) {
		bits = append(bits, math.Float64bits(v))
	}
	return append(bits, uint64(x.DType().Code()))
}

// What one operation does not do is done by two: sums that broadcast, a bias without weight, and errors, which are
// theirs.
func TestAddNormApart(t *testing.T) {
	dev := open(t)
	x := tensor.Randn(tensor.Seed(1), 2, 3)
	type call func(x *tensor.Tensor) (sum, norm *tensor.Tensor)
	rms := func(y, w *tensor.Tensor) call {
		return func(x *tensor.Tensor) (sum, norm *tensor.Tensor) { return x.AddRMSNorm(y, w, 1e-5) }
	}
	layer := func(w, b *tensor.Tensor) call {
		return func(x *tensor.Tensor) (sum, norm *tensor.Tensor) { return x.AddLayerNorm(x, w, b, 1e-5) }
	}
	zeros := func(dt tensor.DType, n int) *tensor.Tensor { return tensor.Zeros(dt, n) }
	for name, c := range map[string]struct {
		call call
		err  string
		one  bool
	}{
		"plain":     {call: layer(nil, nil), one: true},
		"weight":    {call: layer(zeros(tensor.Float32, 3), nil), one: true},
		"broadcast": {call: rms(x.Select(0, 0), nil)},
		"bias":      {call: layer(nil, zeros(tensor.Float32, 3))},
		"nil":       {call: rms(nil, nil), err: "add: an operand is nil"},
		"shapes":    {call: rms(x.T(), nil), err: "add: shapes [2 3] and [3 2]"},
		"shape of the weight": {
			call: rms(x, zeros(tensor.Float32, 2)),
			err:  "add_rms_norm: weight float32[2] must have the shape of the last axes",
		},
		"type of the weight": {
			call: rms(x, zeros(tensor.Float64, 3)), err: "rms_norm: x is float32[2 3], weight is float64[3]",
		},
		"integers": {
			call: func(x *tensor.Tensor) (sum, norm *tensor.Tensor) {
				n := x.To(tensor.Int64)
				return n.AddRMSNorm(n, nil, 1e-5)
			},
			err: "rms_norm: x int64[2 3]",
		},
	} {
		ops := map[string]bool{}
		err := dev.Step(func(s *tensor.Scope) error {
			sum, norm := c.call(s.In(x))
			if sum.String() != norm.String() {
				t.Errorf("%s: the sum is %s, the norm %s", name, sum, norm)
			}
			return nil
		}, engine.Observe(func(_ string, c seam.Applied[*tensor.Op, *tensor.Tensor]) { ops[c.Op.Name] = true }))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %s", name, err, c.err)
			}
		} else if err != nil || (ops["add_layer_norm"] || ops["add_rms_norm"]) != c.one || ops["add"] == c.one {
			t.Errorf("%s: error %v, operations %v", name, err, ops)
		}
	}
}

// withoutGradient are the floating outputs that carry none, by operation: statistics that only gradients read.
var withoutGradient = map[string]int{
	"layer_norm": 2, "rms_norm": 1, "add_layer_norm": 2, "add_rms_norm": 1, "attention": 2, "attention_packed": 2,
	"cross_entropy": 3,
}

// Which outputs carry a gradient is said by the table, and samples return all that do.
func TestDifferentiableOutputs(t *testing.T) {
	dev := open(t)
	for _, op := range engine.Ops() {
		if op.NoGrad != "" || op.View != nil {
			continue
		}
		want := max(1, op.Differentiable)
		if op.Samples != nil {
			for _, s := range op.Samples() {
				if (s.CallAll != nil) != (want > 1) {
					t.Errorf("%s %s: the sample must return the %d outputs that carry a gradient", op.Name, s.Name,
						want)
				}
			}
		}
		for _, sample := range engine.Samples(op)[:1] {
			err := dev.Step(func(s *tensor.Scope) error {
				sample.Call(operandsOf(s, sample))
				return nil
			}, tensor.RandomStream(1), engine.Observe(func(_ string, c seam.Applied[*tensor.Op, *tensor.Tensor]) {
				if c.Op != op {
					return
				}
				carry, without := 0, 0
				for k, y := range c.Out {
					switch {
					case y.NeedsGrad() && k == carry:
						carry++
					case y.NeedsGrad():
						t.Errorf("%s: output %d carries a gradient, one before it does not", op.Name, k)
					case y.DType().IsFloat():
						without++
					}
				}
				if carry != want || without != withoutGradient[op.Name] {
					t.Errorf("%s: %d outputs carry a gradient, %d statistics do not; want %d and %d",
						op.Name, carry, without, want, withoutGradient[op.Name])
				}
			}))
			if err != nil {
				t.Errorf("%s: %v", op.Name, err)
			}
		}
	}
}

package amp_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

var halves = []tensor.DType{tensor.Float16, tensor.BFloat16}

// The classes, written a second time: those of PyTorch's lists for CUDA, then those that Weft adds. Other operations
// have none.
var wantClass = map[seam.CastClass]string{
	seam.CastLower: "matmul linear attention attention_packed conv conv_transpose",
	seam.CastFull: "acos asin cosh sinh tan exp expm1 log log2 log10 log1p pow pow_scalar reciprocal div_into " +
		"rsqrt softmax log_softmax softplus sum prod cumsum cumprod layer_norm cross_entropy" +
		" acosh atanh exp2 log_sigmoid logit logaddexp logsumexp xlogy hypot square sum_squares mean var rms_norm" +
		" erfinv lgamma digamma softplus_beta norm_term norm_root ctc nansum" +
		" batch_norm batch_norm_product batch_norm_grad",
	seam.CastWidest: "cat stack scatter_add index_add scatter scatter_prod scatter_max scatter_min searchsorted",
	seam.CastBanned: "binary_cross_entropy",
	seam.CastParts:  "add_layer_norm add_rms_norm",
}

func TestClasses(t *testing.T) {
	want := map[string]seam.CastClass{}
	for class, names := range wantClass {
		for _, name := range strings.Fields(names) {
			want[name] = class
		}
	}
	for _, op := range engine.Ops() {
		if op.Cast != want[op.Name] {
			t.Errorf("%s is of class %v, want %v", op.Name, op.Cast, want[op.Name])
		}
		if (op.Instead != "") != (op.Cast == seam.CastBanned) {
			t.Errorf("%s of class %v has the advice %q", op.Name, op.Cast, op.Instead)
		}
		delete(want, op.Name)
	}
	for name, class := range want {
		t.Errorf("there is no operation %s of class %v", name, class)
	}
}

// given are the types that the operands of a call come in. The first is that of operand 0, the last that of all others.
var given = []struct {
	name  string
	types func(lower tensor.DType) [2]tensor.DType
}{
	{"float32", func(tensor.DType) [2]tensor.DType { return [2]tensor.DType{tensor.Float32, tensor.Float32} }},
	{"lower", func(dt tensor.DType) [2]tensor.DType { return [2]tensor.DType{dt, dt} }},
	{"lower, float32", func(dt tensor.DType) [2]tensor.DType { return [2]tensor.DType{dt, tensor.Float32} }},
	{"float32, lower", func(dt tensor.DType) [2]tensor.DType { return [2]tensor.DType{tensor.Float32, dt} }},
	{"float16, bfloat16", func(tensor.DType) [2]tensor.DType {
		return [2]tensor.DType{tensor.Float16, tensor.BFloat16}
	}},
	{"float64", func(tensor.DType) [2]tensor.DType { return [2]tensor.DType{tensor.Float64, tensor.Float64} }},
	{"float64, lower", func(dt tensor.DType) [2]tensor.DType { return [2]tensor.DType{tensor.Float64, dt} }},
}

// runsIn is the type that floating operands of a class are cast to; ok is false if they stay as they are.
func runsIn(class seam.CastClass, types []tensor.DType, lower tensor.DType) (dt tensor.DType, ok bool) {
	all := map[tensor.DType]bool{}
	for _, dt := range types {
		all[dt] = true
	}
	switch {
	case all[tensor.Float64] || class == seam.CastKeep || len(types) == 0:
		return dt, false
	case class == seam.CastLower:
		return lower, true
	case class == seam.CastWidest && len(all) == 1:
		return types[0], true
	}
	return tensor.Float32, true
}

// Under autocast every operation gives what it gives for operands that were cast by hand to the type its class says, in
// type, in value and in error, whatever types they come in.
func TestAutocastOps(t *testing.T) {
	dev := open(t)
	for _, op := range engine.Ops() {
		if strings.HasSuffix(op.Name, "_grad") {
			continue // of a backward pass, where autocast is off; the samples run forward operations too
		}
		if op.Cast == seam.CastParts {
			continue // TestAutocastParts
		}
		for _, sample := range engine.Samples(op) {
			for _, g := range given {
				for _, lower := range halves {
					name := fmt.Sprintf("%s %s (%s), %v", op.Name, sample.Name, g.name, lower)
					var in, cast []*tensor.Tensor
					var types []tensor.DType
					for i, a := range sample.In {
						x := operand(a, uint64(i))
						if x.DType().IsFloat() {
							x = x.To(g.types(lower)[min(i, 1)])
							types = append(types, x.DType())
						}
						in = append(in, x)
					}
					to, ok := runsIn(op.Cast, types, lower)
					for _, x := range in {
						if ok && x.DType().IsFloat() {
							x = x.To(to)
						}
						cast = append(cast, x)
					}
					run := func(in []*tensor.Tensor, opts ...tensor.Option) (y *tensor.Tensor, err error) {
						err = dev.Eval(func(s *tensor.Scope) error {
							var xs []*tensor.Tensor
							for _, x := range in {
								xs = append(xs, s.In(x))
							}
							y = sample.Call(xs).Keep()
							return nil
						}, append(opts, tensor.RandomStream(1))...)
						return y, err
					}
					got, err := run(in, amp.Autocast(lower))
					if op.Cast == seam.CastBanned && ok {
						wantError(t, err, tensor.ErrDType, op.Name+": refused under autocast to "+lower.String(),
							"BCEWithLogits")
						continue
					}
					want, wantErr := run(cast)
					switch {
					case (err != nil) != (wantErr != nil):
						t.Errorf("%s: error %v under autocast, %v by hand", name, err, wantErr)
					case err == nil && (got.DType() != want.DType() || !same(values(got), values(want))):
						t.Errorf("%s: %v %v under autocast, %v %v by hand", name, got, values(got), want, values(want))
					case err == nil && op.Cast == seam.CastLower && ok && got.DType() != lower,
						err == nil && op.Cast == seam.CastFull && ok && got.DType() != tensor.Float32:
						t.Errorf("%s: the result is %v", name, got)
					}
				}
			}
		}
	}
}

// A sum and its norm in one operation are under autocast what they are apart, in type and in value, with their
// gradients and errors, whatever types the operands come in. One operation does it where the norm casts nothing.
func TestAutocastParts(t *testing.T) {
	dev := open(t)
	type results struct {
		types  []tensor.DType
		values [][]float64
	}
	x, y := tensor.Uniform(tensor.Seed(1), -2, 2, 3, 5), tensor.Uniform(tensor.Seed(2), -2, 2, 3, 5)
	weight, bias := tensor.Uniform(tensor.Seed(3), 0.5, 1.5, 5), tensor.Uniform(tensor.Seed(4), 0.5, 1.5, 5)
	types := []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float64}
	for _, lower := range append([]tensor.DType{tensor.Float32}, halves...) {
		for i := range 4 * 4 * 4 {
			dx, dy, dw := types[i%4], types[i/4%4], types[i/16]
			where := fmt.Sprintf("%v, %v and %v under autocast to %v", dx, dy, dw, lower)
			fused := false
			run := func(f func(x, y, w, b *tensor.Tensor) (sum, norm *tensor.Tensor)) (r results, err error) {
				err = dev.Step(func(s *tensor.Scope) error {
					in := []*tensor.Tensor{autograd.Watch(s, x.To(dx)), autograd.Watch(s, y.To(dy))}
					in = append(in, autograd.Watch(s, weight.To(dw)), autograd.Watch(s, bias.To(dw)))
					sum, norm := f(in[0], in[1], in[2], in[3])
					loss := sum.Square().Sum().Add(norm.Square().Sum())
					for _, v := range append([]*tensor.Tensor{sum, norm}, autograd.Grad(loss, in)...) {
						r.types, r.values = append(r.types, v.DType()), append(r.values, values(v))
					}
					return nil
				}, amp.Autocast(lower), engine.Observe(func(_ string, c seam.Applied[*tensor.Op, *tensor.Tensor]) {
					fused = fused || c.Op.Cast == seam.CastParts
				}))
				return r, err
			}
			for name, f := range map[string][2]func(x, y, w, b *tensor.Tensor) (sum, norm *tensor.Tensor){
				"add_layer_norm": {
					func(x, y, w, b *tensor.Tensor) (sum, norm *tensor.Tensor) { return x.AddLayerNorm(y, w, b, 1e-5) },
					func(x, y, w, b *tensor.Tensor) (sum, norm *tensor.Tensor) {
						sum = x.Add(y)
						return sum, sum.LayerNorm(w, b, 1e-5)
					},
				},
				"add_rms_norm": {
					func(x, y, w, b *tensor.Tensor) (sum, norm *tensor.Tensor) {
						sum, norm = x.AddRMSNorm(y, w, 1e-5)
						return sum, norm.Add(b)
					},
					func(x, y, w, b *tensor.Tensor) (sum, norm *tensor.Tensor) {
						sum = x.Add(y)
						return sum, sum.RMSNorm(w, 1e-5).Add(b)
					},
				},
			} {
				want, wantErr := run(f[1])
				fused = false
				got, err := run(f[0])
				if (err != nil) != (wantErr != nil) || !slices.Equal(got.types, want.types) ||
					!slices.EqualFunc(got.values, want.values, same) {
					t.Errorf("%s, %s: %v %v, apart %v %v", name, where, got, err, want, wantErr)
				}
				sum := tensor.Float32
				switch {
				case dx == tensor.Float64 || dy == tensor.Float64:
					sum = tensor.Float64
				case dx == dy:
					sum = dx
				}
				if expected := dw == sum && (lower == tensor.Float32 || !sum.IsHalf()); fused != expected {
					t.Errorf("%s, %s: one operation: %v, want %v", name, where, fused, expected)
				}
			}
		}
	}
}

// operand is the host data that a sample asks for.
func operand(a seam.Arg, seed uint64) *tensor.Tensor {
	if a.Values != nil {
		return tensor.FromSlice(a.Values, a.Shape...).To(a.DType)
	}
	return tensor.Uniform(tensor.Seed(seed), a.Lo, a.Hi, a.Shape...).To(a.DType)
}

// same tells whether two results are equal, any NaN being one.
func same(a, b []float64) bool {
	for i := range a {
		if len(a) != len(b) || math.Float64bits(a[i]) != math.Float64bits(b[i]) &&
			!(math.IsNaN(a[i]) && math.IsNaN(b[i])) {
			return false
		}
	}
	return len(a) == len(b)
}

// plain is a loss without options.
func plain(
	f func(x, y *tensor.Tensor, _ ...nn.LossOption) *tensor.Tensor,
) func(x, y *tensor.Tensor) *tensor.Tensor {
	return func(x, y *tensor.Tensor) *tensor.Tensor { return f(x, y) }
}

// Losses are computed in float32 under autocast, whatever their operands; float64 stays, and elsewhere so does half.
func TestLosses(t *testing.T) {
	dev := open(t)
	prediction, target := tensor.Uniform(tensor.Seed(1), 0.1, 0.9, 3, 4), tensor.Uniform(tensor.Seed(2), 0.1, 0.9, 3, 4)
	classes := tensor.FromSlice([]int64{0, 3, 1}, 3)
	weights := tensor.FromSlice([]float32{0.3, 1.7, 1, 2.9}, 4)
	for name, loss := range map[string]func(x, y *tensor.Tensor) *tensor.Tensor{
		"cross entropy":   func(x, _ *tensor.Tensor) *tensor.Tensor { return nn.CrossEntropy(x, classes) },
		"nll":             func(x, _ *tensor.Tensor) *tensor.Tensor { return nn.NLL(x, classes) },
		"mse":             plain(nn.MSE),
		"l1":              plain(nn.L1),
		"huber":           func(x, y *tensor.Tensor) *tensor.Tensor { return nn.Huber(x, y, 0.3) },
		"bce with logits": plain(nn.BCEWithLogits),
		"kl divergence":   plain(nn.KLDiv),
		"weighted cross entropy": func(x, _ *tensor.Tensor) *tensor.Tensor {
			return nn.CrossEntropy(x, classes, nn.ClassWeights(weights), nn.LabelSmoothing(0.1))
		},
		"weighted nll": func(x, _ *tensor.Tensor) *tensor.Tensor {
			return nn.NLL(x, classes, nn.ClassWeights(weights))
		},
		"weighted bce with logits": func(x, y *tensor.Tensor) *tensor.Tensor {
			return nn.BCEWithLogits(x, y, nn.PosWeight(weights), nn.Weights(weights))
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(x, y *tensor.Tensor, dt tensor.DType) (l *tensor.Tensor) {
				must(t, dev.Eval(func(s *tensor.Scope) error { l = loss(s.In(x), s.In(y)).Keep(); return nil },
					amp.Autocast(dt)))
				return l
			}
			for _, lower := range halves {
				x := prediction.To(lower)
				for _, y := range []*tensor.Tensor{target, target.To(lower)} {
					got, want := run(x, y, lower), run(x.To(tensor.Float32), y.To(tensor.Float32), tensor.Float32)
					if got.DType() != tensor.Float32 || got.Item() != want.Item() {
						t.Errorf("%v under autocast to %v with the target %v, want %v",
							got.Item(), lower, y, want.Item())
					}
				}
				if l := run(x, target.To(lower), tensor.Float32); l.DType() != lower {
					t.Errorf("without autocast the loss of %v is %v", x, l)
				}
			}
			l := run(prediction.To(tensor.Float64), target.To(tensor.Float64), tensor.Float16)
			if l.DType() != tensor.Float64 {
				t.Errorf("the loss of float64 is %v", l)
			}
		})
	}
	err := dev.Step(func(s *tensor.Scope) error { nn.BCE(s.In(prediction), s.In(target)); return nil },
		amp.Autocast(tensor.Float16))
	wantError(t, err, tensor.ErrDType, "binary_cross_entropy: refused under autocast to float16", "nn.BCEWithLogits",
		"classes_test.go:")
	must(t, dev.Step(func(s *tensor.Scope) error {
		s.With(func() { nn.BCE(s.In(prediction), s.In(target)) }, amp.Autocast(tensor.Float32)) // at the caller's risk
		return nil
	}, amp.Autocast(tensor.Float16)))
}

package amp_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// product is x times itself transposed, of a class that autocast lowers.
func product(x *tensor.Tensor) *tensor.Tensor { return x.MatMul(x.T()) }

// Regions nest: the innermost holds, and its end brings back the one around it, whether it ends by return or by panic.
func TestAutocastRegions(t *testing.T) {
	dev := open(t)
	x := tensor.Uniform(tensor.Seed(1), -1, 1, 2, 3)
	want := func(s *tensor.Scope, where string, dt tensor.DType) {
		t.Helper()
		if y := product(s.In(x)); y.DType() != dt || engine.Autocasting(s) != dt {
			t.Errorf("%s: a product is %v, autocast to %v, want %v", where, y, engine.Autocasting(s), dt)
		}
	}
	must(t, dev.Step(func(s *tensor.Scope) error {
		want(s, "outside", tensor.Float32)
		s.With(func() {
			want(s, "region", tensor.BFloat16)
			s.With(func() {
				want(s, "disabled", tensor.Float32)
				s.With(func() { want(s, "enabled again", tensor.Float16) }, amp.Autocast(tensor.Float16))
				want(s, "disabled, after", tensor.Float32)
			}, amp.Autocast(tensor.Float32))
			want(s, "region, after", tensor.BFloat16)
			s.With(func() { want(s, "other option", tensor.BFloat16) }, tensor.NoGrad())
			s.Region("part", func() []*tensor.Tensor { want(s, "memory region", tensor.BFloat16); return nil })

			err := engine.Try(func() {
				s.With(func() { product(s.In(x)).Add(s.In(tensor.Uniform(tensor.Seed(1), 0, 1, 7))) },
					amp.Autocast(tensor.Float16))
			})
			wantError(t, err, tensor.ErrShape, "add")
			want(s, "after an error", tensor.BFloat16)
			func() {
				defer func() { recover() }()
				s.With(func() { panic("bug") }, amp.Autocast(tensor.Float16))
			}()
			want(s, "after a panic", tensor.BFloat16)
		}, amp.Autocast(tensor.BFloat16))
		want(s, "outside, after", tensor.Float32)
		return nil
	}))
	must(t, dev.Eval(func(s *tensor.Scope) error { want(s, "eval", tensor.Float16); return nil },
		amp.Autocast(tensor.Float16)))
	must(t, dev.Step(func(s *tensor.Scope) error { want(s, "later step", tensor.Float32); return nil }))
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Int64, tensor.Bool} {
		wantError(t, engine.Try(func() { amp.Autocast(dt) }), tensor.ErrDType, "autocast", dt.String(),
			"tensor.BFloat16")
	}
}

// Float64, integers, a type that the program asks for, and Assign, which writes in place, are left alone.
func TestAutocastUntouched(t *testing.T) {
	dev := open(t)
	x := tensor.Uniform(tensor.Seed(1), -1, 1, 2, 3)
	state, err := engine.NewState(dev, "state", tensor.Float32, 2, 2)
	must(t, err)
	must(t, dev.Step(func(s *tensor.Scope) error {
		h := product(s.In(x))
		for what, c := range map[string]struct {
			y    *tensor.Tensor
			want tensor.DType
		}{
			"product of float64": {product(s.In(x).To(tensor.Float64)), tensor.Float64},
			"softmax of float64": {s.In(x).To(tensor.Float64).Softmax(-1), tensor.Float64},
			"sum of integers":    {s.In(tensor.FromSlice([]int64{1, 2}, 2)).Sum(), tensor.Int64},
			"cat of integers": {tensor.Cat(0, s.In(tensor.FromSlice([]int32{1}, 1)),
				s.In(tensor.FromSlice([]int32{2}, 1))), tensor.Int32},
			"half asked for as float32":   {h.To(tensor.Float32), tensor.Float32},
			"float32 asked for as half":   {s.In(x).To(tensor.BFloat16), tensor.BFloat16},
			"an operation without class":  {s.In(x).ReLU(), tensor.Float32},
			"the same of half":            {h.ReLU(), tensor.Float16},
			"half and float32 added":      {h.Add(s.In(state)), tensor.Float32},
			"a view":                      {h.T(), tensor.Float16},
			"a comparison of full class?": {h.Softmax(-1).Greater(h), tensor.Bool},
		} {
			if c.y.DType() != c.want {
				t.Errorf("%s is %v, want %v", what, c.y, c.want)
			}
		}
		state.Assign(h)
		return nil
	}, amp.Autocast(tensor.Float16)))
	if state.DType() != tensor.Float32 {
		t.Errorf("the state became %v", state)
	}
}

// casts counts the casts of p in a step.
func casts(p *tensor.Tensor, n *int) tensor.Option {
	return engine.Observe(func(_ string, c seam.Applied[*tensor.Op, *tensor.Tensor]) {
		if c.Op.Name == "cast" && c.In[0].Origin() == p {
			*n++
		}
	})
}

// A weight that is used first under NoGrad still gets its gradient, and all uses share one cast: in regions of a model,
// in Eval, and as a view.
func TestCastOnce(t *testing.T) {
	dev := open(t)
	l := nn.NewLinear(4, 4)
	must(t, nn.Init(dev, l))
	x := row(1, 2, 3, 4).Reshape(1, 4)
	n := 0
	must(t, dev.Step(func(s *tensor.Scope) error {
		var y *tensor.Tensor
		s.With(func() { y = l.Forward(s.In(x)) }, tensor.NoGrad())
		if y.DType() != tensor.BFloat16 || y.NeedsGrad() {
			t.Errorf("under NoGrad the result is %v, needs a gradient: %v", y, y.NeedsGrad())
		}
		y = nn.Call("first", l, s.In(x)) // in a region, whose memory is given back
		y = nn.Call("second", l, y)
		y = y.MatMul(l.Weight.T()).MatMul(l.Weight.T().T())
		y = y.Linear(s.In(l.Weight), nil)
		autograd.Backward(y.Sum())
		return nil
	}, amp.Autocast(tensor.BFloat16), casts(l.Weight, &n)))
	for _, p := range []*tensor.Tensor{l.Weight, l.Bias} {
		if g := p.Grad(); g == nil || g.DType() != tensor.Float32 || values(g)[0] == 0 {
			t.Errorf("the gradient of %v is %v", p, g)
		}
	}
	if n != 1 {
		t.Errorf("the weight was cast %d times in a step", n)
	}
	n = 0
	active := dev.Stats().Memory.Active
	for range 3 {
		must(t, dev.Eval(func(s *tensor.Scope) error {
			if y := l.Forward(l.Forward(s.In(x))); y.NeedsGrad() {
				t.Errorf("an evaluation gives %v, which needs a gradient", y)
			}
			return nil
		}, amp.Autocast(tensor.BFloat16), casts(l.Weight, &n)))
	}
	if n != 3 {
		t.Errorf("the weight was cast %d times in three evaluations", n)
	}
	if now := dev.Stats().Memory.Active; now > active { // less, if what tests before left is collected
		t.Errorf("evaluations took %d bytes for good", now-active)
	}
	n = 0
	must(t, dev.Step(func(s *tensor.Scope) error { // the copy outlives the region that made it
		s.With(func() { nn.Call("first", l, s.In(x)) }, tensor.NoGrad())
		for range 20 { // operations that would take the memory
			s.In(tensor.Uniform(tensor.Seed(1), -1, 1, 4, 4)).To(tensor.BFloat16)
		}
		y := l.Forward(s.In(x))
		s.With(func() {
			if z := s.In(x).Linear(s.In(l.Weight).To(tensor.BFloat16), l.Bias); !slices.Equal(values(y), values(z)) {
				t.Errorf("the copy gives %v, want %v", values(y), values(z))
			}
		}, tensor.NoGrad())
		return nil
	}, amp.Autocast(tensor.BFloat16), casts(l.Weight, &n)))
	if n != 2 { // the copy, and the one made here
		t.Errorf("the weight was cast %d times", n)
	}
	n = 0
	must(t, dev.Step(func(s *tensor.Scope) error {
		for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float16} {
			s.With(func() {
				if y := l.Forward(s.In(x)); y.DType() != dt {
					t.Errorf("the result is %v under autocast to %v", y, dt)
				}
			}, amp.Autocast(dt))
		}
		return nil
	}, casts(l.Weight, &n)))
	if n != 2 {
		t.Errorf("the weight was cast %d times, to two types", n)
	}
}

// A weight that has changed is cast again. In the step that changes it, its copies are out of use.
func TestCastStale(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", row(1).Reshape(1, 1))
	opt := optim.New(optim.SGD(1), w)
	one := row(1).Reshape(1, 1)
	forward := func(s *tensor.Scope) *tensor.Tensor { return s.In(one).Linear(w, nil) }
	change := func(want float64, f func(s *tensor.Scope, y *tensor.Tensor)) {
		t.Helper()
		step := func(again bool) error {
			return dev.Step(func(s *tensor.Scope) error {
				y := forward(s)
				if y.DType() != tensor.Float16 || y.Item() != want {
					t.Errorf("the product is %v in %v, want %v", y.Item(), y, want)
				}
				f(s, y)
				if again {
					forward(s)
				}
				return nil
			}, amp.Autocast(tensor.Float16))
		}
		wantError(t, step(true), tensor.ErrVersion, "take two steps", "autocast_test.go:")
		must(t, step(false))
	}
	change(1, func(s *tensor.Scope, _ *tensor.Tensor) { w.Assign(s.In(row(4).Reshape(1, 1))) })
	change(4, func(s *tensor.Scope, y *tensor.Tensor) {
		autograd.Backward(y.Sum())
		must(t, opt.Step(s))
	})
	w.Assign(w.Detach().AddScalar(2))
	must(t, dev.Eval(func(s *tensor.Scope) error {
		if y := forward(s); y.Item() != 5 {
			t.Errorf("the product is %v, want 5", y.Item())
		}
		return nil
	}, amp.Autocast(tensor.Float16)))
}

// A detached weight gets no gradient, and takes none from the weight's other uses; state is never trained.
func TestCastDetached(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", row(2).Reshape(1, 1))
	one := row(1).Reshape(1, 1)
	for _, first := range []bool{true, false} {
		must(t, dev.Step(func(s *tensor.Scope) error {
			w.ClearGrads()
			x := s.In(one)
			d := func() *tensor.Tensor { return x.MatMul(s.In(w).Detach()).MatMul(w.Detach()) }
			var y *tensor.Tensor
			if first {
				y = d()
			}
			z := x.MatMul(w).Scale(3)
			if !first {
				y = d()
			}
			if y.NeedsGrad() {
				t.Error("the product with a detached weight needs a gradient")
			}
			autograd.Backward(y.Add(z).Sum())
			return nil
		}, amp.Autocast(tensor.Float16)))
		if g := w.Grad().Item(); g != 3 {
			t.Errorf("the gradient is %v, want 3", g)
		}
	}
}

// Gradients of a weight that is used often are float32 and added up in float32: 2048, 1 and 1 make 2050, where float16
// would lose each 1.
func TestSharedGradient(t *testing.T) {
	for dt, large := range map[tensor.DType]float32{tensor.Float16: 2048, tensor.BFloat16: 256} {
		dev := open(t)
		w := nn.ParameterOf("w", row(1).Reshape(1, 1))
		must(t, dev.Step(func(s *tensor.Scope) error {
			one := s.In(row(1).Reshape(1, 1))
			y := one.MatMul(w.T()).Add(one.MatMul(w))
			y = y.Add(s.In(row(large).Reshape(1, 1)).Linear(w, nil)) // last, so that its gradient is the first
			autograd.Backward(y.Sum())
			return nil
		}, amp.Autocast(dt)))
		if g := w.Grad(); g.DType() != tensor.Float32 || g.Item() != float64(large+2) {
			t.Errorf("the gradient is %v in %v, want %v", g.Item(), g, large+2)
		}
	}
}

// relative is the norm of the difference of two models' gradients, relative to the norm of those wanted.
func relative(t *testing.T, got, want [][]float64) float64 {
	t.Helper()
	var d, n float64
	for i := range want {
		for j, v := range want[i] {
			d += (got[i][j] - v) * (got[i][j] - v)
			n += v * v
		}
	}
	if n == 0 {
		t.Fatal("all gradients are zero")
	}
	return math.Sqrt(d / n)
}

// gradients of a model's parameters after a step of f under autocast to dt; they must be float32.
func gradients(t *testing.T, model nn.Module, dt tensor.DType,
	f func(s *tensor.Scope) *tensor.Tensor) (all [][]float64) {
	t.Helper()
	dev := open(t)
	must(t, nn.Init(dev, model))
	must(t, dev.Step(func(s *tensor.Scope) error { autograd.Backward(f(s)); return nil }, amp.Autocast(dt)))
	for _, p := range nn.Parameters(model) {
		if g := p.Grad(); g == nil || g.DType() != tensor.Float32 {
			t.Errorf("under autocast to %v the gradient of %v is %v", dt, p, g)
		} else {
			all = append(all, values(g))
		}
	}
	return all
}

// precision of the types: rounding errors of a few operations, relative to the norm of the gradient.
var precision = map[tensor.DType]float64{tensor.Float16: 4e-3, tensor.BFloat16: 3e-2}

// A GPT whose head is the embedding: the weight is used as it is in one place and as a half copy in another.
func TestTiedWeights(t *testing.T) {
	build := func() nn.Module {
		return nn.NewGPT(nn.GPTConfig{Vocab: 11, Context: 6, Width: 8, Heads: 2, Layers: 1, TiedHead: true})
	}
	ids, targets := tensor.FromSlice([]int64{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4),
		tensor.FromSlice([]int64{2, 3, 4, 5, 6, 7, 8, 9}, 2, 4)
	grads := map[tensor.DType][][]float64{}
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
		model := build()
		grads[dt] = gradients(t, model, dt,
			func(s *tensor.Scope) *tensor.Tensor { return nn.CrossEntropy(model.Forward(s.In(ids)), s.In(targets)) })
	}
	for _, dt := range halves {
		if e := relative(t, grads[dt], grads[tensor.Float32]); e == 0 || e > precision[dt] {
			t.Errorf("under autocast to %v gradients are off by %.2g of their norm", dt, e)
		}
	}
}

// A gradient penalty differentiates a gradient: the tape of the first backward pass holds half operations, and the
// second goes back through them to float32 weights. The gradient in the loss is that of the scaled result, divided by
// the scale.
func TestGradientPenalty(t *testing.T) {
	x := tensor.Uniform(tensor.Seed(4), -1, 1, 5, 3)
	grads := map[tensor.DType][][]float64{}
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
		model := nn.Sequential(nn.NewLinear(3, 8), nn.Tanh, nn.NewLinear(8, 8), nn.GELU,
			nn.NewLinear(8, 1, nn.NoBias()))
		const scale = 256
		scaler := amp.NewGradScaler(amp.InitScale(scale))
		grads[dt] = gradients(t, model, dt, func(s *tensor.Scope) *tensor.Tensor {
			in := autograd.Watch(s, s.In(x))
			y := model.Forward(in).Sum()
			g := autograd.Grad(scaler.Scale(y), []*tensor.Tensor{in}, autograd.CreateGraph())[0].Scale(1 / scale)
			if g.DType() != tensor.Float32 {
				t.Errorf("the gradient of a float32 operand is %v", g)
			}
			return y.Square().Add(g.Square().Sum(-1).Sqrt().AddScalar(-1).Square().Mean())
		})
	}
	for _, dt := range halves {
		if e := relative(t, grads[dt], grads[tensor.Float32]); e == 0 || e > 2*precision[dt] {
			t.Errorf("under autocast to %v gradients are off by %.2g of their norm", dt, e)
		}
	}
}

// Backward passes run in the types of their forward, without autocast, also where a step's mode has it; it is back
// afterwards.
func TestBackwardIsNotCast(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.Uniform(tensor.Seed(1), -1, 1, 3, 3))
	x := tensor.Uniform(tensor.Seed(2), -1, 1, 2, 3)
	backward, seen := false, map[string]tensor.DType{}
	observe := engine.Observe(func(_ string, c seam.Applied[*tensor.Op, *tensor.Tensor]) {
		if backward && len(c.In) > 0 {
			seen[c.Op.Name] = c.In[0].DType()
		}
	})
	must(t, dev.Step(func(s *tensor.Scope) error {
		h := s.In(x).Linear(w, nil).Exp() // linear in half, exp in float32
		autograd.Hook(h, func(*tensor.Tensor) *tensor.Tensor {
			if engine.Autocasting(s) != tensor.Float32 {
				t.Errorf("autocast to %v in a backward pass", engine.Autocasting(s))
			}
			return nil
		})
		loss := h.MatMul(s.In(tensor.Uniform(tensor.Seed(3), -1, 1, 3, 3))).Sum()
		backward = true
		autograd.Backward(loss)
		backward = false
		if engine.Autocasting(s) != tensor.BFloat16 {
			t.Errorf("autocast to %v after a backward pass", engine.Autocasting(s))
		}
		bad := s.In(x).Linear(w, nil).Sum()
		autograd.Hook(bad, func(*tensor.Tensor) *tensor.Tensor { panic("bug") })
		func() {
			defer func() { recover() }()
			autograd.Backward(bad)
		}()
		if engine.Autocasting(s) != tensor.BFloat16 {
			t.Errorf("autocast to %v after a backward pass that failed", engine.Autocasting(s))
		}
		return nil
	}, amp.Autocast(tensor.BFloat16), observe))
	if seen["matmul"] != tensor.BFloat16 { // of the gradient of a product
		t.Errorf("the operands of the backward pass were of types %v", seen)
	}
	// In float32 a product of the backward pass would be lowered if autocast were on.
	must(t, dev.Step(func(s *tensor.Scope) error {
		var y *tensor.Tensor
		s.With(func() { y = s.In(x).Linear(w, nil) }, amp.Autocast(tensor.Float32))
		clear(seen)
		backward = true
		autograd.Backward(y.Sum())
		return nil
	}, amp.Autocast(tensor.BFloat16), observe))
	if dt, ok := seen["matmul"]; !ok || dt != tensor.Float32 {
		t.Errorf("the backward pass of float32 operations ran in %v", seen)
	}
}

// A customCall is what a custom operation saw of autocast.
type customCall struct {
	operands         []tensor.DType
	forward, inner   tensor.DType // the mode, and the type of a product made there
	backward, innerB tensor.DType
	grad             tensor.DType
}

// custom runs y = x wᵀ as a custom operation, declared for type dt if there is one.
func custom(s *tensor.Scope, declared *tensor.DType, xs ...*tensor.Tensor) (*tensor.Tensor, *customCall) {
	seen := &customCall{}
	probe := tensor.Uniform(tensor.Seed(1), -1, 1, 2, 2)
	forward := func(c *autograd.Ctx, xs ...*tensor.Tensor) *tensor.Tensor {
		for _, x := range xs {
			seen.operands = append(seen.operands, x.DType())
		}
		seen.forward, seen.inner = engine.Autocasting(s), product(s.In(probe)).DType()
		c.Save(xs[0], xs[1])
		return xs[0].MatMul(xs[1].T())
	}
	backward := func(c *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor {
		seen.backward, seen.innerB, seen.grad = engine.Autocasting(s), product(s.In(probe)).DType(), g.DType()
		grads := make([]*tensor.Tensor, len(xs))
		grads[0], grads[1] = g.MatMul(c.Saved(1)), g.T().MatMul(c.Saved(0))
		return grads
	}
	if declared != nil {
		return autograd.CustomIn(*declared, "outer", forward, backward, xs...), seen
	}
	return autograd.Custom("outer", forward, backward, xs...), seen
}

// A custom operation with a declared type gets its floating operands in it and runs without autocast, its backward
// function too; one without sees what is around it, and its backward function sees the same. Outside autocast the type
// means nothing.
func TestAutocastCustom(t *testing.T) {
	f32, f64, i64, f16, bf16 := tensor.Float32, tensor.Float64, tensor.Int64, tensor.Float16, tensor.BFloat16
	x, index := tensor.Uniform(tensor.Seed(1), -1, 1, 2, 3), tensor.FromSlice([]int64{1}, 1)
	for _, c := range []struct {
		name     string
		declared *tensor.DType
		region   tensor.DType
		x        tensor.DType // of the first operand
		want     customCall
	}{
		{"declared float32", &f32, f16, f32, customCall{[]tensor.DType{f32, f32, i64, f64}, f32, f32, f32, f32, f32}},
		{"declared float32, of half", &f32, bf16, bf16, customCall{[]tensor.DType{f32, f32, i64, f64}, f32, f32, f32,
			f32, f32}},
		{"declared half", &f16, f16, f32, customCall{[]tensor.DType{f16, f16, i64, f64}, f32, f32, f32, f32, f16}},
		{"declared another half", &bf16, f16, f32, customCall{[]tensor.DType{bf16, bf16, i64, f64}, f32, f32, f32, f32,
			bf16}},
		{"declared, outside", &f16, f32, f32, customCall{[]tensor.DType{f32, f32, i64, f64}, f32, f32, f32, f32, f32}},
		{"undeclared", nil, bf16, f32, customCall{[]tensor.DType{f32, f32, i64, f64}, bf16, bf16, bf16, bf16, bf16}},
		{"undeclared, outside", nil, f32, f32, customCall{[]tensor.DType{f32, f32, i64, f64}, f32, f32, f32, f32, f32}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev := open(t)
			w := nn.ParameterOf("w", tensor.Uniform(tensor.Seed(2), -1, 1, 4, 3))
			must(t, dev.Step(func(s *tensor.Scope) error {
				y, seen := custom(s, c.declared, s.In(x.To(c.x)), w, s.In(index), s.In(x.To(f64)))
				if engine.Autocasting(s) != c.region {
					t.Errorf("autocast to %v after the operation", engine.Autocasting(s))
				}
				s.With(func() { autograd.Backward(y.Square().Sum()) },
					amp.Autocast(tensor.Float32)) // another mode than the forward's
				if !slices.Equal(seen.operands, c.want.operands) || seen.forward != c.want.forward ||
					seen.inner != c.want.inner ||
					seen.backward != c.want.backward || seen.innerB != c.want.innerB || seen.grad != c.want.grad {
					t.Errorf("the operation saw %+v, want %+v", *seen, c.want)
				}
				return nil
			}, amp.Autocast(c.region)))
			if g := w.Grad(); g == nil || g.DType() != tensor.Float32 ||
				!slices.ContainsFunc(values(g), func(v float64) bool { return v != 0 }) {
				t.Errorf("the gradient of the weight is %v", g)
			}
		})
	}
	wantError(t, engine.Try(func() {
		autograd.CustomIn(f16, "alone", nil, nil, x)
	}), tensor.ErrStep, "alone", "s.In")
}

// A pointwise operation of a program's own has the class that the program gives it, none by default.
func TestAutocastPointwise(t *testing.T) {
	dev := open(t)
	for class, want := range map[seam.CastClass][3]tensor.DType{ // of float32, of half, of float64
		seam.CastKeep:   {tensor.Float32, tensor.Float16, tensor.Float64},
		seam.CastLower:  {tensor.Float16, tensor.Float16, tensor.Float64},
		seam.CastFull:   {tensor.Float32, tensor.Float32, tensor.Float64},
		seam.CastWidest: {tensor.Float32, tensor.Float16, tensor.Float64},
	} {
		op := tensor.MustPointwise("cube", "x*x*x", []string{"x"})
		op.Cast = class
		w := param("w", 2)
		must(t, dev.Step(func(s *tensor.Scope) error {
			for i, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.Float64} {
				y := engine.Apply(op, []*tensor.Tensor{s.In(w).To(dt)}, nil, nil)
				if y.DType() != want[i] || y.Item() != 8 {
					t.Errorf("%v of %v: %v in %v, want 8 in %v", class, dt, y.Item(), y, want[i])
				}
				autograd.Backward(y.Sum())
			}
			return nil
		}, amp.Autocast(tensor.Float16)))
		if g := w.Grad(); g.DType() != tensor.Float32 || g.Item() != 36 {
			t.Errorf("%v: the gradient is %v in %v, want 36", class, g.Item(), g)
		}
	}
}

// A step that fails under autocast leaves nothing behind.
func TestAutocastFailedStep(t *testing.T) {
	dev := open(t)
	l := nn.NewLinear(3, 3)
	must(t, nn.Init(dev, l))
	runtime.GC() // what earlier tests left in the pool, which devices share
	active, boom := dev.Stats().Memory.Active, errors.New("boom")
	for range 3 {
		if err := dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(l.Forward(s.In(tensor.Uniform(tensor.Seed(1), -1, 1, 2, 3))).Sum())
			return boom
		}, amp.Autocast(tensor.Float16)); !errors.Is(err, boom) {
			t.Fatal(err)
		}
	}
	if now := dev.Stats().Memory.Active; now > active || l.Weight.Grad() != nil {
		t.Errorf("failed steps took %d bytes, and left the gradient %v", now-active, l.Weight.Grad())
	}
}

// Evaluations that run at the same time share the weights and not their copies.
func TestAutocastParallel(t *testing.T) {
	dev := open(t)
	l := nn.NewLinear(8, 8)
	must(t, nn.Init(dev, l))
	x := tensor.Uniform(tensor.Seed(1), -1, 1, 4, 8)
	evaluate := func(dt tensor.DType) (y []float64) {
		err := dev.Eval(func(s *tensor.Scope) error { y = values(l.Forward(l.Forward(s.In(x)))); return nil },
			amp.Autocast(dt))
		if err != nil {
			t.Error(err)
		}
		return y
	}
	want := map[tensor.DType][]float64{}
	for _, dt := range halves {
		want[dt] = evaluate(dt)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 20 {
				if dt := halves[i%2]; !slices.Equal(evaluate(dt), want[dt]) {
					t.Errorf("an evaluation in %v differs beside others", dt)
				}
			}
		})
	}
	group.Wait()
}

// Optimizers compute as they do without autocast, also for parameters in half precision, whose norm a sum in float32
// changes.
func TestAutocastOptimizer(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float32} {
		step := func(lower tensor.DType) (hash string, norm float64) {
			w := nn.ParameterOf("w", tensor.Uniform(tensor.Seed(1), -1, 1, 100).To(dt))
			dev, opt := open(t), optim.New(optim.AdamW(1e-3), w, optim.Clip(1))
			must(t, dev.Step(func(s *tensor.Scope) error {
				autograd.Backward(s.In(w), autograd.GradOutput(s.In(tensor.Uniform(tensor.Seed(2), -1, 1, 100)).To(dt)))
				return opt.Step(s)
			}, amp.Autocast(lower)))
			return opt.Hash(), opt.GradNorm()
		}
		hash, norm := step(tensor.Float32)
		if h, n := step(tensor.Float16); h != hash || n != norm {
			t.Errorf("under autocast the update of %v has the norm %v, without %v", dt, n, norm)
		}
	}
}

// masked is attention with masks and a rotary embedding of what it sees.
type masked struct{ Attn *nn.MultiheadAttention }

func (m masked) Forward(x *tensor.Tensor) *tensor.Tensor {
	q := nn.NewRotaryEmbedding(4, x.Dim(1), 10000).Forward(x)
	padding := tensor.FromSlice([]bool{false, true, false, false, true}, 1, 5).Expand(x.Dim(0), 5)
	bias := nn.ALiBi(tensor.Float32, 2, 5, 5, 0)
	return m.Attn.Attend(q, q, x, nn.KeyPadding(padding), nn.Mask(bias), nn.Window(3, 3))
}

// Modules give the types that their last operation has, and float32 gradients near those of float32.
func TestAutocastModules(t *testing.T) {
	half := tensor.Bool // stands for the type of the region
	x, ids := tensor.Uniform(tensor.Seed(1), -1, 1, 2, 5, 8), tensor.FromSlice([]int64{1, 2, 3, 4, 5, 6, 0, 6,
		5, 4}, 2, 5)
	for name, c := range map[string]struct {
		build func() nn.Module
		in    *tensor.Tensor
		out   tensor.DType
	}{
		"linear":    {func() nn.Module { return nn.NewLinear(8, 4) }, x, half},
		"mlp":       {func() nn.Module { return nn.NewMLP(8, 16) }, x, half},
		"attention": {func() nn.Module { return nn.NewCausalAttention(8, 2) }, x, half},
		"masked":    {func() nn.Module { return masked{nn.NewMultiheadAttention(8, 2)} }, x, half},
		"encoder": {func() nn.Module { return nn.NewTransformerEncoder(1, 8, 2, nn.DropoutRate(0)) }, x,
			tensor.Float32},
		"layer norm": {func() nn.Module { return nn.Sequential(nn.NewLinear(8, 8), nn.NewLayerNorm(8)) }, x,
			tensor.Float32},
		"rms norm": {func() nn.Module { return nn.Sequential(nn.NewLinear(8, 8), nn.NewRMSNorm(8)) }, x,
			tensor.Float32},
		"embedding": {func() nn.Module { return nn.NewEmbedding(7, 8, 1) }, ids, tensor.Float32},
		"block":     {func() nn.Module { return nn.NewBlock(8, 2) }, x, tensor.Float32}, // the sum of the residuals
		"gpt": {func() nn.Module {
			return nn.NewGPT(nn.GPTConfig{Vocab: 7, Context: 5, Width: 8, Heads: 2,
				Layers: 2})
		}, ids, half},
	} {
		t.Run(name, func(t *testing.T) {
			grads := map[tensor.DType][][]float64{}
			for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
				model := c.build()
				grads[dt] = gradients(t, model, dt, func(s *tensor.Scope) *tensor.Tensor {
					y := model.Forward(s.In(c.in))
					if want := c.out; y.DType() != want && !(want == half && y.DType() == dt) {
						t.Errorf("the result under autocast to %v is %v", dt, y)
					}
					return nn.MSE(y, tensor.Uniform(tensor.Seed(2), -1, 1, y.Shape()...))
				})
			}
			for _, dt := range halves {
				if e := relative(t, grads[dt], grads[tensor.Float32]); e > precision[dt] {
					t.Errorf("under autocast to %v gradients are off by %.2g of their norm", dt, e)
				}
			}
		})
	}
}

// Any sequence of uses of a weight, in all types, with and without recording, as a whole and as a view, in regions of
// memory, multiplies with its value and adds up its gradient. The numbers are small integers, exact in every type.
func TestCastRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	dev := open(t)
	w := nn.ParameterOf("w", row(1).Reshape(1, 1))
	types := []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16}
	uses := []func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor{
		func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor { return x.Linear(w, nil) },
		func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor { return x.MatMul(s.In(w)) },
		func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor { return x.MatMul(w.T()) },
		func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor { return x.MatMul(w.Reshape(1, 1).T()) },
		func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor { return x.MatMul(s.In(w).T()) },
		func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor { return x.MatMul(autograd.Watch(s, s.In(w))) },
		func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor {
			return s.Region("part", func() []*tensor.Tensor { return []*tensor.Tensor{x.Linear(w, nil)} })[0]
		},
		func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor {
			return tensor.Cat(0, x.MatMul(w), x).Slice(0, 0, 1)
		},
		func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor { return x.MatMul(w.Detach()) }, // without gradient
		func(s *tensor.Scope, x *tensor.Tensor) *tensor.Tensor { return x.MatMul(s.In(w).Detach().T()) },
	}
	for trial := range 200 {
		var log []string
		want := 0.0
		w.ClearGrads()
		w.Assign(row(float32(1+rng.IntN(15))).Reshape(1, 1))
		must(t, dev.Step(func(s *tensor.Scope) error {
			loss := s.In(w).Sum() // so that there is a gradient
			want++
			for range 20 {
				k, u, dt := 1+rng.IntN(8), rng.IntN(len(uses)), types[rng.IntN(3)]
				opts := []tensor.Option{amp.Autocast(dt)}
				recorded := rng.IntN(3) > 0
				if !recorded {
					opts = append(opts, tensor.NoGrad())
				}
				log = append(log, fmt.Sprintf("use %d with %d in %v, recorded: %v", u, k, dt, recorded))
				var y *tensor.Tensor
				s.With(func() { y = uses[u](s, s.In(row(float32(k)).Reshape(1, 1))) }, opts...)
				if v := w.Item() * float64(k); y.Item() != v {
					t.Fatalf("trial %d: %v, want %v; %v", trial, y.Item(), v, log)
				}
				if with := recorded && u < len(uses)-2; y.NeedsGrad() != with {
					t.Fatalf("trial %d: needs a gradient: %v; %v", trial, y.NeedsGrad(), log)
				} else if with {
					loss = loss.Add(y.Sum().To(tensor.Float32))
					want += float64(k)
				}
			}
			autograd.Backward(loss)
			return nil
		}))
		if g := w.Grad(); g.DType() != tensor.Float32 || g.Item() != want {
			t.Fatalf("trial %d: the gradient is %v in %v, want %v; %v", trial, g.Item(), g, want, log)
		}
	}
}

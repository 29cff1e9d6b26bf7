package optim_test

import (
	"errors"
	"math"
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// valley makes two parameters with the first values of the golden, and the functions of the golden.
func valley(t *testing.T, dev *tensor.Device, dt tensor.DType) (model []*tensor.Tensor,
	rosenbrock, quartic func(s *tensor.Scope) *tensor.Tensor) {
	f := openGolden(t)
	model = []*tensor.Tensor{nn.Parameter(nn.Zeros, 3), nn.Parameter(nn.Zeros, 1, 2)}
	must(t, nn.Init(dev, model, nn.DType(dt)))
	for i, k := range []string{"w", "b"} {
		v, _ := f.Float64("p/" + k)
		model[i].Assign(tensor.FromSlice(v[:3-i], 3-i))
	}
	all := func(s *tensor.Scope) (x, from, to *tensor.Tensor) {
		x = tensor.Cat(0, s.In(model[0]), s.In(model[1]).Reshape(2))
		return x, x.Slice(0, 0, 4), x.Slice(0, 1, 5)
	}
	return model, func(s *tensor.Scope) *tensor.Tensor {
			_, from, to := all(s)
			return to.Sub(from.Square()).Square().Scale(100).Add(from.SubFrom(1).Square()).Sum()
		}, func(s *tensor.Scope) *tensor.Tensor {
			x, from, to := all(s)
			y := x.Square().Square().Scale(0.25).Add(x.AddScalar(-1).Square())
			return y.Sum().Add(from.Mul(to).Sum().Scale(0.2))
		}
}

func TestGoldenLBFGS(t *testing.T) {
	f := openGolden(t)
	for name, options := range map[string][]optim.LBFGSOption{
		"lbfgs":         {optim.MaxIter(4)},
		"lbfgs-history": {optim.MaxIter(4), optim.HistorySize(2), optim.MaxEval(3)},
		"lbfgs-wolfe":   {optim.StrongWolfe(), optim.MaxIter(3)},
		"lbfgs-far":     {optim.StrongWolfe(), optim.MaxIter(3)},
		"lbfgs-near":    {optim.StrongWolfe(), optim.MaxIter(3)},
		"lbfgs-end":     {optim.StrongWolfe(), optim.Tolerances(1e-4, 1e-6)},
	} {
		dev := open(t)
		model, rosenbrock, quartic := valley(t, dev, tensor.Float64)
		loss := quartic
		if name == "lbfgs-wolfe" || name == "lbfgs-far" || name == "lbfgs-near" {
			loss = rosenbrock
		}
		lr := map[string]float64{"lbfgs": 0.3, "lbfgs-history": 0.3, "lbfgs-wolfe": 1, "lbfgs-end": 1,
			"lbfgs-far": 1e-4, "lbfgs-near": 7}
		opt := optim.NewLBFGS(model, lr[name], options...)
		losses, _ := f.Float64(name + "/losses")
		path, _ := f.Float64(name + "/path")
		for i, want := range losses {
			got, err := opt.Step(dev, loss)
			must(t, err)
			if math.Abs(got-want) > 1e-8*max(1, math.Abs(want)) {
				t.Errorf("%s, step %d: loss %v, want %v", name, i, got, want)
			}
			x := append(tensor.ToSlice[float64](model[0]), tensor.ToSlice[float64](model[1])...)
			for j, v := range x {
				if w := path[i*5+j]; !(math.Abs(v-w) <= 1e-8*max(1, math.Abs(w))) {
					t.Errorf("%s, step %d, parameter %d: %.17g, want %.17g", name, i, j, v, w)
				}
			}
		}
	}
}

// A step that fails, at whatever evaluation, leaves parameters and state as they were; so does a loss that is no
// number.
func TestLBFGSFails(t *testing.T) {
	dev := open(t)
	boom := errors.New("boom")
	for calls := range 6 {
		model, loss, _ := valley(t, dev, tensor.Float32)
		opt := optim.NewLBFGS(model, 1, optim.StrongWolfe())
		other, otherLoss, _ := valley(t, dev, tensor.Float32)
		same := optim.NewLBFGS(other, 1, optim.StrongWolfe())
		_, err := opt.Step(dev, loss)
		must(t, err)
		_, err = same.Step(dev, otherLoss)
		must(t, err)
		for _, bad := range []func(s *tensor.Scope) *tensor.Tensor{
			func(s *tensor.Scope) *tensor.Tensor { engine.Abort(s, boom); return loss(s) },
			func(s *tensor.Scope) *tensor.Tensor { return loss(s).Scale(math.NaN()) },
			func(s *tensor.Scope) *tensor.Tensor { return nil },
		} {
			n := 0
			if _, err := opt.Step(dev, func(s *tensor.Scope) *tensor.Tensor {
				if n++; n > calls {
					return bad(s)
				}
				return loss(s)
			}); err == nil {
				t.Errorf("no error at evaluation %d", calls)
			}
			for i, p := range model {
				if !p.AllEqual(other[i]) {
					t.Errorf("evaluation %d failed, parameter %d is %v, was %v", calls, i, p, other[i])
				}
			}
		}
		_, err = opt.Step(dev, loss)
		must(t, err)
		_, err = same.Step(dev, otherLoss)
		must(t, err)
		if !model[0].AllEqual(other[0]) || !model[1].AllEqual(other[1]) {
			t.Errorf("after a failure at evaluation %d the next step is another one", calls)
		}
	}
}

// Losses that are infinite, with gradients that are not, are errors, and move nothing.
func TestLBFGSInfinite(t *testing.T) {
	dev := open(t)
	for calls := range 2 {
		model, loss, _ := valley(t, dev, tensor.Float32)
		was := model[0].Detach().Clone()
		opt, n := optim.NewLBFGS(model, 1, optim.MaxIter(4)), 0
		if _, err := opt.Step(dev, func(s *tensor.Scope) *tensor.Tensor {
			if n++; n > calls {
				return loss(s).AddScalar(math.Inf(1))
			}
			return loss(s)
		}); !errors.Is(err, tensor.ErrValue) || !model[0].AllEqual(was) {
			t.Errorf("evaluation %d: error %v, parameters %v, were %v", calls, err, model[0], was)
		}
	}
}

// A run goes on in new objects, to the bit; a state that does not fit is refused and changes nothing.
func TestLBFGSState(t *testing.T) {
	dev := open(t)
	model, loss, _ := valley(t, dev, tensor.Float32)
	opt := optim.NewLBFGS(model, 1, optim.StrongWolfe(), optim.MaxIter(3))
	other, otherLoss, _ := valley(t, dev, tensor.Float32)
	next := optim.NewLBFGS(other, 1, optim.StrongWolfe(), optim.MaxIter(3))
	for i := range 3 {
		st := opt.State()
		if len(st.Tensors) > 0 != (i > 0) {
			t.Errorf("%d tensors after %d steps", len(st.Tensors), i)
		}
		must(t, dev.Step(func(s *tensor.Scope) error {
			for k, p := range model {
				other[k].Assign(s.In(p.Detach()))
			}
			return next.Restore(s, st)
		}))
		_, err := opt.Step(dev, loss)
		must(t, err)
		_, err = next.Step(dev, otherLoss)
		must(t, err)
		if !model[0].AllEqual(other[0]) || !model[1].AllEqual(other[1]) {
			t.Errorf("step %d: parameters %v and %v, restored %v and %v", i, model[0], model[1], other[0], other[1])
		}
	}
	name := model[0].Name()
	for text, spoil := range map[string]func(st *optim.State){
		`of the rule "sgd"`:        func(st *optim.State) { st.Rule = "sgd" },
		"iterations is":            func(st *optim.State) { delete(st.Tensors, "iterations") },
		"d." + name + " is":        func(st *optim.State) { st.Tensors["d."+name] = tensor.Of(float32(1)) },
		"s.0." + name + " is":      func(st *optim.State) { delete(st.Tensors, "s.0."+name) },
		"want float32[3]":          func(st *optim.State) { st.Tensors["unknown"] = tensor.Of(1.0) },
		"grad." + name + " is nil": func(st *optim.State) { st.Tensors["grad."+name] = nil },
	} {
		st := opt.State()
		spoil(&st)
		err := dev.Step(func(s *tensor.Scope) error { next.Restore(s, st); return nil })
		wantError(t, err, tensor.ErrValue, "lbfgs", text)
	}
	_, err := opt.Step(dev, loss)
	must(t, err)
	_, err = next.Step(dev, otherLoss)
	must(t, err)
	if !model[0].AllEqual(other[0]) {
		t.Error("a refused state changed the next step")
	}
}

func TestLBFGSErrors(t *testing.T) {
	nan := math.NaN()
	w := param("w", 1)
	for _, f := range []func(){
		func() { optim.NewLBFGS(w, nan) }, func() { optim.NewLBFGS(nn.ReLU, 1) }, func() { optim.MaxIter(0) },
		func() { optim.MaxEval(-1) }, func() { optim.HistorySize(0) }, func() { optim.Tolerances(nan, 0) },
		func() { (&optim.LBFGS{}).Step(nil, nil) }, func() { optim.NewLBFGS(w, 1).Step(nil, nil) },
		func() { optim.NewLBFGS(w, 1).Step(open(t), nil) },
	} {
		wantError(t, engine.Try(f), tensor.ErrValue, "lbfgs")
	}
	mixed := []*tensor.Tensor{w, nn.ParameterOf("v", tensor.FromSlice([]float32{1}, 1))}
	wantError(t, engine.Try(func() { optim.NewLBFGS(mixed, 1) }), tensor.ErrDType, "lbfgs", "all float32")
}

package autograd_test

import (
	"errors"
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// TestFunctional compares the derivatives of y = A(x) z + sin(x), x and z of three elements, with those by hand.
func TestFunctional(t *testing.T) {
	dev := open(t)
	x, z := tensor.FromSlice([]float64{0.5, -1, 2}, 3), tensor.FromSlice([]float64{2, -1, 3}, 3)
	f := func(xs []*tensor.Tensor) *tensor.Tensor { // y[i] = x[i]² z[i] + sin(x[2])
		return xs[0].Square().Mul(xs[1]).Add(xs[0].Slice(0, 2, 3).Sin())
	}
	xv, zv := tensor.ToSlice[float64](x), tensor.ToSlice[float64](z)
	jx, jz := make([]float64, 9), make([]float64, 9)
	for i := range 3 {
		jx[i*3+i] += 2 * xv[i] * zv[i]
		jx[i*3+2] += math.Cos(xv[2])
		jz[i*3+i] = xv[i] * xv[i]
	}
	wantX, wantZ := tensor.FromSlice(jx, 3, 3), tensor.FromSlice(jz, 3, 3)
	same := func(what string, got, want *tensor.Tensor) {
		t.Helper()
		if !got.Detach().AllClose(want, 1e-12, 1e-12) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	v, w := tensor.FromSlice([]float64{1, 2, -1}, 3), tensor.FromSlice([]float64{0.5, 0, 1}, 3)
	err := dev.Step(func(s *tensor.Scope) error {
		wx, wz := s.In(wantX), s.In(wantZ)
		xs := []*tensor.Tensor{x, z}
		all := autograd.Jacobian(s, f, xs)
		same("the Jacobian by x", all[0], wx)
		same("the Jacobian by z", all[1], wz)
		_, products := autograd.VJP(s, f, xs, s.In(v))
		same("vᵀ J by x", products[0], s.In(v).MatMul(wx))
		same("vᵀ J by z", products[1], s.In(v).MatMul(wz))
		y, product := autograd.JVP(s, f, xs, []*tensor.Tensor{s.In(v), s.In(w)})
		same("J v", product, wx.MatMul(s.In(v)).Add(wz.MatMul(s.In(w))))
		same("y", y, f([]*tensor.Tensor{s.In(x), s.In(z)}))

		h := autograd.Hessian(s, func(x *tensor.Tensor) *tensor.Tensor { return x.PowScalar(3).Sum().Mul(x.Sum()) }, x)
		sum := s.In(x).Sum() // ∂²/∂x[i]∂x[j] = 6 x[i] S [i = j] + 3 x[i]² + 3 x[j]²
		sq := s.In(x).Square().Scale(3)
		diagonal := s.In(tensor.Eye(tensor.Float64, 3)).Mul(s.In(x).Mul(sum).Scale(6))
		same("the Hessian", h, diagonal.Add(sq.Unsqueeze(0)).Add(sq.Unsqueeze(1)))

		// What f does not depend on, and integers.
		all = autograd.Jacobian(s, func(xs []*tensor.Tensor) *tensor.Tensor { return xs[0] }, []*tensor.Tensor{x, z,
			tensor.FromSlice([]int64{1}, 1)})
		same("the Jacobian by what is unused", all[1], s.Full(0, tensor.Float64, 3, 3))
		if all[2] != nil {
			t.Error("integers have a Jacobian")
		}
		constant := func([]*tensor.Tensor) *tensor.Tensor { return s.In(w) }
		_, product = autograd.JVP(s, constant, xs, []*tensor.Tensor{v, w})
		same("J v of a constant", product, s.Full(0, tensor.Float64, 3))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFunctionalMisuse: what does not fit is a typed error of the function.
func TestFunctionalMisuse(t *testing.T) {
	dev := open(t)
	x := tensor.FromSlice([]float64{1, 2}, 2)
	sum := func(xs []*tensor.Tensor) *tensor.Tensor { return xs[0].Sum() }
	for op, f := range map[string]func(s *tensor.Scope){
		"jvp": func(s *tensor.Scope) {
			autograd.JVP(s, sum, []*tensor.Tensor{x}, []*tensor.Tensor{tensor.Of(1.0)})
		},
		"vjp":     func(s *tensor.Scope) { autograd.VJP(s, nil, []*tensor.Tensor{x}, x) },
		"hessian": func(s *tensor.Scope) { autograd.Hessian(s, (*tensor.Tensor).Exp, x) },
		"jacobian": func(s *tensor.Scope) {
			autograd.Jacobian(s, func([]*tensor.Tensor) *tensor.Tensor { return nil }, []*tensor.Tensor{x})
		},
	} {
		err := dev.Step(func(s *tensor.Scope) error { f(s); return nil })
		if e := (*tensor.Error)(nil); !errors.As(err, &e) || e.Op != op {
			t.Errorf("%s: %v", op, err)
		}
	}
	xs := []*tensor.Tensor{x}
	for op, f := range map[string]func(s *tensor.Scope){ // right calls, where nothing is recorded
		"jvp": func(s *tensor.Scope) { autograd.JVP(s, sum, xs, xs) },
		"vjp": func(s *tensor.Scope) { autograd.VJP(s, sum, xs, tensor.Of(1.0)) },
		"hessian": func(s *tensor.Scope) {
			autograd.Hessian(s, func(x *tensor.Tensor) *tensor.Tensor { return x.Sum() }, x)
		},
		"jacobian": func(s *tensor.Scope) { autograd.Jacobian(s, sum, xs) },
	} {
		for _, err := range []error{
			dev.Eval(func(s *tensor.Scope) error { f(s); return nil }),
			dev.Step(func(s *tensor.Scope) error { s.With(func() { f(s) }, tensor.NoGrad()); return nil }),
		} {
			if e := (*tensor.Error)(nil); !errors.As(err, &e) || e.Op != op || e.Kind != tensor.ErrGrad {
				t.Errorf("%s where nothing is recorded: %v", op, err)
			}
		}
	}
}

// TestVmap compares a function of one example with the same function of a batch, with gradients.
func TestVmap(t *testing.T) {
	dev := open(t)
	a := tensor.Randn(tensor.Seed(1), 4, 2, 3).To(tensor.Float64)
	b := tensor.Randn(tensor.Seed(2), 4, 3).To(tensor.Float64)
	each := autograd.Vmap(func(xs []*tensor.Tensor) *tensor.Tensor { return xs[0].MatMul(xs[1]).Exp() })
	err := dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, a)
		got, want := each(x, s.In(b)), x.MatMul(s.In(b).Unsqueeze(-1)).Squeeze(-1).Exp()
		if !got.Detach().AllClose(want.Detach(), 1e-13, 0) {
			t.Errorf("vmap gives %v, want %v", got, want)
		}
		g := autograd.Grad(got.Sum(), []*tensor.Tensor{x})[0]
		if !g.AllClose(autograd.Grad(want.Sum(), []*tensor.Tensor{x})[0], 1e-13, 0) {
			t.Error("gradients differ")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for name, xs := range map[string][]*tensor.Tensor{
		"none": nil, "rank 0": {tensor.Of(1.0)}, "empty": {tensor.Zeros(tensor.Float32, 0, 2)},
		"sizes": {a, tensor.Zeros(tensor.Float64, 3, 3)}, "nil": {nil},
	} {
		err := dev.Eval(func(s *tensor.Scope) error { each(xs...); return nil })
		if e := (*tensor.Error)(nil); !errors.As(err, &e) || e.Op != "vmap" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

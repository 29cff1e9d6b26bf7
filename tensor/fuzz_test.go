package tensor_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// FuzzOpen: a name opens a device or is a typed error.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"cpu", "cpu:0", "cpu:1", "null", "cuda:99", "auto", "", ":", "cpu:", "cpu:-1",
		"cpu:007",
		"cpu:99999999999999999999", "nowhere"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		d, err := tensor.Open(name)
		if err == nil {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, tensor.ErrDevice) {
			t.Errorf("%q: %v", name, err)
		}
	})
}

// FuzzPointwise: an expression is refused, or it is an operation that runs in each floating type, forward and backward,
// and gives the same bits for vectors of any length.
func FuzzPointwise(f *testing.F) {
	for _, src := range []string{"x*y", "exp(x)*y", "where(x < y, x, y*y)", "max(x, y)/(x - y)", "t = x*x; t + 1/t",
		"x",
		"sigmoid(x)*tanh(y) + pow(abs(x), 1.5)", "mod(x, y) + floor(x)", "-(x == y)", "1/0", "x*1e400", "((x", ""} {
		f.Add(src)
	}
	dev, err := tensor.Open("cpu")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 2000 {
			t.Skip("long")
		}
		op, err := tensor.Pointwise("fuzzed", src, []string{"x", "y"})
		if err != nil {
			if !errors.Is(err, tensor.ErrValue) {
				t.Errorf("%q: %v", src, err)
			}
			return
		}
		if len(op.Expr.Roots) > 1 || strings.Contains(src, "rand") {
			return
		}
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.BFloat16} {
			var one []float64
			for _, n := range []int{70, 1} { // element 0 of a vector, and alone
				got := evaluate(t, dev, op, dt, n)
				if one != nil && !sameBits(one[:len(got)], got) {
					t.Errorf("%q in %v: %v alone, %v in a vector", src, dt, got, one[:len(got)])
				}
				one = got
			}
		}
	})
}

// evaluate is the result of op on n elements, and the gradients, element 0 of each.
func evaluate(t *testing.T, dev *tensor.Device, op *tensor.Op, dt tensor.DType, n int) (v []float64) {
	err := dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, s.In(tensor.Uniform(tensor.Seed(1), -2, 2, 70).To(dt).Slice(0, 0, n)))
		y := autograd.Watch(s, s.In(tensor.Uniform(tensor.Seed(2), -2, 2, 70).To(dt).Slice(0, 0, n)))
		z := engine.Apply(op, []*tensor.Tensor{x, y}, nil, nil)
		results := []*tensor.Tensor{z}
		if z.NeedsGrad() {
			results = append(results, autograd.Grad(z.Sum(), []*tensor.Tensor{x, y}, autograd.AllowUnused())...)
		}
		for _, r := range results {
			if r != nil {
				v = append(v, tensor.ToSlice[float64](r)[0])
			}
		}
		return nil
	}, tensor.RandomStream(1))
	if err != nil {
		t.Errorf("%q: %v", op.Doc, err)
	}
	return v
}

func sameBits(a, b []float64) bool {
	for i := range a {
		if a[i] != b[i] && (a[i] == a[i] || b[i] == b[i]) {
			return false
		}
	}
	return true
}

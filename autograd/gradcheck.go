package autograd

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// Gradcheck compares the gradient of f with central differences and returns an error that lists the
// elements that differ by more than 1e-5 + 1e-3 of the value; the step is 1e-6. The inputs are float64
// host data; those that hold integers are passed on unchanged. f runs many times, always with the same
// random numbers. A result with several elements is checked in one random direction.
func Gradcheck(dev *tensor.Device, f func(xs []*tensor.Tensor) *tensor.Tensor, inputs ...*tensor.Tensor) error {
	const eps, atol, rtol = 1e-6, 1e-5, 1e-3
	engine.Given("gradcheck", "the function", f)
	var got [][]float64
	direction := func(y *tensor.Tensor) *tensor.Tensor {
		w := tensor.Uniform(tensor.Seed(7), 0.5, 1.5, y.Shape()...).To(tensor.Float64)
		return y.Scope().In(w)
	}
	err := dev.Step(func(s *tensor.Scope) error {
		xs := enter(s, inputs)
		y := f(xs)
		floating, grads := gradients(y, xs, GradOutput(direction(y)))
		for i, g := range grads {
			if g == nil {
				got = append(got, make([]float64, floating[i].Len()))
			} else {
				got = append(got, tensor.ToSlice[float64](g))
			}
		}
		return nil
	}, tensor.RandomStream(1))
	if err != nil {
		return err
	}
	value := func() (sum float64, err error) {
		err = dev.Step(func(s *tensor.Scope) error {
			y := f(enter(s, inputs))
			w := tensor.ToSlice[float64](direction(y))
			for i, v := range tensor.ToSlice[float64](y) {
				sum += v * w[i]
			}
			return nil
		}, tensor.RandomStream(1))
		return sum, err
	}
	var wrong []string
	k := 0
	for i, in := range inputs {
		if !in.DType().IsFloat() {
			continue
		}
		v := seam.Elems[float64](engine.Bytes(in))
		for j, old := range v {
			v[j] = old + eps
			hi, err := value()
			if err != nil {
				return err
			}
			v[j] = old - eps
			lo, err := value()
			if err != nil {
				return err
			}
			v[j] = old
			want := (hi - lo) / (2 * eps)
			if g := got[k][j]; !(math.Abs(g-want) <= atol+rtol*math.Abs(want)) {
				wrong = append(wrong, fmt.Sprintf("input %d element %d (%.6g): gradient %.9g, differences give %.9g",
					i, j, old, g, want))
			}
		}
		k++
	}
	if len(wrong) > 0 {
		more := ""
		if n := len(wrong); n > 8 {
			wrong, more = wrong[:8], fmt.Sprintf("\n... and %d more", n-8)
		}
		return fmt.Errorf("gradients differ:\n%s%s", strings.Join(wrong, "\n"), more)
	}
	return nil
}

// GradGradcheck compares second derivatives of f with central differences of first ones.
func GradGradcheck(dev *tensor.Device, f func(xs []*tensor.Tensor) *tensor.Tensor, inputs ...*tensor.Tensor) error {
	engine.Given("gradcheck", "the function", f)
	var shape []int
	shaped := func(s *tensor.Scope) error { shape = f(enter(s, inputs)).Shape(); return nil }
	err := dev.Step(shaped, tensor.RandomStream(1))
	if err != nil {
		return err
	}
	seed := tensor.Uniform(tensor.Seed(9), -1, 1, shape...).To(tensor.Float64)
	return Gradcheck(dev, func(xs []*tensor.Tensor) *tensor.Tensor {
		n := len(xs) - 1
		y := f(xs[:n])
		sum := y.Scope().Full(0, tensor.Float64)
		_, grads := gradients(y, xs[:n], GradOutput(xs[n]), CreateGraph())
		for i, g := range grads {
			if g != nil {
				w := tensor.Uniform(tensor.Seed(uint64(20+i)), 0.5, 1.5, g.Shape()...).To(tensor.Float64)
				sum = sum.Add(g.Mul(w).Sum())
			}
		}
		return sum
	}, append(append([]*tensor.Tensor(nil), inputs...), seed)...)
}

// gradients are those of all that need a gradient, and the gradients of y, nil where y does not depend on one.
func gradients(y *tensor.Tensor, all []*tensor.Tensor, opts ...Option) (xs, grads []*tensor.Tensor) {
	xs = slices.DeleteFunc(slices.Clone(all), func(x *tensor.Tensor) bool { return !x.NeedsGrad() })
	grads = make([]*tensor.Tensor, len(xs))
	if y.NeedsGrad() { // else independent of the inputs, as far as the tape can see
		grads = Grad(y, xs, append(opts, AllowUnused())...)
	}
	return xs, grads
}

// enter takes inputs into the step; floating ones are watched.
func enter(s *tensor.Scope, inputs []*tensor.Tensor) []*tensor.Tensor {
	xs := make([]*tensor.Tensor, len(inputs))
	for i, t := range inputs {
		if t.DType().IsFloat() {
			xs[i] = Watch(s, t)
		} else {
			xs[i] = s.In(t)
		}
	}
	return xs
}

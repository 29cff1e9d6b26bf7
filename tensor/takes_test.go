package tensor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// applied is how an operation was applied: its operands, as host data, and attributes.
type applied struct {
	op     *tensor.Op
	in     []*tensor.Tensor
	ints   []int
	floats []float64
}

// applications finds an application of every operation among the samples and their gradients.
func applications(t *testing.T, dev *tensor.Device) map[string]applied {
	found := map[string]applied{}
	look := func(_ string, c seam.Applied[*tensor.Op, *tensor.Tensor]) {
		if old, ok := found[c.Op.Name]; ok && len(old.in)+len(old.ints) >= len(c.In)+len(c.Ints) {
			return
		}
		var in []*tensor.Tensor
		for _, x := range c.In {
			in = append(in, tensor.FromSlice(tensor.ToSlice[float64](x), x.Shape()...).To(x.DType()))
		}
		found[c.Op.Name] = applied{c.Op, in, slices.Clone(c.Ints), slices.Clone(c.Floats)}
	}
	for _, op := range engine.Ops() {
		for _, s := range engine.Samples(op) {
			if strings.Contains(s.Name, "empty") {
				continue
			}
			err := dev.Step(func(scope *tensor.Scope) error {
				xs := operandsOf(scope, s)
				y := s.Call(xs)
				xs = slices.DeleteFunc(xs, func(x *tensor.Tensor) bool { return !x.NeedsGrad() })
				if y.NeedsGrad() {
					autograd.Grad(y.Sum(), xs, autograd.AllowUnused())
				}
				return nil
			}, engine.Observe(look))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	panicIf(dev.Eval(func(s *tensor.Scope) error {
		s.Uniform(0, 1, 2).Any().Equal(s.Full(1, tensor.Bool).All())
		s.Randn(2)
		s.RandInt(0, 2, 2)
		s.Full(1, tensor.Float32, 2)
		x, v := s.Randn(2, 3, 2), s.Full(1, tensor.Float32, 3) // those without samples
		engine.ApplyAll(engine.Op("batch_norm_train"), []*tensor.Tensor{x, v, v}, nil, []float64{1})
		engine.ApplyAll(engine.Op("batch_norm_train_grad"), []*tensor.Tensor{x, x, v, v, v}, []int{1}, []float64{1})
		return nil
	}, engine.Observe(look)))
	for _, op := range engine.Ops() {
		if _, ok := found[op.Name]; !ok {
			t.Errorf("%s is never applied", op.Name)
		}
	}
	return found
}

// operandsOf makes the operands of a sample; floating ones are watched.
func operandsOf(s *tensor.Scope, sample seam.Sample[*tensor.Tensor]) (xs []*tensor.Tensor) {
	for i, a := range sample.In {
		x := tensor.Uniform(tensor.Seed(uint64(i)), a.Lo, a.Hi, a.Shape...)
		if a.Values != nil {
			x = tensor.FromSlice(a.Values, a.Shape...)
		}
		if x = s.In(x.To(a.DType)); x.DType().IsFloat() {
			x = autograd.Watch(s, x)
		}
		xs = append(xs, x)
	}
	return xs
}

// times is the first n elements of s, the last one, or none, repeated if there are fewer.
func times[E any](s []E, n int, none E) []E {
	if s = slices.Clone(s); len(s) == 0 {
		s = append(s, none)
	}
	for len(s) < n {
		s = append(s, s[len(s)-1])
	}
	return s[:n]
}

// TestTakes applies every operation of the table, in a step and to host data, to every number of operands and
// attributes from none to three too many. An application succeeds or fails with a typed error of the operation, with
// the line of this file; most are refused.
func TestTakes(t *testing.T) {
	dev := open(t)
	tried, refused := 0, 0
	for _, a := range applications(t, dev) {
		try := func(in, ints, floats int) {
			var inStep, onHost error
			xs := times(a.in, in, tensor.Of[float32](1))
			err := untyped(func() {
				inStep = dev.Eval(func(s *tensor.Scope) error {
					ys := make([]*tensor.Tensor, len(xs))
					for i, x := range xs {
						ys[i] = s.In(x)
					}
					engine.ApplyAll(a.op, ys, times(a.ints, ints, 0), times(a.floats, floats, 0))
					return nil
				})
				onHost = engine.Try(func() {
					engine.ApplyAll(a.op, xs, times(a.ints, ints, 0), times(a.floats, floats, 0))
				})
			})
			for _, err := range []error{err, inStep, onHost} {
				var e *tensor.Error
				switch {
				case err == nil:
				case errors.As(err, &e) && e.Op == a.op.Name && strings.HasPrefix(e.Site, "takes_test.go:"):
					refused++
				default:
					t.Errorf("%s of %d operands, %d integers, %d floats: %v", a.op.Name, in, ints, floats, err)
				}
			}
			tried += 2
		}
		for n := range len(a.in) + 4 {
			try(n, len(a.ints), len(a.floats))
		}
		for n := range len(a.ints) + 4 {
			try(len(a.in), n, len(a.floats))
		}
		for n := range len(a.floats) + 4 {
			try(len(a.in), len(a.ints), n)
		}
	}
	t.Logf("%d applications, %d refused", tried, refused)
	if refused < tried/2 {
		t.Error("too many wrong numbers are accepted")
	}
}

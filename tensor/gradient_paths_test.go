package tensor_test

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// TestGradientPaths compares three ways to the gradient of every sample of every operation: plainly; with a graph,
// where compositions stand in for fused gradients; and after the memory of the forward pass was released, but for what
// the operation says it saves.
func TestGradientPaths(t *testing.T) {
	dev := open(t)
	plain := func(call func(x []*tensor.Tensor) *tensor.Tensor, xs []*tensor.Tensor) *tensor.Tensor {
		return call(xs)
	}
	released := func(call func(x []*tensor.Tensor) *tensor.Tensor, xs []*tensor.Tensor) *tensor.Tensor {
		return xs[0].Scope().Region("forward", func() []*tensor.Tensor {
			var copies []*tensor.Tensor
			for _, x := range xs {
				copies = append(copies, x.Clone())
			}
			return []*tensor.Tensor{call(copies).Clone()}
		})[0]
	}
	for _, op := range engine.Ops() {
		if op.NoGrad != "" {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			for _, sample := range engine.Samples(op) {
				want := sampleGradients(t, dev, sample, plain)
				compareGradients(t, sample, "with a graph", sampleGradients(t, dev, sample, plain,
					autograd.CreateGraph()), want)
				compareGradients(t, sample, "after the region", sampleGradients(t, dev, sample, released), want)
			}
		})
	}
}

// compareGradients compares those that got has.
func compareGradients(t *testing.T, sample seam.Sample[*tensor.Tensor], how string, got, want [][]float64) {
	t.Helper()
	for k := range got {
		for j, v := range got[k] {
			if !close(v, want[k][j]) {
				t.Errorf("sample %s, operand %d, element %d: %v %s, want %v", sample.Name, k, j, v, how, want[k][j])
			}
		}
	}
}

func close(a, b float64) bool {
	return a == b || a != a && b != b || math.Abs(a-b) <= 1e-12*(1+math.Abs(b))
}

// sampleGradients is the gradient for each operand of a sample, in float64; nil for integers.
func sampleGradients(t *testing.T, dev *tensor.Device, sample seam.Sample[*tensor.Tensor],
	forward func(call func(x []*tensor.Tensor) *tensor.Tensor, xs []*tensor.Tensor) *tensor.Tensor,
	opts ...autograd.Option) [][]float64 {
	t.Helper()
	grads := make([][]float64, len(sample.In))
	err := dev.Step(func(s *tensor.Scope) error {
		var xs, watched []*tensor.Tensor
		var place []int
		for i, a := range sample.In {
			x := tensor.Uniform(tensor.Seed(uint64(i+1)), a.Lo, a.Hi, a.Shape...).To(tensor.Float64)
			if a.Values != nil {
				x = tensor.FromSlice(a.Values, a.Shape...)
			}
			if !a.DType.IsFloat() {
				x = x.To(a.DType)
			}
			x = s.In(x)
			if a.DType.IsFloat() {
				x = autograd.Watch(s, x)
				watched, place = append(watched, x), append(place, i)
			}
			xs = append(xs, x)
		}
		y := forward(sample.Call, xs)
		if !y.NeedsGrad() { // a constant
			return nil
		}
		seed := tensor.Uniform(tensor.Seed(9), 0.5, 1.5, y.Shape()...).To(y.DType())
		opts := append(opts, autograd.GradOutput(seed), autograd.AllowUnused())
		for i, g := range autograd.Grad(y, watched, opts...) {
			if g != nil {
				grads[place[i]] = tensor.ToSlice[float64](g)
			}
		}
		return nil
	}, tensor.RandomStream(1))
	if err != nil {
		t.Fatalf("sample %s: %v", sample.Name, err)
	}
	return grads
}

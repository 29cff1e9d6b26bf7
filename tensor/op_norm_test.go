package tensor_test

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

func TestNormValues(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16} {
		tolerance := map[tensor.DType]float64{tensor.Float32: 1e-6, tensor.Float64: 1e-14, tensor.Float16: 1e-3}[dt]
		host := func(shape []int, v ...float64) *tensor.Tensor { return tensor.FromSlice(v, shape...).To(dt) }
		x := host([]int{2, 4}, 1, 1, 3, 3, 0, 0, 0, 8)
		w, b := host([]int{4}, 1, 2, 3, 4), host([]int{4}, 10, 20, 30, 40)
		h := []float64{-1, -1, 1, 1, -1 / math.Sqrt(3), -1 / math.Sqrt(3), -1 / math.Sqrt(3), math.Sqrt(3)}
		of := func(f func(h, w, b float64) float64) (want []float64) {
			for i, v := range h {
				k := float64(i%4 + 1)
				want = append(want, f(v, k, 10*k))
			}
			return want
		}
		check := func(name string, y *tensor.Tensor, want ...float64) {
			t.Helper()
			if y.DType() != dt {
				t.Errorf("%s: %v of %v", name, y, x)
			}
			wantClose(t, name, tensor.ToSlice[float64](y), tolerance, want...)
		}
		check("plain", x.LayerNorm(nil, nil, 0), h...)
		check("weight", x.LayerNorm(w, nil, 0), of(func(h, w, _ float64) float64 { return h * w })...)
		check("both", x.LayerNorm(w, b, 0), of(func(h, w, b float64) float64 { return h*w + b })...)
		check("bias", x.LayerNorm(nil, b, 0), of(func(h, _, b float64) float64 { return h + b })...)
		check("transposed", x.T().Clone().T().LayerNorm(nil, nil, 0), h...)
		check("eps", host([]int{2}, -1, 1).LayerNorm(nil, nil, 3), -0.5, 0.5)
		check("constant", host([]int{2}, 5, 5).LayerNorm(nil, nil, 1e-5), 0, 0)
		check("two axes", host([]int{1, 2, 2}, 1, 1, 3, 3).LayerNorm(host([]int{2, 2}, 1, 2, 3, 4), nil, 0),
			-1, -2, 3, 4)
		check("no rows", tensor.Zeros(dt, 0, 4).LayerNorm(w, b, 0))

		check("rms", host([]int{2}, 3, 4).RMSNorm(nil, 0), 3/math.Sqrt(12.5), 4/math.Sqrt(12.5))
		check("rms with weight", host([]int{2}, 3, 4).RMSNorm(host([]int{2}, 2, 0.5), 0),
			6/math.Sqrt(12.5), 2/math.Sqrt(12.5))
		check("rms with eps", host([]int{2}, 1, 1).RMSNorm(nil, 3), 0.5, 0.5)
	}
}

// If only some operands need gradients, these stay the same and read only what was saved for them.
func TestNormPartialGradients(t *testing.T) {
	dev := open(t)
	for _, c := range []struct {
		name string
		n    int
		f    func(x []*tensor.Tensor) *tensor.Tensor
	}{
		{"layer norm", 3, func(x []*tensor.Tensor) *tensor.Tensor { return x[0].LayerNorm(x[1], x[2], 1e-5) }},
		{"rms norm", 2, func(x []*tensor.Tensor) *tensor.Tensor { return x[0].RMSNorm(x[1], 1e-5) }},
	} {
		in := []*tensor.Tensor{tensor.Randn(tensor.Seed(1), 6, 5), tensor.Randn(tensor.Seed(2), 5),
			tensor.Randn(tensor.Seed(3), 5)}[:c.n]
		grads := func(watch func(i int) bool, opts ...autograd.Option) (all [][]float64) {
			err := dev.Step(func(s *tensor.Scope) error {
				var xs, watched []*tensor.Tensor
				for i, x := range in {
					v := s.In(x)
					if watch(i) {
						v = autograd.Watch(s, x)
						watched = append(watched, v)
					}
					xs = append(xs, v)
				}
				y := s.Region("forward", func() []*tensor.Tensor { // only saved tensors outlive it
					var copies []*tensor.Tensor
					for _, x := range xs {
						copies = append(copies, x.Clone())
					}
					return []*tensor.Tensor{c.f(copies).Clone()}
				})[0]
				for _, g := range autograd.Grad(y.Mul(y).Sum(), watched, opts...) {
					all = append(all, tensor.ToSlice[float64](g))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		want := grads(func(int) bool { return true })
		for i := range in {
			alone := func(j int) bool { return i == j }
			tolerance := 0.0
			if i == 2 {
				tolerance = 1e-6 // the gradient for bias alone is a canonical sum
			}
			wantClose(t, c.name, grads(alone)[0], tolerance, want[i]...)
			wantClose(t, c.name+" with a graph", grads(alone, autograd.CreateGraph())[0], 1e-5, want[i]...)
		}
	}
}

func TestNormThreads(t *testing.T) {
	dev := open(t)
	x, w, b := tensor.Randn(tensor.Seed(1), 301, 130), tensor.Randn(tensor.Seed(2), 130),
		tensor.Randn(tensor.Seed(3), 130)
	threads(t, "layer norm", func() []*tensor.Tensor {
		return forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			return x[0].LayerNorm(x[1], x[2], 1e-5)
		}, x, w, b)
	})
	threads(t, "softmax and cross-entropy", func() []*tensor.Tensor {
		return forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			return x[0].Softmax(0).LogSoftmax(-1).CrossEntropy(tensor.Zeros(tensor.Int64, 301)).Unsqueeze(0)
		}, x)
	})
}

func TestNormErrors(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 2, 3)
	w := tensor.Zeros(tensor.Float32, 3)
	wantMisuse(t, func() { x.LayerNorm(tensor.Zeros(tensor.Float32, 4), nil, 0) }, tensor.ErrShape,
		"op_norm_test.go:",
		"layer_norm: weight float32[4] must have the shape of the last axes of x float32[2 3], which is [3]")
	wantMisuse(t, func() { x.LayerNorm(w, tensor.Zeros(tensor.Float32, 2), 0) }, tensor.ErrShape,
		"layer_norm: bias float32[2] must have the shape of the last axes of x float32[2 3], which is [3]")
	wantMisuse(t, func() { x.LayerNorm(nil, tensor.Zeros(tensor.Float32, 2), 0) }, tensor.ErrShape,
		"layer_norm: bias float32[2] must have the shape of the last axes of x float32[2 3], which is [3]")
	wantMisuse(t, func() { x.LayerNorm(w, x, 0) }, tensor.ErrShape,
		"layer_norm: weight float32[3] and bias float32[2 3] differ in shape")
	wantMisuse(t, func() { x.LayerNorm(nil, tensor.Zeros(tensor.Float32, 1, 3), 0) }, tensor.ErrShape,
		"layer_norm: bias float32[1 3] must have the shape")
	wantMisuse(t, func() { x.LayerNorm(tensor.Of[float32](1), nil, 0) }, tensor.ErrShape,
		"layer_norm: weight float32[] has no axes, so there is nothing to normalise")
	wantMisuse(t, func() { x.LayerNorm(w.To(tensor.Float64), nil, 0) }, tensor.ErrDType,
		"layer_norm: x is float32[2 3], weight is float64[3]")
	wantMisuse(t, func() { x.To(tensor.Int32).LayerNorm(nil, nil, 0) }, tensor.ErrDType,
		"layer_norm: x int32[2 3] must hold floating numbers")
	wantMisuse(t, func() { tensor.Of[float32](1).LayerNorm(nil, nil, 0) }, tensor.ErrShape,
		"layer_norm: x float32[] has 0 axes, at least 1 are needed")
	wantMisuse(t, func() { w.RMSNorm(x, 0) }, tensor.ErrShape,
		"rms_norm: weight float32[2 3] has 2 axes, x float32[3] only 1")
	wantMisuse(t, func() { x.RMSNorm(tensor.Zeros(tensor.Float32, 2, 4), 0) }, tensor.ErrShape,
		"rms_norm: weight float32[2 4] must have the shape of the last axes of x float32[2 3], which is [2 3]")
}

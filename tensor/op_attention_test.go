package tensor_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// composedAttention is attention as the operations it is made of.
func composedAttention(q, k, v *tensor.Tensor, causal bool, scale float64) *tensor.Tensor {
	s := q.MatMul(k.T()).Scale(scale)
	if causal {
		t, n := q.Dim(2), k.Dim(2)
		masked := tensor.Zeros(tensor.Float32, t, n).AddScalar(1).Triu(1 + n - t).To(tensor.Bool)
		s = s.MaskedFill(masked, math.Inf(-1))
	}
	return s.Softmax(-1).MatMul(v)
}

// attentionSizes are B, H, T, S, D and E, near the block sizes of the kernel.
var attentionSizes = []struct {
	b, h, t, s, d, e int
	causal           bool
}{
	{2, 3, 5, 5, 4, 4, true}, {2, 3, 5, 7, 4, 3, false}, {1, 2, 64, 64, 32, 32, true}, {1, 1, 65, 70, 8, 8, true},
	{1, 2, 130, 130, 16, 16, true}, {1, 1, 300, 300, 4, 5, true}, {1, 1, 257, 600, 3, 2, true},
	{1, 1, 520, 40, 3, 2, false}, {1, 1, 1, 1, 1, 1, true}, {1, 1, 1, 9, 2, 2, true}, {0, 2, 3, 3, 2, 2, true},
	{1, 1, 0, 3, 2, 2, true}, {1, 2, 3, 0, 2, 2, false},
}

// A composition computes its result from operands.
type composition = func(x []*tensor.Tensor) *tensor.Tensor

// forwardAndGrads is f(in) and the gradients of all operands, as copies that outlive the step.
func forwardAndGrads(t *testing.T, dev *tensor.Device, f composition, in ...*tensor.Tensor) (out []*tensor.Tensor) {
	t.Helper()
	err := dev.Step(func(s *tensor.Scope) error {
		var xs []*tensor.Tensor
		for _, x := range in {
			xs = append(xs, autograd.Watch(s, x))
		}
		y := f(xs)
		g := tensor.Randn(tensor.Seed(99), y.Shape()...).To(y.DType())
		out = append(out, y.Keep())
		for _, d := range autograd.Grad(y, xs, autograd.GradOutput(g)) {
			out = append(out, d.Clone().Keep())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Values and gradients have the bits of the composition, for contiguous and for strided operands.
func TestAttentionIsItsComposition(t *testing.T) {
	dev := open(t)
	for _, c := range attentionSizes {
		name := fmt.Sprint(c)
		q, k := tensor.Randn(tensor.Seed(1), c.b, c.h, c.t, c.d), tensor.Randn(tensor.Seed(2), c.b, c.h, c.s, c.d)
		v := tensor.Randn(tensor.Seed(3), c.b, c.h, c.s, c.e)
		scale := 1 / math.Sqrt(float64(c.d))
		want := forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			return composedAttention(x[0], x[1], x[2], c.causal, scale)
		}, q, k, v)
		got := forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			return x[0].Attention(x[1], x[2], c.causal, scale)
		}, q, k, v)
		strided := forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			var y []*tensor.Tensor
			for _, x := range x {
				y = append(y, x.Transpose(1, 2).Clone().Transpose(1, 2)) // [B T H D] in memory
			}
			return y[0].Attention(y[1], y[2], c.causal, scale)
		}, q, k, v)
		for i, what := range []string{"y", "dq", "dk", "dv"} {
			g, w := tensor.ToSlice[float32](got[i]), tensor.ToSlice[float32](want[i])
			if j := differentBits(g, w); j >= 0 {
				t.Errorf("%s: %s: element %d is %v, composed %v", name, what, j, g[j], w[j])
			}
			if j := differentBits(tensor.ToSlice[float32](strided[i]), w); j >= 0 {
				t.Errorf("%s, strided: %s: element %d differs", name, what, j)
			}
		}
	}
}

// The packed form gives the bits of separate queries, keys and values.
func TestAttentionPacked(t *testing.T) {
	dev := open(t)
	for _, c := range []struct{ b, t, heads, d int }{{2, 5, 3, 4}, {1, 64, 4, 32}, {1, 300, 2, 3}, {2, 1, 1, 1}} {
		qkv := tensor.Randn(tensor.Seed(4), c.b, c.t, 3*c.heads*c.d)
		want := forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			p := x[0].Reshape(c.b, c.t, 3, c.heads, c.d).Permute(2, 0, 3, 1, 4)
			y := p.Select(0, 0).Attention(p.Select(0, 1), p.Select(0, 2), true, 0.3)
			return y.Transpose(1, 2).Reshape(c.b, c.t, c.heads*c.d)
		}, qkv)
		for name, f := range map[string]composition{
			"contiguous": func(x []*tensor.Tensor) *tensor.Tensor {
				return x[0].AttentionPacked(c.heads, true, 0.3)
			},
			"transposed": func(x []*tensor.Tensor) *tensor.Tensor {
				return x[0].T().Clone().T().AttentionPacked(c.heads, true, 0.3)
			},
		} {
			for i, y := range forwardAndGrads(t, dev, f, qkv) {
				if j := differentBits(tensor.ToSlice[float32](y), tensor.ToSlice[float32](want[i])); j >= 0 {
					t.Errorf("%v %s: result %d, element %d differs", c, name, i, j)
				}
			}
		}
	}
}

func TestAttentionThreads(t *testing.T) {
	dev := open(t)
	x := tensor.Randn(tensor.Seed(5), 2, 3, 300, 8)
	threads(t, "attention", func() []*tensor.Tensor {
		return forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			return x[0].Attention(x[0].Scale(0.5), x[0].AddScalar(1), true, 0.5)
		}, x)
	})
}

// The last queries, with the keys and values of all positions, give the rows that one call gives.
func TestAttentionAgainstCache(t *testing.T) {
	q, k, v := tensor.Randn(tensor.Seed(1), 1, 2, 9, 4), tensor.Randn(tensor.Seed(2), 1, 2, 9, 4),
		tensor.Randn(tensor.Seed(3), 1, 2, 9, 4)
	all := q.Attention(k, v, true, 0.5)
	last := q.Slice(2, 7, 9).Attention(k, v, true, 0.5)
	if i := differentBits(tensor.ToSlice[float32](last), tensor.ToSlice[float32](all.Slice(2, 7, 9))); i >= 0 {
		t.Errorf("element %d differs", i)
	}
}

func TestAttentionErrors(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	x := z(2, 3, 4, 5)
	wantMisuse(t, func() { z(3, 4, 5).Attention(x, x, true, 1) }, tensor.ErrShape,
		"attention: q float32[3 4 5] has 3 axes, want four: batch, heads, positions, width")
	wantMisuse(t, func() { x.Attention(z(1, 3, 4, 5), x, true, 1) }, tensor.ErrShape,
		"batch sizes differ: q [2 3 4 5], k [1 3 4 5] and v [2 3 4 5] have 2, 1 and 2 on axis 0")
	wantMisuse(t, func() { x.Attention(x, z(2, 1, 4, 5), true, 1) }, tensor.ErrShape, "heads differ")
	wantMisuse(t, func() { x.Attention(z(2, 3, 4, 6), x, true, 1) }, tensor.ErrShape,
		"widths differ: q [2 3 4 5] has 5 on axis 3, k [2 3 4 6] has 6")
	wantMisuse(t, func() { x.Attention(z(2, 3, 9, 5), x, true, 1) }, tensor.ErrShape,
		"positions differ: k [2 3 9 5] has 9 on axis 2, v [2 3 4 5] has 4")
	wantMisuse(t, func() { x.Attention(z(2, 3, 3, 5), z(2, 3, 3, 5), true, 1) }, tensor.ErrShape,
		"more queries than keys: q [2 3 4 5] has 4 on axis 2, k [2 3 3 5] has 3")
	wantMisuse(t, func() { x.Attention(x, x.To(tensor.Float64), true, 1) }, tensor.ErrDType,
		"q is float32[2 3 4 5], v is float64[2 3 4 5]")
	wantMisuse(t, func() { z(2, 5).AttentionPacked(1, true, 1) }, tensor.ErrShape,
		"attention_packed: qkv float32[2 5] has 2 axes, want three")
	wantMisuse(t, func() { z(2, 5, 20).AttentionPacked(2, true, 1) }, tensor.ErrShape,
		"has 20 on axis 2, no multiple of 3 * 2 heads")
	wantMisuse(t, func() { z(2, 5, 20).AttentionPacked(0, true, 1) }, tensor.ErrShape, "3 * 0 heads")
}

func ExampleAttention() {
	// Queries and keys are zero, so each of the two positions gets the mean of the values up to it.
	q := tensor.Zeros(tensor.Float32, 1, 1, 2, 1)
	v := tensor.FromSlice([]float32{1, 3}, 1, 1, 2, 1)
	fmt.Println(tensor.ToSlice[float32](q.Attention(q, v, true, 1)))
	// Output: [1 2]
}

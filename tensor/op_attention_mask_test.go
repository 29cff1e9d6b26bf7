package tensor_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// maskedSizes are B, H, heads of k and v, T, S and D, and the visible keys, near the block sizes of the kernel.
var maskedSizes = []struct{ b, h, shared, t, s, d, first, last int }{
	{2, 4, 2, 5, 7, 4, math.MinInt, math.MaxInt}, {1, 2, 2, 33, 40, 3, math.MinInt, 7},
	{1, 2, 1, 300, 600, 4, -10, 5}, {1, 1, 1, 40, 700, 2, 500, 530}, {1, 1, 1, 600, 520, 2, -33, 0},
	{1, 2, 2, 70, 9, 2, -3, 2}, {1, 1, 1, 2, 5, 2, 3, 9}, {1, 3, 1, 1, 1, 1, 0, 0}, {1, 2, 1, 0, 3, 2, 0, 0},
}

// composedMasked is masked attention as the operations it is made of. Rows without a visible key are 0.
func composedMasked(q, k, v, mask *tensor.Tensor, first, last int, scale float64) *tensor.Tensor {
	t, n := q.Dim(2), k.Dim(2)
	repeat := func(x *tensor.Tensor) *tensor.Tensor {
		return tensor.Stack(2, repeated(x, q.Dim(1)/k.Dim(1))...).Reshape(x.Dim(0), q.Dim(1), n, x.Dim(3))
	}
	s := q.MatMul(repeat(k).T()).Scale(scale)
	if mask != nil {
		s = s.Add(mask)
	}
	visible := make([]bool, t*n)
	for i := range visible {
		row, key := i/n, i%n
		visible[i] = float64(key) >= float64(row)+float64(first) && float64(key) <= float64(row)+float64(last)
	}
	s = s.MaskedFill(tensor.FromSlice(visible, t, n).Not(), math.Inf(-1))
	if t > 0 {
		none := s.Max(-1).Unsqueeze(-1).EqualScalar(math.Inf(-1))
		s = s.MaskedFill(none, 0).Softmax(-1).MaskedFill(none, 0)
	}
	return s.MatMul(repeat(v))
}

func repeated(x *tensor.Tensor, n int) (xs []*tensor.Tensor) {
	for range n {
		xs = append(xs, x)
	}
	return xs
}

// Values and gradients have the bits of the composition, with a mask of numbers that broadcasts, with the same without
// gradient, with a mask of bools and without one.
func TestMaskedAttentionIsItsComposition(t *testing.T) {
	dev := open(t)
	for _, c := range maskedSizes {
		q, k := tensor.Randn(tensor.Seed(1), c.b, c.h, c.t, c.d), tensor.Randn(tensor.Seed(2), c.b, c.shared, c.s, c.d)
		v, bias := tensor.Randn(tensor.Seed(3), c.b, c.shared, c.s, 3), tensor.Randn(tensor.Seed(4), c.h, 1, c.s)
		padding := bias.Select(0, 0).GreaterScalar(0.2).Unsqueeze(0)
		hidden := bias.MaskedFill(padding.Not(), math.Inf(-1))
		columns := tensor.Randn(tensor.Seed(5), c.s, c.t).T()
		bools := tensor.Zeros(tensor.Float32, 1, c.s).MaskedFill(padding.Not(), math.Inf(-1))
		for name, mask := range map[string][2]*tensor.Tensor{"none": {}, "numbers": {bias, bias},
			"columns": {columns, columns}, "hidden": {hidden, hidden}, "bools": {padding, bools}} {
			got := forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
				return x[0].MaskedAttention(x[1], x[2], mask[0], c.first, c.last, 0, 0.6)
			}, q, k, v)
			want := forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
				return composedMasked(x[0], x[1], x[2], mask[1], c.first, c.last, 0.6)
			}, q, k, v)
			for i, what := range []string{"y", "dq", "dk", "dv"} {
				g, w := tensor.ToSlice[float32](got[i]), tensor.ToSlice[float32](want[i])
				if i > 1 && c.shared < c.h { // the sums over heads are made at other places
					closeTo(t, fmt.Sprint(c, name, what), g, w)
				} else if j := differentBits(g, w); j >= 0 {
					t.Errorf("%v, mask %s: %s: element %d is %v, composed %v", c, name, what, j, g[j], w[j])
				}
			}
		}
	}
}

func closeTo(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, w := range want {
		if !(math.Abs(float64(got[i]-w)) <= 1e-4*(1+math.Abs(float64(w)))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], w)
		}
	}
}

// A learned mask of numbers has the gradient of the composition.
func TestAttentionMaskGradient(t *testing.T) {
	in := []*tensor.Tensor{tensor.Randn(tensor.Seed(1), 2, 3, 5, 4), tensor.Randn(tensor.Seed(2), 2, 3, 6, 4),
		tensor.Randn(tensor.Seed(3), 2, 3, 6, 4), tensor.Randn(tensor.Seed(4), 3, 1, 6)}
	dev := open(t)
	got := forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
		return x[0].MaskedAttention(x[1], x[2], x[3], -2, 1, 0, 0.5)
	}, in...)
	want := forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
		return composedMasked(x[0], x[1], x[2], x[3], -2, 1, 0.5)
	}, in...)
	for i := range want {
		if j := differentBits(tensor.ToSlice[float32](got[i]), tensor.ToSlice[float32](want[i])); j >= 0 {
			t.Errorf("result %d, element %d differs", i, j)
		}
	}
}

// A row whose keys are all masked gives zeros and zero gradients, in every type; the others are as if it were absent.
func TestAttentionMaskedRow(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		x := tensor.Randn(tensor.Seed(1), 1, 1, 3, 2).To(dt)
		mask := tensor.FromSlice([]bool{true, true, false, false, false, false, true, true, true}, 3, 3)
		out := forwardAndGrads(t, open(t), func(in []*tensor.Tensor) *tensor.Tensor {
			return in[0].MaskedAttention(in[1], in[2], mask, math.MinInt, math.MaxInt, 0, 1)
		}, x, x, x)
		for i, y := range out {
			v := tensor.ToSlice[float64](y)
			for j, e := range v {
				row := j / 2
				if math.IsNaN(e) || i < 2 && (e == 0) != (row == 1) {
					t.Errorf("%v: result %d is %v", dt, i, v)
					break
				}
			}
		}
	}
}

// Dropout keeps elements of the probabilities by the stream of the step: with values that are the identity matrix the
// result is the probabilities, with zeros and with 1/(1-p) times what was kept.
func TestAttentionDropout(t *testing.T) {
	const n = 64
	q, eye := tensor.Randn(tensor.Seed(1), 1, 2, n, 4), tensor.Full(1, tensor.Float32, 1, 2, n, n).Tril(0).Triu(0)
	run := func(dev *tensor.Device, dropout float64) (y []float32) {
		if err := dev.Step(func(s *tensor.Scope) error {
			x := s.In(q)
			y = tensor.ToSlice[float32](x.MaskedAttention(x, s.In(eye), nil, math.MinInt, math.MaxInt, dropout, 0.5))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return y
	}
	all, kept, dropped := run(open(t), 0), run(open(t), 0.25), 0
	for i, p := range all {
		switch {
		case kept[i] == 0:
			dropped++
		case math.Abs(float64(kept[i]/p)-1/0.75) > 1e-5:
			t.Fatalf("element %d is %v with dropout, %v without", i, kept[i], p)
		}
	}
	if share := float64(dropped) / float64(len(all)); math.Abs(share-0.25) > 0.02 {
		t.Errorf("the share %v was dropped", share)
	}
	if i := differentBits(kept, run(open(t), 0.25)); i >= 0 {
		t.Errorf("another step of the same number: element %d differs", i)
	}
	err := open(t).Eval(func(s *tensor.Scope) error {
		x := s.In(q)
		y := x.MaskedAttention(x, s.In(eye), nil, math.MinInt, math.MaxInt, 0.25, 0.5)
		if i := differentBits(tensor.ToSlice[float32](y), all); i >= 0 {
			t.Errorf("evaluation: element %d differs", i)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The gradient with dropout is that of the composition with the same factors.
func TestAttentionDropoutGradient(t *testing.T) {
	dev := open(t)
	in := []*tensor.Tensor{tensor.Randn(tensor.Seed(1), 1, 2, 40, 4), tensor.Randn(tensor.Seed(2), 1, 2, 50, 4),
		tensor.Randn(tensor.Seed(3), 1, 2, 50, 4)}
	var got, want []*tensor.Tensor
	for _, all := range []*[]*tensor.Tensor{&got, &want} {
		err := dev.Step(func(s *tensor.Scope) error {
			var x []*tensor.Tensor
			for _, v := range in {
				x = append(x, autograd.Watch(s, v))
			}
			var y *tensor.Tensor
			if all == &got {
				y = x[0].MaskedAttention(x[1], x[2], nil, math.MinInt, math.MaxInt, 0.25, 0.5)
			} else {
				factors := s.Bernoulli(0.75, 1, 2, 40, 50).To(tensor.Float32).Scale(1 / 0.75)
				y = x[0].MatMul(x[1].T()).Scale(0.5).Softmax(-1).Mul(factors).MatMul(x[2])
			}
			*all = append(*all, y.Keep())
			for _, d := range autograd.Grad(y.Square().Sum(), x) {
				*all = append(*all, d.Clone().Keep())
			}
			return nil
		}, tensor.RandomStream(7))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range want {
		if j := differentBits(tensor.ToSlice[float32](got[i]), tensor.ToSlice[float32](want[i])); j >= 0 {
			t.Errorf("result %d, element %d differs", i, j)
		}
	}
}

func TestMaskedAttentionThreads(t *testing.T) {
	dev := open(t)
	x, mask := tensor.Randn(tensor.Seed(5), 2, 4, 300, 8), tensor.Randn(tensor.Seed(6), 300, 300)
	threads(t, "masked attention", func() []*tensor.Tensor {
		return forwardAndGrads(t, dev, func(x []*tensor.Tensor) *tensor.Tensor {
			shared := x[0].Slice(1, 0, 2)
			return x[0].MaskedAttention(shared, shared.AddScalar(1), mask, -70, 3, 0, 0.5)
		}, x)
	})
}

func TestMaskedAttentionErrors(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	x := z(2, 4, 4, 5)
	attend := func(k, mask *tensor.Tensor, last int, dropout float64) func() {
		return func() { x.MaskedAttention(k, k, mask, math.MinInt, last, dropout, 1) }
	}
	wantMisuse(t, attend(z(2, 3, 4, 5), nil, 0, 0), tensor.ErrShape, "heads differ: q [2 4 4 5], k [2 3 4 5]")
	wantMisuse(t, attend(z(2, 0, 4, 5), nil, 0, 0), tensor.ErrShape, "heads differ")
	wantMisuse(t, attend(x, z(4, 5), 0, 0), tensor.ErrShape,
		"mask float32[4 5] does not broadcast to the scores [2 4 4 4]: batch, heads, queries, keys")
	wantMisuse(t, attend(x, z(1, 2, 4, 4, 4), 0, 0), tensor.ErrShape, "does not broadcast to the scores")
	wantMisuse(t, attend(x, z(4, 4).To(tensor.Float64), 0, 0), tensor.ErrDType, "mask is float64")
	wantMisuse(t, attend(x, z(4, 4).To(tensor.Int64), 0, 0), tensor.ErrDType, "mask is int64")
	wantMisuse(t, attend(x, nil, -1, 0), tensor.ErrShape, "the first query would have the position -1")
	wantMisuse(t, attend(x, nil, 0, 1), tensor.ErrValue, "the probability 1 of dropout is outside [0, 1)")
	wantMisuse(t, attend(x, nil, 0, math.NaN()), tensor.ErrValue, "the probability NaN")
	wantMisuse(t, func() { z(3).MaskedAttention(x, x, z(3), 0, 0, 0, 1) }, tensor.ErrShape, "q float32[3] has 1 axes")
}

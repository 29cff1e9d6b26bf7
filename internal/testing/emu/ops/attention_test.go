//go:build emu && cuda && cgo && linux

package ops

import (
	"fmt"
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// attentionSizes are B, H, T, S, D and E around the groups of 32 rows and the chunks of 256 of the kernels; with few
// heads and many of them.
var attentionSizes = []struct {
	b, h, t, s, d, e int
	causal           bool
}{
	{1, 1, 1, 1, 8, 8, true}, {2, 3, 33, 33, 33, 33, true}, {1, 2, 31, 65, 8, 40, true}, {1, 2, 40, 7, 64, 3, false},
	{1, 1, 64, 64, 128, 128, true}, {1, 1, 10, 12, 300, 1, true}, {3, 100, 3, 3, 2, 2, true},
	{1, 1, 300, 300, 3, 5, true},
	{1, 1, 257, 600, 3, 2, true}, {1, 1, 520, 40, 3, 2, false}, {0, 2, 3, 3, 2, 2, true}, {1, 1, 0, 3, 2, 2, true},
	{1, 2, 3, 0, 2, 2, false}, {1, 1, 5, 5, 0, 2, true}, {1, 1, 5, 5, 2, 0, true},
}

// withGradients are y and the gradients of x for a gradient g of y.
func withGradients(y, g *tensor.Tensor, x ...*tensor.Tensor) []*tensor.Tensor {
	return append([]*tensor.Tensor{y}, autograd.Grad(y, x, autograd.GradOutput(g))...)
}

func watched(x []*tensor.Tensor) (w []*tensor.Tensor) {
	for _, v := range x {
		w = append(w, autograd.Watch(v.Scope(), v))
	}
	return w
}

func TestAttention(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, c := range attentionSizes {
		in := []*tensor.Tensor{tensor.Randn(tensor.Seed(1), c.b, c.h, c.t, c.d), tensor.Randn(tensor.Seed(2),
			c.b, c.h, c.s, c.d),
			tensor.Randn(tensor.Seed(3), c.b, c.h, c.s, c.e),
			tensor.Randn(tensor.Seed(4), c.b, c.h, c.t, c.e)}
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
			if d != tensor.Float32 && c.d == c.e && c.d == 128 {
				continue // in other kernels: TestFlash
			}
			same(t, cpu, gpu, fmt.Sprint("attention of ", c, " in ", d), in, func(x []*tensor.Tensor) []*tensor.Tensor {
				w := watched([]*tensor.Tensor{x[0].To(d), x[1].To(d), x[2].To(d)})
				return withGradients(w[0].Attention(w[1], w[2], c.causal, 0.3), x[3].To(d), w...)
			})
		}
	}
}

// TestAttentionFloat64 compares with the CPU, which adds up in another order: errors of scores, some of them above 4,
// become relative ones of exponentials, and sums have hundreds of terms.
func TestAttentionFloat64(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, c := range attentionSizes {
		var in []*tensor.Tensor
		for k, shape := range [][]int{{c.b, c.h, c.t, c.d}, {c.b, c.h, c.s, c.d}, {c.b, c.h, c.s, c.e},
			{c.b, c.h, c.t, c.e}} {
			in = append(in, tensor.Randn(tensor.Seed(uint64(k)+1), shape...).To(tensor.Float64))
		}
		alike(t, cpu, gpu, fmt.Sprint("attention of ", c), 0x1p-46, in, func(x []*tensor.Tensor) []*tensor.Tensor {
			w := watched(x[:3])
			return withGradients(w[0].Attention(w[1], w[2], c.causal, 0.3), x[3], w...)
		})
		if c.t != c.s || c.d != c.e {
			continue
		}
		packed := []*tensor.Tensor{tensor.Randn(tensor.Seed(5), c.b, c.t, 3*c.h*c.d).To(tensor.Float64),
			tensor.Randn(tensor.Seed(6), c.b, c.t, c.h*c.d).To(tensor.Float64)}
		alike(t, cpu, gpu, fmt.Sprint("packed attention of ", c), 0x1p-46, packed,
			func(x []*tensor.Tensor) []*tensor.Tensor {
				w := watched(x[:1])
				return withGradients(w[0].AttentionPacked(c.h, c.causal, 0.3), x[1], w...)
			})
	}
}

// TestAttentionLayouts: operands that lie otherwise, repeat or go backwards.
func TestAttentionLayouts(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	in := []*tensor.Tensor{tensor.Randn(tensor.Seed(1), 2, 35, 3, 10), tensor.Randn(tensor.Seed(2), 10, 35),
		tensor.Randn(tensor.Seed(4), 2, 3, 35, 10)}
	same(t, cpu, gpu, "attention of strided operands", in, func(x []*tensor.Tensor) []*tensor.Tensor {
		w := watched(x[:2])
		q, k := w[0].Transpose(1, 2), w[1].T().Unsqueeze(0).Unsqueeze(0).Expand(2, 3, 35, 10)
		return withGradients(q.Attention(k, q, true, 0.3), x[2], w...)
	})
}

// TestAttentionInfinities: 0 * Inf is NaN for the groups of rows and the chunks of queries that see a key, and for no
// others.
func TestAttentionInfinities(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	infinite := func(row int) *tensor.Tensor {
		x := make([]float32, 305*2)
		x[2*row] = float32(math.Inf(1))
		return tensor.FromSlice(x, 1, 1, 305, 2)
	}
	in := []*tensor.Tensor{tensor.Randn(tensor.Seed(1), 1, 1, 305, 2), infinite(45), infinite(3)}
	same(t, cpu, gpu, "attention with infinities", in, func(x []*tensor.Tensor) []*tensor.Tensor {
		w := watched([]*tensor.Tensor{x[0].Slice(2, 0, 300), x[0], x[1]})
		y := w[0].Attention(w[1], w[2], true, 0.3)
		return append(withGradients(y, x[2].Slice(2, 0, 300), w...),
			withGradients(w[0].Attention(w[1], w[1], true, 0.3), x[2].Slice(2, 0, 300), w[:2]...)...)
	})
}

func TestAttentionPacked(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, c := range []struct{ b, t, heads, d int }{{2, 1, 3, 8}, {2, 33, 3, 33}, {1, 70, 2, 64}, {1, 20, 1, 128},
		{1, 300, 1, 4}, {2, 0, 1, 4}, {0, 3, 2, 8}} {
		for _, causal := range []bool{true, false} {
			in := []*tensor.Tensor{tensor.Randn(tensor.Seed(5), c.b, c.t, 3*c.heads*c.d),
				tensor.Randn(tensor.Seed(6), c.b, c.t, c.heads*c.d)}
			same(t, cpu, gpu, fmt.Sprint("packed attention of ", c, causal), in,
				func(x []*tensor.Tensor) []*tensor.Tensor {
					w := watched(x[:1])
					return withGradients(w[0].AttentionPacked(c.heads, causal, 0.3), x[1], w...)
				})
		}
	}
}

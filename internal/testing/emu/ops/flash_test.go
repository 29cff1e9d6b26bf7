//go:build emu && cuda && cgo && linux

package ops

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu/exact"
	"github.com/weft-ml/weft/tensor"
)

// head is head h of batch entry b of x [B H T D].
func head(x *tensor.Tensor, b, h int) []float64 {
	return tensor.ToSlice[float64](x.Select(0, b).Select(0, h))
}

// halfTypes calls f with the relative error of a rounding, and with the absolute one where numbers are small.
func halfTypes(f func(d tensor.DType, u, least float64)) {
	f(tensor.Float16, 0x1p-11, 0x1p-25)
	f(tensor.BFloat16, 0x1p-8, 0)
}

// TestFlash: values and gradients against float64, around the sizes of tiles, strips and blocks.
func TestFlash(t *testing.T) {
	gpu := open(t, "cuda")
	halfTypes(func(d tensor.DType, u, least float64) {
		for _, c := range []struct {
			b, h, t, s, d int
			causal        bool
		}{
			{1, 1, 1, 1, 64, true}, {2, 2, 65, 65, 64, true}, {1, 1, 200, 200, 64, true}, {1, 2, 31, 97, 64, true},
			{1, 1, 130, 40, 64, false},
			{1, 1, 64, 300, 64, false}, {1, 2, 70, 70, 128, true}, {1, 1, 129, 200, 128, true},
			{1, 1, 33, 129, 128, false}, {2, 2, 65, 65, 32, true}, {1, 1, 200, 270, 32, true},
			{1, 2, 130, 40, 32, false}, {2, 2, 65, 65, 80, true}, {1, 1, 200, 270, 80, true},
			{1, 2, 130, 40, 80, false}, {2, 2, 65, 65, 96, true}, {1, 1, 200, 270, 96, true},
			{1, 2, 130, 40, 96, false}, {1, 1, 520, 640, 32, true}, // the last by turns
			{1, 1, 300, 400, 64, true}, {1, 1, 260, 300, 128, true}, // all by wgmma
		} {
			const scale = 0.15
			shapes := [4][]int{{c.b, c.h, c.t, c.d}, {c.b, c.h, c.s, c.d}, {c.b, c.h, c.s, c.d}, {c.b, c.h, c.t, c.d}}
			var in [4]*tensor.Tensor
			for k, shape := range shapes {
				in[k] = tensor.Randn(tensor.Seed(uint64(k)+1), shape...).To(d)
			}
			var got [4]*tensor.Tensor
			must(t, gpu.Step(func(s *tensor.Scope) error {
				w := watched([]*tensor.Tensor{s.In(in[0]), s.In(in[1]), s.In(in[2])})
				for k, y := range withGradients(w[0].Attention(w[1], w[2], c.causal, scale), s.In(in[3]),
					w...) {
					got[k] = tensor.FromSlice(tensor.ToSlice[float64](y), y.Shape()...)
				}
				return nil
			}))
			for b := range c.b {
				for h := range c.h {
					f := &exact.Attention{
						T: c.t, S: c.s, D: c.d, Causal: c.causal, Scale: scale,
						Q: head(in[0], b, h), K: head(in[1], b, h), V: head(in[2], b, h), G: head(in[3], b, h),
					}
					want, sizes := f.Results()
					for k := range got {
						// p and ds that are small are multiplied by at most as many numbers below 5.
						if err := exact.Near(head(got[k], b, h), want[k], sizes[k], u,
							5*least*float64(max(c.t, c.s))); err != nil {
							t.Errorf("result %d of %v in %v: %v", k, c, d, err)
						}
					}
				}
			}
		}
	})
}

// TestFlashMask: keys and values that a query does not see do not change a bit of what it gives, however large they
// are.
func TestFlashMask(t *testing.T) {
	gpu := open(t, "cuda")
	const n, seen, width = 130, 70, 64
	for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		operands := func(hidden float64) (in []*tensor.Tensor) {
			for k := range 4 {
				x := tensor.ToSlice[float64](tensor.Randn(tensor.Seed(uint64(k)+1), n*width))
				for i := seen * width; i < len(x); i++ {
					switch k {
					case 1, 2: // keys and values
						x[i] = hidden
					case 3: // the gradient of y
						x[i] = 0
					}
				}
				in = append(in, tensor.FromSlice(x, 1, 1, n, width).To(d))
			}
			return in
		}
		results := func(hidden float64) values {
			v, err := run(gpu, operands(hidden), func(x []*tensor.Tensor) (first []*tensor.Tensor) {
				w := watched(x[:3])
				for _, y := range withGradients(w[0].Attention(w[1], w[2], true, 0.125), x[3], w...) {
					first = append(first, y.Slice(2, 0, seen))
				}
				return first
			})
			must(t, err)
			return v
		}
		want := results(0)
		for _, hidden := range []float64{60000, -60000} {
			for k, v := range results(hidden) {
				for i, got := range v {
					if x := math.Float32frombits(uint32(got)); got != want[k][i] || x-x != 0 {
						t.Fatalf("%v, hidden numbers %v: element %d of result %d is %v, want %v", d, hidden, i, k, x,
							math.Float32frombits(uint32(want[k][i])))
					}
				}
			}
		}
	}
}

// TestFlashNotFinite: a score of -inf counts as nothing, and a row of them, one with +inf and one with NaN give NaN, as
// softmax does. Other rows do not notice.
func TestFlashNotFinite(t *testing.T) {
	gpu := open(t, "cuda")
	const n, width = 150, 64
	inf, nan := math.Inf(1), math.NaN()
	// The first number of a query meets -1e30 in keys 0 to 99, and 0 in the others; the second meets -1 in all of them.
	q, k := make([]float64, n*width), make([]float64, n*width)
	v := tensor.Randn(tensor.Seed(1), 1, 1, n, width).To(tensor.BFloat16)
	for j := range n {
		if j < 100 {
			k[j*width] = -1e30
		}
		k[j*width+1] = -1
	}
	q[0] = 1e30
	q[1*width+1] = inf
	q[2*width+1] = -inf
	q[3*width+1] = nan
	in := []*tensor.Tensor{tensor.FromSlice(q, 1, 1, n, width).To(tensor.BFloat16),
		tensor.FromSlice(k, 1, 1, n, width).To(tensor.BFloat16), v}
	got, err := run(gpu, in, func(x []*tensor.Tensor) []*tensor.Tensor {
		return one(x[0].Attention(x[1], x[2],
			false, 1))
	})
	must(t, err)
	values := tensor.ToSlice[float64](v)
	mean := func(from, e int) (sum float64) {
		for j := from; j < n; j++ {
			sum += values[j*width+e] / float64(n-from)
		}
		return sum
	}
	for i, b := range got[0] {
		x, row, e := float64(math.Float32frombits(uint32(b))), i/width, i%width
		from := 0
		if row == 0 {
			from = 100
		}
		if row >= 1 && row <= 3 {
			if x == x {
				t.Fatalf("element %d of row %d is %v, want NaN", e, row, x)
			}
		} else if !(math.Abs(x-mean(from, e)) <= 0.02) { // p is rounded by 2^-8 of itself, v is below 5
			t.Fatalf("element %d of row %d is %v, want %v", e, row, x, mean(from, e))
		}
	}
}

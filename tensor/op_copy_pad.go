package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes of pad are the numbers of elements before and after each axis in turn, and the value.
var pad Op

func init() {
	define(&pad, entry{
		Op:     kernels.Op{Name: "pad", CPU: cpu.Pad, Types: kernels.DTypes(), Ref: padRef},
		Doc:    "x surrounded by a value",
		Ints:   []string{"pads..."},
		Floats: []string{"value"},
		Shape: func(c *ctx) {
			c.wantInts(2 * c.In[0].Rank())
			var buf [kernels.MaxDims]int
			shape := append(buf[:0], c.shape(0)...)
			for d := range shape {
				shape[d] += c.Ints[2*d] + c.Ints[2*d+1]
			}
			c.result(c.In[0].dtype, shape...)
		},
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			for d, n := range c.shape(0) {
				if n != g.layout.Shape[d] {
					g = g.slice(d, c.Ints[2*d], 1, n)
				}
			}
			return []*Tensor{g}
		},
		Samples: func() []opSample {
			sample := func(name string, shape []int, value float64, pads ...[2]int) opSample {
				return unary(name, shape, func(x *Tensor) *Tensor { return x.Pad(value, pads...) })
			}
			return []opSample{
				sample("both axes", []int{2, 3}, 0, [2]int{1, 2}, [2]int{0, 1}),
				sample("last", []int{2, 3}, -3, [2]int{}, [2]int{2, 0}),
				sample("none", []int{2, 3}, 7, [2]int{}, [2]int{}),
				sample("middle", []int{2, 1, 2}, 1, [2]int{}, [2]int{1, 1}, [2]int{}),
				sample("rank 0", nil, 3), sample("size 1", []int{1}, 2, [2]int{1, 1}),
				sample("empty", []int{0, 2}, 3, [2]int{1, 1}, [2]int{0, 1}),
				sample("cropped", []int{2, 4}, 5, [2]int{1, -1}, [2]int{-1, -2}),
			}
		},
	})
}

// Pad surrounds t by a value. Each axis has a pair: how many elements are added before and after; negative numbers
// remove elements.
func (t *Tensor) Pad(value float64, pads ...[2]int) *Tensor {
	t, pads = t.cropped("pad", pads)
	if t.dtype.IsInt() && value != math.Trunc(value) {
		fail(ErrValue, "pad", "%g is no value of %v", value, t.dtype)
	}
	ints := make([]int, 0, 2*kernels.MaxDims)
	for _, p := range pads {
		ints = append(ints, min(p[0], kernels.MaxLen), min(p[1], kernels.MaxLen)) // nothing overflows
	}
	return apply(&pad, []*Tensor{t}, ints, []float64{value})
}

func padRef(l *kernels.Launch) {
	value := bytesOf(FromSlice([]float64{l.Floats[0]}, 1).To(l.Out[0].DType))
	shape := l.In[0].Shape
	copyRef(l, value, func(index []int) (operand, offset int) {
		index = slices.Clone(index)
		for d := range index {
			index[d] -= l.Ints[2*d]
			if index[d] < 0 || index[d] >= shape[d] {
				return filled, 0
			}
		}
		return 0, offsetOf(shape, index)
	})
}

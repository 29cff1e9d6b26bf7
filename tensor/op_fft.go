package tensor

import (
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes of dft are the axis and inverse (0 or 1). Both directions are sums without a factor, so each is the
// gradient of the other: the transposed matrix of conjugates. The CPU has gonum's transforms, a GPU others, all in
// float64.
var dft Op

func init() {
	define(&dft, entry{
		Op:    kernels.Op{Name: "dft", CPU: cpu.DFT, Types: []DType{Float32, Float64}, Ref: dftRef},
		Doc:   "y[k] = sum over j of x[j] exp(-2πi jk/n) along an axis of pairs, or with +2πi for the inverse",
		Ints:  []string{"axis", "inverse"},
		Shape: dftShape,
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			return []*Tensor{apply(&dft, []*Tensor{g}, []int{c.Ints[0], 1 - c.Ints[1]}, nil)}
		},
		Flops: func(c *ctx) float64 {
			n := float64(max(2, c.shape(0)[c.Ints[0]]))
			return 2.5 * float64(c.Out[0].Len()) * math.Log2(n)
		},
		Samples: func() []opSample {
			sample := func(name string, axis int, inverse int, shape ...int) opSample {
				return opSample{Name: name, In: randomArgs(shape),
					Call: func(x []*Tensor) *Tensor { return apply(&dft, x, []int{axis, inverse}, nil) }}
			}
			return []opSample{
				sample("eight", 0, 0, 8, 2), sample("prime, inverse", 1, 1, 2, 7, 2),
				sample("first axis", 0, 0, 6, 3, 2), sample("large prime", 0, 0, 67, 2),
				sample("size 1", 1, 0, 2, 1, 2), sample("no rows", 1, 0, 0, 4, 2), sample("no elements", 0, 1, 0, 2),
			}
		},
		Bench: func() []benchmark {
			bench := func(name string, shape ...int) benchmark {
				return benchmark{Name: name, In: randomArgs(shape), Bytes: 8 * float64(kernels.Count(shape)),
					Call: func(x []*Tensor) *Tensor { return apply(&dft, x, []int{1, 0}, nil) }}
			}
			return []benchmark{bench("rows of 1024", 256, 1024, 2), bench("one row of 2^20", 1, 1<<20, 2)}
		},
	})
}

func dftShape(c *ctx) {
	c.wantInts(2)
	c.wantFloat(0)
	x := c.shape(0)
	last := len(x) - 1
	if last < 1 || x[last] != 2 {
		c.fail(ErrShape, "%v is not complex: the last axis must hold real and imaginary parts; "+
			"fft.Complex makes it", c.In[0])
	}
	if a := c.Ints[0]; a < 0 || a >= last {
		c.fail(ErrIndex, "axis %d is outside [0, %d) of complex %v", a, last, c.In[0])
	}
	if v := c.Ints[1]; v != 0 && v != 1 {
		c.fail(ErrValue, "inverse is %d; it must be 0 or 1", v)
	}
	c.result(c.In[0].dtype, x...)
}

func dftRef(l *kernels.Launch) {
	x, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])
	shape := l.In[0].Shape
	sign := float64(2*l.Ints[1] - 1)
	eachLine(shape[:len(shape)-1], l.Ints[0], func(start, stride, n int) {
		for k := range n {
			var re, im float64
			for j := range n {
				sin, cos := math.Sincos(sign * 2 * math.Pi * float64(j*k%n) / float64(n))
				at := 2 * (start + j*stride)
				re += float64(x[at]*cos) - float64(x[at+1]*sin)
				im += float64(x[at]*sin) + float64(x[at+1]*cos)
			}
			at := 2 * (start + k*stride)
			y[at], y[at+1] = re, im
		}
	})
}

package tensor

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of cumprod is the axis, those of recurrence the axis and reverse (0 or 1).
var cumprod, recurrence Op

func init() {
	define(&cumprod, entry{
		Op:    kernels.Op{Name: "cumprod", CPU: cpu.CumProd, Ref: cumprodRef},
		Cast:  seam.CastFull,
		Doc:   "y[i] = x[0] * ... * x[i] along an axis",
		Ints:  []string{"axis"},
		Shape: func(c *ctx) { c.result(accumulated(c.In[0].dtype), c.shape(0)...) },
		VJP:   cumprodVJP,
		Saves: []saves{saveIn(0) | saveOut(0)},
		Samples: func() []opSample {
			zeros := opSample{
				Name: "zeros", In: []seam.Arg{{Shape: []int{2, 4}, Values: []float64{0.5, 0, -1.5, 2, 0, 2, 0, 3}}},
				Call: func(x []*Tensor) *Tensor { return x[0].CumProd(1) },
			}
			return append(axisSamples(-2, 2, (*Tensor).CumProd), zeros)
		},
	})
	define(&recurrence, entry{
		Op:   kernels.Op{Name: "recurrence", CPU: cpu.Recurrence, Ref: recurrenceRef},
		Doc:  "y[i] = a[i]*y[i-1] + b[i] along an axis, from 0, or a[i]*y[i+1] + b[i] in reverse",
		Args: []string{"a", "b"},
		Ints: []string{"axis", "reverse"},
		Shape: func(c *ctx) {
			if c.wantFloat(0, 1); !sameShape(c.In[0], c.In[1]) {
				c.fail(ErrShape, "a %v and b %v must have one shape", c.In[0], c.In[1])
			}
			c.result(c.In[0].dtype, c.shape(0)...)
		},
		// With g[i] reaching y[i], b[i] gets d[i] = g[i] + a[i+1]*d[i+1], and a[i] gets d[i]*y[i-1].
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			axis, reverse := c.Ints[0], c.Ints[1]
			back := c.In[0].shift(axis, 1-reverse, 0)
			d := apply(&recurrence, []*Tensor{back, g}, []int{axis, 1 - reverse}, nil)
			return []*Tensor{d.Mul(c.Out[0].shift(axis, reverse, 0)), d}
		},
		Saves: []saves{saveIn(0) | saveOut(0), saveIn(0)},
		Flops: perElement(2),
		Samples: func() []opSample {
			var all []opSample
			sample := func(name string, axis, reverse int, shape ...int) {
				all = append(all, opSample{Name: name, In: randomArgs(shape, shape),
					Call: func(x []*Tensor) *Tensor { return apply(&recurrence, x, []int{axis, reverse}, nil) }})
			}
			sample("last", 1, 0, 2, 5)
			sample("reverse", 1, 1, 2, 5)
			sample("first", 0, 0, 4, 2)
			sample("first, reverse", 0, 1, 4, 2)
			sample("size 1", 0, 0, 1)
			sample("empty", 1, 0, 0, 3)
			sample("empty axis", 1, 1, 2, 0)
			return all
		},
	})
}

// CumProd is the running product along an axis: each element times all before it, in order in float64. The gradient is
// exact with zeros, too. The products of integers and bools are int64.
func (t *Tensor) CumProd(axis int) *Tensor { return t.alongAxis(&cumprod, axis) }

// cumprodVJP gives x[i] the product before it, y[i-1], times the sum of g[j]*x[i+1]*...*x[j] over j >= i, which is a
// recurrence. Nothing is divided by an element that may be 0.
func cumprodVJP(c *ctx, g *Tensor) []*Tensor {
	axis, wide := c.Ints[0], statistic(c.In[0].dtype)
	behind := apply(&recurrence, []*Tensor{c.In[0].To(wide).shift(axis, 1, 0), g.To(wide)}, []int{axis, 1}, nil)
	return []*Tensor{behind.Mul(c.Out[0].To(wide).shift(axis, 0, 1)).To(c.In[0].dtype)}
}

// shift moves elements one place along an axis, towards its end, or its start if reverse is 1. The value takes the
// place that gets free.
func (t *Tensor) shift(axis, reverse int, value float64) *Tensor {
	if t.layout.Shape[axis] == 0 {
		return t
	}
	pads := make([][2]int, t.Rank())
	pads[axis][reverse] = 1
	return t.slice(axis, reverse, 1, t.layout.Shape[axis]-1).Pad(value, pads...)
}

func cumprodRef(l *kernels.Launch) {
	x, out := l.In[0], l.Out[0]
	if out.DType == kernels.Int64 {
		y := cpu.Slice[int64](out)
		copy(y, integersOf(x))
		runningProducts(y, x.Shape, l.Ints[0])
		return
	}
	y := cpu.Slice[float64](out)[:out.Len()]
	copy(y, cpu.Slice[float64](x))
	runningProducts(y, x.Shape, l.Ints[0])
}

// runningProducts replaces the elements of y by their running products.
func runningProducts[T int64 | float64](y []T, shape []int, axis int) {
	eachLine(shape, axis, func(start, stride, n int) {
		for i := 1; i < n; i++ {
			y[start+i*stride] *= y[start+(i-1)*stride]
		}
	})
}

func recurrenceRef(l *kernels.Launch) {
	a, b, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.In[1]), cpu.Slice[float64](l.Out[0])
	eachLine(l.In[0].Shape, l.Ints[0], func(start, stride, n int) {
		if l.Ints[1] == 1 {
			start, stride = start+(n-1)*stride, -stride
		}
		v := 0.0
		for i := range n {
			k := start + i*stride
			v = float64(a[k]*v) + b[k]
			y[k] = v
		}
	})
}

package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of cummax and cummin is the axis.
var cummax, cummin Op

func init() {
	cumExtreme(&cummax, "cummax", "the largest of x[0], ..., x[i] along an axis, and its index", true, cpu.CumMax,
		(*Tensor).CumMax)
	cumExtreme(&cummin, "cummin", "the smallest of x[0], ..., x[i] along an axis, and its index", false, cpu.CumMin,
		(*Tensor).CumMin)
}

// cumExtreme defines cummax or cummin.
func cumExtreme(o *Op, name, doc string, largest bool, k func(l *kernels.Launch),
	call func(x *Tensor, axis int) (values, indices *Tensor)) {
	define(o, entry{
		Op:   kernels.Op{Name: name, CPU: k, Ref: cumExtremeRef(largest)},
		Doc:  doc,
		Ints: []string{"axis"},
		Shape: func(c *ctx) {
			c.result(c.In[0].dtype, c.shape(0)...)
			c.result(Int64, c.shape(0)...)
		},
		VJP:   takenVJP,
		Saves: []saves{saveOut(1)},
		Samples: func() []opSample {
			values := func(x *Tensor, axis int) *Tensor { v, _ := call(x, axis); return v }
			return append(axisSamples(-2, 2, values),
				sortSamples(func(x *Tensor) (v, i *Tensor) { return call(x, 1) })...)
		},
	})
}

// CumMax is the largest element so far along an axis, and its index (int64), the last of equal ones. From a NaN on it
// is NaN, and the index that of the latest NaN. The gradient goes to that element alone.
func (t *Tensor) CumMax(axis int) (values, indices *Tensor) { return t.cumExtreme(&cummax, axis) }

// CumMin is the smallest element so far along an axis, and its index; the rules are those of [Tensor.CumMax].
func (t *Tensor) CumMin(axis int) (values, indices *Tensor) { return t.cumExtreme(&cummin, axis) }

func (t *Tensor) cumExtreme(op *Op, axis int) (values, indices *Tensor) {
	t.given(op.Name)
	out := applyAll(op, []*Tensor{t}, []int{t.axis(op.Name, axis)}, nil)
	return out[0], out[1]
}

func cumExtremeRef(largest bool) func(l *kernels.Launch) {
	return func(l *kernels.Launch) {
		switch l.In[0].DType {
		case kernels.Float64:
			cumExtremeRefOf[float64](l, largest)
		case kernels.Int64:
			cumExtremeRefOf[int64](l, largest)
		case kernels.Int32:
			cumExtremeRefOf[int32](l, largest)
		default: // Uint8 and Bool
			cumExtremeRefOf[uint8](l, largest)
		}
	}
}

func cumExtremeRefOf[T float64 | int64 | int32 | uint8](l *kernels.Launch, largest bool) {
	x, y, at := cpu.Slice[T](l.In[0]), cpu.Slice[T](l.Out[0]), cpu.Slice[int64](l.Out[1])
	eachLine(l.In[0].Shape, l.Ints[0], func(start, stride, n int) {
		best := 0
		for i := range n {
			a, b := x[start+i*stride], x[start+best*stride]
			if a != a || b == b && (largest && a >= b || !largest && a <= b) {
				best = i
			}
			y[start+i*stride], at[start+i*stride] = x[start+best*stride], int64(best)
		}
	})
}

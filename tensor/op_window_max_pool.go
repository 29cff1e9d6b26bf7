package tensor

import (
	"math"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attributes of max_pool are a kernels.WindowAxis for each of the last axes, which together are the plane.
var maxPool Op

func init() {
	define(&maxPool, entry{
		Op:    kernels.Op{Name: "max_pool", CPU: cpu.MaxPool, Ref: maxPoolRef},
		Doc:   "the largest element of each window of the last axes, and its index in their plane",
		Ints:  []string{"windows..."},
		Shape: maxPoolShape,
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			x, y := c.shape(0), c.Out[1].layout.Shape
			lead := len(x) - len(kernels.WindowAxes(c.Ints))
			plane := func(t *Tensor, shape []int) *Tensor { return t.Reshape(planeOf(shape, lead)...) }
			return []*Tensor{plane(c.zeros(0), x).ScatterAdd(lead, plane(c.Out[1], y), plane(g, y)).Reshape(x...)}
		},
		Saves: []saves{saveOut(1)},
		Flops: func(c *ctx) float64 {
			n := float64(c.Out[0].Len())
			for _, w := range kernels.WindowAxes(c.Ints) {
				n *= float64(max(w.Size, 1))
			}
			return n
		},
		Samples: func() []opSample {
			both := func(name string, shape []int, call func(x *Tensor) (y, indices *Tensor)) []opSample {
				return []opSample{
					unary(name, shape, func(x *Tensor) *Tensor { y, _ := call(x); return y }),
					unary(name+", indices", shape, func(x *Tensor) *Tensor { _, i := call(x); return i }),
				}
			}
			var all []opSample
			for _, s := range poolSamples(func(name string, shape []int, w Window) []opSample {
				return both(name, shape, func(x *Tensor) (y, i *Tensor) { return x.MaxPoolIndices(w) })
			}) {
				all = append(all, s...)
			}
			dilated := Window{Size: []int{2, 2}, Dilation: []int{2, 1}, Padding: []int{1, 0}}
			all = append(all, both("dilated", []int{2, 5, 4}, func(x *Tensor) (y, i *Tensor) {
				return x.MaxPoolIndices(dilated)
			})...)
			all = append(all, both("adaptive", []int{2, 5, 4}, func(x *Tensor) (y, i *Tensor) {
				return x.AdaptiveMaxPoolIndices(3, 5)
			})...)
			ties := opSample{Name: "ties", In: []seam.Arg{{Shape: []int{2, 4}, DType: Int64,
				Values: []float64{1, 1, 0, 0, -1, 2, 2, 2}}}, Call: func(x []*Tensor) *Tensor {
				_, i := x[0].To(Float32).MaxPoolIndices(Window{Size: []int{1, 2}, Stride: []int{1}})
				return i
			}}
			return append(all, ties)
		},
		Bench: func() []benchmark {
			bench := func(name string, w Window, shape ...int) benchmark {
				return benchmark{Name: name, In: []seam.Arg{{Shape: shape, Lo: -1, Hi: 1}},
					Bytes: 4 * float64(kernels.Count(shape)),
					Call:  func(x []*Tensor) *Tensor { return x[0].MaxPool(w) }}
			}
			return []benchmark{
				bench("3x3 stride 2", Window{Size: []int{3, 3}, Stride: []int{2}, Padding: []int{1}}, 16, 64, 112, 112),
				bench("2x2", Window{Size: []int{2, 2}}, 16, 64, 56, 56),
			}
		},
	})
}

// poolSamples are windows on which poolings are tested.
func poolSamples[S any](sample func(name string, shape []int, w Window) S) []S {
	return []S{
		sample("1-D", []int{2, 7}, Window{Size: []int{3}}),
		sample("2-D", []int{2, 5, 4}, Window{Size: []int{2, 3}, Stride: []int{2, 1}, Padding: []int{1}}),
		sample("3-D", []int{1, 3, 2, 3}, Window{Size: []int{2, 1, 2}, Stride: []int{1}}),
		sample("overlapping", []int{1, 4, 4}, Window{Size: []int{3, 3}, Stride: []int{1}, Padding: []int{1}}),
		sample("ceil", []int{2, 6}, Window{Size: []int{3}, Stride: []int{2}, Padding: []int{1}, Ceil: true}),
		sample("uneven padding", []int{5}, Window{Size: []int{2}, PaddingEnd: []int{1}}),
		sample("size 1", []int{1, 1}, Window{Size: []int{1, 1}}),
		sample("empty", []int{0, 4, 4}, Window{Size: []int{2, 2}}),
	}
}

// MaxPool is the largest element of each window of the last axes, one axis for each number of w.Size: [.. H W] gives
// [.. H' W'] with H' = (H + padding - (size-1)*dilation - 1)/stride + 1, rounded down, or up with w.Ceil. The stride is
// the size if there is none. A NaN counts as larger than any number. The gradient goes to the first of equal elements,
// or to the last NaN. Floating types; a window of padding alone is refused.
func (t *Tensor) MaxPool(w Window) *Tensor {
	y, _ := t.MaxPoolIndices(w)
	return y
}

// MaxPoolIndices is [Tensor.MaxPool], and of each window the index of the element in the plane of the last axes, in
// row-major order: int64. [Tensor.MaxUnpool] takes them.
func (t *Tensor) MaxPoolIndices(w Window) (values, indices *Tensor) {
	return t.maxPool(t.pooling("max_pool", w, nil))
}

// AdaptiveMaxPool is the largest element of each of so many windows along the last axes: of an axis of n elements,
// window i of k has those from i*n/k, rounded down, up to (i+1)*n/k, rounded up.
func (t *Tensor) AdaptiveMaxPool(sizes ...int) *Tensor {
	y, _ := t.AdaptiveMaxPoolIndices(sizes...)
	return y
}

// AdaptiveMaxPoolIndices is [Tensor.AdaptiveMaxPool] with indices, as [Tensor.MaxPoolIndices] has them.
func (t *Tensor) AdaptiveMaxPoolIndices(sizes ...int) (values, indices *Tensor) {
	return t.maxPool(t.adaptivePooling("adaptive_max_pool", sizes))
}

func (t *Tensor) maxPool(windows []kernels.WindowAxis) (values, indices *Tensor) {
	var ints []int
	for _, w := range windows {
		ints = w.AppendTo(ints)
	}
	out := applyAll(&maxPool, []*Tensor{t}, ints, nil)
	return out[0], out[1]
}

// wantPlane fails unless t can have so many spatial axes.
func (t *Tensor) wantPlane(op string, axes int) {
	t.given(op)
	if axes < 1 || axes > 3 {
		fail(ErrValue, op, "%d sizes are given; there is one for each spatial axis, of which there are 1 to 3", axes)
	}
	if axes > t.Rank() {
		fail(ErrShape, op, "%d sizes are given, %v has %d axes", axes, t, t.Rank())
	}
	for d := t.Rank() - axes; d < t.Rank(); d++ {
		if n := t.layout.Shape[d]; n > math.MaxInt32 {
			fail(ErrShape, op, "axis %d of %v has %d elements, at most %d are taken", d, t, n, math.MaxInt32)
		}
	}
}

// pooling resolves the windows of a pooling, which move along an axis for each of w.Size. ends, unless it is nil,
// becomes the sizes of these axes with the padding after them.
func (t *Tensor) pooling(op string, w Window, ends []int) []kernels.WindowAxis {
	t.wantPlane(op, len(w.Size))
	if w.Groups != 0 {
		fail(ErrValue, op, "windows of a pooling have no groups, got %d", w.Groups)
	}
	var windows []kernels.WindowAxis
	lead := t.Rank() - len(w.Size)
	for d, a := range w.along(op, len(w.Size), nil, nil) {
		windows = append(windows, kernels.WindowAxis{Size: a.size, Stride: a.stride, Before: a.before,
			Dilation: a.dilation, Count: a.count(op, t, lead+d, w.Ceil)})
		if ends != nil {
			ends[d] = t.layout.Shape[lead+d] + a.after
		}
	}
	return t.notEmpty(op, windows)
}

// adaptivePooling is windows that share the last axes.
func (t *Tensor) adaptivePooling(op string, sizes []int) []kernels.WindowAxis {
	t.wantPlane(op, len(sizes))
	var windows []kernels.WindowAxis
	for d, k := range sizes {
		if k < 0 || k > math.MaxInt32 {
			fail(ErrValue, op, "size %d of spatial axis %d is outside [0, %d]", k, d, math.MaxInt32)
		}
		windows = append(windows, kernels.WindowAxis{Dilation: 1, Count: k})
	}
	return t.notEmpty(op, windows)
}

// notEmpty fails if a window has no element of t.
func (t *Tensor) notEmpty(op string, windows []kernels.WindowAxis) []kernels.WindowAxis {
	lead := t.Rank() - len(windows)
	for d, w := range windows {
		if o := w.Empty(t.layout.Shape[lead+d]); o >= 0 {
			fail(ErrShape, op, "window %d along axis %d of %v has no element: there is padding alone", o, lead+d, t)
		}
	}
	return windows
}

// planeOf is a shape whose axes from lead on are one.
func planeOf(shape []int, lead int) []int {
	return append(shape[:lead:lead], kernels.Count(shape[lead:]))
}

func maxPoolShape(c *ctx) {
	c.wantFloat(0)
	windows := kernels.WindowAxes(c.Ints)
	c.wantRank(0, len(windows))
	shape := c.In[0].Shape()
	lead := len(shape) - len(windows)
	if n := kernels.Count(shape[lead:]); n > math.MaxInt32 {
		c.fail(ErrShape, "the last %d axes of %v have %d elements, at most %d are taken", len(windows), c.In[0], n,
			math.MaxInt32)
	}
	for d, w := range windows {
		shape[lead+d] = w.Count
	}
	c.result(c.In[0].dtype, shape...)
	c.result(Int64, shape...)
}

func maxPoolRef(l *kernels.Launch) {
	windows := kernels.WindowAxes(l.Ints)
	shape := l.In[0].Shape
	lead := len(shape) - len(windows)
	x, y, indices := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0]), cpu.Slice[int64](l.Out[1])
	plane := kernels.Count(shape[lead:])
	eachIndex(l.Out[0].Shape, func(i int, index []int) {
		start, first := offsetOf(shape[:lead], index[:lead])*plane, true
		eachInWindow(shape[lead:], windows, index[lead:], func(at int) {
			if v := x[start+at]; first || v > y[i] || v != v {
				y[i], indices[i], first = v, int64(at), false
			}
		})
	})
}

// eachInWindow calls f with the offset in the plane of every element of the window with the given indices.
func eachInWindow(plane []int, windows []kernels.WindowAxis, index []int, f func(at int)) {
	if len(plane) == 0 {
		f(0)
		return
	}
	inner := kernels.Count(plane[1:])
	from, to := windows[0].Range(index[0], plane[0])
	for i := from; i < to; i += windows[0].Dilation {
		eachInWindow(plane[1:], windows[1:], index[1:], func(at int) { f(i*inner + at) })
	}
}

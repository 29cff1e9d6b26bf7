package tensor

import (
	"math"
	"slices"
	"strings"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// resample applies a matrix, of which each row has a few neighbouring elements, along the axis of its attribute. The
// operands behind x are that matrix and the transposed one, with which the gradient is the same operation.
var resample Op

func init() {
	define(&resample, entry{
		Op:    kernels.Op{Name: "resample", CPU: cpu.Resample, Ref: resampleRef},
		Doc:   "y[.., o, ..] = sum over i in [bounds[o, 0], bounds[o, 1]) of weights[o, i - bounds[o, 0]]*x[.., i, ..]",
		Args:  []string{"x", "bounds", "weights", "transposed_bounds", "transposed_weights"},
		Ints:  []string{"axis"},
		Shape: resampleShape,
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			dx := apply(&resample, []*Tensor{g, c.In[3], c.In[4], c.In[1], c.In[2]}, c.Ints, nil)
			return []*Tensor{dx, nil, nil, nil, nil}
		},
		Saves: []saves{saveIn(1, 2, 3, 4)},
		Flops: func(c *ctx) float64 { return 2 * float64(c.Out[0].Len()) * float64(c.shape(2)[1]) },
		Samples: func() []opSample {
			resize := func(name string, shape []int, axis, size int, mode string, scale float64,
				flags ...bool) opSample {
				flags = append(flags, false, false)
				return unary(name, shape, func(x *Tensor) *Tensor {
					return x.Resample(axis, size, mode, scale, flags[0], flags[1])
				})
			}
			all := poolSamples(func(name string, shape []int, w Window) opSample {
				return unary(name, shape, func(x *Tensor) *Tensor { return x.AvgPool(w) })
			})
			return append(all,
				resize("nearest", []int{2, 3, 2}, 1, 5, "nearest", 0), resize("fewer", []int{2, 5}, 1, 2, "nearest", 0),
				resize("linear", []int{3, 2}, 0, 5, "linear", 0),
				resize("aligned", []int{2, 3}, 1, 4, "linear", 0, true),
				resize("cubic", []int{2, 4}, 1, 6, "cubic", 1.5),
				resize("antialias", []int{7, 2}, 0, 3, "cubic", 0, false, true),
				resize("one", []int{1, 1}, 1, 3, "linear", 0), resize("empty", []int{0, 3}, 1, 2, "linear", 0),
				unary("adaptive", []int{2, 5, 3}, func(x *Tensor) *Tensor { return x.AdaptiveAvgPool(3, 4) }))
		},
	})
}

// band is a matrix whose row o has weights[o] for the elements from starts[o] on, and 0 for the others. The first and
// the last of these elements never move back from one row to the next.
type band struct {
	starts  []int
	weights [][]float64
}

// newBand is memory for so many rows, with at most width weights each. It fails if the host has no room for these and
// what is made of them.
func newBand(op string, rows, width int) band {
	return ofHost(op, func() (b band, err error) {
		if bytes := uint64(rows) * (128 + 64*uint64(width)); bytes > 1<<16 { // less is not worth the question
			err = cpu.Room(int(min(bytes, math.MaxInt)))
		}
		if err == nil {
			b = band{make([]int, rows), make([][]float64, rows)}
		}
		return b, err
	})
}

// transposed is the transposed matrix of b, which has n columns.
func (b band) transposed(op string, n int) band {
	t := newBand(op, n, 0)
	for o, start := range b.starts {
		for k, w := range b.weights[o] {
			if t.weights[start+k] == nil {
				t.starts[start+k] = o
			}
			t.weights[start+k] = append(t.weights[start+k], w)
		}
	}
	return t
}

// tensors are the operands bounds and weights, these of type dt.
func (b band) tensors(dt DType) (bounds, weights *Tensor) {
	most := 0
	for _, w := range b.weights {
		most = max(most, len(w))
	}
	limits, values := make([]int64, 0, 2*len(b.starts)), make([]float64, len(b.starts)*most)
	for o, start := range b.starts {
		limits = append(limits, int64(start), int64(start+len(b.weights[o])))
		copy(values[o*most:], b.weights[o])
	}
	return FromSlice(limits, len(b.starts), 2), FromSlice(values, len(b.starts), most).To(dt)
}

// resample applies a matrix along an axis.
func (t *Tensor) resample(op string, axis int, b band) *Tensor {
	dt := statistic(t.dtype)
	bounds, weights := b.tensors(dt)
	bounds2, weights2 := b.transposed(op, t.layout.Shape[axis]).tensors(dt)
	return apply(resample.under(op), []*Tensor{t, bounds, weights, bounds2, weights2}, []int{axis}, nil)
}

// wantRows fails for a matrix of more rows than a host should make.
func (t *Tensor) wantRows(op string, axis, rows int) {
	if rows < 0 || rows > math.MaxInt32 {
		fail(ErrShape, op, "size %d of axis %d of %v is outside [0, %d]", rows, axis, t, math.MaxInt32)
	}
}

// AvgPool is the mean of each window of the last axes, one axis for each number of w.Size: [.. H W] gives [.. H' W'] as
// [Tensor.MaxPool] does. Padding counts as zeros, unless w.ExcludePadding; with w.Divisor sums are divided by that.
// Floating types; a window of padding alone is refused.
func (t *Tensor) AvgPool(w Window) *Tensor {
	const op = "avg_pool"
	ends := make([]int, len(w.Size))
	windows := t.pooling(op, w, ends)
	for d, a := range windows {
		if a.Dilation != 1 {
			fail(ErrValue, op, "dilation %d on spatial axis %d: means are of neighbours", a.Dilation, d)
		}
	}
	if w.Divisor < 0 {
		fail(ErrValue, op, "divisor %d is negative", w.Divisor)
	}
	return t.means(op, windows, func(d, o, n int) int {
		switch {
		case w.Divisor > 0 && d == 0:
			return w.Divisor
		case w.Divisor > 0:
			return 1
		case w.ExcludePadding:
			return n
		}
		start := o*windows[d].Stride - windows[d].Before
		return min(start+windows[d].Size, ends[d]) - start
	})
}

// AdaptiveAvgPool is the mean of each of so many windows along the last axes, the windows of [Tensor.AdaptiveMaxPool].
func (t *Tensor) AdaptiveAvgPool(sizes ...int) *Tensor {
	const op = "adaptive_avg_pool"
	windows := t.adaptivePooling(op, sizes)
	return t.means(op, windows, func(d, o, n int) int { return n })
}

// means are sums over windows, divided by divisor(d, o, n) along each spatial axis d, where window o has n elements.
func (t *Tensor) means(op string, windows []kernels.WindowAxis, divisor func(d, o, n int) int) *Tensor {
	lead := t.Rank() - len(windows)
	for d, a := range windows {
		n := t.layout.Shape[lead+d]
		b := newBand(op, a.Count, min(max(a.Size, n/max(a.Count, 1)+2), n))
		for o := range b.starts {
			from, to := a.Range(o, n)
			b.starts[o] = from
			b.weights[o] = slices.Repeat([]float64{1 / float64(divisor(d, o, to-from))}, to-from)
		}
		t = t.resample(op, lead+d, b)
	}
	return t
}

// Resample changes the number of elements along an axis to size. Element o is taken from position (o + 1/2)*r - 1/2,
// where r is 1/scale, or the old size over the new one if scale is 0; with alignCorners the first and the last elements
// stay where they are. The modes are
//
//	nearest        the element below o*r
//	nearest-exact  the element below (o + 1/2)*r
//	linear         between two neighbours
//	cubic          a cubic convolution of four neighbours (Keys 1981), with a = -3/4
//
// With antialias, linear and cubic filters (a = -1/2) are r times as wide where elements become fewer. Floating types;
// the modes nearest also take integers. nn.Interpolate does all spatial axes, under PyTorch's names.
func (t *Tensor) Resample(axis, size int, mode string, scale float64, alignCorners, antialias bool) *Tensor {
	const op = "resample"
	axis = t.axis(op, axis)
	n := t.layout.Shape[axis]
	t.wantRows(op, axis, size)
	nearest := strings.HasPrefix(mode, "nearest")
	switch {
	case !slices.Contains([]string{"nearest", "nearest-exact", "linear", "cubic"}, mode):
		fail(ErrValue, op, "mode %q is none of nearest, nearest-exact, linear and cubic", mode)
	case scale != 0 && !(scale >= 0x1p-31 && scale <= 0x1p31): // positions are integers of 64 bits
		fail(ErrValue, op, "scale %g is neither 0 nor in [2^-31, 2^31]", scale)
	case nearest && (alignCorners || antialias):
		fail(ErrValue, op, "mode %s has no corners to align, and no filter", mode)
	case n == 0 && size > 0:
		fail(ErrShape, op, "axis %d of %v is empty, %d elements cannot be made of it", axis, t, size)
	}
	r := float64(n) / float64(size)
	switch {
	case alignCorners:
		r = float64(n-1) / float64(max(size-1, 1))
		if size == 1 {
			r = 0
		}
	case scale > 0:
		r = 1 / scale
	}
	if nearest {
		return t.nearest(op, axis, size, r, mode == "nearest-exact")
	}
	cubic := mode == "cubic"
	width := 4
	if antialias {
		width = min(n, 4*int(min(max(r, 1), float64(n)))+2)
	}
	b := newBand(op, size, width)
	for o := range b.starts {
		if antialias {
			b.setFilter(o, n, r, cubic)
		} else {
			b.setNeighbours(o, n, r, cubic, alignCorners)
		}
	}
	return t.resample(op, axis, b)
}

// nearest takes the elements below o*r, or (o + 1/2)*r. As in PyTorch, positions are products of float32, in float64
// those of float64, rounded to float32.
func (t *Tensor) nearest(op string, axis, size int, r float64, exact bool) *Tensor {
	last, b := t.layout.Shape[axis]-1, newBand(op, size, 1)
	for o := range b.starts {
		x := float64(o)
		if exact {
			x += 0.5
		}
		position := float32(x) * float32(r)
		if t.dtype == Float64 {
			position = float32(x * r)
		}
		b.starts[o], b.weights[o] = min(int(position), last), []float64{1}
	}
	if !t.dtype.IsFloat() {
		at := make([]int64, size)
		for o, i := range b.starts {
			at[o] = int64(i)
		}
		return t.IndexSelect(axis, FromSlice(at, size))
	}
	return t.resample(op, axis, b)
}

// setNeighbours sets row o to the weights of two neighbours of a position, or four. Beyond its ends the axis of n
// elements goes on with the last one.
func (b band) setNeighbours(o, n int, r float64, cubic, alignCorners bool) {
	x := float64(o) * r
	if !alignCorners {
		x = (float64(o)+0.5)*r - 0.5
	}
	if !cubic {
		x = max(x, 0)
		i := min(int(x), n-1)
		f := min(x-float64(i), 1)
		if b.starts[o], b.weights[o] = i, []float64{1}; i < n-1 {
			b.weights[o] = []float64{1 - f, f}
		}
		return
	}
	i := min(int(math.Floor(x)), n-1)
	f := min(x-float64(i), 1)
	last := min(i+2, n-1)
	b.starts[o] = min(max(i-1, 0), last)
	b.weights[o] = make([]float64, last-b.starts[o]+1)
	for k := -1; k <= 2; k++ {
		b.weights[o][min(max(i+k, 0), n-1)-b.starts[o]] += cubicKernel(f-float64(k), -0.75)
	}
}

// setFilter sets row o to a filter around a position, normalised to the sum 1.
func (b band) setFilter(o, n int, r float64, cubic bool) {
	width, support := max(r, 1), 1.0
	if cubic {
		support = 2
	}
	centre := (float64(o) + 0.5) * r
	from := min(max(int(centre-support*width+0.5), 0), n-1) // beyond its end the axis goes on with the last element
	to := max(min(int(centre+support*width+0.5), n), from+1)
	b.starts[o] = from
	sum := 0.0
	for i := from; i < to; i++ {
		x := (float64(i) - centre + 0.5) / width
		w := max(1-math.Abs(x), 0)
		if cubic {
			w = cubicKernel(x, -0.5)
		}
		b.weights[o] = append(b.weights[o], w)
		sum += w
	}
	if sum == 0 {
		b.weights[o][to-1-from], sum = 1, 1
	}
	for i := range b.weights[o] {
		b.weights[o][i] /= sum
	}
}

// cubicKernel is the kernel of cubic convolution.
func cubicKernel(x, a float64) float64 {
	x = math.Abs(x)
	switch {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return (((x-5)*x+8)*x - 4) * a
	}
	return 0
}

func resampleShape(c *ctx) {
	c.wantFloat(0)
	axis, shape := c.Ints[0], c.In[0].Shape()
	for i := 1; i < len(c.In); i += 2 {
		c.wantDType(i, Int64)
		c.wantDType(i+1, statistic(c.In[0].dtype))
		if c.In[i].Rank() != 2 || c.In[i+1].Rank() != 2 || c.shape(i)[0] != c.shape(i + 1)[0] || c.shape(i)[1] != 2 {
			c.fail(ErrShape, "%s %v must be [rows 2] and %s %v [rows width]", c.argName(i), c.In[i], c.argName(i+1),
				c.In[i+1])
		}
	}
	if n := c.shape(3)[0]; shape[axis] != n {
		c.fail(ErrShape, "%v has %d on axis %d, the matrix has %d columns", c.In[0], shape[axis], axis, n)
	}
	shape[axis] = c.shape(1)[0]
	c.result(c.In[0].dtype, shape...)
}

func resampleRef(l *kernels.Launch) {
	axis, shape, width := l.Ints[0], l.In[0].Shape, l.In[2].Shape[1]
	x, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])
	bounds, weights := cpu.Slice[int64](l.In[1]), cpu.Slice[float64](l.In[2])
	eachIndex(l.Out[0].Shape, func(at int, index []int) {
		o := index[axis]
		from, to := int(bounds[2*o]), int(bounds[2*o+1])
		y[at] = 0
		for i := from; i < to; i++ {
			source := slices.Clone(index)
			source[axis] = i
			product := weights[o*width+i-from] * x[offsetOf(shape, source)]
			if i == from {
				y[at] = product // and keeps the sign of a zero
			} else {
				y[at] += product
			}
		}
	})
}

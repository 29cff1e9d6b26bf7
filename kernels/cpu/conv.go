package cpu

import (
	"sync/atomic"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// A convolution is the product of the weight and the unfolded input, a matrix of what each window sees, with zeros
// where it sees padding. That matrix is never made: products read or pack what they need from a copy of some images, in
// which the padding is there and the phases of the stride are apart, so that neighbouring windows read neighbouring
// elements.

// A convolution is the geometry of an op call, always with three spatial axes; those that are missing have size 1.
type convolution struct {
	images, groups, in, out  int // in and out: channels of a group, of x and of y
	x, y, k                  [3]int
	stride, before, dilation [3]int
	xStrides, yStrides       [5]int
}

// convolutionOf reads the layouts of x, the weight and y, one of which is the result. The attributes are the stride,
// the padding before, the dilation and the size of the result, each for all spatial axes, and the number of groups.
func convolutionOf(x, w, y kernels.Arg, ints []int) *convolution {
	one := [3]int{1, 1, 1}
	c := &convolution{images: x.Shape[0], groups: ints[len(ints)-1], in: w.Shape[1],
		x: one, y: one, k: one, stride: one, dilation: one}
	c.out = w.Shape[0] / c.groups
	copy(c.xStrides[:2], x.Strides)
	copy(c.yStrides[:2], y.Strides)
	axes := len(x.Shape) - 2
	for i := range axes {
		d := 3 - axes + i
		c.x[d], c.y[d], c.k[d] = x.Shape[2+i], y.Shape[2+i], w.Shape[2+i]
		c.xStrides[2+d], c.yStrides[2+d] = x.Strides[2+i], y.Strides[2+i]
		c.stride[d], c.before[d], c.dilation[d] = ints[i], ints[axes+i], ints[2*axes+i]
	}
	return c
}

// eachOf calls f for the elements of a box, in row-major order.
func eachOf(size [3]int, f func(at [3]int)) {
	for i := range size[0] {
		for j := range size[1] {
			for k := range size[2] {
				f([3]int{i, j, k})
			}
		}
	}
}

// offsetIn is the offset of an element.
func offsetIn(at, strides [3]int) int { return at[0]*strides[0] + at[1]*strides[1] + at[2]*strides[2] }

// rowMajor are the strides of a box.
func rowMajor(size [3]int) [3]int { return [3]int{size[1] * size[2], size[2], 1} }

// Conv computes, for the operands x, weight and bias, if there is one,
//
//	y[n, o, p] = bias[o] + sum over c and t of x[n, c, p*stride - before + t*dilation] weight[o, c, t]
//
// in the canonical order of products: the terms are numbered by the channels c of the group, then by the elements t of
// the window in row-major order. Outside of x there are zeros, which are terms like others.
func Conv(l *kernels.Launch) {
	if l.In[0].DType == kernels.Float64 {
		conv[float64](l)
	} else {
		conv[float32](l)
	}
}

func conv[T floating](l *kernels.Launch) {
	c := convolutionOf(l.In[0], l.In[1], l.Out[0], l.Ints)
	var axes [3]sampling
	var starts [3]int
	for d := range axes {
		axes[d] = phases(c, d)
		starts[d] = len(axes[d].starts)
	}
	u := &unfolding[T]{
		sampled: newSampled(Slice[T](l.In[0]), c.xStrides, axes),
		images:  c.images, groups: c.groups, m: c.out, channels: c.in,
		dst: Slice[T](l.Out[0]), dstImage: c.yStrides[0], dstChannel: c.yStrides[1],
		weight: contiguousOf[T](l.In[1]),
	}
	taps := kernels.Count(c.k[:])
	u.weightGroup, u.weightRow, u.weightChannel = c.out*c.in*taps, c.in*taps, taps
	u.prepare(l, taps)
	spatial, phase := u.spatial(), rowMajor(starts)
	u.steps = c.stride
	u.runParts(c.k, [3]int(c.yStrides[2:]), func(d int, split bool) []reach {
		from := func(o, t int) int { return o*c.stride[d] - c.before[d] + t*c.dilation[d] }
		of := reachesOf(c.y[d], c.k[d], split, func(o, t int) (seen, within bool) {
			x := from(o, t)
			return true, x >= 0 && x < c.x[d]
		}, func(o, t int) int {
			if u.within {
				return from(o, t) * c.xStrides[2+d]
			}
			which, at := axes[d].find(t*c.dilation[d] - c.before[d])
			return which*phase[d]*kernels.Count(u.length[:]) + (at+o)*spatial[d]
		})
		for i := range of {
			of[i].base = of[i].first * c.yStrides[2+d]
		}
		return of
	})
}

// phases are the elements of x along an axis that windows see: a start for each phase of the stride that has elements
// of the window.
func phases(c *convolution, d int) sampling {
	s := sampling{n: c.x[d], step: c.stride[d]}
	for t := range c.k[d] {
		offset := t * c.dilation[d]
		if _, at := s.find(offset - c.before[d]); at < 0 {
			s.starts = append(s.starts, offset%s.step-c.before[d])
		}
	}
	s.length = c.y[d] + (c.k[d]-1)*c.dilation[d]/s.step
	return s
}

// ConvTranspose computes, for the operands y, weight and bias, if there is one, what [Conv] does with its gradient,
//
//	x[n, c, i] = bias[c] + sum over o and t of y[n, o, (i + before - t*dilation)/stride] weight[o, c, t]
//
// over those t for which the division leaves no remainder, in the canonical order: the terms of an element are numbered
// by the channels o of the group, then by these t in row-major order. Outside of y there are zeros.
func ConvTranspose(l *kernels.Launch) {
	if l.In[0].DType == kernels.Float64 {
		convTranspose[float64](l)
	} else {
		convTranspose[float32](l)
	}
}

func convTranspose[T floating](l *kernels.Launch) {
	c := convolutionOf(l.Out[0], l.In[1], l.In[0], l.Ints)
	var axes [3]sampling
	for d := range axes {
		first, last := c.before[d]/c.stride[d], (c.x[d]-1+c.before[d])/c.stride[d]
		reach := (c.k[d] - 1) * c.dilation[d] / c.stride[d]
		axes[d] = sampling{n: c.y[d], step: 1, length: last - first + reach + 1, starts: []int{first - reach}}
	}
	u := &unfolding[T]{
		sampled: newSampled(Slice[T](l.In[0]), c.yStrides, axes),
		images:  c.images, groups: c.groups, m: c.in, channels: c.out,
		dst: Slice[T](l.Out[0]), dstImage: c.xStrides[0], dstChannel: c.xStrides[1],
		weight: contiguousOf[T](l.In[1]),
	}
	taps := kernels.Count(c.k[:])
	u.weightGroup, u.weightRow, u.weightChannel = c.out*c.in*taps, taps, c.in*taps
	u.prepare(l, taps)
	step, spatial := c.stride, u.spatial()
	u.steps = [3]int{1, 1, 1}
	for d := range step {
		step[d] *= c.xStrides[2+d]
	}
	u.runParts(c.k, step, func(d int, split bool) (all []reach) {
		for first := range min(c.stride[d], c.x[d]) { // of these the same elements of the window reach every element
			count := (c.x[d] - first + c.stride[d] - 1) / c.stride[d]
			from := func(i, t int) int { return first + i*c.stride[d] + c.before[d] - t*c.dilation[d] }
			of := reachesOf(count, c.k[d], split, func(i, t int) (seen, within bool) {
				y := from(i, t)
				return y%c.stride[d] == 0, y%c.stride[d] == 0 && y >= 0 && y/c.stride[d] < c.y[d]
			}, func(i, t int) int {
				if u.within {
					return from(i, t) / c.stride[d] * c.yStrides[2+d]
				}
				return (from(i, t)/c.stride[d] - axes[d].starts[0]) * spatial[d]
			})
			for i := range of {
				of[i].base = (first + of[i].first*c.stride[d]) * c.xStrides[2+d]
			}
			all = append(all, of...)
		}
		return all
	})
}

// A reach is elements of the result along an axis that the same elements of the window reach.
type reach struct {
	first, count int
	base         int   // where the first one is
	taps         []int // the elements of the window
	numbers      []int // of these among all that count as terms
	terms        int   // how many these are
	offsets      []int // where, along the axis, they find what the first one is made of
}

// reachesOf cuts n elements along an axis into those that the same of k elements of the window reach. see tells which
// of the window count as terms, and which of these are within the operand: the others are known to be zero, and left
// out where elements are split by them. at is where they find what they multiply.
func reachesOf(n, k int, split bool, see func(i, t int) (seen, within bool), at func(i, t int) int) (all []reach) {
	const most = 64 // of the window, for which there are bits
	var before uint64
	for i := range n {
		var seen uint64
		for t := 0; t < k && split && k <= most; t++ {
			if _, within := see(i, t); within {
				seen |= 1 << t
			}
		}
		if i > 0 && seen == before {
			all[len(all)-1].count++
			continue
		}
		before = seen
		r := reach{first: i, count: 1}
		for t := range k {
			seen, within := see(i, t)
			if seen && (within || !split || k > most) {
				r.taps, r.numbers = append(r.taps, t), append(r.numbers, r.terms)
				r.offsets = append(r.offsets, at(i, t))
			}
			if seen {
				r.terms++
			}
		}
		if all = append(all, r); !split {
			all[0].count = n
			break
		}
	}
	return all
}

// eachCombination calls f for a reach of each axis, for all of these.
func eachCombination(reaches [3][]reach, f func(r [3]reach)) {
	eachOf([3]int{len(reaches[0]), len(reaches[1]), len(reaches[2])}, func(at [3]int) {
		f([3]reach{reaches[0][at[0]], reaches[1][at[1]], reaches[2][at[2]]})
	})
}

// ConvWeight computes the gradient of the weight of [Conv] from x and the gradient of y,
//
//	w[o, c, t] = sum over n and p of y[n, o, p] x[n, c, p*stride - before + t*dilation]
//
// in the canonical order: the terms are numbered by the images n, then by the elements p of y in row-major order.
func ConvWeight(l *kernels.Launch) {
	if l.In[0].DType == kernels.Float64 {
		convWeight[float64](l)
	} else {
		convWeight[float32](l)
	}
}

// convWeight multiplies y by the unfolded input with its channels last, which neighbouring columns of the product are.
// The terms are taken in pieces of whole chunks, for which some images are copied.
func convWeight[T floating](l *kernels.Launch) {
	c := convolutionOf(l.In[0], l.Out[0], l.In[1], l.Ints)
	w, y, x := Slice[T](l.Out[0]), contiguousOf[T](l.In[1]), newChannelsLast(c, Slice[T](l.In[0]))
	columns := c.in * kernels.Count(c.k[:])
	if len(w) == 0 || c.out*columns == 0 {
		return
	}
	if single, ok := any(x).(*channelsLast[float32]); ok && c.in == 1 && c.out == 1 {
		depthwiseWeight(single, any(w).([]float32), any(y).([]float32))
		return
	}
	product, done := lend[T](c.out, columns)
	defer done()
	if c.images*len(x.at) == 0 {
		clear(w[:kernels.Count(l.Out[0].Shape)])
		return
	}
	if single, ok := any(y).([]float32); ok && x.setParts(true) && finite(single) && x.run(w, y, product) {
		return
	}
	x.setParts(false)
	x.run(w, y, product)
}

// run computes the gradient of the weight in parts, see [unfolding.runParts]. It reports whether that is right: no
// sum is -0 of which terms are left out.
func (x *channelsLast[T]) run(w, y, product []T) bool {
	columns := x.in * kernels.Count(x.k[:])
	var negative atomic.Bool
	sums, done := product, func() {}
	if x.pixels > 0 {
		sums, done = lend[T](columns, x.pixels)
	}
	defer done()
	for g := range x.groups {
		for from := 0; from < x.images*len(x.at); {
			from = x.addTerms(sums, y, g, from)
		}
		if x.pixels > 0 {
			from := matmul.MatrixOf[T]{Data: sums, RowStride: x.pixels, ColStride: 1}
			matmul.Transpose(product, columns, from, columns, x.out)
		}
		par.For(x.out, 1+rowGrain/columns, func(lo, hi int) {
			for o := lo; o < hi; o++ {
				if x.store(w[(g*x.out+o)*columns:], product[o*columns:]) {
					negative.Store(true)
				}
			}
		})
	}
	return !negative.Load()
}

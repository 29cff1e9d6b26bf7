package cpu

import (
	"github.com/weft-ml/weft/kernels"
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
	}
	p := part[T]{size: c.y, step: [3]int(c.yStrides[2:])}
	eachOf(c.k, func(t [3]int) {
		var which, at [3]int
		for d := range axes {
			which[d], at[d] = axes[d].find(t[d]*c.dilation[d] - c.before[d])
		}
		p.taps = append(p.taps, offsetIn(which, rowMajor(starts))*kernels.Count(u.length[:])+offsetIn(at, u.spatial()))
	})
	p.weight = contiguousOf[T](l.In[1])
	u.addBias(l)
	u.run([]part[T]{p})
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
	var residues [3]int
	for d := range axes {
		first, last := c.before[d]/c.stride[d], (c.x[d]-1+c.before[d])/c.stride[d]
		reach := (c.k[d] - 1) * c.dilation[d] / c.stride[d]
		axes[d] = sampling{n: c.y[d], step: 1, length: last - first + reach + 1, starts: []int{first - reach}}
		residues[d] = min(c.stride[d], c.x[d])
	}
	u := &unfolding[T]{
		sampled: newSampled(Slice[T](l.In[0]), c.yStrides, axes),
		images:  c.images, groups: c.groups, m: c.in, channels: c.out,
		dst: Slice[T](l.Out[0]), dstImage: c.xStrides[0], dstChannel: c.xStrides[1],
	}
	u.addBias(l)
	weight := contiguousOf[T](l.In[1])
	packed, done := lend[T](len(weight))
	defer done()
	var parts []part[T]
	eachOf(residues, func(first [3]int) {
		p := part[T]{base: offsetIn(first, [3]int(c.xStrides[2:])), weight: packed}
		for d := range axes {
			p.size[d] = (c.x[d] - first[d] + c.stride[d] - 1) / c.stride[d]
			p.step[d] = c.stride[d] * c.xStrides[2+d]
		}
		numbers := c.reaching(first, func(at [3]int) {
			for d := range at {
				at[d] -= axes[d].starts[0]
			}
			p.taps = append(p.taps, offsetIn(at, u.spatial()))
		})
		packed = packed[regroup(c, packed, weight, numbers):]
		parts = append(parts, p)
	})
	u.run(parts)
}

// reaching returns the numbers of the elements t of the window that reach element i of x, and calls f for each with the
// element of y that it comes from.
func (c *convolution) reaching(i [3]int, f func(at [3]int)) (numbers []int) {
	number := 0
	eachOf(c.k, func(t [3]int) {
		var at [3]int
		reaches := true
		for d := range at {
			from := i[d] + c.before[d] - t[d]*c.dilation[d]
			at[d] = from / c.stride[d]
			reaches = reaches && from%c.stride[d] == 0
		}
		if reaches {
			numbers = append(numbers, number)
			f(at)
		}
		number++
	})
	return numbers
}

// regroup writes the elements t of the window with the given numbers to dst, as matrices [c, (o, t)] of the groups, and
// returns how many elements they have.
func regroup[T floating](c *convolution, dst, weight []T, numbers []int) int {
	n, taps := 0, kernels.Count(c.k[:])
	for g := range c.groups {
		for i := range c.in {
			for o := range c.out {
				from := weight[((g*c.out+o)*c.in+i)*taps:]
				for _, t := range numbers {
					dst[n] = from[t]
					n++
				}
			}
		}
	}
	return n
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
	terms, columns, taps := c.images*kernels.Count(c.y[:]), c.in*kernels.Count(c.k[:]), kernels.Count(c.k[:])
	if len(w) == 0 || c.out*columns == 0 {
		return
	}
	if single, ok := any(x).(*channelsLast[float32]); ok && c.in == 1 && c.out == 1 {
		depthwiseWeight(single, any(w).([]float32), any(y).([]float32))
		return
	}
	product, done := lend[T](c.out, columns)
	defer done()
	for g := range c.groups {
		clear(product)
		for from := 0; from < terms; {
			from = x.addTerms(product, y, g, from)
		}
		for o := range c.out { // columns are (t, c)
			for i := range c.in {
				for t := range taps {
					w[((g*c.out+o)*c.in+i)*taps+t] = product[o*columns+t*c.in+i]
				}
			}
		}
	}
}

package tensor

import "math"

// Window says how the window of a convolution or a pooling moves over the spatial axes of a tensor, which are its last
// ones. Each slice has a number for each of these axes, or one for all; nil stands for the default.
type Window struct {
	Size       []int // elements; a convolution takes those of its weight
	Stride     []int // between neighbouring windows: 1 in convolutions, Size in pooling
	Padding    []int // elements before the first and after the last, zero (in max pooling -Inf): 0
	PaddingEnd []int // after the last, where it is not Padding
	Dilation   []int // between neighbouring elements of a window: 1
	Groups     int   // into which channels are divided, in convolutions: 1
	Ceil       bool  // pooling: a last window counts that begins inside, and ends beyond the padding

	ExcludePadding bool // average pooling: the padding does not count in means
	Divisor        int  // average pooling: what sums are divided by; 0: the number of elements
}

// windowAxis is a window along one axis.
type windowAxis struct{ size, stride, before, after, dilation int }

// along resolves w for some axes. size and stride are the defaults.
func (w Window) along(op string, axes int, size, stride []int) []windowAxis {
	resolved := make([]windowAxis, axes)
	fill := func(name string, given, otherwise []int, least int, at func(a *windowAxis) *int) {
		if given == nil {
			given = otherwise
		}
		if n := len(given); n != 1 && n != axes {
			fail(ErrValue, op, "%s has %d numbers; the window moves along %d axes", name, n, axes)
		}
		for d := range resolved {
			v := given[min(d, len(given)-1)]
			if v < least || v > math.MaxInt32 {
				fail(ErrValue, op, "%s is %d on spatial axis %d, outside [%d, %d]", name, v, d, least, math.MaxInt32)
			}
			*at(&resolved[d]) = v
		}
	}
	none, one := []int{0}, []int{1}
	fill("Size", w.Size, size, 1, func(a *windowAxis) *int { return &a.size })
	if stride == nil {
		stride = w.Size
	}
	fill("Stride", w.Stride, stride, 1, func(a *windowAxis) *int { return &a.stride })
	fill("Padding", w.Padding, none, 0, func(a *windowAxis) *int { return &a.before })
	end := w.Padding
	if end == nil {
		end = none
	}
	fill("PaddingEnd", w.PaddingEnd, end, 0, func(a *windowAxis) *int { return &a.after })
	fill("Dilation", w.Dilation, one, 1, func(a *windowAxis) *int { return &a.dilation })
	return resolved
}

// span is how many elements a window reaches over.
func (a windowAxis) span() int { return (a.size-1)*a.dilation + 1 }

// count is how many windows fit into n elements with their padding. It fails for a window that is longer; axis is that
// of the operand x.
func (a windowAxis) count(op string, x *Tensor, axis int, ceil bool) int {
	n := x.layout.Shape[axis]
	room := n + a.before + a.after - a.span()
	if room < 0 {
		fail(ErrShape, op, "the window reaches over %d elements on axis %d, x %v has %d there with its padding",
			a.span(), axis, x, n+a.before+a.after)
	}
	if !ceil {
		return room/a.stride + 1
	}
	count := (room+a.stride-1)/a.stride + 1
	if (count-1)*a.stride >= n+a.before { // the last window would begin in the padding after the last element
		count--
	}
	return count
}

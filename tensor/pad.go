package tensor

import "github.com/weft-ml/weft/kernels"

// PadReflect surrounds t by its mirror image, in which the elements at its ends do not occur again. Each axis has a
// pair: how many elements are added before and after; negative numbers remove elements. An axis is longer than what is
// added on each side.
func (t *Tensor) PadReflect(pads ...[2]int) *Tensor {
	return t.padBy("pad_reflect", pads, func(t *Tensor, axis, n int, p [2]int) (before, after *Tensor) {
		t.wantPadding("pad_reflect", axis, p, n-1)
		return t.slice(axis, 1, 1, p[0]).flip([]int{axis}), t.slice(axis, n-1-p[1], 1, p[1]).flip([]int{axis})
	})
}

// PadReplicate surrounds t by the elements at its ends, repeated. Each axis has a pair: how many elements are added
// before and after; negative numbers remove elements.
func (t *Tensor) PadReplicate(pads ...[2]int) *Tensor {
	return t.padBy("pad_replicate", pads, func(t *Tensor, axis, n int, p [2]int) (before, after *Tensor) {
		t.wantPadding("pad_replicate", axis, p, min(n, 1)*kernels.MaxLen)
		repeated := func(at, count int) *Tensor {
			shape := t.Shape()
			shape[axis] = count
			return t.slice(axis, at, 1, 1).Expand(shape...)
		}
		return repeated(0, p[0]), repeated(n-1, p[1])
	})
}

// PadCircular surrounds t by the elements of its other end, as if its ends were joined. Each axis has a pair: how many
// elements are added before and after; negative numbers remove elements. An axis is at least as long as what is added
// on each side.
func (t *Tensor) PadCircular(pads ...[2]int) *Tensor {
	return t.padBy("pad_circular", pads, func(t *Tensor, axis, n int, p [2]int) (before, after *Tensor) {
		t.wantPadding("pad_circular", axis, p, n)
		return t.slice(axis, n-p[0], 1, p[0]), t.slice(axis, 0, 1, p[1])
	})
}

// wantPadding fails unless at most so many elements are added on each side of an axis.
func (t *Tensor) wantPadding(op string, axis int, p [2]int, most int) {
	if max(p[0], p[1]) > most {
		fail(ErrShape, op, "%v elements around axis %d of %v, which has %d elements: there are %d to take on each side",
			p, axis, t, t.layout.Shape[axis], max(most, 0))
	}
}

// cropped is t without the elements that negative pads remove, and the other pads.
func (t *Tensor) cropped(op string, pads [][2]int) (*Tensor, [][2]int) {
	t.given(op)
	if len(pads) != t.Rank() {
		fail(ErrShape, op, "%d pairs are given, %v has %d axes; {0, 0} leaves an axis alone", len(pads), t, t.Rank())
	}
	added := make([][2]int, len(pads))
	for axis, p := range pads {
		n := t.layout.Shape[axis]
		added[axis] = [2]int{max(p[0], 0), max(p[1], 0)}
		if min(p[0], p[1]) >= 0 {
			continue
		}
		first, last := max(-p[0], 0), max(-p[1], 0)
		if min(p[0], p[1]) < -n || first+last > n {
			fail(ErrShape, op, "%v would remove more elements of axis %d of %v than there are", p, axis, t)
		}
		t = t.slice(axis, first, 1, n-first-last)
	}
	return t, added
}

// padBy joins each axis with what is before and after it, as sides makes them for p elements around an axis of n.
func (t *Tensor) padBy(op string, pads [][2]int,
	sides func(t *Tensor, axis, n int, p [2]int) (before, after *Tensor)) *Tensor {
	t, pads = t.cropped(op, pads)
	for axis, p := range pads {
		if p == [2]int{} {
			continue
		}
		before, after := sides(t, axis, t.layout.Shape[axis], p)
		parts := []*Tensor{t}
		if p[0] > 0 {
			parts = []*Tensor{before, t}
		}
		if p[1] > 0 {
			parts = append(parts, after)
		}
		t = Cat(axis, parts...)
	}
	return t
}

package tensor

import "github.com/weft-ml/weft/kernels"

// Im2Col makes columns of windows, as matrix products of convolutions take them: x [.. C S..] with a spatial axis S for
// each number of w.Size gives [.. C*K L], where K elements are in a window and L windows move over x, 1 apart if there
// is no w.Stride. Padding is zero. PyTorch calls it F.unfold.
func (t *Tensor) Im2Col(w Window) *Tensor {
	const op = "im2col"
	axes, windows := t.columns(op, w, t.Rank())
	k := len(windows)
	lead := t.Rank() - k
	pads := make([][2]int, t.Rank())
	for d, a := range windows {
		pads[lead+d] = [2]int{a.before, a.after}
		axes[k+d] = a.count(op, t, lead+d, false)
	}
	t = t.Pad(0, pads...)
	for d, a := range windows {
		t = t.Unfold(lead+d, a.span(), a.stride).Slice(-1, 0, End, a.dilation)
	}
	shape := t.Shape()[:lead]
	shape[lead-1] *= kernels.Count(axes[:k])
	return t.windowsSwapped(lead, k).Reshape(append(shape, kernels.Count(axes[k:]))...)
}

// Col2Im adds up windows at their places, the gradient of [Tensor.Im2Col]: columns [.. C*K L] give [.. C sizes..].
// PyTorch calls it F.fold. Floating types.
func (t *Tensor) Col2Im(w Window, sizes ...int) *Tensor {
	const op = "col2im"
	axes, windows := t.columns(op, w, t.Rank()+len(w.Size)-1)
	k := len(windows)
	if len(sizes) != k {
		fail(ErrValue, op, "%d sizes are given, the window moves along %d axes", len(sizes), k)
	}
	checkShape(op, sizes)
	for d, a := range windows {
		room := sizes[d] + a.before + a.after - a.span()
		if room < 0 {
			fail(ErrShape, op, "the window reaches over %d elements, %d of spatial axis %d are %d with their padding",
				a.span(), sizes[d], d, sizes[d]+a.before+a.after)
		}
		axes[k+d] = room/a.stride + 1
	}
	shape := t.Shape()
	lead := len(shape) - 1
	inside, columns := kernels.Count(axes[:k]), kernels.Count(axes[k:])
	if shape[lead-1]%inside != 0 || shape[lead] != columns {
		fail(ErrShape, op, "%v must be [.. C*%d %d]: there are %d windows of %d elements", t, inside, columns, columns,
			inside)
	}
	shape[lead-1] /= inside
	t = t.Reshape(append(shape[:lead:lead], axes...)...).windowsSwapped(lead, k)
	for d := k - 1; d >= 0; d-- {
		a := windows[d]
		if a.dilation > 1 {
			t = t.sliceGrad(t.Rank()-1, 0, a.dilation, a.span())
		}
		t = t.Fold(lead+d, a.stride, sizes[d]+a.before+a.after).Slice(lead+d, a.before, a.before+sizes[d])
	}
	return t
}

// columns resolves the windows of columns, for images of so many axes; the first half of axes is their sizes, the other
// half is for their numbers.
func (t *Tensor) columns(op string, w Window, rank int) (axes []int, windows []windowAxis) {
	t.given(op)
	k := len(w.Size)
	if k < 1 || k > 3 || rank <= k {
		fail(ErrShape, op, "%d sizes are given for %v; there is one for each spatial axis, of which there are 1 to 3, "+
			"behind the channels", k, t)
	}
	windows = w.along(op, k, nil, []int{1})
	axes = make([]int, 2*k)
	for d, a := range windows {
		axes[d] = a.size
	}
	return axes, windows
}

// windowsSwapped is t with k axes from lead on behind the k axes after them.
func (t *Tensor) windowsSwapped(lead, k int) *Tensor {
	order := make([]int, lead+2*k)
	for d := range order {
		order[d] = d
		if d >= lead {
			order[d] = lead + (d-lead+k)%(2*k)
		}
	}
	return t.Permute(order...)
}

package kernels

// WindowAxis says which elements of an axis the windows of a pooling have.
type WindowAxis struct {
	Size     int // elements of a window
	Stride   int // between neighbouring windows; 0: Count windows share the axis as evenly as they can
	Before   int // elements of padding in front of the axis, which no window has
	Dilation int // between neighbouring elements of a window
	Count    int // windows
}

// windowInts is how many attributes describe an axis.
const windowInts = 5

// AppendTo appends w to the attributes of an op call.
func (w WindowAxis) AppendTo(ints []int) []int {
	return append(ints, w.Size, w.Stride, w.Before, w.Dilation, w.Count)
}

// WindowAxes reads what [WindowAxis.AppendTo] appended for several axes.
func WindowAxes(ints []int) []WindowAxis {
	axes := make([]WindowAxis, 0, len(ints)/windowInts)
	for ; len(ints) >= windowInts; ints = ints[windowInts:] {
		axes = append(axes, WindowAxis{ints[0], ints[1], ints[2], ints[3], ints[4]})
	}
	return axes
}

// Range says that window o has the elements from, from+Dilation and so on before to, of an axis of n elements.
func (w WindowAxis) Range(o, n int) (from, to int) {
	if w.Stride == 0 {
		return o * n / w.Count, ((o+1)*n + w.Count - 1) / w.Count
	}
	from = o*w.Stride - w.Before
	to = min(from+(w.Size-1)*w.Dilation+1, n)
	if from < 0 {
		from += (w.Dilation - 1 - from) / w.Dilation * w.Dilation
	}
	return from, to
}

// Empty returns the first window without an element of an axis of n elements; -1 if there is none.
func (w WindowAxis) Empty(n int) int {
	empty := func(o int) bool {
		from, to := w.Range(o, n)
		return from >= to
	}
	switch {
	case w.Count == 0:
		return -1
	case w.Stride == 0 && n > 0:
		return -1
	case empty(0):
		return 0
	case w.Dilation > n: // a window that begins in the padding may step over the axis
		for o := 1; o < w.Count && o*w.Stride < w.Before; o++ {
			if empty(o) {
				return o
			}
		}
	}
	if empty(w.Count - 1) {
		return w.Count - 1
	}
	return -1
}

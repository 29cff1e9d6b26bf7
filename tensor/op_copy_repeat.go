package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// Roll moves the elements along an axis by shift towards its end, or its start if shift is negative; those that leave
// it come back at the other end.
func (t *Tensor) Roll(axis, shift int) *Tensor {
	axis = t.axis("roll", axis)
	n := t.layout.Shape[axis]
	if n == 0 {
		return t
	}
	if shift %= n; shift < 0 {
		shift += n
	}
	if shift == 0 {
		return t
	}
	return Cat(axis, t.slice(axis, n-shift, 1, shift), t.slice(axis, 0, 1, n-shift))
}

// Tile repeats t so many times along each axis, as a whole: [1 2] twice is [1 2 1 2]. Numbers are for the last axes;
// where there are more than axes, t gets leading axes of size 1 first. It is torch.tile, and Tensor.repeat.
func (t *Tensor) Tile(times ...int) *Tensor {
	const op = "tile"
	t.given(op)
	lead := max(len(times)-t.Rank(), 0)
	checkShape(op, slices.Concat(slices.Repeat([]int{1}, lead), t.layout.Shape))
	y := t.Reshape(slices.Concat(slices.Repeat([]int{1}, lead), t.layout.Shape)...)
	for i, n := range times {
		y = y.repeat(op, y.Rank()-len(times)+i, n, false)
	}
	return y
}

// RepeatInterleave repeats each element n times along an axis, one copy beside the other: [1 2] twice is [1 1 2 2].
func (t *Tensor) RepeatInterleave(axis, n int) *Tensor {
	const op = "repeat_interleave"
	return t.repeat(op, t.axis(op, axis), n, true)
}

// repeat repeats the elements along an axis n times: each for itself, or all together.
func (t *Tensor) repeat(op string, axis, n int, each bool) *Tensor {
	if n < 0 {
		fail(ErrValue, op, "%d times along axis %d of %v", n, axis, t)
	}
	shape := t.Shape()
	outer, inner := kernels.Count(shape[:axis]), kernels.Count(shape[axis:])
	if each {
		outer, inner = outer*shape[axis], kernels.Count(shape[axis+1:])
	}
	if size := shape[axis]; size > 0 {
		shape[axis] = size * min(n, kernels.MaxLen/size+1) // does not overflow
	}
	checkShape(op, shape)
	if n == 1 || t.Len() == 0 {
		return t.Reshape(shape...)
	}
	return t.Reshape(outer, 1, inner).Expand(outer, n, inner).Reshape(shape...)
}

// Meshgrid is t and the others, each with one axis, as coordinates of a grid with an axis for each of them: element
// [i, j, ..] of the first is t[i], of the second others[0][j], and so on ("ij" in PyTorch). They share their memory.
func (t *Tensor) Meshgrid(others ...*Tensor) []*Tensor {
	const op = "meshgrid"
	grids := append([]*Tensor{t}, others...)
	shape := make([]int, len(grids))
	for i, x := range grids {
		if x.given(op).Rank() != 1 {
			fail(ErrShape, op, "operand %d is %v, it must have one axis", i, x)
		}
		shape[i] = x.Len()
	}
	checkShape(op, shape)
	for i, x := range grids {
		line := slices.Repeat([]int{1}, len(grids))
		line[i] = shape[i]
		grids[i] = x.Reshape(line...).Expand(shape...)
	}
	return grids
}

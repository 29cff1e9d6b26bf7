package data

import (
	"fmt"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// Arrays is a dataset over two slices: inputs and targets, examples one after the other.
type Arrays[X, Y tensor.Elem] struct {
	x              []X
	y              []Y
	xShape, yShape []int // of one example
	n              int
}

// NewArrays makes a dataset of inputs x, whose examples have shape xShape, and targets y, whose
// examples have shape yShape; an empty shape is one value an example, as class labels are. Batches of
// B examples are then [B xShape...] and [B yShape...]. The dataset refers to x and y: do not change
// them afterwards. It is an error if either does not hold whole examples or their counts differ.
func NewArrays[X, Y tensor.Elem](x []X, xShape []int, y []Y, yShape []int) (*Arrays[X, Y], error) {
	n, err := checkCount("x", len(x), xShape)
	if err != nil {
		return nil, err
	}
	m, err := checkCount("y", len(y), yShape)
	if err != nil {
		return nil, err
	}
	if n != m {
		return nil, fmt.Errorf("data: x holds %d examples of shape %v, y holds %d of shape %v: the numbers must "+
			"agree; the shapes are those of one example", n, xShape, m, yShape)
	}
	return &Arrays[X, Y]{x, y, slices.Clone(xShape), slices.Clone(yShape), n}, nil
}

// Len is the number of examples.
func (a *Arrays[X, Y]) Len() int {
	engine.Given("arrays", "the arrays", a)
	return a.n
}

// Batch copies the examples with the given indices. An index outside [0, Len) is an error.
func (a *Arrays[X, Y]) Batch(indices []int) (Batch, error) {
	engine.Given("arrays", "the arrays", a)
	if err := checkIndices(indices, a.n); err != nil {
		return Batch{}, err
	}
	x, err := gather(a.x, a.xShape, a.n, indices)
	if err != nil {
		return Batch{}, err
	}
	y, err := gather(a.y, a.yShape, a.n, indices)
	return Batch{X: x, Y: y}, err
}

// gather copies the chosen examples of v, which holds n of them, into a tensor [B shape...].
func gather[T tensor.Elem](v []T, shape []int, n int, indices []int) (*tensor.Tensor, error) {
	out, to, err := unset[T](slices.Concat([]int{len(indices)}, shape)...)
	if err != nil {
		return nil, err
	}
	size := len(v) / n
	copyRows(len(indices), size, func(first, end int) {
		for k := first; k < end; k++ {
			i := indices[k]
			copy(to[k*size:], v[i*size:(i+1)*size])
		}
	})
	return out, nil
}

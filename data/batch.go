package data

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/tensor"
)

// Batch is a group of examples as host tensors, ready for Scope.In.
type Batch struct {
	X *tensor.Tensor // inputs, [B ...]
	Y *tensor.Tensor // targets, [B] for classes, [B ...] otherwise

	// Epoch and Index tell which batch of a [Loader] it is: batch Index of epoch Epoch, both from 0.
	Epoch, Index int

	// Filled is how many of the last rows do not count: they are there so that all ranks have batches of one shape.
	// Their targets are -100, which cross-entropy ignores, if Y is int64.
	Filled int
}

// Dataset is a finite set of examples that can be read in any order.
type Dataset interface {
	// Len is the number of examples.
	Len() int
	// Batch makes one batch of the examples with the given indices, in that order. The batch must
	// not share memory with the dataset or with another batch. It may be called from several
	// goroutines at once when several loaders read the same dataset.
	Batch(indices []int) (Batch, error)
}

// unset makes host data for a batch, which On may end, and returns its elements, too, whose values are those of earlier
// batches. It is an error if there is no memory for them.
func unset[T tensor.Elem](shape ...int) (t *tensor.Tensor, v []T, err error) {
	err = engine.Try(func() {
		t = engine.Recyclable(tensor.FromSlice([]T{}, 0).DType(), shape...)
		v = seam.Elems[T](engine.Bytes(t))
	})
	return t, v, err
}

// copyRows calls f for parts of the rows of a batch, each of size elements, beside the kernels of a step: a part is
// some 4,096 elements, for which they wait about a microsecond.
func copyRows(rows, size int, f func(first, end int)) {
	cpu.Background(rows, max(1, 4<<10/max(size, 1)), f)
}

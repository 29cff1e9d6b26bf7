//go:build cuda && cgo && linux

package cuda

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// TestSort: rows of all types and layouts, with ties or of any content, shorter than a chunk and of several; the first
// elements of the same rows.
func TestSort(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(31)
	types := kernels.DTypes()
	for i := range cases(48) {
		d := types[i/2%len(types)] // each with ties and without
		shape := []int{1 + r.IntN(4), 1 + r.IntN(60), 1 + r.IntN(3)}
		axis := r.IntN(3)
		if i%6 == 0 {
			shape, axis = []int{2, sortChunk*r.IntN(3) + 1 + r.IntN(sortChunk)}, 1
		}
		x := r.wild(d, shape...)
		if i%2 == 0 {
			x = r.operand(d, 5, shape...)
		}
		descending := r.IntN(2)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("sort", cpu.Sort), Ints: []int{axis, descending}}, []value{x},
			[]value{r.result(d, shape...), r.result(kernels.Int64, shape...)})
		first := slices.Clone(shape)
		first[axis] = r.IntN(shape[axis] + 1)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("topk", cpu.TopK), Ints: []int{axis, first[axis], descending}},
			[]value{x}, []value{r.result(d, first...), r.result(kernels.Int64, first...)})
	}
}

// TestSearchSorted: rows that are sorted on the CPU first, one for all values or one for each row of these.
func TestSearchSorted(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(32)
	host, err := kernels.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	for i := range cases(24) {
		d := oneOf(r, kernels.Float32, kernels.Float64, kernels.Int64, kernels.Int32, kernels.Uint8)
		rows, n := 1+r.IntN(4), r.IntN(70)
		shape, to := []int{rows, n}, []int{rows, 1 + r.IntN(20)}
		if i%2 == 0 {
			shape = []int{n}
		}
		x := r.contiguous(d, shape...)
		axis := len(shape) - 1
		sorted, err := on(t, host, &kernels.Launch{Op: rowOf("sort", cpu.Sort), Ints: []int{axis, 0}}, []value{x},
			[]value{r.contiguous(d, shape...), r.contiguous(kernels.Int64, shape...)})
		if err != nil {
			t.Fatal(err)
		}
		x.data = sorted[0]
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("searchsorted", cpu.SearchSorted), Ints: []int{r.IntN(2)}},
			[]value{x, r.wild(d, to...)}, []value{r.result(kernels.Int64, to...)})
	}
}

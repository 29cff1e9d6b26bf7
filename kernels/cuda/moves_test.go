//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// rowOf is an operation for tests of all element types.
func rowOf(name string, f func(l *kernels.Launch)) *kernels.Op {
	return &kernels.Op{Name: name, CPU: f, Types: kernels.DTypes()}
}

// shape is a random shape of the given rank.
func (r fuzz) shape(rank, most int) []int {
	s := make([]int, rank)
	for d := range s {
		s[d] = r.IntN(most + 1)
	}
	return s
}

// with is a copy of a shape in which entry d has the given sizes in its place.
func with(shape []int, d int, sizes ...int) []int {
	return slices.Concat(shape[:d], sizes, shape[d+1:])
}

func TestMoves(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(4)
	for range 40 {
		d := oneOf(r, kernels.DTypes()...)
		rank := 1 + r.IntN(4)
		axis := r.IntN(rank)
		s := r.shape(rank, 7)

		parts := []value{r.operand(d, 200, s...), r.operand(d, 200, with(s, axis, 3)...), r.operand(d, 200, with(s, axis, 0)...)}
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("cat", cpu.Cat), Ints: []int{axis}}, parts, []value{r.result(d, with(s, axis, s[axis]+3)...)})

		at := r.IntN(rank + 1)
		parts = []value{r.operand(d, 200, s...), r.operand(d, 200, s...), r.operand(d, 200, s...)}
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("stack", cpu.Stack), Ints: []int{at}}, parts, []value{r.result(d, slices.Insert(slices.Clone(s), at, 3)...)})

		x := r.operand(d, 200, s...)
		if kernels.Count(s) > 0 {
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("flip", cpu.Flip), Ints: r.Perm(rank)[:1+r.IntN(rank)]}, []value{x}, []value{r.result(d, s...)})
		}

		var pads []int
		padded := slices.Clone(s)
		for i := range padded {
			lo, hi := r.IntN(3), r.IntN(3)
			pads = append(pads, lo, hi)
			padded[i] += lo + hi
		}
		with16 := oneOf(r, 0, -2, 1.0/3, 1e9, 7)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("pad", cpu.Pad), Ints: pads, Floats: []float64{with16}}, []value{x}, []value{r.result(d, padded...)})

		step, start := 1+r.IntN(3), r.IntN(3)
		size := start + step*s[axis] + r.IntN(3)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("slice_grad", cpu.SliceGrad), Ints: []int{axis, start, step, size}}, []value{x}, []value{r.result(d, with(s, axis, size)...)})

		at, size = r.IntN(rank+1), 1+r.IntN(4)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("select_grad", cpu.SelectGrad), Ints: []int{at, r.IntN(size), size}}, []value{x}, []value{r.result(d, slices.Insert(slices.Clone(s), at, size)...)})

		if rank > 1 && kernels.Count(s) > 0 {
			k := []int{r.IntN(9) - 4}
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("tril", cpu.Tril), Ints: k}, []value{x}, []value{r.result(d, s...)})
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("triu", cpu.Triu), Ints: k}, []value{x}, []value{r.result(d, s...)})
		}
	}
}

func TestIndexed(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(5)
	addable := []kernels.DType{kernels.Float32, kernels.Float32, kernels.Float64, kernels.Int64, kernels.Int32, kernels.Uint8}
	for range 60 {
		d, sum := oneOf(r, kernels.DTypes()...), oneOf(r, addable...)
		ids := oneOf(r, kernels.Int64, kernels.Int32, kernels.Uint8)
		s := r.shape(1+r.IntN(3), 6)
		axis := r.IntN(len(s))
		s[axis] = 1 + r.IntN(6)
		if r.IntN(3) == 0 {
			s[len(s)-1] = 16 * (1 + r.IntN(20))
		}
		chosen := r.operand(ids, s[axis], oneOf(r, []int{}, []int{3}, []int{70}, []int{2, 5}, []int{0})...)
		y := with(s, axis, chosen.Shape...)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("index_select", cpu.IndexSelect), Ints: []int{axis}}, []value{r.operand(d, 200, s...), chosen}, []value{r.result(d, y...)})
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("index_add", cpu.IndexAdd), Ints: []int{axis}},
			[]value{r.operand(sum, 200, s...), chosen, r.operand(sum, 200, y...)}, []value{r.result(sum, s...)})

		along := slices.Clone(s)
		for i := range along {
			along[i] = r.IntN(s[i] + 1)
		}
		along[axis] = r.IntN(20)
		chosen = r.operand(ids, s[axis], along...)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("gather", cpu.Gather), Ints: []int{axis}}, []value{r.operand(d, 200, s...), chosen}, []value{r.result(d, along...)})
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("scatter_add", cpu.ScatterAdd), Ints: []int{axis}},
			[]value{r.operand(sum, 200, s...), chosen, r.operand(sum, 200, along...)}, []value{r.result(sum, s...)})

		classes := s[axis]
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("one_hot", cpu.OneHot), Ints: []int{classes}}, []value{chosen}, []value{r.result(kernels.Int64, append(slices.Clone(along), classes)...)})
	}
}

// Embedding rows that are aligned move 16 bytes at a time; odd ones do not.
func TestEmbedding(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(6)
	for _, width := range []int{1, 4, 63, 64, 65, 256} {
		for _, d := range kernels.DTypes() {
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("embedding", cpu.IndexSelect), Ints: []int{0}},
				[]value{r.operand(d, 200, 9, width), r.operand(kernels.Int64, 9, 4, 7)}, []value{r.result(d, 4, 7, width)})
		}
	}
}

// An index outside its axis is a fault, not a wrong element.
func TestIndexOutside(t *testing.T) {
	needKernels(t)
	if !inChild(t) { // the GPU is lost to the process
		return
	}
	b := kernelDevice(t)
	if !b.gpu.emulated() {
		t.Skip("would end the use of the GPU")
	}
	r := newFuzz(7)
	ids := r.operand(kernels.Int64, 1, 3)
	for i := range ids.data {
		ids.data[i] = 0xff // -1
	}
	_, err := on(t, b, &kernels.Launch{Op: rowOf("embedding", cpu.IndexSelect), Ints: []int{0}}, []value{r.operand(kernels.Float32, 0, 4, 2), ids}, []value{r.result(kernels.Float32, 3, 2)})
	if !errors.Is(err, ErrFault) {
		t.Errorf("error %v, want a fault", err)
	}
}

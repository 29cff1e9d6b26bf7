package cpu

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// sortedIndices is what Sort must give for a row, by the sort of the standard library.
func sortedIndices(row []float32, descending bool) []int {
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := row[i], row[j]
		if descending {
			a, b = b, a
		}
		if a != a || b != b { // cmp.Compare has NaN before all numbers
			return -cmp.Compare(a, b)
		}
		return cmp.Compare(a, b)
	})
	return order
}

// TestSort: rows of all lengths, of few different numbers and of many, with NaN, infinities and both zeros, along every
// axis, and long ones on several threads; topk of the same rows.
func TestSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	specials := []float32{float32(math.NaN()), math.Float32frombits(0xffc00001), float32(math.Inf(1)),
		float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, -math.MaxFloat32}
	draw := func() float32 {
		switch r.IntN(8) {
		case 0:
			return specials[r.IntN(len(specials))]
		case 1:
			return float32(r.IntN(5))
		}
		return float32(r.NormFloat64())
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, c := range []struct{ outer, n, inner, threads int }{
		{3, 1, 1, 1}, {2, 2, 3, 1}, {2, fewPairs, 1, 1}, {3, fewPairs + 1, 2, 1}, {2, 700, 1, 2}, {1, 699, 1, 1},
		{40, 300, 3, 4}, {1, 2 * longRow, 1, 3}, {2, longRow + 7, 1, 4}, {1, longRow, 2, 5},
	} {
		runtime.GOMAXPROCS(c.threads)
		x := make([]float32, c.outer*c.n*c.inner)
		for i := range x {
			x[i] = draw()
		}
		if c.n == 699 { // digits that all pairs but one share
			for i := range x {
				x[i] = 1
			}
			x[300] = 0.5
		}
		if c.n == longRow+7 { // pieces that topk skips, unless there is a NaN of either sign
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			for _, i := range []int{20001, 20002, 31000, c.n - 1} {
				x[i] = specials[i%2]
			}
		}
		for _, descending := range []int{0, 1} {
			for _, k := range []int{c.n, 1, c.n/9 + 1, min(c.n, 2000)} {
				shape := []int{c.outer, c.n, c.inner}
				in := newContiguous(shape, kernels.Float32)
				copy(Slice[float32](in), x)
				shape = []int{c.outer, k, c.inner}
				l := &kernels.Launch{In: []kernels.Arg{in}, Ints: []int{1, descending},
					Out: []kernels.Arg{newContiguous(shape, kernels.Float32), newContiguous(shape, kernels.Int64)}}
				if k == c.n {
					Sort(l)
				} else {
					l.Ints = []int{1, k, descending}
					TopK(l)
				}
				name := fmt.Sprintf("%v, %d of them, descending %d", c, k, descending)
				checkSorted(t, name, l, x, c.n, c.inner, descending == 1)
			}
		}
	}
}

// checkSorted compares the k results of every row [n] of x [outer n inner].
func checkSorted(t *testing.T, name string, l *kernels.Launch, x []float32, n, inner int, descending bool) {
	t.Helper()
	values, indices := Slice[float32](l.Out[0]), Slice[int64](l.Out[1])
	k := l.Out[0].Shape[1]
	for row := range len(x) / n {
		elements := make([]float32, n)
		from, to := row/inner*n*inner+row%inner, row/inner*k*inner+row%inner
		for i := range elements {
			elements[i] = x[from+i*inner]
		}
		for i, want := range sortedIndices(elements, descending)[:k] {
			v, index := values[to+i*inner], indices[to+i*inner]
			if int(index) != want || math.Float32bits(v) != math.Float32bits(elements[want]) {
				t.Fatalf("%s: row %d has %v of index %d at %d, want %v of %d", name, row, v, index, i,
					elements[want], want)
			}
		}
	}
}

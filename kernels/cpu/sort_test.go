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

// TestSortIntegers: rows of every integer type and of bools, also empty, all equal and with the extremes, in either
// memory order: sort, and topk of few and of many.
func TestSortIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	extremes := []int64{math.MinInt64, math.MaxInt64, math.MinInt32, math.MaxInt32, -1, 0, 1, 255}
	draws := map[string]func() int64{
		"equal": func() int64 { return 7 }, "small": func() int64 { return r.Int64N(1000) },
		"any": func() int64 { return int64(r.Uint64()) }, "extreme": func() int64 { return extremes[r.IntN(8)] },
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, d := range []kernels.DType{kernels.Bool, kernels.Uint8, kernels.Int32, kernels.Int64} {
		for name, draw := range draws {
			for _, c := range []struct{ outer, n, inner, threads int }{
				{2, 0, 3, 1}, {2, 1, 1, 1}, {3, fewPairs + 1, 2, 1}, {2, 1500, 2, 2}, {1, 2*longRow + 5, 1, 3},
			} {
				if c.n > longRow && name != "small" {
					continue
				}
				runtime.GOMAXPROCS(c.threads)
				in := newContiguous([]int{c.outer, c.n, c.inner}, d)
				if c.inner > 1 { // a transposed operand
					in = newContiguous([]int{c.inner, c.n, c.outer}, d)
					in.Shape = []int{c.outer, c.n, c.inner}
					slices.Reverse(in.Strides)
				}
				x := make([]int64, in.Len())
				for i := range x {
					x[i] = draw()
				}
				store(bytesOf(in), x, d)
				load(x, bytesOf(in), d)
				for _, k := range []int{c.n, min(c.n, 1), min(c.n, fewPairs), min(c.n, fewPairs+1), c.n / 3} {
					for descending := range 2 {
						checkSortedIntegers(t, fmt.Sprint(d, name, c, k, descending), in, x, k, descending)
					}
				}
			}
		}
	}
}

// checkSortedIntegers compares the first k of each row of in, whose memory has the elements x, with the sort of the
// standard library.
func checkSortedIntegers(t *testing.T, name string, in kernels.Arg, x []int64, k, descending int) {
	t.Helper()
	shape := []int{in.Shape[0], k, in.Shape[2]}
	l := &kernels.Launch{Op: &kernels.Op{Name: "topk"}, In: []kernels.Arg{in}, Ints: []int{1, k, descending},
		Out: []kernels.Arg{newContiguous(shape, in.DType), newContiguous(shape, kernels.Int64)}}
	TopK(l)
	values, indices := make([]int64, l.Out[0].Len()), Slice[int64](l.Out[1])
	load(values, bytesOf(l.Out[0]), in.DType)
	for row := range shape[0] * shape[2] {
		a, c := row/shape[2], row%shape[2]
		at := func(i int) int64 { return x[a*in.Strides[0]+i*in.Strides[1]+c*in.Strides[2]] }
		order := make([]int, in.Shape[1])
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int {
			if descending == 1 {
				i, j = j, i
			}
			return cmp.Compare(at(i), at(j))
		})
		for i, want := range order[:k] {
			if o := (a*k+i)*shape[2] + c; int(indices[o]) != want || values[o] != at(want) {
				t.Fatalf("%s: row %d has %d of index %d at %d, want %d of %d", name, row, values[o], indices[o], i,
					at(want), want)
			}
		}
	}
}

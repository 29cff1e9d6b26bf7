package matmul

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// An unfolded operand gives the bits of the matrix that it stands for, on all tiers, also where the product is added to
// what C holds.
func TestUnfold(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	count := 150
	if raceEnabled || testing.Short() {
		count = 15
	}
	for trial := range count {
		m, k := 1+r.IntN(40), []int{r.IntN(30), 250 + r.IntN(20), r.IntN(1100)}[r.IntN(3)]
		if k < 30 {
			m *= 1 + 3*r.IntN(2) // also so many that all strips are packed
		}
		shape := []int{1 + r.IntN(3), 1 + r.IntN(20), 1 + r.IntN(40)}
		inner := 1 + r.IntN(2)*r.IntN(2)
		strides := []int{2000, 60 + r.IntN(40), inner}
		b := UnfoldedOf[float32]{Rows: make([]int, k)}
		b.Columns.PushAll(shape, strides)
		for p := range b.Rows {
			b.Rows[p] = r.IntN(500)
		}
		n := b.Columns.Len()
		b.Data = layout("rows").view(r, 1, 500+b.Columns.Offset(n-1)).Data
		plain := Matrix{make([]float32, k*n), n, 1}
		for p := range k {
			for j := range n {
				plain.Data[p*n+j] = b.Data[b.Rows[p]+b.Columns.Offset(j)]
			}
		}
		a := layouts[r.IntN(len(layouts))].view(r, m, k)
		want := make([]float32, m*n)
		naive(m, n, k, a, plain, want, n)
		apart, of, chunked := inChunks(r, a, b, plain, m)
		for _, tier := range tiers() {
			t.Run(fmt.Sprint(trial, " ", tier), func(t *testing.T) {
				force(t, tier)
				c := make([]float32, m*n)
				var finished atomic.Int64 // the epilogue runs on several goroutines
				Unfold(m, a, b, c, n, false, func(i, j int, dst []float32) { finished.Add(int64(len(dst))) })
				if at := differ(c, want); at >= 0 {
					t.Fatalf("[%d %d] x [%d %v]: element %d is %v, want %v", m, k, k, shape, at, c[at], want[at])
				}
				if finished.Load() != int64(m*n) {
					t.Fatalf("the epilogue got %d of %d elements", finished.Load(), m*n)
				}
				Unfold(m, apart, of, c, n, false, nil)
				if at := differ(c, chunked); at >= 0 {
					t.Fatalf("in chunks %v, [%d %d] x [%d %v]: element %d differs", of.Chunks, m, k, k, shape, at)
				}
				if inner == 1 && k > 0 && Lanes[float32]() > 0 {
					testRuns(t, r.IntN(2) == 0, m, a, b, shape, want)
				}
				first := k / 2 / Chunk * Chunk
				head, tail := b, b
				head.Rows, tail.Rows = b.Rows[:first], b.Rows[first:]
				Unfold(m, a, head, c, n, false, nil)
				Unfold(m, Matrix{a.Data[first*a.ColStride:], a.RowStride, a.ColStride}, tail, c, n, first > 0, nil)
				if at := differ(c, want); at >= 0 {
					t.Fatalf("in two parts, [%d %d] x [%d %v]: element %d differs", m, k, k, shape, at)
				}
			})
		}
	}
	if slices.Contains(tiers(), vec.AVX512) && split.Load() == 0 {
		t.Error("no runs were in pieces")
	}
}

// split counts the products of testRuns whose runs are in pieces.
var split atomic.Int64

// testRuns has columns read in runs, and put where runs are apart or neighbours.
func testRuns(t *testing.T, apart bool, m int, a Matrix, b UnfoldedOf[float32], shape []int, want []float32) {
	n := len(want) / m
	b.Run = shape[2]
	strides := []int{shape[1] * shape[2], shape[2], 1}
	if apart {
		strides = []int{shape[1]*(shape[2]+3) + 5, shape[2] + 3, 1}
	}
	if whole := shape[1] * shape[2]; !apart && Splits[float32](whole, shape[2]) {
		b.Run = whole
		if strides[0]++; shape[0] > 1 {
			split.Add(1)
		}
	}
	b.Result.PushAll(shape, strides)
	wide := b.Result.Offset(n-1) + 1
	c := slices.Repeat([]float32{7}, m*wide)
	var finished atomic.Int64
	Unfold(m, a, b, c, wide, false, func(i, j int, dst []float32) {
		if &dst[0] != &c[i*wide+j] {
			t.Errorf("a segment of row %d is not at %d", i, j)
		}
		finished.Add(int64(len(dst)))
	})
	for i := range m {
		row := slices.Repeat([]float32{7}, wide)
		for j := range n {
			row[b.Result.Offset(j)] = want[i*n+j]
		}
		if at := differ(c[i*wide:(i+1)*wide], row); at >= 0 {
			t.Fatalf("runs of %v, row %d of %d: element %d is %v, want %v", shape, i, m, at, c[i*wide+at], row[at])
		}
	}
	if finished.Load() != int64(m*n) {
		t.Fatalf("the epilogue got %d of %d elements of runs", finished.Load(), m*n)
	}
}

// inChunks is a product in other chunks, of columns of A that are apart.
func inChunks(r *rand.Rand, a Matrix, b UnfoldedOf[float32], plain Matrix, m int) (apart Matrix, of UnfoldedOf[float32],
	chunked []float32) {
	k, n := len(b.Rows), b.Columns.Len()
	chunked, of = make([]float32, m*n), b
	for end := 0; end < k; of.Chunks = append(of.Chunks, end) {
		begin := end
		end = min(k, begin+1+r.IntN(Chunk))
		part := make([]float32, m*n)
		naive(m, n, end-begin, Matrix{a.Data[begin*a.ColStride:], a.RowStride, a.ColStride},
			Matrix{plain.Data[begin*n:], n, 1}, part, n)
		for i, v := range part {
			if begin > 0 {
				v += chunked[i]
			}
			chunked[i] = v
		}
	}
	for p, at := 0, 0; p < k; p++ {
		of.LeftColumns = append(of.LeftColumns, at)
		at += []int{1, 1, 1, 1 + r.IntN(4)}[r.IntN(4)]
	}
	apart = layout("rows").view(r, m, 4*k+1)
	for i := range m {
		for p, at := range of.LeftColumns {
			apart.Data[i*apart.RowStride+at] = a.Data[i*a.RowStride+p*a.ColStride]
		}
	}
	return apart, of, chunked
}

// A row of an unfolded product, and sums that go on, have the bits of the definition on all tiers.
func TestChainsAndCorrelate(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	random := func(n int) []float32 { return layout("rows").view(r, 1, n).Data[:n] }
	for range 60 {
		k, n, taps, columns, step := 1+r.IntN(Chunk), 1+r.IntN(100), 1+r.IntN(17), Unit*(1+r.IntN(2)), r.IntN(70)
		a, data, rows, want := random(k), random(500+n+Room), make([]int, k), make([]float32, n)
		g, x, chains := random(k*columns), random(500+taps*step+columns), random(taps*columns)
		for p := range rows {
			rows[p] = r.IntN(500)
		}
		for j := range want {
			for p, row := range rows {
				want[j] = lane.FMA32(a[p], data[row+j], want[j])
			}
		}
		further := slices.Clone(chains)
		for t := range taps {
			for j := range columns {
				for p, row := range rows {
					at := t*columns + j
					further[at] = lane.FMA32(g[p*columns+j], x[row+t*step+j], further[at])
				}
			}
		}
		for _, tier := range tiers() {
			force(t, tier)
			got, c := make([]float32, n+1), slices.Clone(chains)
			Chains(got[:n], a, data, rows)
			Correlate(c, g, x, rows, taps, step, columns)
			if at := differ(got, append(want, 0)); at >= 0 {
				t.Fatalf("%v: %d terms, column %d of %d is %v, want %v", tier, k, at, n, got[at], append(want, 0)[at])
			}
			if at := differ(c, further); at >= 0 {
				t.Fatalf("%v: %d terms, %d taps of %d columns: element %d differs", tier, k, taps, columns, at)
			}
		}
	}
}

// Rows of a plane are copied, and nothing beside them.
func TestCopyPlane(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for trial := range 200 {
		n, rows, step := r.IntN(40), r.IntN(4), r.IntN(4)
		dstRow, srcRow := n+r.IntN(3), n*step+r.IntN(3)
		src := layout("rows").view(r, 1, rows*srcRow+1).Data
		if rows > 0 && n > 0 {
			src = src[:(rows-1)*srcRow+(n-1)*step+1]
		}
		want := slices.Repeat([]float32{7}, rows*dstRow+1)
		for i := range rows {
			for j := range n {
				want[i*dstRow+j] = src[i*srcRow+j*step]
			}
		}
		for _, tier := range tiers() {
			force(t, tier)
			got := slices.Repeat([]float32{7}, len(want))
			CopyPlane(got, dstRow, src, srcRow, rows, n, step)
			if at := differ(got, want); at >= 0 {
				t.Fatalf("%d, %v: %d rows of %d, %d apart: element %d differs", trial, tier, rows, n, step, at)
			}
			if step == 0 {
				continue
			}
			back := slices.Clone(src)
			for i := range src {
				back[i] = float32(i)
			}
			put := slices.Clone(back)
			for i := range rows {
				for j := range n {
					back[i*srcRow+j*step] = src[i*srcRow+j*step]
				}
			}
			PutPlane(put, srcRow, got, dstRow, rows, n, step)
			if at := differ(put, back); at >= 0 {
				t.Fatalf("%d, %v: put %d rows of %d, %d apart: element %d differs", trial, tier, rows, n, step, at)
			}
		}
	}
}

// differ is the first element in which x and y differ, -1 if there is none.
func differ(x, y []float32) int {
	for i := range x {
		if !same(x[i], y[i]) {
			return i
		}
	}
	return -1
}

// What a product would read outside of its operand is refused.
func TestUnfoldChecks(t *testing.T) {
	var columns kernels.Dims
	columns.Push(4, 1)
	for name, b := range map[string]UnfoldedOf[float32]{
		"short":    {Data: make([]float32, 8), Rows: []int{0, 5}, Columns: columns},
		"negative": {Data: make([]float32, 8), Rows: []int{0, -1}, Columns: columns},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if why := fmt.Sprint(recover()); !strings.Contains(why, "matmul: unfolded B has 8 elements") {
					t.Errorf("got %s", why)
				}
			}()
			Unfold(1, Matrix{make([]float32, 2), 2, 1}, b, make([]float32, 4), 4, false, nil)
		})
	}
}

package matmul

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weft-ml/weft/kernels"
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

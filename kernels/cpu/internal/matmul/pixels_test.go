package matmul

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Pixels have the bits of the product of matrices: for rows of any length, chunks of 256 terms or with gaps, columns of
// the weight one by one, channels that fill no vector, results a step apart.
func TestPixels(t *testing.T) {
	for _, tier := range tiers() {
		if force(t, tier); PixelLanes() > 0 {
			testPixels(t, rand.New(rand.NewPCG(21, 22)))
		}
	}
}

func testPixels(t *testing.T, r *rand.Rand) {
	for n := 1; n <= 2*MostPixels()+2; n++ {
		m, k, rows := 1+r.IntN(70), []int{r.IntN(4) * r.IntN(9), 250 + r.IntN(300)}[r.IntN(2)], 1+r.IntN(3)
		row, step, apart := 50+r.IntN(9), 1+r.IntN(2), 1+r.IntN(2)
		padded := divideUp(m, PixelLanes()) * PixelLanes()
		terms := make([]int, k)
		for p := range terms {
			terms[p] = r.IntN(500)
		}
		data := layout("rows").view(r, 1, slices.Max(append(terms, 0))+(rows-1)*row+(n-1)*step+1).Data
		unfolded := UnfoldedOf[float32]{Data: data, Rows: terms}
		unfolded.Columns.PushAll([]int{rows, n}, []int{row, step})
		plain := Matrix{make([]float32, k*rows*n), rows * n, 1}
		for p := range k {
			for j := range rows * n {
				plain.Data[p*rows*n+j] = data[terms[p]+unfolded.Columns.Offset(j)]
			}
		}
		a := layouts[r.IntN(len(layouts))].view(r, m, k)
		want := make([]float32, m*rows*n)
		naive(m, rows*n, k, a, plain, want, rows*n)
		of, chunks, inChunks := inChunks(r, a, unfolded, plain, m)
		for _, c := range []struct {
			weight        Matrix
			columns, ends []int
			want          []float32
		}{{a, nil, nil, want}, {of, chunks.LeftColumns, chunks.Chunks, inChunks}} {
			p := NewPixels(c.weight, m, c.columns, terms, c.ends, make([]float32, padded*k))
			got := slices.Repeat([]float32{7}, rows*n*apart*padded)
			f := &Fetch{Read: data[:r.IntN(len(data)+1)], Write: got[:r.IntN(len(got)+1)]}
			lines := min(divideUp(max(len(f.Read), len(f.Write)), 16),
				k*rows*divideUp(n, MostPixels())*padded/PixelLanes())
			p.Multiply(got, n*apart*padded, apart*padded, data, row, step, rows, n, []*Fetch{nil, f}[n%2])
			if f.lines != lines*(n%2) {
				t.Errorf("%d rows of %d pixels, %d terms: %d lines came, not %d", rows, n, k, f.lines, lines)
			}
			for j := range rows * n {
				for i := range m {
					if v := got[j*apart*padded+i]; v != c.want[i*rows*n+j] {
						t.Fatalf("%d rows of %d pixels, %d terms, ends %v: channel %d of pixel %d is %v, want %v",
							rows, n, k, c.ends, i, j, v, c.want[i*rows*n+j])
					}
				}
			}
		}
	}
}

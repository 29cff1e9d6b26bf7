package vec

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// rowKernels are the kernels for rows, called with a scalar and a result for each row where
// they have them, and the kernels for one row.
var rowKernels = []struct {
	name string
	outs int
	ins  int
	rows func(o, r []float32, x [][]float32, u []float32, n int)
	one  func(o []float32, x [][]float32, u float32) float32
}{
	{
		"Max", 0, 1, func(_, r []float32, x [][]float32, _ []float32, n int) { MaxRows(r, x[0], n) },
		func(_ []float32, x [][]float32, _ float32) float32 { return Max(x[0]) },
	},
	{
		"Dot", 0, 2, func(_, r []float32, x [][]float32, _ []float32, n int) { DotRows(r, x[0], x[1], n) },
		func(_ []float32, x [][]float32, _ float32) float32 { return Dot(x[0], x[1]) },
	},
	{
		"Scale", 1, 1, func(o, _ []float32, x [][]float32, u []float32, n int) { ScaleRows(o, x[0], u, n) },
		func(o []float32, x [][]float32, u float32) float32 { Scale(o, x[0], u); return 0 },
	},
	{
		"ExpSubSum", 1, 1, func(o, r []float32, x [][]float32, u []float32, n int) { ExpSubSumRows(o, r, x[0], u, n) },
		func(o []float32, x [][]float32, u float32) float32 { return ExpSubSum(o, x[0], u) },
	},
	{
		"SoftmaxGrad", 1, 2, func(o, _ []float32, x [][]float32, u []float32,
			n int) {
			SoftmaxGradRows(o, x[0], x[1], u, n)
		},
		func(o []float32, x [][]float32, u float32) float32 { SoftmaxGrad(o, x[0], x[1], u); return 0 },
	},
}

// TestRows holds the kernels for rows to those for one row.
func TestRows(t *testing.T) {
	tiers(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, k := range rowKernels {
			for _, rows := range []int{0, 1, 2, 5} {
				for n := range 150 {
					testRows(t, r, k.name, k.outs, k.ins, k.rows, k.one, rows, n)
				}
			}
			testRows(t, r, k.name, k.outs, k.ins, k.rows, k.one, 2, Block+3)
		}
	})
}

func testRows(t *testing.T, r *rand.Rand, name string, outs, ins int,
	many func(o, r []float32, x [][]float32, u []float32, n int),
	one func(o []float32, x [][]float32, u float32) float32, rows, n int,
) {
	t.Helper()
	x := make([][]float32, ins)
	for k := range x {
		x[k] = values(r, rows*n, n%2 == 0)
	}
	u := values(r, rows, false)
	want, wantResults := make([]float32, outs*rows*n), make([]float32, rows)
	for i := range rows {
		row := make([][]float32, ins)
		for k := range x {
			row[k] = x[k][i*n : (i+1)*n]
		}
		wantResults[i] = one(want[outs*i*n:outs*(i+1)*n], row, u[i])
	}
	outGuard, out := guarded(make([]float32, outs*rows*n), 65)
	resultGuard, results := guarded(make([]float32, rows), 65)
	many(out, results, x, u, n)
	if !equal(out, want) || !equal(results, wantResults) {
		t.Fatalf("%s of %d rows of %d: %v with results %v, want %v with %v", name, rows, n, out, results, want,
			wantResults)
	}
	if !intact(outGuard, 65, outs*rows*n) || !intact(resultGuard, 65, rows) {
		t.Fatalf("%s of %d rows of %d: wrote outside", name, rows, n)
	}
}

func TestRowsLengthMismatch(t *testing.T) {
	defer func() {
		if s := fmt.Sprint(recover()); !strings.Contains(s, "MaxRows: slices of different lengths: 6 and 7") {
			t.Errorf("panic %q", s)
		}
	}()
	MaxRows(make([]float32, 2), make([]float32, 7), 3)
}

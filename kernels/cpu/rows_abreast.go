package cpu

import (
	"math/bits"
	"sync"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Short rows that are neighbours in memory are computed abreast, one element of each at a time: that needs no copies,
// and fills vectors.

const (
	abreastRow    = 128   // most elements of a row: as many as there are partial sums in the canonical order
	abreastLevels = 7     // of a sum of so many elements
	abreastLeast  = 16    // fewest rows
	abreastMost   = 1024  // most rows at a time
	abreastSize   = 16384 // most elements of an operand at a time, which the cache holds
)

// rowsAbreast has element i of each of several rows at index i.
type rowsAbreast [][]float32

// An abreastJob computes rows of up to three operands, of which one may be the result.
type abreastJob struct {
	operands   int
	reductions [3]*reduction
	data       [3][]float32

	rows    [3]rowsAbreast
	scratch rowsAbreast // for as many elements
	a, b    []float32   // for one element of each row
	levels  rowsAbreast // for sum
	memory  [4*abreastRow + 2 + abreastLevels][]float32
}

// An abreastFunc computes the rows that w has, the first of which is number row.
type abreastFunc func(w *abreastJob, row int)

var abreastJobs = sync.Pool{New: func() any { return &abreastJob{} }}

func newAbreastJob() *abreastJob { return abreastJobs.Get().(*abreastJob) }

// abreast tells whether rows are short, many, and neighbours in memory.
func (r *reduction) abreast() bool {
	last := r.Kept.Rank - 1
	return r.N > 0 && r.N <= abreastRow && last >= 0 && r.Kept.Strides[last] == 1 && r.Kept.Shape[last] >= abreastLeast
}

// operand adds an operand, which r describes.
func (w *abreastJob) operand(r *reduction, a kernels.Arg) {
	w.reductions[w.operands], w.data[w.operands] = r, Slice[float32](a)
	w.operands++
}

// run calls f for rows [lo, hi), several at a time.
func (w *abreastJob) run(lo, hi int, f abreastFunc) {
	n, memory := w.reductions[0].N, w.memory[:]
	take := func(n int) (rows rowsAbreast) {
		rows, memory = rowsAbreast(memory[:n]), memory[n:]
		return rows
	}
	for k := range w.operands {
		w.rows[k] = take(n)
	}
	work := take(n + 2 + abreastLevels)
	most := min(abreastMost, abreastSize/n&^15)
	buf := borrow(len(work) * most)
	for row := lo; row < hi; {
		count := min(most, hi-row)
		for _, r := range w.reductions[:w.operands] {
			at := r.Kept.Cursor(row)
			count = min(count, at.Run())
		}
		for k, r := range w.reductions[:w.operands] {
			at := r.Reduced.Cursor(0)
			for i := range n {
				w.rows[k][i] = w.data[k][r.Kept.Offset(row)+at.Offset:][:count]
				at.Next()
			}
		}
		for i := range work {
			work[i] = (*buf)[i*count:][:count]
		}
		w.scratch, w.a, w.b, w.levels = work[:n], work[n], work[n+1], work[n+2:]
		f(w, row)
		row += count
	}
	giveBack(buf)
	*w = abreastJob{}
	abreastJobs.Put(w)
}

var vecSub, vecMul, vecDiv = vec.Instr("sub"), vec.Instr("mul"), vec.Instr("div")
var vecMax, vecExp = vec.Instr("max"), vec.Instr("exp")

// max sets dst to the largest element of each row.
func (rows rowsAbreast) max(dst []float32) {
	copy(dst, rows[0])
	for _, x := range rows[1:] {
		vecMax(dst, dst, x, nil)
	}
}

// sum sets dst to the sum of each row in the canonical order.
func (rows rowsAbreast) sum(dst []float32, levels rowsAbreast) {
	rows.tree(dst, levels)
	vec.Shift(dst, dst, 0) // sums begin with +0
}

// tree adds neighbours first.
func (rows rowsAbreast) tree(dst []float32, levels rowsAbreast) {
	switch n := len(rows); n {
	case 1:
		copy(dst, rows[0])
	case 2:
		vecAdd(dst, rows[0], rows[1], nil)
	default:
		half := 1 << (bits.Len(uint(n-1)) - 1)
		rows[:half].tree(dst, levels)
		rows[half:].tree(levels[0], levels[1:])
		vecAdd(dst, dst, levels[0], nil)
	}
}

// expSub sets dst to exp(x - m).
func (dst rowsAbreast) expSub(x rowsAbreast, m []float32) {
	for i, e := range dst {
		vecSub(e, x[i], m, nil)
		vecExp(e, e, nil, nil)
	}
}

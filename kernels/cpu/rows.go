package cpu

import (
	"sync"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// A reduction is an operand cut into rows: those elements that one result is made of.
type reduction struct{ kernels.Reduction }

func reductionOf(a kernels.Arg, axes []int) *reduction {
	r := &reduction{}
	r.Set(&a.Layout, axes)
	return r
}

// rowsOf are the rows of a along its last k axes.
func rowsOf(a kernels.Arg, k int) *reduction {
	axes := make([]int, k)
	for i := range axes {
		axes[i] = len(a.Shape) - k + i
	}
	return reductionOf(a, axes)
}

// columnsOf are the columns of contiguous matrices, as rows that are reduced by columns.
func columnsOf(matrices, rows, columns int) *reduction {
	r := &reduction{kernels.Reduction{N: rows, Columns: true}}
	r.Kept.Rank = 2
	r.Kept.Shape[0], r.Kept.Strides[0] = matrices, rows*columns
	r.Kept.Shape[1], r.Kept.Strides[1] = columns, 1
	r.Reduced.Push(rows, columns)
	return r
}

// contiguousRows are rows of n elements, one after the other.
func contiguousRows(rows, n int) *reduction {
	r := &reduction{kernels.Reduction{N: n}}
	r.Kept.Push(rows, n)
	r.Reduced.Push(n, 1)
	return r
}

// packed tells whether all rows together are contiguous.
func (r *reduction) packed() bool {
	return r.Reduced.Contiguous() && r.Kept.Rank == 1 && r.Kept.Strides[0] == r.N
}

// apart tells whether rows are contiguous pieces of a cache line and more, so that they are best copied one by one.
func (r *reduction) apart() bool {
	last := r.Reduced.Rank - 1
	return last >= 0 && r.Reduced.Strides[last] == 1 && r.Reduced.Shape[last] >= 16
}

// gathered is the size of the buffer that elements needs for up to n elements.
func (r *reduction) gathered(n int) int {
	if r.Reduced.Contiguous() {
		return 0
	}
	return min(n, r.N)
}

// elements are elements [from, to) of a row of x, copied to buf if they are not contiguous.
func (r *reduction) elements(buf, x []float32, row, from, to int) []float32 {
	if from == to {
		return nil
	}
	x = x[r.Kept.Offset(row):]
	if r.Reduced.Contiguous() {
		return x[from:to]
	}
	buf = buf[:to-from]
	stride := r.Reduced.Strides[r.Reduced.Rank-1]
	at := r.Reduced.Cursor(from)
	for i := 0; i < len(buf); {
		run := min(at.Run(), len(buf)-i)
		if stride == 1 {
			copy(buf[i:i+run], x[at.Offset:])
		} else {
			for k := range run {
				buf[i+k] = x[at.Offset+k*stride]
			}
		}
		i += run
		at.Skip(run)
	}
	return buf
}

// rowGrain is about how many elements are worth a second thread in operations along rows.
const rowGrain = 16384

// parRows calls f for ranges [lo, hi) of rows of n elements, on several threads if there are many.
func parRows(rows, n int, f func(lo, hi int)) { par.For(rows, 1+rowGrain/max(1, n), f) }

// eachRow calls f for every row of the operands along the axis l.Ints[0], and for the same row of the result. For short
// rows, for which one call each would take too long, bundle does the same for up to bundleRows contiguous rows of n
// elements, and abreast for rows abreast; either is nil if there is no such function.
func eachRow(l *kernels.Launch, f rowFunc, bundle bundleFunc, abreast abreastFunc) {
	rowJobs.Get().(*rowJob).do(l, f, nil, bundle, abreast)
}

// eachRange is eachRow of one operand where f computes rows [lo, hi), and so may begin one before another is done.
func eachRange(l *kernels.Launch, f rangeFunc, bundle bundleFunc, abreast abreastFunc) {
	rowJobs.Get().(*rowJob).do(l, nil, f, bundle, abreast)
}

func (j *rowJob) do(l *kernels.Launch, f rowFunc, rows rangeFunc, bundle bundleFunc, abreast abreastFunc) {
	axes := l.Ints[:1]
	j.l, j.f, j.rows, j.bundle, j.abreast = l, f, rows, bundle, abreast
	j.out.Set(&l.Out[0].Layout, axes)
	for k := range l.In {
		j.in[k].Set(&l.In[k].Layout, axes)
	}
	if j.out.N > 0 {
		parRows(j.out.Results(), j.out.N, j.body)
	}
	j.l, j.f, j.rows, j.bundle, j.abreast = nil, nil, nil, nil, nil
	rowJobs.Put(j)
}

// A rowFunc computes a row of the result, a rangeFunc rows [lo, hi), a bundleFunc several rows of n elements.
type (
	rowFunc    func(dst []float32, in [][]float32)
	rangeFunc  func(y, x *rowAccess, lo, hi int)
	bundleFunc func(dst []float32, in [][]float32, n int)
)

// A rowJob is one call of eachRow. It is used again, so that an op call allocates nothing.
type rowJob struct {
	l       *kernels.Launch
	f       rowFunc
	rows    rangeFunc // instead of f
	bundle  bundleFunc
	abreast abreastFunc
	out     reduction
	in      [2]reduction
	body    func(lo, hi int) // run, made once
}

var rowJobs = sync.Pool{New: func() any {
	j := &rowJob{}
	j.body = j.run
	return j
}}

const (
	shortRow   = 512  // most elements of a row in a bundle
	bundleRows = 64   // most rows of a bundle
	bundleSize = 4096 // most elements of a bundle, which the L1 cache holds
)

// bundled tells whether rows can be computed in bundles.
func (j *rowJob) bundled() bool {
	if j.bundle == nil || j.out.N > shortRow || !j.out.packed() {
		return false
	}
	for k := range j.l.In {
		if !j.in[k].packed() {
			return false
		}
	}
	return true
}

// runBundles computes rows [lo, hi) in bundles.
func (j *rowJob) runBundles(lo, hi int) {
	n := j.out.N
	height := min(bundleRows, bundleSize/n)
	piece := func(r *reduction, a kernels.Arg, row, rows int) []float32 {
		offset := r.Kept.Offset(row)
		return Slice[float32](a)[offset : offset+rows*n]
	}
	var in [2][]float32
	for row := lo; row < hi; row += height {
		rows := min(height, hi-row)
		for k, a := range j.l.In {
			in[k] = piece(&j.in[k], a, row, rows)
		}
		j.bundle(piece(&j.out, j.l.Out[0], row, rows), in[:len(j.l.In)], n)
	}
}

// sideBySide tells whether rows can be computed abreast.
func (j *rowJob) sideBySide() bool {
	if j.abreast == nil || !j.out.abreast() {
		return false
	}
	for k := range j.l.In {
		if !j.in[k].abreast() {
			return false
		}
	}
	return true
}

// runAbreast computes rows [lo, hi) abreast.
func (j *rowJob) runAbreast(lo, hi int) {
	w := newAbreastJob()
	for k, a := range j.l.In {
		w.operand(&j.in[k], a)
	}
	w.operand(&j.out, j.l.Out[0])
	w.run(lo, hi, j.abreast)
}

func (j *rowJob) run(lo, hi int) {
	switch {
	case j.bundled():
		j.runBundles(lo, hi)
	case j.sideBySide():
		j.runAbreast(lo, hi)
	default:
		j.runRows(lo, hi)
	}
}

// runRows computes rows [lo, hi) one after the other.
func (j *rowJob) runRows(lo, hi int) {
	y := newRowAccess(&j.out, j.l.Out[0], hi)
	var x [2]rowAccess
	var rows [2][]float32
	for k, a := range j.l.In {
		x[k] = newRowAccess(&j.in[k], a, hi)
	}
	if j.rows != nil {
		j.rows(&y, &x[0], lo, hi)
		lo = hi
	}
	for row := lo; row < hi; row++ {
		for k := range j.l.In {
			rows[k] = x[k].read(row)
		}
		j.f(y.write(row), rows[:len(j.l.In)])
	}
	y.flush()
	y.close()
	for k := range j.l.In {
		x[k].close()
	}
}

// eachResult calls f for every row of the first operand along the axes l.Ints, with its number. abreast does the same
// for rows abreast; nil if there is no such function.
func eachResult(l *kernels.Launch, f func(row int, x []float32), abreast abreastFunc) {
	r := reductionOf(l.In[0], l.Ints)
	parRows(l.Out[0].Len(), r.N, func(lo, hi int) {
		if abreast != nil && r.abreast() {
			w := newAbreastJob()
			w.operand(r, l.In[0])
			w.run(lo, hi, abreast)
			return
		}
		x := newRowAccess(r, l.In[0], hi)
		for row := lo; row < hi; row++ {
			f(row, x.read(row))
		}
		x.close()
	})
}

// rowAccess reads or writes the rows of an operand, one after the other, as contiguous elements. Rows that are not
// contiguous are copied, several at a time: their elements may share cache lines.
type rowAccess struct {
	r           *reduction
	data        []float32
	end         int        // no row from here on is asked for
	direct      bool       // rows are contiguous
	buf         *[]float32 // copies of rows
	first, have int        // the rows in buf
}

// newRowAccess prepares for rows before end of the operand a, which r describes.
func newRowAccess(r *reduction, a kernels.Arg, end int) rowAccess {
	return rowAccess{r: r, data: Slice[float32](a), end: end, direct: r.N == 0 || r.Reduced.Contiguous()}
}

const (
	accessGroup = 16      // most rows copied at a time
	accessLimit = 1 << 18 // most elements copied at a time, if that is more than one row
	accessPad   = 16      // elements between copies, so that they do not compete for the same sets of the cache
)

// group sets the rows in buf to those from row on.
func (a *rowAccess) group(row int) {
	a.first, a.have = row, max(1, min(accessGroup, a.end-row, accessLimit/max(1, a.r.N)))
	if a.r.apart() {
		a.have = 1
	}
	if a.buf == nil {
		a.buf = borrow(a.have * (a.r.N + accessPad))
	}
	if last := a.r.Kept.Rank - 1; last >= 0 && a.r.Kept.Strides[last] == 1 { // only neighbours
		at := a.r.Kept.Cursor(row)
		a.have = min(a.have, at.Run())
	}
}

// inPlace is a contiguous row.
func (a *rowAccess) inPlace(row int) []float32 {
	if a.r.N == 0 {
		return nil
	}
	offset := a.r.Kept.Offset(row)
	return a.data[offset : offset+a.r.N : offset+a.r.N]
}

// copied is the copy of a row.
func (a *rowAccess) copied(row int) []float32 {
	start := (row - a.first) * (a.r.N + accessPad)
	return (*a.buf)[start : start+a.r.N : start+a.r.N]
}

// read returns the elements of a row. Calls count rows up.
func (a *rowAccess) read(row int) []float32 {
	if a.direct {
		return a.inPlace(row)
	}
	if a.buf == nil || row >= a.first+a.have {
		a.group(row)
		a.copyGroup(false)
	}
	return a.copied(row)
}

// write returns memory for the elements of a row. Calls count rows up; flush stores the last ones.
func (a *rowAccess) write(row int) []float32 {
	if a.direct {
		return a.inPlace(row)
	}
	if a.buf == nil || row >= a.first+a.have {
		a.flush()
		a.group(row)
	}
	return a.copied(row)
}

// flush stores the copies of rows.
func (a *rowAccess) flush() {
	if a.buf != nil {
		a.copyGroup(true)
	}
}

// copyGroup copies the rows of the group to buf, or stores them from there.
func (a *rowAccess) copyGroup(store bool) {
	var starts [accessGroup]int
	for k := range a.have {
		starts[k] = a.r.Kept.Offset(a.first + k)
	}
	buf, pitch := *a.buf, a.r.N+accessPad
	at := a.r.Reduced.Cursor(0)
	if a.r.apart() && !store { // results along several axes would be contiguous
		for i := 0; i < a.r.N; {
			run := at.Run()
			copy(buf[i:i+run], a.data[starts[0]+at.Offset:])
			at.Skip(run)
			i += run
		}
		return
	}
	if a.have >= 4 && a.r.Reduced.Strides[a.r.Reduced.Rank-1] > 0 && consecutive(starts[:a.have]) {
		a.transposeGroup(starts[0], store)
		return
	}
	for i := range a.r.N {
		for k, start := range starts[:a.have] {
			if store {
				a.data[start+at.Offset] = buf[k*pitch+i]
			} else {
				buf[k*pitch+i] = a.data[start+at.Offset]
			}
		}
		at.Next()
	}
}

// transposeGroup is copyGroup for rows that are neighbours in memory, the first of which begins at start.
func (a *rowAccess) transposeGroup(start int, store bool) {
	buf, pitch := *a.buf, a.r.N+accessPad
	stride := a.r.Reduced.Strides[a.r.Reduced.Rank-1]
	at := a.r.Reduced.Cursor(0)
	for i := 0; i < a.r.N; {
		run, data := at.Run(), a.data[start+at.Offset:]
		if store {
			matmul.Transpose(data, stride, matmul.Matrix{Data: buf[i:], RowStride: pitch, ColStride: 1}, a.have, run)
		} else {
			matmul.Transpose(buf[i:], pitch, matmul.Matrix{Data: data, RowStride: stride, ColStride: 1}, run, a.have)
		}
		at.Skip(run)
		i += run
	}
}

// close gives the memory of copies back.
func (a *rowAccess) close() {
	if a.buf != nil {
		giveBack(a.buf)
	}
}

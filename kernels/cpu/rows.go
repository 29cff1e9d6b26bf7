package cpu

import (
	"sync"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// A reduction is an operand as its results see it.
type reduction struct{ kernels.Reduction }

func reductionOf(a kernels.Arg, axes []int) *reduction {
	r := &reduction{}
	r.Set(&a.Layout, axes)
	return r
}

// rowsOf is a with its last k axes reduced.
func rowsOf(a kernels.Arg, k int) *reduction {
	axes := make([]int, k)
	for i := range axes {
		axes[i] = len(a.Shape) - k + i
	}
	return reductionOf(a, axes)
}

// contiguous is the reduction of the rows of a matrix.
func rowsOfMatrix(rows, n int) *reduction {
	r := &reduction{kernels.Reduction{N: n}}
	r.Kept.Push(rows, n)
	r.Reduced.Push(n, 1)
	return r
}

// columnsOf is the reduction of the columns of a matrix.
func columnsOfMatrix(rows, n int) *reduction {
	r := &reduction{kernels.Reduction{N: rows}}
	r.Reduced.Push(rows, n)
	r.Kept.Push(n, 1)
	return r
}

// byColumns tells whether neighbouring results, but not the elements of one, are neighbours in memory.
func (r *reduction) byColumns() bool {
	last := r.Kept.Rank - 1
	return !r.Reduced.Contiguous() && last >= 0 && r.Kept.Strides[last] == 1
}

// packed tells whether the results lie one after the other, without gaps.
func (r *reduction) packed() bool {
	return r.Reduced.Contiguous() && r.Kept.Rank == 1 && r.Kept.Strides[0] == r.N
}

// gathered is the size of the buffer that elements needs for up to n of them.
func (r *reduction) gathered(n int) int {
	if r.Reduced.Contiguous() {
		return 0
	}
	return min(n, r.N)
}

// elements is elements [from, to) of result o: where they lie, if side by side, else copied to buf.
func (r *reduction) elements(buf, x []float32, o, from, to int) []float32 {
	if from == to {
		return nil
	}
	x = x[r.Kept.Offset(o):]
	if r.Reduced.Contiguous() {
		return x[from:to]
	}
	buf = buf[:to-from]
	step := r.Reduced.Strides[r.Reduced.Rank-1]
	at := r.Reduced.Cursor(from)
	for i := 0; i < len(buf); {
		run := min(at.Run(), len(buf)-i)
		if step == 1 {
			copy(buf[i:i+run], x[at.Offset:])
		} else {
			for k := range run {
				buf[i+k] = x[at.Offset+k*step]
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

// eachRow calls f for every row of the operands along the given axes, with room for the same row of the result.
func eachRow(l *kernels.Launch, axes []int, f func(dst []float32, in [][]float32)) {
	eachRows(l, axes, f, nil)
}

// eachRows is eachRow with a function that does the same for at most bundleRows rows of n elements, one after the other in
// memory. It serves for short rows, whose calls would take too long.
func eachRows(l *kernels.Launch, axes []int, f func(dst []float32, in [][]float32), bundle func(dst []float32, in [][]float32, n int)) {
	j := rowJobs.Get().(*rowJob)
	j.l, j.f, j.bundle = l, f, bundle
	j.out.Set(&l.Out[0].Layout, axes)
	for k := range l.In {
		j.in[k].Set(&l.In[k].Layout, axes)
	}
	if j.out.N > 0 {
		parRows(j.out.Results(), j.out.N, j.body)
	}
	j.l, j.f, j.bundle = nil, nil, nil
	rowJobs.Put(j)
}

// A rowJob is one call of eachRow. It is used again, so that a launch allocates nothing.
type rowJob struct {
	l      *kernels.Launch
	f      func(dst []float32, in [][]float32)
	bundle func(dst []float32, in [][]float32, n int)
	out    reduction
	in     [2]reduction
	body   func(lo, hi int) // run, made once
}

var rowJobs = sync.Pool{New: func() any {
	j := &rowJob{}
	j.body = j.run
	return j
}}

const (
	shortRow   = 512  // elements of a row that is better taken with others
	bundleRows = 64   // rows taken together
	bundleSize = 4096 // and their elements, which stay in the first cache
)

// short tells whether rows can be taken in bundles.
func (j *rowJob) short() bool {
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
	piece := func(r *reduction, a kernels.Arg, o, rows int) []float32 {
		at := r.Kept.Offset(o)
		return Slice[float32](a)[at : at+rows*n]
	}
	var in [2][]float32
	for o := lo; o < hi; o += height {
		rows := min(height, hi-o)
		for k, a := range j.l.In {
			in[k] = piece(&j.in[k], a, o, rows)
		}
		j.bundle(piece(&j.out, j.l.Out[0], o, rows), in[:len(j.l.In)], n)
	}
}

func (j *rowJob) run(lo, hi int) {
	if j.short() {
		j.runBundles(lo, hi)
		return
	}
	y := newRowAccess(&j.out, j.l.Out[0], hi)
	var x [2]rowAccess
	var rows [2][]float32
	for k, a := range j.l.In {
		x[k] = newRowAccess(&j.in[k], a, hi)
	}
	for o := lo; o < hi; o++ {
		for k := range j.l.In {
			rows[k] = x[k].read(o)
		}
		j.f(y.write(o), rows[:len(j.l.In)])
	}
	y.flush()
	y.close()
	for k := range j.l.In {
		x[k].close()
	}
}

// eachResult calls f for every result of reducing the first operand along the axes l.Ints, with its elements.
func eachResult(l *kernels.Launch, f func(o int, x []float32)) {
	r := reductionOf(l.In[0], l.Ints)
	parRows(l.Out[0].Len(), r.N, func(lo, hi int) {
		x := newRowAccess(r, l.In[0], hi)
		for o := lo; o < hi; o++ {
			f(o, x.read(o))
		}
		x.close()
	})
}

// rowAccess give the elements of one result of a reduction after the other, side by side. Where they do not lie so, they
// are copied, for some results at a time: neighbouring results then share cache rowAccess.
type rowAccess struct {
	r           *reduction
	data        []float32
	end         int        // no result from here on is asked for
	direct      bool       // they lie side by side
	buf         *[]float32 // copies of results
	first, have int        // the results in buf
}

// newRowAccess prepares for results before end of the operand a, which r describes.
func newRowAccess(r *reduction, a kernels.Arg, end int) rowAccess {
	return rowAccess{r: r, data: Slice[float32](a), end: end, direct: r.Reduced.Contiguous() || r.N == 0}
}

const (
	accessGroup = 16      // results copied at a time: their elements may share a cache line
	accessLimit = 1 << 18 // elements copied at a time, if that is more than one result
	accessPad   = 16      // elements between copies, lest they compete for the same places of the cache
)

// group sets the results in buf to those from o on.
func (l *rowAccess) group(o int) {
	l.first, l.have = o, max(1, min(accessGroup, l.end-o, accessLimit/max(1, l.r.N)))
	if l.buf == nil {
		l.buf = borrow(l.have * (l.r.N + accessPad))
	}
}

// inPlace is where the elements of result o lie, side by side.
func (l *rowAccess) inPlace(o int) []float32 {
	if l.r.N == 0 {
		return nil
	}
	at := l.r.Kept.Offset(o)
	return l.data[at : at+l.r.N : at+l.r.N]
}

// copied is the copy of result o.
func (l *rowAccess) copied(o int) []float32 {
	at := (o - l.first) * (l.r.N + accessPad)
	return (*l.buf)[at : at+l.r.N : at+l.r.N]
}

// read is the elements of result o.
func (l *rowAccess) read(o int) []float32 {
	if l.direct {
		return l.inPlace(o)
	}
	if l.buf == nil || o >= l.first+l.have {
		l.group(o)
		l.copyGroup(false)
	}
	return l.copied(o)
}

// write is room for the elements of result o, which counts up. What is in copies at the end, flush stores.
func (l *rowAccess) write(o int) []float32 {
	if l.direct {
		return l.inPlace(o)
	}
	if l.buf == nil || o >= l.first+l.have {
		l.flush()
		l.group(o)
	}
	return l.copied(o)
}

// flush stores the copies that write gave out.
func (l *rowAccess) flush() {
	if l.buf != nil {
		l.copyGroup(true)
	}
}

// move copies the elements of the group to buf, or stores them from there.
func (l *rowAccess) copyGroup(store bool) {
	var from [accessGroup]int
	for k := range l.have {
		from[k] = l.r.Kept.Offset(l.first + k)
	}
	buf, wide := *l.buf, l.r.N+accessPad
	at := l.r.Reduced.Cursor(0)
	for i := range l.r.N {
		for k, f := range from[:l.have] {
			if store {
				l.data[f+at.Offset] = buf[k*wide+i]
			} else {
				buf[k*wide+i] = l.data[f+at.Offset]
			}
		}
		at.Next()
	}
}

// close gives the memory of copies back.
func (l *rowAccess) close() {
	if l.buf != nil {
		giveBack(l.buf)
	}
}

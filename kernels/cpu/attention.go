package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Attention, for each head of each batch entry, with queries q [T D], keys k [S D] and values v [S E]:
//
//	s = scale * q kᵀ + mask     [T S], the product in the canonical order and then a rounding for each operation
//	p = exp(s - m) * r          m = max(s) and r = 1/sum(exp(s - m)) of each row, as softmax does it
//	y = (p * kept) v            [T E], in the canonical order
//
// mask and kept, which is 1/(1-dropout) where an element is kept and 0 elsewhere, may be missing. Only the keys from
// i+first to i+last are visible to row i; p is 0 for the others. In a row with no visible key, and where there are a
// mask or first keys in one whose scores are all -Inf, p, m and r are 0. The gradient computes p again from m and r,
// with the same bits, and then, with the gradient g of y,
//
//	dv = (p * kept)ᵀ g,  dp = g vᵀ * kept,  ds = scale * (p * (dp - sum(dp*p))),  dq = ds k,  dk = dsᵀ q
//
// The values have the bits of the operations matmul, scale, add, softmax, mul and matmul one after the other, and of
// their gradients. Only some rows of s exist at a time. Keys that are visible to none of these rows are skipped, before
// them in whole chunks of the canonical order: their products are zeros, which would change only the sign of a zero.
//
// k and v may have fewer heads than q: head h of q then belongs to their head h/group. Their gradients still have a
// head for each of q.
const (
	scoreRows = 32  // rows of s at a time: few, so that a causal one computes little that is not visible
	gradRows  = 256 // rows that the gradient adds at a time: a chunk of the canonical order
	keyChunk  = 256 // keys that are skipped at a time: such a chunk
)

// headWork is the number of multiply-adds that are worth a second thread.
const headWork = 1 << 19

// An attention is one op call. Matrix i of the operands belongs to head i%heads of batch entry i/heads.
type attention struct {
	batch, heads       int
	t, s, d, e         int
	first, last        int // row i sees the keys from i+first to i+last
	scale              float32
	q, k, v, y         matrices
	mask               matrices // without data: none
	limited            bool     // a row of scores -Inf sees no key
	kept               keptElements
	rowMax, inverseSum []float32 // m and r of each row of each matrix

	g, dq, dk, dv matrices // g is the gradient of y
}

// matrices are an operand seen as one matrix for each head of each batch entry.
type matrices struct {
	data                  []float32
	batch, head, row, col int // strides
	group                 int // heads of q that share a head
}

// matricesOf sees the given axes of a as batch, head, row and column.
func matricesOf(a kernels.Arg, batch, head, row, col int) matrices {
	if a.Len() == 0 {
		return matrices{group: 1}
	}
	st := a.Strides
	return matrices{Slice[float32](a), st[batch], st[head], st[row], st[col], 1}
}

// packed sees one third (0, 1 or 2) of the last axis of a [B T 3*H*D] as H heads. The last axis may also be one part
// only, [B T H*D], which is third 0.
func packed(a kernels.Arg, third, heads, width int) matrices {
	if a.Len() == 0 {
		return matrices{group: 1}
	}
	st := a.Strides
	a.Offset += third * heads * width * st[2]
	return matrices{Slice[float32](a), st[0], width * st[2], st[1], st[2], 1}
}

// rows is matrix i of m from the given row on.
func (a *attention) rows(m *matrices, i, row int) matmul.Matrix {
	offset := i/a.heads*m.batch + i%a.heads/m.group*m.head + row*m.row
	offset = min(offset, len(m.data)) // after the last row
	return matmul.Matrix{Data: m.data[offset:], RowStride: m.row, ColStride: m.col}
}

func contiguousMatrix(x []float32, columns int) matmul.Matrix {
	return matmul.Matrix{Data: x, RowStride: columns, ColStride: 1}
}

func transposed(m matmul.Matrix) matmul.Matrix {
	return matmul.Matrix{Data: m.Data, RowStride: m.ColStride, ColStride: m.RowStride}
}

// attentionOf describes an op call with operands q [B H T D], k [B H/group S D], v [B H/group S E] and, if there are
// any, mask and kept [B H T S].
func attentionOf(l *kernels.Launch, optional []kernels.Arg) *attention {
	q, k, v := l.In[0], l.In[1], l.In[2]
	a := &attention{
		batch: q.Shape[0], heads: q.Shape[1], t: q.Shape[2], s: k.Shape[2], d: q.Shape[3], e: v.Shape[3],
		q: matricesOf(q, 0, 1, 2, 3), k: matricesOf(k, 0, 1, 2, 3), v: matricesOf(v, 0, 1, 2, 3),
	}
	a.setVisible(l)
	a.limited = len(optional) > 0 || a.first > -a.t
	group := a.heads / max(1, k.Shape[1])
	a.k.group, a.v.group = group, group
	if len(optional) > 0 {
		a.mask = matricesOf(optional[0], 0, 1, 2, 3)
	}
	if len(optional) > 1 {
		a.kept = keptOf(optional[1], l.Floats[1])
	}
	return a
}

// setVisible sets the scale and the visible keys, the same ones by numbers that cannot overflow.
func (a *attention) setVisible(l *kernels.Launch) {
	a.first, a.last, a.scale = max(l.Ints[0], -a.t), min(l.Ints[1], a.s), float32(l.Floats[0])
}

// Attention computes y [B T H E], and m and r [B H T], from q [B H T D], k [B H/group S D], v [B H/group S E] and
// perhaps mask and kept [B H T S]. Row i sees the keys from i+l.Ints[0] to i+l.Ints[1], the last of which is not
// negative; the scale is l.Floats[0], and l.Floats[1] the probability of dropout.
func Attention(l *kernels.Launch) {
	a := attentionOf(l, l.In[3:])
	a.y = matricesOf(l.Out[0], 0, 2, 1, 3)
	a.rowMax, a.inverseSum = Slice[float32](l.Out[1]), Slice[float32](l.Out[2])
	a.forward()
}

// AttentionGrad computes dq [B T H D], dk [B S H D] and dv [B S H E] from q, k, v, the results of Attention, the
// gradient g [B H T E] and perhaps mask and kept. It does not read y.
func AttentionGrad(l *kernels.Launch) {
	a := attentionOf(l, l.In[7:])
	a.rowMax, a.inverseSum = contiguousElements(l.In[4]), contiguousElements(l.In[5])
	a.g = matricesOf(l.In[6], 0, 1, 2, 3)
	a.dq, a.dk = matricesOf(l.Out[0], 0, 2, 1, 3), matricesOf(l.Out[1], 0, 2, 1, 3)
	a.dv = matricesOf(l.Out[2], 0, 2, 1, 3)
	a.backward()
}

// packedOf describes an op call with the operand qkv [B T 3*H*D], H being l.Ints[2].
func packedOf(l *kernels.Launch) *attention {
	x, heads := l.In[0], l.Ints[2]
	t, d := x.Shape[1], x.Shape[2]/(3*heads)
	a := &attention{
		batch: x.Shape[0], heads: heads, t: t, s: t, d: d, e: d,
		q: packed(x, 0, heads, d), k: packed(x, 1, heads, d), v: packed(x, 2, heads, d),
	}
	a.setVisible(l)
	return a
}

// AttentionPacked is Attention of the three parts of qkv [B T 3*H*D], with the result y [B T H*D].
func AttentionPacked(l *kernels.Launch) {
	a := packedOf(l)
	a.y = packed(l.Out[0], 0, a.heads, a.d)
	a.rowMax, a.inverseSum = Slice[float32](l.Out[1]), Slice[float32](l.Out[2])
	a.forward()
}

// AttentionPackedGrad computes the gradient of qkv from qkv, y, m, r and the gradient of y.
func AttentionPackedGrad(l *kernels.Launch) {
	a := packedOf(l)
	a.rowMax, a.inverseSum = contiguousElements(l.In[2]), contiguousElements(l.In[3])
	a.g = packed(l.In[4], 0, a.heads, a.d)
	dx := l.Out[0]
	a.dq, a.dk, a.dv = packed(dx, 0, a.heads, a.d), packed(dx, 1, a.heads, a.d), packed(dx, 2, a.heads, a.d)
	a.backward()
}

// visibleKeys is the number of keys up to the last that is visible to row i.
func (a *attention) visibleKeys(i int) int { return min(i+1+a.last, a.s) }

// firstKey is the first key that is visible to row i; it may be beyond all keys.
func (a *attention) firstKey(i int) int { return max(i+a.first, 0) }

// firstChunk is where the first chunk begins with a key that is visible to row i or a later one, at most n.
func (a *attention) firstChunk(i, n int) int { return min(a.firstKey(i)/keyChunk*keyChunk, n) }

// forward computes y, m and r. A task is a group of rows of one matrix.
func (a *attention) forward() {
	groups := (a.t + scoreRows - 1) / scoreRows
	par.For(a.batch*a.heads*groups, 1+headWork/(1+scoreRows*a.s*(a.d+a.e)), func(lo, hi int) {
		scratch := borrow((min(scoreRows, a.t) + 1) * a.s)
		defer giveBack(scratch)
		for task := lo; task < hi; task++ {
			from := task % groups * scoreRows
			a.forwardRows(task/groups, from, min(from+scoreRows, a.t), *scratch)
		}
	})
}

// forwardRows computes rows [from, to) of matrix i.
func (a *attention) forwardRows(i, from, to int, scratch []float32) {
	visible := a.visibleKeys(to - 1)
	first := a.firstChunk(from, visible)
	p, factors := scratch[:(to-from)*visible], scratch[(to-from)*visible:]
	a.scores(p[first:], i, from, to, first, visible, visible)
	for r := from; r < to; r++ {
		row := p[(r-from)*visible:][:visible]
		lo, n := a.visibleRow(row, r)
		a.addMask(row[lo:n], i, r, lo)
		m := vec.Max(row[lo:n])
		norm := float32(0)
		switch {
		case lo == n || a.limited && m == negativeInfinity:
			clear(row[lo:n])
			m = 0
		case lo == 0:
			norm = 1 / vec.ExpSubSum(row[:n], row[:n], m)
		default:
			vec.ExpSub(row[lo:n], row[lo:n], m)
			norm = 1 / vec.Sum(row[:n])
		}
		vec.Scale(row[lo:n], row[lo:n], norm)
		a.kept.apply(row[lo:n], factors, a, i, r, lo)
		a.rowMax[i*a.t+r], a.inverseSum[i*a.t+r] = m, norm
	}
	matmul.Float32(to-from, a.e, visible-first, columnsFrom(p, first, visible), a.rows(&a.v, i, first),
		a.rows(&a.y, i, from).Data, a.y.row, nil)
}

// columnsFrom is a contiguous matrix of so many columns, from the first of them on that counts.
func columnsFrom(x []float32, first, columns int) matmul.Matrix {
	return contiguousMatrix(x[min(first, len(x)):], columns)
}

// visibleRow sets row r of scores, or of a gradient of scores, to 0 for the keys that it does not see, and returns the
// range of those that it sees.
func (a *attention) visibleRow(row []float32, r int) (lo, n int) {
	n = a.visibleKeys(r)
	lo = min(a.firstKey(r), n)
	clear(row[:lo])
	clear(row[n:])
	return lo, n
}

// scores sets dst, whose rows are pitch apart, to rows [from, to) of scale * q kᵀ for the keys [first, n).
func (a *attention) scores(dst []float32, i, from, to, first, n, pitch int) {
	matmul.Float32(to-from, n-first, a.d, a.rows(&a.q, i, from), transposed(a.rows(&a.k, i, first)), dst, pitch, nil)
	scaleRows(dst, to-from, n-first, pitch, a.scale)
}

// scaleRows multiplies the first n elements of rows that are pitch apart.
func scaleRows(x []float32, rows, n, pitch int, by float32) {
	if n == pitch {
		rows, n = 1, rows*n
	}
	for r := range rows {
		row := x[r*pitch:][:n]
		vec.Scale(row, row, by)
	}
}

// backward computes dq, dk and dv. A task is a matrix, since dk and dv are sums over all its rows.
func (a *attention) backward() {
	par.For(a.batch*a.heads, 1+headWork/(1+a.t*a.s*(3*a.d+2*a.e)), func(lo, hi int) {
		scratch := borrow((2*min(gradRows, a.t) + 1) * a.s)
		defer giveBack(scratch)
		for i := lo; i < hi; i++ {
			for from := 0; from < a.t; from += gradRows {
				a.backwardRows(i, from, min(from+gradRows, a.t), *scratch)
			}
			if a.t == 0 {
				a.clearRows(&a.dk, i, 0, a.s, a.d)
				a.clearRows(&a.dv, i, 0, a.s, a.e)
			}
		}
	})
}

// backwardRows computes rows [from, to) of dq and adds what these rows contribute to dk and dv.
func (a *attention) backwardRows(i, from, to int, scratch []float32) {
	rows, visible := to-from, a.visibleKeys(to-1)
	first := a.firstChunk(from, visible)
	p, ds, factors := scratch[:rows*visible], scratch[rows*visible:][:rows*visible], scratch[2*rows*visible:]
	for lo := from; lo < to; lo += scoreRows {
		hi := min(lo+scoreRows, to)
		at := (lo - from) * visible
		a.gradScores(p[at:], ds[at:], factors, i, lo, hi, visible)
		n := a.visibleKeys(hi - 1)
		first := a.firstChunk(lo, n)
		matmul.Float32(hi-lo, a.d, n-first, columnsFrom(ds[at:], first, visible), a.rows(&a.k, i, first),
			a.rows(&a.dq, i, lo).Data, a.dq.row, nil)
	}
	a.addProduct(&a.dv, i, a.e, first, visible, rows, p, a.rows(&a.g, i, from), from == 0)
	a.addProduct(&a.dk, i, a.d, first, visible, rows, ds, a.rows(&a.q, i, from), from == 0)
}

// gradScores computes rows [from, to) of p * kept and ds, of pitch elements each.
func (a *attention) gradScores(p, ds, factors []float32, i, from, to, pitch int) {
	n := a.visibleKeys(to - 1)
	first := a.firstChunk(from, n)
	a.scores(p[first:], i, from, to, first, n, pitch)
	matmul.Float32(to-from, n-first, a.e, a.rows(&a.g, i, from), transposed(a.rows(&a.v, i, first)), ds[first:], pitch,
		nil)
	for r := from; r < to; r++ {
		p, ds := p[(r-from)*pitch:][:pitch], ds[(r-from)*pitch:][:pitch]
		lo, n := a.visibleRow(p, r)
		a.visibleRow(ds, r)
		a.addMask(p[lo:n], i, r, lo)
		vec.ExpSub(p[lo:n], p[lo:n], a.rowMax[i*a.t+r])
		vec.Scale(p[lo:n], p[lo:n], a.inverseSum[i*a.t+r])
		a.kept.apply(ds[lo:n], factors, a, i, r, lo)
		vec.SoftmaxGrad(ds[lo:n], p[lo:n], ds[lo:n], vec.Dot(ds[:n], p[:n]))
		a.kept.apply(p[lo:n], factors, a, i, r, lo)
	}
	scaleRows(ds, to-from, pitch, pitch, a.scale)
}

// addProduct adds wᵀ x to the rows [from, to) of matrix i of dst; w is [k to], its first columns not used, and x is
// [k n]. The first product starts the sum and sets the other rows of dst to zero.
func (a *attention) addProduct(dst *matrices, i, n, from, to, k int, w []float32, x matmul.Matrix, first bool) {
	wT := transposed(columnsFrom(w, from, to))
	rows := to - from
	sum := a.rows(dst, i, from).Data
	if first {
		matmul.Float32(rows, n, k, wT, x, sum, dst.row, nil)
		a.clearRows(dst, i, 0, from, n)
		a.clearRows(dst, i, to, a.s, n)
		return
	}
	product := borrow(rows * n)
	defer giveBack(product)
	matmul.Float32(rows, n, k, wT, x, *product, n, nil)
	for r := range rows {
		row := sum[r*dst.row:][:n]
		vecAdd(row, row, (*product)[r*n:][:n], nil)
	}
}

// clearRows sets rows [from, to) of matrix i of dst to zero; dst has a row of n elements for each key.
func (a *attention) clearRows(dst *matrices, i, from, to, n int) {
	for r := from; r < to; r++ {
		clear(a.rows(dst, i, r).Data[:n])
	}
}

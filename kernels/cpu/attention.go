package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Attention, for each head of each batch entry, with queries q [T D], keys k [S D] and values v [S E]:
//
//	s = scale * q kᵀ            [T S], the product in the canonical order and then one more rounding
//	p = exp(s - m) * r          m = max(s) and r = 1/sum(exp(s - m)) of each row, as softmax does it
//	y = p v                     [T E], in the canonical order
//
// If it is causal, only the keys j <= i + S-T are visible to row i; p is 0 for the others. The gradient computes p
// again from m and r, with the same bits, and then, with the gradient g of y,
//
//	dv = pᵀ g,  dp = g vᵀ,  ds = scale * (p * (dp - sum(dp*p))),  dq = ds k,  dk = dsᵀ q
//
// The values have the bits of the operations matmul, scale, softmax and matmul one after the other, and of their
// gradients. Only some rows of s exist at a time. Keys that are visible to none of these rows are skipped: their
// products are zeros, which would change only the sign of a zero.
const (
	scoreRows = 32  // rows of s at a time: few, so that a causal one computes little that is not visible
	gradRows  = 256 // rows that the gradient adds at a time: a chunk of the canonical order
)

// headWork is the number of multiply-adds that are worth a second thread.
const headWork = 1 << 19

// An attention is one op call. Matrix i of the operands belongs to head i%heads of batch entry i/heads.
type attention struct {
	batch, heads       int
	t, s, d, e         int
	causal             bool
	scale              float32
	q, k, v, y         matrices
	rowMax, inverseSum []float32 // m and r of each row of each matrix

	g, dq, dk, dv matrices // g is the gradient of y
}

// matrices are an operand seen as one matrix for each head of each batch entry.
type matrices struct {
	data                  []float32
	batch, head, row, col int // strides
}

// matricesOf sees the given axes of a as batch, head, row and column.
func matricesOf(a kernels.Arg, batch, head, row, col int) matrices {
	if a.Len() == 0 {
		return matrices{}
	}
	st := a.Strides
	return matrices{Slice[float32](a), st[batch], st[head], st[row], st[col]}
}

// packed sees one third (0, 1 or 2) of the last axis of a [B T 3*H*D] as H heads. The last axis may also be one part
// only, [B T H*D], which is third 0.
func packed(a kernels.Arg, third, heads, width int) matrices {
	if a.Len() == 0 {
		return matrices{}
	}
	st := a.Strides
	a.Offset += third * heads * width * st[2]
	return matrices{Slice[float32](a), st[0], width * st[2], st[1], st[2]}
}

// rows is matrix i of m from the given row on.
func (a *attention) rows(m *matrices, i, row int) matmul.Matrix {
	offset := i/a.heads*m.batch + i%a.heads*m.head + row*m.row
	return matmul.Matrix{Data: m.data[offset:], RowStride: m.row, ColStride: m.col}
}

func contiguousMatrix(x []float32, columns int) matmul.Matrix {
	return matmul.Matrix{Data: x, RowStride: columns, ColStride: 1}
}

func transposed(m matmul.Matrix) matmul.Matrix {
	return matmul.Matrix{Data: m.Data, RowStride: m.ColStride, ColStride: m.RowStride}
}

// attentionOf describes an op call with operands q [B H T D], k [B H S D] and v [B H S E].
func attentionOf(l *kernels.Launch) *attention {
	q, k, v := l.In[0], l.In[1], l.In[2]
	return &attention{
		batch: q.Shape[0], heads: q.Shape[1], t: q.Shape[2], s: k.Shape[2], d: q.Shape[3], e: v.Shape[3],
		causal: l.Ints[0] != 0, scale: float32(l.Floats[0]),
		q: matricesOf(q, 0, 1, 2, 3), k: matricesOf(k, 0, 1, 2, 3), v: matricesOf(v, 0, 1, 2, 3),
	}
}

// Attention computes y [B T H E], and m and r [B H T], from q [B H T D], k [B H S D] and v [B H S E]. It is causal if
// l.Ints[0] is not 0; the scale is l.Floats[0].
func Attention(l *kernels.Launch) {
	a := attentionOf(l)
	a.y = matricesOf(l.Out[0], 0, 2, 1, 3)
	a.rowMax, a.inverseSum = Slice[float32](l.Out[1]), Slice[float32](l.Out[2])
	a.forward()
}

// AttentionGrad computes dq [B T H D], dk [B S H D] and dv [B S H E] from the operands and results of Attention and the
// gradient g [B H T E]. It does not read y.
func AttentionGrad(l *kernels.Launch) {
	a := attentionOf(l)
	a.rowMax, a.inverseSum = contiguousElements(l.In[4]), contiguousElements(l.In[5])
	a.g = matricesOf(l.In[6], 0, 1, 2, 3)
	a.dq, a.dk = matricesOf(l.Out[0], 0, 2, 1, 3), matricesOf(l.Out[1], 0, 2, 1, 3)
	a.dv = matricesOf(l.Out[2], 0, 2, 1, 3)
	a.backward()
}

// packedOf describes an op call with the operand qkv [B T 3*H*D], H being l.Ints[1].
func packedOf(l *kernels.Launch) *attention {
	x, heads := l.In[0], l.Ints[1]
	t, d := x.Shape[1], x.Shape[2]/(3*heads)
	return &attention{
		batch: x.Shape[0], heads: heads, t: t, s: t, d: d, e: d,
		causal: l.Ints[0] != 0, scale: float32(l.Floats[0]),
		q: packed(x, 0, heads, d), k: packed(x, 1, heads, d), v: packed(x, 2, heads, d),
	}
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

// visibleKeys is the number of keys that are visible to row i.
func (a *attention) visibleKeys(i int) int {
	if a.causal {
		return i + 1 + a.s - a.t
	}
	return a.s
}

// forward computes y, m and r. A task is a group of rows of one matrix.
func (a *attention) forward() {
	groups := (a.t + scoreRows - 1) / scoreRows
	par.For(a.batch*a.heads*groups, 1+headWork/(1+scoreRows*a.s*(a.d+a.e)), func(lo, hi int) {
		scratch := borrow(min(scoreRows, a.t) * a.s)
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
	p := scratch[:(to-from)*visible]
	a.scores(p, i, from, to, visible, visible)
	for r := from; r < to; r++ {
		row, n := p[(r-from)*visible:][:visible], a.visibleKeys(r)
		m := vec.Max(row[:n])
		norm := 1 / vec.ExpSubSum(row[:n], row[:n], m)
		vec.Scale(row[:n], row[:n], norm)
		clear(row[n:])
		a.rowMax[i*a.t+r], a.inverseSum[i*a.t+r] = m, norm
	}
	matmul.Float32(to-from, a.e, visible, contiguousMatrix(p, visible), a.rows(&a.v, i, 0),
		a.rows(&a.y, i, from).Data, a.y.row, nil)
}

// scores sets dst, whose rows are pitch apart, to rows [from, to) of s for the first n keys.
func (a *attention) scores(dst []float32, i, from, to, n, pitch int) {
	matmul.Float32(to-from, n, a.d, a.rows(&a.q, i, from), transposed(a.rows(&a.k, i, 0)), dst, pitch, nil)
	scaleRows(dst, to-from, n, pitch, a.scale)
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
		scratch := borrow(2 * min(gradRows, a.t) * a.s)
		defer giveBack(scratch)
		for i := lo; i < hi; i++ {
			for from := 0; from < a.t; from += gradRows {
				a.backwardRows(i, from, min(from+gradRows, a.t), *scratch)
			}
			if a.t == 0 {
				a.clearRows(&a.dk, i, 0, a.d)
				a.clearRows(&a.dv, i, 0, a.e)
			}
		}
	})
}

// backwardRows computes rows [from, to) of dq and adds what these rows contribute to dk and dv.
func (a *attention) backwardRows(i, from, to int, scratch []float32) {
	rows, visible := to-from, a.visibleKeys(to-1)
	p, ds := scratch[:rows*visible], scratch[rows*visible:][:rows*visible]
	for lo := from; lo < to; lo += scoreRows {
		hi := min(lo+scoreRows, to)
		at := (lo - from) * visible
		a.gradScores(p[at:], ds[at:], i, lo, hi, visible)
		n := a.visibleKeys(hi - 1)
		matmul.Float32(hi-lo, a.d, n, contiguousMatrix(ds[at:], visible), a.rows(&a.k, i, 0),
			a.rows(&a.dq, i, lo).Data, a.dq.row, nil)
	}
	a.addProduct(&a.dv, i, a.e, visible, rows, p, a.rows(&a.g, i, from), from == 0)
	a.addProduct(&a.dk, i, a.d, visible, rows, ds, a.rows(&a.q, i, from), from == 0)
}

// gradScores computes rows [from, to) of p and ds, of pitch elements each.
func (a *attention) gradScores(p, ds []float32, i, from, to, pitch int) {
	n := a.visibleKeys(to - 1)
	a.scores(p, i, from, to, n, pitch)
	matmul.Float32(to-from, n, a.e, a.rows(&a.g, i, from), transposed(a.rows(&a.v, i, 0)), ds, pitch, nil)
	for r := from; r < to; r++ {
		p, ds, n := p[(r-from)*pitch:][:pitch], ds[(r-from)*pitch:][:pitch], a.visibleKeys(r)
		vec.ExpSub(p[:n], p[:n], a.rowMax[i*a.t+r])
		vec.Scale(p[:n], p[:n], a.inverseSum[i*a.t+r])
		vec.SoftmaxGrad(ds[:n], p[:n], ds[:n], vec.Dot(ds[:n], p[:n]))
		clear(p[n:])
		clear(ds[n:])
	}
	scaleRows(ds, to-from, pitch, pitch, a.scale)
}

// addProduct adds wᵀ x to the first rows of matrix i of dst; w is [k rows] and x is [k n]. The first product starts the
// sum and sets the other rows of dst to zero.
func (a *attention) addProduct(dst *matrices, i, n, rows, k int, w []float32, x matmul.Matrix, first bool) {
	wT := transposed(contiguousMatrix(w, rows))
	to := a.rows(dst, i, 0).Data
	if first {
		matmul.Float32(rows, n, k, wT, x, to, dst.row, nil)
		a.clearRows(dst, i, rows, n)
		return
	}
	product := borrow(rows * n)
	defer giveBack(product)
	matmul.Float32(rows, n, k, wT, x, *product, n, nil)
	for r := range rows {
		row := to[r*dst.row:][:n]
		vecAdd(row, row, (*product)[r*n:][:n], nil)
	}
}

// clearRows sets rows from `from` on of matrix i of dst to zero; dst has a row of n elements for each key.
func (a *attention) clearRows(dst *matrices, i, from, n int) {
	for r := from; r < a.s; r++ {
		clear(a.rows(dst, i, r).Data[:n])
	}
}

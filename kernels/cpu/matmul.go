package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// MatMul multiplies the last two axes of its operands in the canonical order; leading axes broadcast. A left operand of
// rank 1 is a row, a right one a column.
func MatMul(l *kernels.Launch) {
	p := productsOf(l.In[0], l.In[1], l.Out[0])
	if l.In[0].DType == kernels.Float64 {
		run64(p, Slice[float64](l.In[0]), Slice[float64](l.In[1]), Slice[float64](l.Out[0]))
		return
	}
	p.run(Slice[float32](l.In[0]), Slice[float32](l.In[1]), Slice[float32](l.Out[0]), nil)
}

var vecAdd = vec.Instr("add")

// Linear multiplies the rows of l.In[0] by the transposed matrix l.In[1] in the canonical order. It adds the bias
// l.In[2], if there is one, to finished pieces of rows while they are in the cache.
func Linear(l *kernels.Launch) {
	x, w, y := l.In[0], l.In[1], l.Out[0]
	shape, strides := [2]int{w.Shape[1], w.Shape[0]}, [2]int{w.Strides[1], w.Strides[0]}
	w.Shape, w.Strides = shape[:], strides[:]
	p := productsOf(x, w, y)
	if y.DType == kernels.Float64 {
		run64(p, Slice[float64](x), Slice[float64](w), Slice[float64](y))
		if len(l.In) > 2 {
			bias := l.In[2]
			addBias64(Slice[float64](y)[:y.Len()], Slice[float64](bias), bias.Shape[0], bias.Strides[0])
		}
		return
	}
	var epilogue matmul.Epilogue
	if len(l.In) > 2 {
		bias := contiguousElements(l.In[2])
		epilogue = func(_, j int, dst []float32) { vecAdd(dst, dst, bias[j:], nil) }
	}
	p.run(Slice[float32](x), Slice[float32](w), Slice[float32](y), epilogue)
}

// addBias64 adds element j of the bias to column j.
func addBias64(y, bias []float64, columns, stride int) {
	for i := range y {
		y[i] += bias[i%columns*stride]
	}
}

// products are matrix products C = A B of equal sizes, whose results [m n] are contiguous. The operands of product i
// are at a.Offset(i) and b.Offset(i).
type products struct {
	m, n, k        int
	aRow, aCol     int
	bRow, bCol     int
	a, b           kernels.Dims // of the batch
	count          int
	batch          int // axes of the batch
	shape          [kernels.MaxDims]int
	aBatch, bBatch [kernels.MaxDims]int // strides
}

// productsOf describes the products of two operands with the result y.
func productsOf(a, b, y kernels.Arg) products {
	p := products{m: 1, n: 1}
	lead := len(y.Shape)
	last := len(b.Shape) - 1
	if len(b.Shape) > 1 {
		p.n, p.bRow, p.bCol = b.Shape[last], b.Strides[last-1], b.Strides[last]
		lead--
	} else {
		p.bRow = b.Strides[last]
	}
	last = len(a.Shape) - 1
	p.k, p.aCol = a.Shape[last], a.Strides[last]
	if len(a.Shape) > 1 {
		p.m, p.aRow = a.Shape[last-1], a.Strides[last-1]
		lead--
	}
	for d, size := range y.Shape[:lead] {
		if size != 1 {
			p.shape[p.batch] = size
			p.aBatch[p.batch] = batchStride(a, d-lead)
			p.bBatch[p.batch] = batchStride(b, d-lead)
			p.batch++
		}
	}
	p.merge()
	return p
}

// batchStride is the stride of batch axis d, counted from the end of the batch (-1 is the last): 0 if the axis is
// broadcast or the operand is empty.
func batchStride(a kernels.Arg, d int) int {
	d += len(a.Shape) - 2
	if d < 0 || a.Shape[d] == 1 || a.Len() == 0 {
		return 0
	}
	return a.Strides[d]
}

// merge makes one product of those with the same B whose rows of A have one stride.
func (p *products) merge() {
	for p.batch > 0 {
		d := p.batch - 1
		if p.bBatch[d] != 0 || p.m > 1 && p.aBatch[d] != p.m*p.aRow {
			break
		}
		if p.m == 1 {
			p.aRow = p.aBatch[d]
		}
		p.m *= p.shape[d]
		p.batch--
	}
	shape := p.shape[:p.batch]
	p.count = kernels.Count(shape)
	p.a.PushAll(shape, p.aBatch[:])
	p.b.PushAll(shape, p.bBatch[:])
}

// run computes the products and calls the epilogue for finished pieces of the rows of C.
func (p *products) run(a, b, c []float32, epilogue matmul.Epilogue) {
	if p.count > 1 && epilogue == nil {
		batch(*p, a, b, c)
		return
	}
	for i := range p.count {
		matmul.Float32(p.m, p.n, p.k, matrixA(p, a, i), matrixB(p, b, i), c[i*p.m*p.n:], p.n, epilogue)
	}
}

func matrixA[T floating](p *products, a []T, i int) matmul.MatrixOf[T] {
	return matmul.MatrixOf[T]{Data: a[p.a.Offset(i):], RowStride: p.aRow, ColStride: p.aCol}
}

func matrixB[T floating](p *products, b []T, i int) matmul.MatrixOf[T] {
	return matmul.MatrixOf[T]{Data: b[p.b.Offset(i):], RowStride: p.bRow, ColStride: p.bCol}
}

// batch computes many products at once. p is passed by value, so that it is on the heap for batches only.
func batch(p products, a, b, c []float32) {
	matmul.Batch(p.count, p.m, p.n, p.k,
		func(i int) matmul.Matrix { return matrixA(&p, a, i) },
		func(i int) matmul.Matrix { return matrixB(&p, b, i) },
		func(i int) ([]float32, int) { return c[i*p.m*p.n:], p.n })
}

// run64 is run in float64. p is passed by value as in batch.
func run64(p products, a, b, c []float64) {
	matmul.Batch64(p.count, p.m, p.n, p.k,
		func(i int) matmul.Matrix64 { return matrixA(&p, a, i) },
		func(i int) matmul.Matrix64 { return matrixB(&p, b, i) },
		func(i int) ([]float64, int) { return c[i*p.m*p.n:], p.n })
}

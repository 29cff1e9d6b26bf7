package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// MatMul multiplies the last two axes of its operands in the canonical order; leading axes broadcast. Operands of rank 1
// are a row on the left and a column on the right.
func MatMul(l *kernels.Launch) {
	p := productsOf(l.In[0], l.In[1], l.Out[0])
	if l.In[0].DType == kernels.Float64 {
		p.run64(Slice[float64](l.In[0]), Slice[float64](l.In[1]), Slice[float64](l.Out[0]))
		return
	}
	p.run(Slice[float32](l.In[0]), Slice[float32](l.In[1]), Slice[float32](l.Out[0]), nil)
}

var vecAdd = vec.Instr("add")

// Linear multiplies the rows of l.In[0] by the transposed matrix l.In[1] in the canonical order and adds the bias l.In[2],
// if there is one, to finished pieces of rows while they are in cache.
func Linear(l *kernels.Launch) {
	x, w, y := l.In[0], l.In[1], l.Out[0]
	shape, strides := [2]int{w.Shape[1], w.Shape[0]}, [2]int{w.Strides[1], w.Strides[0]}
	w.Shape, w.Strides = shape[:], strides[:]
	p := productsOf(x, w, y)
	if y.DType == kernels.Float64 {
		p.run64(Slice[float64](x), Slice[float64](w), Slice[float64](y))
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
func addBias64(y, bias []float64, columns, step int) {
	for i := range y {
		y[i] += bias[i%columns*step]
	}
}

// products are equal matrix products C = A B, whose results [m n] follow each other in memory. The operands of number i
// lie at a.Offset(i) and b.Offset(i).
type products struct {
	m, n, k        int
	aRow, aCol     int
	bRow, bCol     int
	a, b           kernels.Dims // of the batch
	count          int
	batch          int // axes of the batch
	shape          [kernels.MaxDims]int
	aSteps, bSteps [kernels.MaxDims]int
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
			p.aSteps[p.batch] = batchStep(a, d-lead)
			p.bSteps[p.batch] = batchStep(b, d-lead)
			p.batch++
		}
	}
	p.merge()
	return p
}

// batchStep is the stride of batch axis d, counted from the end of the batch (-1 is the last), 0 if it repeats or if there
// are no elements to step to.
func batchStep(a kernels.Arg, d int) int {
	d += len(a.Shape) - 2
	if d < 0 || a.Shape[d] == 1 || a.Len() == 0 {
		return 0
	}
	return a.Strides[d]
}

// merge makes products with the same B, whose A follow each other, one product of many rows.
func (p *products) merge() {
	for p.batch > 0 {
		d := p.batch - 1
		if p.bSteps[d] != 0 || p.m > 1 && p.aSteps[d] != p.m*p.aRow {
			break
		}
		if p.m == 1 {
			p.aRow = p.aSteps[d]
		}
		p.m *= p.shape[d]
		p.batch--
	}
	shape := p.shape[:p.batch]
	p.count = kernels.Count(shape)
	p.a.PushAll(shape, p.aSteps[:])
	p.b.PushAll(shape, p.bSteps[:])
}

// run computes the products; the epilogue takes finished pieces of the rows of C.
func (p *products) run(a, b, c []float32, epilogue matmul.Epilogue) {
	if p.count > 1 && epilogue == nil {
		batch(*p, a, b, c)
		return
	}
	for i := range p.count {
		matmul.Float32(p.m, p.n, p.k, p.matrixA(a, i), p.matrixB(b, i), c[i*p.m*p.n:], p.n, epilogue)
	}
}

func (p *products) matrixA(a []float32, i int) matmul.Mat {
	return matmul.Mat{Data: a[p.a.Offset(i):], Row: p.aRow, Col: p.aCol}
}

func (p *products) matrixB(b []float32, i int) matmul.Mat {
	return matmul.Mat{Data: b[p.b.Offset(i):], Row: p.bRow, Col: p.bCol}
}

// batch computes many products at once. It has p by value, so that only batches put it on the heap.
func batch(p products, a, b, c []float32) {
	matmul.Batch(p.count, p.m, p.n, p.k,
		func(i int) matmul.Mat { return p.matrixA(a, i) },
		func(i int) matmul.Mat { return p.matrixB(b, i) },
		func(i int) ([]float32, int) { return c[i*p.m*p.n:], p.n })
}

// run64 is run in float64.
func (p *products) run64(a, b, c []float64) {
	for i := range p.count {
		matmul.Float64(p.m, p.n, p.k,
			matmul.Mat64{Data: a[p.a.Offset(i):], Row: p.aRow, Col: p.aCol},
			matmul.Mat64{Data: b[p.b.Offset(i):], Row: p.bRow, Col: p.bCol}, c[i*p.m*p.n:], p.n)
	}
}

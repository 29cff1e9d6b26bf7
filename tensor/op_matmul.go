package tensor

import (
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var matmul Op

func init() {
	define(&matmul, entry{
		Op:    kernels.Op{Name: "matmul", CPU: cpu.MatMul, Types: []DType{Float32, Float64}, Ref: matmulRef},
		Cast:  seam.CastLower,
		Doc:   "y[.., i, j] = sum over k of a[.., i, k] b[.., k, j]",
		Args:  []string{"a", "b"},
		Shape: matmulShape,
		VJP:   matmulVJP,
		Saves: []saves{saveIn(1), saveIn(0)},
		Flops: func(c *ctx) float64 { return 2 * float64(c.Out[0].Len()) * float64(c.In[0].Dim(-1)) },
		Samples: func() []opSample {
			sample := func(name string, a, b []int) opSample {
				return opSample{Name: name, In: randomArgs(a, b),
					Call: func(x []*Tensor) *Tensor { return x[0].MatMul(x[1]) }}
			}
			return []opSample{
				sample("vectors", []int{3}, []int{3}),
				sample("vector matrix", []int{3}, []int{3, 4}),
				sample("matrix vector", []int{2, 3}, []int{3}),
				sample("matrices", []int{2, 3}, []int{3, 4}),
				sample("size 1", []int{1, 1}, []int{1, 1}),
				sample("vector batch", []int{3}, []int{2, 3, 2}),
				sample("batch vector", []int{2, 2, 3}, []int{3}),
				sample("batch matrix", []int{2, 2, 3}, []int{3, 2}),
				sample("matrix batch", []int{2, 3}, []int{2, 3, 2}),
				sample("batches", []int{2, 2, 3}, []int{2, 3, 2}),
				sample("broadcast", []int{2, 1, 2, 3}, []int{3, 3, 1}),
				sample("one of a batch", []int{1, 2, 3}, []int{2, 3, 2}),
				sample("no inner", []int{2, 0}, []int{0, 3}),
				sample("no rows", []int{0, 2}, []int{2, 3}),
				sample("no batch", []int{0, 2, 2}, []int{2, 3}),
			}
		},
		Bench: func() []benchmark {
			bench := func(name string, m, n, k int, a, b []int) benchmark {
				return benchmark{Name: name, In: []seam.Arg{{Shape: a, Lo: -1, Hi: 1}, {Shape: b, Lo: -1, Hi: 1}},
					Call:  func(x []*Tensor) *Tensor { return x[0].MatMul(x[1]) },
					Flops: 2 * float64(m) * float64(n) * float64(k), Bytes: 4 * float64(m*k+k*n+m*n)}
			}
			return []benchmark{
				bench("512", 512, 512, 512, []int{512, 512}, []int{512, 512}),
				bench("1024", 1024, 1024, 1024, []int{1024, 1024}, []int{1024, 1024}),
				bench("heads", 64*64, 64, 32, []int{64, 64, 32}, []int{64, 32, 64}),
			}
		},
	})
}

// MatMul is the matrix product of the last two axes; leading axes broadcast. A vector on the left is a row, one on the
// right a column, and the result lacks that axis: two vectors give their dot product. Transposed and expanded operands
// are read without a copy.
func (t *Tensor) MatMul(b *Tensor) *Tensor { return apply2(&matmul, t, b) }

func matmulShape(c *ctx) {
	c.wantFloat(0, 1)
	c.wantRank(0, 1)
	c.wantRank(1, 1)
	a, b := c.shape(0), c.shape(1)
	inA, inB := len(a)-1, max(len(b)-2, 0)
	if a[inA] != b[inB] {
		c.fail(ErrShape, "inner sizes differ: a %v has %d on axis %d, b %v has %d on axis %d%s",
			a, a[inA], inA, b, b[inB], inB, transposedWouldFit(a, b))
	}
	leadA, leadB := a[:max(len(a)-2, 0)], b[:max(len(b)-2, 0)]
	var buf [kernels.MaxDims]int
	shape := buf[:max(len(leadA), len(leadB))]
	if i := broadcastTo(shape, leadA, leadB); i > 0 {
		c.fail(ErrShape, "leading axes do not broadcast: a %v has %d on axis %d, b %v has %d on axis %d",
			a, leadA[len(leadA)-i], len(leadA)-i, b, leadB[len(leadB)-i], len(leadB)-i)
	}
	if len(a) > 1 {
		shape = append(shape, a[len(a)-2])
	}
	if len(b) > 1 {
		shape = append(shape, b[len(b)-1])
	}
	c.result(c.In[0].dtype, shape...)
}

// transposedWouldFit is the hint for inner sizes that differ, if transposing an operand helps.
func transposedWouldFit(a, b []int) string {
	switch {
	case len(b) > 1 && a[len(a)-1] == b[len(b)-1]:
		return "; b transposed would fit"
	case len(a) > 1 && a[len(a)-2] == b[max(len(b)-2, 0)]:
		return "; a transposed would fit"
	}
	return ""
}

// matmulVJP is dA = G Bᵀ and dB = Aᵀ G, summed over the axes along which the operand was repeated. If B is one matrix,
// dB is one product whose inner size is the number of rows of all matrices in A.
func matmulVJP(c *ctx, g *Tensor) []*Tensor {
	shapeA, shapeB, shape := c.shape(0), c.shape(1), g.Shape() // with both axes of a matrix, also for vectors
	vector := len(shapeB) == 1
	if vector {
		shapeB, shape = []int{shapeB[0], 1}, append(shape, 1)
	}
	if len(shapeA) == 1 {
		shapeA, shape = []int{1, shapeA[0]}, slices.Insert(shape, len(shape)-1, 1)
	}
	g = g.Reshape(shape...)
	grads := make([]*Tensor, 2)
	if c.needs(0) { // reads b alone
		b := c.In[1]
		if vector {
			b = b.Unsqueeze(1)
		}
		grads[0] = g.MatMul(b.T()).SumTo(shapeA...).Reshape(c.shape(0)...)
	}
	if c.needs(1) { // reads a alone
		a := c.In[0]
		if a.Rank() == 1 {
			a = a.Unsqueeze(0)
		}
		if len(shapeB) == 2 {
			a, g = a.asMatrix(), g.asMatrix()
		}
		grads[1] = a.T().MatMul(g).SumTo(shapeB...).Reshape(c.shape(1)...)
	}
	return grads
}

// asMatrix is t with all axes but the last one merged.
func (t *Tensor) asMatrix() *Tensor {
	last := t.Rank() - 1
	return t.Reshape(kernels.Count(t.layout.Shape[:last]), t.layout.Shape[last])
}

func matmulRef(l *kernels.Launch) {
	a, b, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.In[1]), cpu.Slice[float64](l.Out[0])
	shapeA, shapeB := l.In[0].Shape, l.In[1].Shape
	inner := shapeA[len(shapeA)-1]
	eachIndex(l.Out[0].Shape, func(i int, index []int) {
		// The offsets of a[.., i, 0] and b[.., 0, j], and the stride from row to row of b.
		lead := slices.Clone(index)
		col, stride := 0, 1
		if len(shapeB) > 1 {
			col, lead = lead[len(lead)-1], lead[:len(lead)-1]
			stride = shapeB[len(shapeB)-1]
		}
		row := 0
		if len(shapeA) > 1 {
			row, lead = lead[len(lead)-1], lead[:len(lead)-1]
		}
		fromA, fromB := row*inner, col
		if n := len(shapeA) - 2; n > 0 {
			fromA += offsetOf(shapeA[:n], lead[len(lead)-n:]) * shapeA[n] * inner
		}
		if n := len(shapeB) - 2; n > 0 {
			fromB += offsetOf(shapeB[:n], lead[len(lead)-n:]) * inner * stride
		}
		y[i] = 0
		for k := range inner {
			y[i] += float64(a[fromA+k] * b[fromB+k*stride])
		}
	})
}

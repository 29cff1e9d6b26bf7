package linalg

import (
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/tensor"
)

// engine is what package tensor has for the other packages of the library.
var engine = tensor.Engine(seam.Key{})

// The kinds of errors about the values of a matrix.
var (
	ErrSingular            error = kind("the matrix is singular")
	ErrNotPositiveDefinite error = kind("the matrix is not positive definite")
)

// A kind of error says what is wrong with a matrix; it is of kind [tensor.ErrValue].
type kind string

func (k kind) Error() string { return string(k) }
func (k kind) Unwrap() error { return tensor.ErrValue }

// A decomposition is an operation on matrices of host memory.
type decomposition struct {
	name string
	// sizes is the number of elements of the result for one matrix of each operand, behind the batch.
	sizes []int
	// one computes the result y of one matrix of each operand; it may change x. The error says what is wrong with it.
	one func(y []float64, x ...[]float64) error
	// vjp is the gradient of each operand, nil where it is not wanted. y and x are on the tape.
	vjp func(g, y *tensor.Tensor, x []*tensor.Tensor) []*tensor.Tensor
}

// of applies the decomposition to operands that have the same batch axes, all but the last two.
func (d decomposition) of(operands ...*tensor.Tensor) (y *tensor.Tensor) {
	var x []*tensor.Tensor
	forward := func(in ...*tensor.Tensor) *tensor.Tensor {
		x = in
		dt := in[0].DType()
		for _, t := range in {
			if dt != tensor.Float64 && dt != tensor.Float32 || t.DType() != dt {
				engine.Fail(tensor.ErrDType, d.name, "operands %v; they must be all float64 or all float32, "+
					"x.To(tensor.Float32) converts", in)
			}
		}
		shape := append(batch(in[0]), d.sizes...)
		op := engine.NewOp(kernels.Op{Name: d.name, Ref: d.run}, dt, shape...)
		return engine.Apply(op, in, nil, nil)
	}
	if !slices.ContainsFunc(operands, func(t *tensor.Tensor) bool { return t.Scope() != nil }) {
		return forward(operands...)
	}
	y = autograd.CustomIn(tensor.Float32, d.name, func(c *autograd.Ctx, in ...*tensor.Tensor) *tensor.Tensor {
		y := forward(in...)
		c.Save(append(in, y)...)
		return y
	}, func(_ *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor { return d.vjp(g, y, x) }, operands...)
	return y
}

// run computes all matrices of a batch.
func (d decomposition) run(l *kernels.Launch) {
	out := cpu.Slice[float64](l.Out[0])
	size := 1
	for _, n := range d.sizes {
		size *= n
	}
	x := make([][]float64, len(l.In))
	for i := range l.Out[0].Len() / max(1, size) {
		for k, in := range l.In {
			n := in.Shape[len(in.Shape)-1] * in.Shape[len(in.Shape)-2]
			x[k] = slices.Clone(cpu.Slice[float64](in)[i*n : (i+1)*n])
		}
		if err := d.one(out[i*size:(i+1)*size], x...); err != nil {
			panic(kernels.Errorf(err, d.name, "%v: number %d of the batch", err, i))
		}
	}
}

// batch is the shape of x without its last two axes.
func batch(x *tensor.Tensor) []int { return x.Shape()[:x.Rank()-2] }

// size is that of the matrices x; it fails if x has fewer than two axes.
func size(op string, x *tensor.Tensor) (rows, columns int) {
	engine.Given(op, "an operand", x)
	if x.Rank() < 2 {
		engine.Fail(tensor.ErrShape, op, "%v has %d axes, a matrix has two; x.Unsqueeze(-1) makes a column of a vector",
			x, x.Rank())
	}
	return x.Dim(-2), x.Dim(-1)
}

// square is the size of the square matrices x.
func square(op string, x *tensor.Tensor) int {
	rows, columns := size(op, x)
	if rows != columns {
		engine.Fail(tensor.ErrShape, op, "%v has %d rows and %d columns; the matrix must be square", x, rows, columns)
	}
	return rows
}

// alike expands the batch axes of a and b to the same ones.
func alike(op string, a, b *tensor.Tensor) (*tensor.Tensor, *tensor.Tensor) {
	p, q := batch(a), batch(b)
	n := max(len(p), len(q))
	p, q = append(ones(n-len(p)), p...), append(ones(n-len(q)), q...)
	shape := slices.Clone(p)
	for i := range shape {
		if shape[i] == 1 {
			shape[i] = q[i]
		} else if q[i] != 1 && q[i] != shape[i] {
			engine.Fail(tensor.ErrShape, op, "the batches of %v and %v differ: they have %d and %d on axis %d", a, b,
				p[i], q[i], i-n-2)
		}
	}
	return expand(a, shape), expand(b, shape)
}

// expand gives matrices the batch axes of shape.
func expand(x *tensor.Tensor, shape []int) *tensor.Tensor {
	shape = append(slices.Clone(shape), x.Dim(-2), x.Dim(-1))
	if slices.Equal(shape, x.Shape()) {
		return x
	}
	return x.Expand(shape...)
}

func ones(n int) []int { return slices.Repeat([]int{1}, n) }

// mT is x with the last two axes exchanged.
func mT(x *tensor.Tensor) *tensor.Tensor { return x.Transpose(-1, -2) }

// chain is the product of matrices from left to right.
func chain(first *tensor.Tensor, others ...*tensor.Tensor) *tensor.Tensor {
	for _, x := range others {
		first = first.MatMul(x)
	}
	return first
}

// general is a matrix in row-major memory.
func general(rows, columns int, data []float64) blas64.General {
	return blas64.General{Rows: rows, Cols: columns, Stride: max(1, columns), Data: data}
}

// symmetric is the lower triangle of a square matrix.
func symmetric(n int, data []float64) blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: max(1, n), Data: data}
}

// eye is the identity of size n in the type of x.
func eye(n int, x *tensor.Tensor) *tensor.Tensor {
	return tensor.Full(1, x.DType(), n, n).Tril(0).Triu(0)
}

// parts are the pieces of packed results of the given shapes, one after the other on the last axis.
func parts(y *tensor.Tensor, shapes ...[2]int) (all []*tensor.Tensor) {
	lead := y.Shape()[:y.Rank()-1]
	at := 0
	for _, s := range shapes {
		n := s[0] * s[1]
		all = append(all, y.Slice(-1, at, at+n).Reshape(append(slices.Clone(lead), s[0], s[1])...))
		at += n
	}
	return all
}

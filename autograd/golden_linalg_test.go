package autograd_test

import (
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/linalg"
	"github.com/weft-ml/weft/tensor"
)

// symmetrized makes a matrix symmetric.
func symmetrized(x *tensor.Tensor) *tensor.Tensor { return x.Add(x.Transpose(-1, -2)).Scale(0.5) }

// positive makes a matrix positive definite.
func positive(x *tensor.Tensor) *tensor.Tensor {
	n := x.Dim(-1)
	return x.MatMul(x.Transpose(-1, -2)).Add(tensor.Full(0.5, x.DType(), n, n).Tril(0).Triu(0))
}

func init() {
	does(map[string]call{
		"solve": binary(linalg.Solve),
		"solve_triangular": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(linalg.SolveTriangular(x[0], x[1], c.Bool("upper")))
		},
		"inv": unary(linalg.Inv),
		"det": unary(linalg.Det),
		"slogdet": func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			sign, logAbs := linalg.Slogdet(x[0])
			return []*tensor.Tensor{sign, logAbs}
		},
		"cholesky": unary(func(x *tensor.Tensor) *tensor.Tensor { return linalg.Cholesky(positive(x)) }),
		"cholesky_solve": binary(func(b, x *tensor.Tensor) *tensor.Tensor {
			return linalg.CholeskySolve(b, linalg.Cholesky(positive(x)))
		}),
		"qr": func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			q, r := linalg.QR(x[0])
			return []*tensor.Tensor{q, r}
		},
		"eigh": func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			w, v := linalg.Eigh(symmetrized(x[0]))
			return []*tensor.Tensor{w, v.Mul(w.Sin().Unsqueeze(-2)).MatMul(v.Transpose(-1, -2)), v.Abs()}
		},
		"svd": func(_ *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			u, s, vt := linalg.SVD(x[0])
			return []*tensor.Tensor{s, u.Mul(s.Sin().Unsqueeze(-2)).MatMul(vt), u.Abs(), vt.Abs()}
		},
		"pinv":  unary(func(x *tensor.Tensor) *tensor.Tensor { return linalg.Pinv(x) }),
		"lstsq": binary(func(a, b *tensor.Tensor) *tensor.Tensor { return linalg.Lstsq(a, b) }),
		"matrix_rank": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			if c.Has("rtol") {
				return one(linalg.MatrixRank(x[0], linalg.RTol(c.Float("rtol"))))
			}
			return one(linalg.MatrixRank(x[0]))
		},
		"matrix_norm": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(linalg.MatrixNorm(x[0], map[string]linalg.Ord{"fro": linalg.Frobenius, "nuc": linalg.Nuclear,
				"2": linalg.Spectral, "-2": linalg.MinSpectral, "1": linalg.MaxColumnSum, "-1": linalg.MinColumnSum,
				"inf": linalg.MaxRowSum, "-inf": linalg.MinRowSum}[c.Text("ord")]))
		},
		"einsum": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(linalg.Einsum(c.Text("equation"), x...))
		},
		"tensordot": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(linalg.Tensordot(x[0], x[1], c.Ints("axes_a"), c.Ints("axes_b")))
		},
		"outer": binary(linalg.Outer),
		"kron":  binary(linalg.Kron),
	})
}

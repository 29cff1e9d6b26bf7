package linalg

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/weft-ml/weft/tensor"
)

// Solve is the x with a x = b: a [.. n n], b [.. n k] or, as vectors, [.. n] with the batch of a, or [n]. Batches
// broadcast. The error is of kind [ErrSingular] if a has no inverse.
func Solve(a, b *tensor.Tensor) *tensor.Tensor {
	n := square("solve", a)
	engine.Given("solve", "b", b)
	if b.Rank() == 1 || slices.Equal(b.Shape(), a.Shape()[:a.Rank()-1]) {
		return Solve(a, b.Unsqueeze(-1)).Squeeze(-1)
	}
	rows, columns := size("solve", b)
	if rows != n {
		engine.Fail(tensor.ErrShape, "solve", "a %v has %d rows, b %v has %d", a, n, b, rows)
	}
	a, b = alike("solve", a, b)
	return decomposition{"solve", []int{n, columns},
		func(y []float64, x ...[]float64) error {
			copy(y, x[1])
			return solveLU(n, columns, x[0], y)
		},
		func(g, y *tensor.Tensor, x []*tensor.Tensor) []*tensor.Tensor {
			gb := Solve(mT(x[0]), g)
			return []*tensor.Tensor{gb.MatMul(mT(y)).Neg(), gb}
		}}.of(a, b)
}

// solveLU overwrites b [n k] by the inverse of a [n n] times b.
func solveLU(n, k int, a, b []float64) error {
	if n == 0 || k == 0 {
		return nil
	}
	pivots := make([]int, n)
	if !lapack64.Getrf(general(n, n, a), pivots) {
		return ErrSingular
	}
	lapack64.Getrs(blas.NoTrans, general(n, n, a), general(n, k, b), pivots)
	return nil
}

// SolveTriangular is the x with a x = b for a [.. n n] of which the triangle above the diagonal is used, if upper, else
// that below; b [.. n k]. Batches broadcast. The error is of kind [ErrSingular] if there is a zero on the diagonal.
func SolveTriangular(a, b *tensor.Tensor, upper bool) *tensor.Tensor {
	const name = "solve_triangular"
	n := square(name, a)
	rows, columns := size(name, b)
	if rows != n {
		engine.Fail(tensor.ErrShape, name, "a %v has %d rows, b %v has %d", a, n, b, rows)
	}
	a, b = alike(name, a, b)
	return decomposition{name, []int{n, columns},
		func(y []float64, x ...[]float64) error {
			for i := range n {
				if x[0][i*n+i] == 0 {
					return ErrSingular
				}
			}
			copy(y, x[1])
			if n > 0 && columns > 0 {
				blas64.Trsm(blas.Left, blas.NoTrans, 1, triangular(n, x[0], upper), general(n, columns, y))
			}
			return nil
		},
		func(g, y *tensor.Tensor, x []*tensor.Tensor) []*tensor.Tensor {
			gb := SolveTriangular(mT(x[0]), g, !upper)
			ga := gb.MatMul(mT(y)).Neg()
			if upper {
				return []*tensor.Tensor{ga.Triu(0), gb}
			}
			return []*tensor.Tensor{ga.Tril(0), gb}
		}}.of(a, b)
}

func triangular(n int, data []float64, upper bool) blas64.Triangular {
	t := blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: n, Stride: max(1, n), Data: data}
	if upper {
		t.Uplo = blas.Upper
	}
	return t
}

// Inv is the inverse of a [.. n n]. The error is of kind [ErrSingular] if there is none. [Solve] is faster and more
// accurate where the inverse is multiplied by something.
func Inv(a *tensor.Tensor) *tensor.Tensor {
	n := square("inv", a)
	return decomposition{"inv", []int{n, n},
		func(y []float64, x ...[]float64) error {
			clear(y)
			for i := range n {
				y[i*n+i] = 1
			}
			return solveLU(n, n, x[0], y)
		},
		func(g, y *tensor.Tensor, _ []*tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{chain(mT(y), g, mT(y)).Neg()}
		}}.of(a)
}

// Det is the determinant of a [.. n n], as [..]. Its gradient is right for singular matrices, too.
func Det(a *tensor.Tensor) *tensor.Tensor {
	n := square("det", a)
	return decomposition{"det", []int{1, 1},
		func(y []float64, x ...[]float64) error {
			y[0] = det(n, x[0], factor(n, x[0]))
			return nil
		},
		func(g, _ *tensor.Tensor, x []*tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{adjugate(mT(x[0])).Mul(g)}
		}}.of(a).Squeeze(-1).Squeeze(-1)
}

// Slogdet is the sign of the determinant of a [.. n n] and the logarithm of its absolute value, both [..]: 0 and -Inf
// for a singular matrix. The logarithm alone has a gradient, which is an error of kind [ErrSingular] there.
func Slogdet(a *tensor.Tensor) (sign, logAbs *tensor.Tensor) {
	n := square("slogdet", a)
	y := decomposition{"slogdet", []int{2, 1},
		func(y []float64, x ...[]float64) error {
			y[0], y[1] = slogdet(n, x[0])
			return nil
		},
		func(g, _ *tensor.Tensor, x []*tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{Inv(mT(x[0])).Mul(g.Slice(-2, 1, 2))}
		}}.of(a).Squeeze(-1)
	return y.Select(-1, 0).Detach(), y.Select(-1, 1)
}

// factor overwrites a by its factors L and U.
func factor(n int, a []float64) (pivots []int) {
	if n > 0 {
		pivots = make([]int, n)
		lapack64.Getrf(general(n, n, a), pivots)
	}
	return pivots
}

// det is the determinant of a matrix with such factors.
func det(n int, lu []float64, pivots []int) float64 {
	d := 1.0
	for i, p := range pivots {
		if p != i {
			d = -d
		}
		d *= lu[i*n+i]
	}
	return d
}

// slogdet leaves the factors L and U in a.
func slogdet(n int, a []float64) (sign, logAbs float64) {
	sign = 1
	for i, p := range factor(n, a) {
		if p != i {
			sign = -sign
		}
		d := a[i*n+i]
		if d < 0 {
			sign = -sign
		}
		if d == 0 {
			return 0, math.Inf(-1)
		}
		logAbs += math.Log(math.Abs(d))
	}
	return sign, logAbs
}

// adjugate is det(a) a^-1, which matrices without an inverse have, too.
func adjugate(a *tensor.Tensor) *tensor.Tensor {
	n := square("det", a)
	return decomposition{"adjugate", []int{n, n},
		func(y []float64, x ...[]float64) error {
			if n == 0 {
				return nil
			}
			const norm, illConditioned, normal = lapack.MaxColumnSum, 1e-6, 0x1p-1022
			lu := slices.Clone(x[0])
			size := lapack64.Lange(norm, general(n, n, lu), make([]float64, n))
			pivots := factor(n, lu)
			d := det(n, lu, pivots)
			condition := lapack64.Gecon(norm, general(n, n, lu), size, make([]float64, 4*n), make([]int, n))
			if !(condition > illConditioned) || !(math.Abs(d) >= normal && math.Abs(d) <= math.MaxFloat64) {
				return adjugateSVD(n, y, x[0])
			}
			clear(y)
			for i := range n {
				y[i*n+i] = d
			}
			lapack64.Getrs(blas.NoTrans, general(n, n, lu), general(n, n, y), pivots)
			return nil
		},
		// With B = a^-1 and y = det(a) B: dy = det(a) (tr(B da) B - B da B).
		func(g, y *tensor.Tensor, x []*tensor.Tensor) []*tensor.Tensor {
			b := mT(Inv(x[0]))
			trace := g.Mul(y).Sum(-1, -2).Unsqueeze(-1).Unsqueeze(-1)
			det := Det(x[0]).Unsqueeze(-1).Unsqueeze(-1)
			return []*tensor.Tensor{b.Mul(trace).Sub(chain(b, g, b).Mul(det))}
		}}.of(a)
}

// adjugateSVD sets y to the adjugate of any a: with a = U S Vᵀ it is det(U) det(V) V T Uᵀ, where T has on its diagonal
// the products of all singular values but one.
func adjugateSVD(n int, y, a []float64) error {
	u, vt, s := make([]float64, n*n), make([]float64, n*n), make([]float64, n)
	if err := svd(n, n, a, u, s, vt); err != nil {
		return err
	}
	t := make([]float64, n*n) // T Uᵀ
	for i := range n {
		rest := 1.0
		for j := range n {
			if j != i {
				rest *= s[j]
			}
		}
		for j := range n {
			t[i*n+j] = rest * u[j*n+i]
		}
	}
	v := slices.Clone(vt)
	p, _ := slogdet(n, u)
	q, _ := slogdet(n, v)
	blas64.Gemm(blas.Trans, blas.NoTrans, p*q, general(n, n, vt), general(n, n, t), 0, general(n, n, y))
	return nil
}

// Cholesky is the lower triangular l [.. n n] with a positive diagonal and l lᵀ = a, of which the lower triangle is
// read. The error is of kind [ErrNotPositiveDefinite] if there is none.
func Cholesky(a *tensor.Tensor) *tensor.Tensor {
	n := square("cholesky", a)
	return decomposition{"cholesky", []int{n, n},
		func(y []float64, x ...[]float64) error {
			clear(y)
			if n == 0 {
				return nil
			}
			if _, ok := lapack64.Potrf(symmetric(n, x[0])); !ok {
				return ErrNotPositiveDefinite
			}
			for i := range n {
				copy(y[i*n:i*n+i+1], x[0][i*n:])
			}
			return nil
		},
		// S = L^-T phi(Lᵀ g) L^-1 with phi the lower triangle and half the diagonal; the gradient is its symmetric part
		// (Murray 2016).
		func(g, y *tensor.Tensor, _ []*tensor.Tensor) []*tensor.Tensor {
			phi := mT(y).MatMul(g).Tril(0)
			phi = phi.Sub(phi.Mul(eye(n, phi)).Scale(0.5))
			s := SolveTriangular(mT(y), mT(SolveTriangular(mT(y), mT(phi), true)), true)
			return []*tensor.Tensor{s.Add(mT(s)).Scale(0.5)}
		}}.of(a)
}

// CholeskySolve is the x with l lᵀ x = b for l [.. n n], the result of [Cholesky], and b [.. n k].
func CholeskySolve(b, l *tensor.Tensor) *tensor.Tensor {
	square("cholesky_solve", l)
	return SolveTriangular(mT(l), SolveTriangular(l, b, false), true)
}

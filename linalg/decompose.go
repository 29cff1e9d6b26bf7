package linalg

import (
	"math"

	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/weft-ml/weft/tensor"
)

// QR is q [.. m k] with orthonormal columns and the upper triangular r [.. k n] with a = q r, for a [.. m n] and k the
// smaller of m and n. The diagonal of r may be negative. Where m < n the gradient is that of the first m columns, which
// must have full rank, as those of a must for m >= n: else it is an error of kind [ErrSingular].
func QR(a *tensor.Tensor) (q, r *tensor.Tensor) {
	m, n := size("qr", a)
	if m < n {
		q, r = QR(a.Slice(-1, 0, m))
		return q, tensor.Cat(-1, r, mT(q).MatMul(a.Slice(-1, m, n)))
	}
	shapes := [][2]int{{m, n}, {n, n}}
	y := decomposition{"qr", []int{1, m*n + n*n},
		func(y []float64, x ...[]float64) error {
			clear(y)
			if n > 0 {
				qr(m, n, x[0], y[:m*n], y[m*n:])
			}
			return nil
		},
		// gA = (gQ + Q sym) R^-T with M = R gRᵀ - gQᵀ Q, and sym its lower triangle mirrored (Walter and Lehmann 2018).
		func(g, y *tensor.Tensor, _ []*tensor.Tensor) []*tensor.Tensor {
			f, d := parts(y.Squeeze(-2), shapes...), parts(g.Squeeze(-2), shapes...)
			q, r, gq, gr := f[0], f[1], d[0], d[1]
			low := r.MatMul(mT(gr)).Sub(mT(gq).MatMul(q)).Tril(0)
			sym := low.Add(mT(low.Tril(-1)))
			return []*tensor.Tensor{mT(SolveTriangular(r, mT(gq.Add(q.MatMul(sym))), true))}
		}}.of(a)
	all := parts(y.Squeeze(-2), shapes...)
	return all[0], all[1]
}

// qr computes q [m n] and r [n n] of a, m >= n, which it overwrites.
func qr(m, n int, a, q, r []float64) {
	tau := make([]float64, n)
	best := []float64{0}
	lapack64.Geqrf(general(m, n, a), tau, best, -1)
	work := make([]float64, int(best[0]))
	lapack64.Geqrf(general(m, n, a), tau, work, len(work))
	for i := range n {
		copy(r[i*n+i:(i+1)*n], a[i*n+i:])
	}
	lapack64.Orgqr(general(m, n, a), tau, best, -1)
	work = make([]float64, int(best[0]))
	lapack64.Orgqr(general(m, n, a), tau, work, len(work))
	copy(q, a)
}

// Eigh is the eigenvalues w [.. n] of the symmetric a [.. n n] in ascending order, and its orthonormal eigenvectors,
// the columns of v [.. n n]: a = v diag(w) vᵀ. The lower triangle is read; gradients are those of symmetric changes.
// The sign of an eigenvector is arbitrary, and so must not matter to what is computed with it.
func Eigh(a *tensor.Tensor) (w, v *tensor.Tensor) {
	n := square("eigh", a)
	shapes := [][2]int{{n, 1}, {n, n}}
	y := decomposition{"eigh", []int{1, n + n*n},
		func(y []float64, x ...[]float64) error {
			if n == 0 {
				return nil
			}
			for i := range n {
				for j := range i {
					x[0][j*n+i] = x[0][i*n+j]
				}
			}
			if err := finite(x[0]); err != nil {
				return err
			}
			best := []float64{0}
			lapack64.Syev(lapack.EVCompute, symmetric(n, x[0]), y[:n], best, -1)
			work := make([]float64, int(best[0]))
			if !lapack64.Syev(lapack.EVCompute, symmetric(n, x[0]), y[:n], work, len(work)) {
				return errConverge
			}
			copy(y[n:], x[0])
			return nil
		},
		// gA = V (diag(gw) + VᵀgV / E) Vᵀ with E[i,j] = w[j] - w[i].
		func(g, y *tensor.Tensor, _ []*tensor.Tensor) []*tensor.Tensor {
			f, d := parts(y.Squeeze(-2), shapes...), parts(g.Squeeze(-2), shapes...)
			w, v, gw, gv := f[0], f[1], d[0], d[1]
			inner := over(mT(v).MatMul(gv), mT(w).Sub(w)).Add(gw.Mul(eye(n, gw)))
			s := chain(v, inner, mT(v))
			return []*tensor.Tensor{s.Add(mT(s)).Scale(0.5)}
		}}.of(a)
	all := parts(y.Squeeze(-2), shapes...)
	return all[0].Squeeze(-1), all[1]
}

// SVD is u [.. m k], the singular values s [.. k] in descending order and vt [.. k n] with a = u diag(s) vt, for a
// [.. m n] and k the smaller of m and n; u has orthonormal columns, vt orthonormal rows. The sign of a column of u with
// its row of vt is arbitrary, and so must not matter to what is computed with them.
func SVD(a *tensor.Tensor) (u, s, vt *tensor.Tensor) {
	m, n := size("svd", a)
	k := min(m, n)
	shapes := [][2]int{{m, k}, {k, 1}, {k, n}}
	y := decomposition{"svd", []int{1, m*k + k + k*n},
		func(y []float64, x ...[]float64) error {
			if k == 0 {
				return nil
			}
			return svd(m, n, x[0], y[:m*k], y[m*k:m*k+k], y[m*k+k:])
		},
		// gA = U (skew(UᵀgU)/E S + S skew(VᵀgV)/E + diag(gs)) Vᵀ + (1-UUᵀ) gU/S Vᵀ + U/S gVᵀ (1-VVᵀ) with
		// E[i,j] = s[j]² - s[i]² and skew(X) = X - Xᵀ (Townsend 2016).
		func(g, y *tensor.Tensor, _ []*tensor.Tensor) []*tensor.Tensor {
			f, d := parts(y.Squeeze(-2), shapes...), parts(g.Squeeze(-2), shapes...)
			u, s, vt, gu, gs, gvt := f[0], f[1], f[2], d[0], d[1], d[2]
			squares := s.Square()
			gaps := mT(squares).Sub(squares)
			skew := func(x *tensor.Tensor) *tensor.Tensor { return over(x.Sub(mT(x)), gaps) }
			inner := skew(mT(u).MatMul(gu)).Mul(mT(s)).Add(skew(vt.MatMul(mT(gvt))).Mul(s)).Add(gs.Mul(eye(k, gs)))
			ga := chain(u, inner, vt)
			if m > k {
				ga = ga.Add(over(gu.Sub(chain(u, mT(u), gu)), mT(s)).MatMul(vt))
			}
			if n > k {
				ga = ga.Add(u.MatMul(over(gvt.Sub(chain(gvt, mT(vt), vt)), s)))
			}
			return []*tensor.Tensor{ga}
		}}.of(a)
	all := parts(y.Squeeze(-2), shapes...)
	return all[0], all[1].Squeeze(-1), all[2]
}

// svd computes u [m k], s [k] and vt [k n] of a [m n], which it overwrites.
func svd(m, n int, a, u, s, vt []float64) error {
	if err := finite(a); err != nil {
		return err
	}
	k := min(m, n)
	best := []float64{0}
	run := func(work []float64, length int) bool {
		return lapack64.Gesvd(lapack.SVDStore, lapack.SVDStore, general(m, n, a), general(m, k, u), general(k, n, vt),
			s, work, length)
	}
	run(best, -1)
	work := make([]float64, int(best[0]))
	if !run(work, len(work)) {
		return errConverge
	}
	return nil
}

// over is x/y, and 0 where y is 0.
func over(x, y *tensor.Tensor) *tensor.Tensor {
	zero := y.EqualScalar(0)
	return x.Div(y.MaskedFill(zero, 1)).MaskedFill(zero, 0)
}

const (
	errConverge = kind("the algorithm does not converge for the matrix")
	errFinite   = kind("the matrix has elements that are not finite")
)

// finite is an error if an element is not.
func finite(a []float64) error {
	for _, v := range a {
		if math.IsNaN(v - v) {
			return errFinite
		}
	}
	return nil
}

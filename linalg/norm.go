package linalg

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// Option changes [Pinv], [Lstsq] or [MatrixRank]. The zero Option changes nothing.
type Option struct{ set func(*settings) }

type settings struct{ rtol float64 }

// RTol is the share of the largest singular value below which others count as 0: the larger size of the matrix times
// the distance of 1 and the next number of its type, if it is not given. It is not negative.
func RTol(share float64) Option {
	if !(share >= 0 && share <= math.MaxFloat64) {
		engine.Fail(tensor.ErrValue, "rtol", "the share is %v; it must be finite and not negative", share)
	}
	return Option{func(s *settings) { s.rtol = share }}
}

// rtolOf is what the options say for matrices m by n of type dt.
func rtolOf(dt tensor.DType, m, n int, options []Option) float64 {
	s := settings{rtol: float64(max(m, n)) * 0x1p-23}
	if dt == tensor.Float64 {
		s.rtol = float64(max(m, n)) * 0x1p-52
	}
	for _, o := range options {
		if o.set != nil {
			o.set(&s)
		}
	}
	return s.rtol
}

// Pinv is the inverse of Moore and Penrose of a [.. m n], as [.. n m]. Its gradient is that of matrices of equal rank.
func Pinv(a *tensor.Tensor, options ...Option) *tensor.Tensor {
	m, n := size("pinv", a)
	k := min(m, n)
	rtol := rtolOf(a.DType(), m, n, options)
	return decomposition{"pinv", []int{n, m},
		func(y []float64, x ...[]float64) error {
			clear(y)
			if k == 0 {
				return nil
			}
			u, s, vt := make([]float64, m*k), make([]float64, k), make([]float64, k*n)
			if err := svd(m, n, x[0], u, s, vt); err != nil {
				return err
			}
			for r, v := range s { // y = V S^-1 Uᵀ
				if v <= rtol*s[0] {
					break
				}
				for i := range n {
					for j := range m {
						y[i*m+j] += vt[r*n+i] / v * u[j*k+r]
					}
				}
			}
			return nil
		},
		// Golub and Pereyra 1973.
		func(g, p *tensor.Tensor, x []*tensor.Tensor) []*tensor.Tensor {
			a, pt, gt := x[0], mT(p), mT(g)
			if m <= n {
				k := gt.MatMul(p)
				kp := k.MatMul(pt)
				return []*tensor.Tensor{kp.Sub(mT(p.MatMul(k))).Sub(chain(a, p, kp)).
					Add(chain(pt, p, gt.Sub(k.MatMul(a))))}
			}
			k := p.MatMul(gt)
			pk := pt.MatMul(k)
			return []*tensor.Tensor{pk.Sub(mT(k.MatMul(p))).Add(chain(gt.Sub(a.MatMul(k)), p, pt)).Sub(chain(pk, p, a))}
		}}.of(a)
}

// Lstsq is the shortest x [.. n k] that makes the squares of a x - b smallest: a [.. m n] of any rank, b [.. m k].
func Lstsq(a, b *tensor.Tensor, options ...Option) *tensor.Tensor {
	m, _ := size("lstsq", a)
	if rows, _ := size("lstsq", b); rows != m {
		engine.Fail(tensor.ErrShape, "lstsq", "a %v has %d rows, b %v has %d", a, m, b, rows)
	}
	return Pinv(a, options...).MatMul(b)
}

// MatrixRank is the number of singular values of a [.. m n] that are not 0, int64 [..].
func MatrixRank(a *tensor.Tensor, options ...Option) *tensor.Tensor {
	m, n := size("matrix_rank", a)
	_, s, _ := SVD(a)
	if min(m, n) == 0 {
		return s.GreaterScalar(0).Sum(-1)
	}
	return s.Detach().Greater(s.Detach().Slice(-1, 0, 1).Scale(rtolOf(a.DType(), m, n, options))).Sum(-1)
}

// Ord is a kind of matrix norm.
type Ord int

// The norms of a matrix.
const (
	Frobenius    Ord = iota // root of the sum of squares
	Nuclear                 // sum of the singular values
	Spectral                // largest singular value; 2 in torch.linalg
	MinSpectral             // smallest singular value; -2
	MaxColumnSum            // largest sum of absolute values in a column; 1
	MinColumnSum            // smallest; -1
	MaxRowSum               // largest sum of absolute values in a row; Inf
	MinRowSum               // smallest; -Inf
)

// MatrixNorm is a norm of the matrices a [.. m n], as [..]. The gradient of the Frobenius norm at 0 is 0; extremes of
// nothing are an error.
func MatrixNorm(a *tensor.Tensor, ord Ord) *tensor.Tensor {
	m, n := size("matrix_norm", a)
	switch ord {
	case Frobenius:
		return a.Norm(2, -1, -2).To(a.DType())
	case MaxColumnSum:
		return a.Abs().Sum(-2).Max(-1)
	case MinColumnSum:
		return a.Abs().Sum(-2).Min(-1)
	case MaxRowSum:
		return a.Abs().Sum(-1).Max(-1)
	case MinRowSum:
		return a.Abs().Sum(-1).Min(-1)
	case Nuclear, Spectral, MinSpectral:
	default:
		engine.Fail(tensor.ErrValue, "matrix_norm", "there is no norm %d; linalg.Frobenius is the first one, "+
			"linalg.MinRowSum the last", ord)
	}
	_, s, _ := SVD(a)
	switch k := min(m, n); {
	case ord == Nuclear:
		return s.Sum(-1)
	case k == 0:
		engine.Fail(tensor.ErrShape, "matrix_norm", "%v has no singular values", a)
	case ord == Spectral:
		return s.Select(-1, 0)
	}
	return s.Select(-1, min(m, n)-1)
}

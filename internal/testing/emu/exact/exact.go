// Package exact computes in float64 the reference for kernels that round intermediate results: attention in half
// precision.
package exact

import (
	"fmt"
	"math"
)

// Attention is attention of one head in float64: operands [T D], [S D], [S D] and the gradient of y [T D].
type Attention struct {
	T, S, D    int
	Causal     bool
	Scale      float64
	Q, K, V, G []float64
}

// Results computes y, dq, dk, dv, m and 1/r, and their sizes, in which sums are sums of absolute values. The kernels
// round p, ds and y with a relative error of u = 2^-11 or 2^-8. So an error is at most u times the sum of result and
// size; sum(g*y), where y was rounded and made of rounded p, counts twice.
func (f *Attention) Results() (results, sizes [6][]float64) {
	for k, n := range []int{f.T * f.D, f.T * f.D, f.S * f.D, f.S * f.D, f.T, f.T} {
		results[k], sizes[k] = make([]float64, n), make([]float64, n)
	}
	row := func(x []float64, i int) []float64 { return x[i*f.D:][:f.D] }
	dot := func(x, y []float64) (sum, size float64) {
		for e := range x {
			sum += x[e] * y[e]
			size += math.Abs(x[e] * y[e])
		}
		return sum, size
	}
	add := func(k, i int, by, size float64, x []float64) {
		for e := range x {
			row(results[k], i)[e] += by * x[e]
			row(sizes[k], i)[e] += size * math.Abs(x[e])
		}
	}
	for i := range f.T {
		n := f.S
		if f.Causal {
			n = i + 1 + f.S - f.T
		}
		p, most, total := make([]float64, n), math.Inf(-1), 0.0
		for j := range p {
			p[j], _ = dot(row(f.Q, i), row(f.K, j))
			p[j] *= f.Scale
			most = max(most, p[j])
		}
		for j := range p {
			p[j] = math.Exp(p[j] - most)
			total += p[j]
		}
		results[4][i], results[5][i] = most, total
		sizes[4][i], sizes[5][i] = math.Abs(most), total
		dp, dpSize := make([]float64, n), make([]float64, n)
		sum, size := 0.0, 0.0
		for j := range p {
			p[j] /= total
			dp[j], dpSize[j] = dot(row(f.G, i), row(f.V, j))
			sum += p[j] * dp[j]
			size += p[j] * dpSize[j]
		}
		for j := range p {
			ds, dsSize := f.Scale*p[j]*(dp[j]-sum), f.Scale*p[j]*(dpSize[j]+3*size)
			add(0, i, p[j], p[j], row(f.V, j))
			add(1, i, ds, dsSize, row(f.K, j))
			add(2, j, ds, dsSize, row(f.Q, i))
			add(3, j, p[j], p[j], row(f.G, i))
		}
	}
	return results, sizes
}

// Near is nil if all errors are at most u times result and size, plus 2^-14 of the size for rounding in FP32, plus
// least.
func Near(got, want, size []float64, u, least float64) error {
	for i, w := range want {
		if most := u*(math.Abs(w)+size[i]) + 0x1p-14*size[i] + least; !(math.Abs(got[i]-w) <= most) {
			return fmt.Errorf("element %d is %v, want %v within %v", i, got[i], w, most)
		}
	}
	return nil
}

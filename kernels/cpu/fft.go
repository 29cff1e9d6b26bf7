package cpu

import (
	"math"
	"math/bits"
	"math/cmplx"

	"github.com/weft-ml/weft/kernels"
	"gonum.org/v1/gonum/dsp/fourier"
)

// DFT is the discrete Fourier transform along the axis l.Ints[0] of complex numbers, pairs along the last axis: the
// inverse, without its factor 1/n, if l.Ints[1] is 1. It is computed in float64.
func DFT(l *kernels.Launch) {
	if l.Out[0].DType == kernels.Float64 {
		dft[float64](l)
	} else {
		dft[float32](l)
	}
}

func dft[T float32 | float64](l *kernels.Launch) {
	x, y, axis := l.In[0], l.Out[0], l.Ints[0]
	last := len(x.Shape) - 1
	n := x.Shape[axis]
	from, to := reductionOf(x, []int{axis, last}), reductionOf(y, []int{axis, last})
	src, dst := Slice[T](x), Slice[T](y)
	parRows(y.Len()/(2*n), 32*n, func(lo, hi int) {
		transform, line := transformOf(n), make([]complex128, n)
		for row := lo; row < hi; row++ {
			in := src[from.Kept.Offset(row):]
			for j := range line {
				at := j * x.Strides[axis]
				line[j] = complex(float64(in[at]), float64(in[at+x.Strides[last]]))
			}
			transform(line, l.Ints[1] == 1)
			out := dst[to.Kept.Offset(row):]
			for j, v := range line {
				at := j * y.Strides[axis]
				out[at], out[at+y.Strides[last]] = T(real(v)), T(imag(v))
			}
		}
	})
}

// largestRadix is the largest prime factor of a size that gonum's transform takes in good time: its cost is the size
// times the sum of the factors.
const largestRadix = 61

// transformOf is the transform of n numbers in place, for one goroutine.
func transformOf(n int) func(line []complex128, inverse bool) {
	rest := n
	for p := 2; p <= largestRadix; p++ {
		for rest%p == 0 {
			rest /= p
		}
	}
	if rest > 1 {
		return chirp(n)
	}
	t := fourier.NewCmplxFFT(n)
	return func(line []complex128, inverse bool) {
		if inverse {
			t.Sequence(line, line)
		} else {
			t.Coefficients(line, line)
		}
	}
}

// chirp is the transform of any number of elements by a convolution, which is made of transforms whose size is a power
// of 2 (Bluestein 1970): with w[j] = exp(-πi j²/n) and 2jk = j² + k² - (k-j)², y[k] = w[k] sum (x[j] w[j]) / w[k-j].
func chirp(n int) func(line []complex128, inverse bool) {
	m := 1 << bits.Len(uint(2*n-2)) // 2n-1 or more
	t := fourier.NewCmplxFFT(m)
	w, response, a := make([]complex128, n), make([]complex128, m), make([]complex128, m)
	square := 0 // j² mod 2n
	for j := range w {
		sin, cos := math.Sincos(math.Pi * float64(square) / float64(n))
		w[j] = complex(cos, -sin)
		response[j] = complex(cos, sin)
		response[(m-j)%m] = response[j]
		square = (square + 2*j + 1) % (2 * n)
	}
	t.Coefficients(response, response)
	conjugate := func(line []complex128) {
		for j, v := range line {
			line[j] = cmplx.Conj(v)
		}
	}
	return func(line []complex128, inverse bool) {
		if inverse {
			conjugate(line)
		}
		clear(a)
		for j, v := range line {
			a[j] = v * w[j]
		}
		t.Coefficients(a, a)
		for j := range a {
			a[j] *= response[j]
		}
		t.Sequence(a, a)
		scale := complex(1/float64(m), 0)
		for k := range line {
			line[k] = a[k] * w[k] * scale
		}
		if inverse {
			conjugate(line)
		}
	}
}

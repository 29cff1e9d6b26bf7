//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

func init() { plans["dft"] = planDFT }

// complexes is the struct Complexes of fft.cu.
type complexes struct {
	lines           kernels.Dims
	step, imaginary int64
}

// fourierStep is the struct FourierStep of fft.cu.
type fourierStep struct {
	first, count              uint64
	n, before, radix, inverse uint32
	x, y                      complexes
}

const (
	fourierScratch = 128 << 20 // bytes of numbers between steps, unless two lines take more
	complexBytes   = 16        // of such a number
	largestRadix   = 8         // of steps that are no prime number
)

// planDFT has a launch for each factor of the size.
func planDFT(c *call, l *kernels.Launch) {
	x, y, axis := &l.In[0], &l.Out[0], l.Ints[0]
	if y.Len() == 0 {
		return
	}
	n, last := x.Shape[axis], len(x.Shape)-1
	lines := y.Len() / (2 * n)
	if n > math.MaxInt32 {
		c.refuse("lines of %d numbers; kernels take fewer than 2^31", n)
	}
	factors := radices(n)
	block, buffers := lines, min(2, len(factors)-1)
	if buffers > 0 {
		block = max(1, min(lines, fourierScratch/(buffers*complexBytes*n)))
	}
	f := fourierStep{n: uint32(n), inverse: uint32(l.Ints[1]),
		x: complexes{withoutAxes(x, axis, last), int64(x.Strides[axis]), int64(x.Strides[last])},
		y: complexes{withoutAxes(y, axis, last), int64(y.Strides[axis]), int64(y.Strides[last])}}
	var between [2]uint64
	between[0] = c.scratch(buffers * block * n * complexBytes)
	between[1] = between[0] + uint64(block*n*complexBytes)
	for first := 0; first < lines; first += block {
		f.first, f.count, f.before = uint64(first), uint64(min(block, lines-first)), 1
		for k, radix := range factors {
			f.radix = uint32(radix)
			c.startWindows("fourier_step_"+typeSuffix(x.DType), int(f.count)*n)
			var to, from, in, out uint64
			if k == 0 {
				in = c.address(x)
			} else {
				from = between[(k-1)%2]
			}
			if k == len(factors)-1 {
				out = c.address(y)
			} else {
				to = between[k%2]
			}
			for _, address := range [4]uint64{out, in, to, from} {
				arg(c, address)
			}
			structure(c, &f)
			f.before *= f.radix
		}
	}
}

// radices are factors of n: powers of 2 up to the largest radix, and odd prime numbers.
func radices(n int) (all []int) {
	for radix := largestRadix; radix > 1; radix /= 2 {
		for n%radix == 0 {
			all = append(all, radix)
			n /= radix
		}
	}
	for p := 3; p*p <= n; p += 2 {
		for n%p == 0 {
			all = append(all, p)
			n /= p
		}
	}
	if n > 1 || len(all) == 0 {
		all = append(all, n)
	}
	return all
}

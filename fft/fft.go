package fft

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// Option changes a transform. The zero Option changes nothing.
type Option struct{ set func(*config) }

type config struct {
	axes, sizes []int
	norm        norm
}

// norm says which direction is divided.
type norm int

const (
	backward norm = iota // the inverse, by n
	forward              // the forward transform, by n
	ortho                // both, by sqrt(n)
)

// Axes are those to transform, one after the other; without this option it is the last one. Negative ones count from
// the end. Of [RFFT] and [IRFFT] the last one given is the axis of half the size.
func Axes(axes ...int) Option { return Option{func(c *config) { c.axes = axes }} }

// Size cuts the axes to these sizes, or fills them up with zeros, before they are transformed: one number for each.
// Of [IRFFT] they are the sizes of the result; without this option its last one is even.
func Size(n ...int) Option { return Option{func(c *config) { c.sizes = n }} }

// Ortho divides both directions by sqrt(n), so that they keep lengths.
func Ortho() Option { return Option{func(c *config) { c.norm = ortho }} }

// Forward divides the forward transform by n, and the inverse by nothing.
func Forward() Option { return Option{func(c *config) { c.norm = forward }} }

// FFT is the transform y[k] = sum over j of x[j] exp(-2πi jk/n) of complex numbers [.. n 2] along one axis or
// several.
func FFT(x *tensor.Tensor, opts ...Option) *tensor.Tensor {
	const op = "fft"
	c := optionsOf(op, wantComplex(op, x), opts)
	return c.transform(c.resize(op, x, c.sizes), c.axes, false)
}

// IFFT is the inverse of [FFT].
func IFFT(x *tensor.Tensor, opts ...Option) *tensor.Tensor {
	const op = "ifft"
	c := optionsOf(op, wantComplex(op, x), opts)
	return c.transform(c.resize(op, x, c.sizes), c.axes, true)
}

// RFFT is the transform of real numbers [.. n]: its first n/2+1 numbers along the last of the axes, [.. n/2+1 2]. The
// others are their conjugates.
func RFFT(x *tensor.Tensor, opts ...Option) *tensor.Tensor {
	const op = "rfft"
	engine.Given(op, "x", x)
	c := optionsOf(op, x.Rank(), opts)
	x = c.resize(op, x, c.sizes)
	last := c.axes[len(c.axes)-1]
	pads := make([][2]int, x.Rank()+1)
	pads[x.Rank()] = [2]int{0, 1} // imaginary parts of 0
	half := c.transform(x.Unsqueeze(-1).Pad(0, pads...), []int{last}, false).Slice(last, 0, x.Dim(last)/2+1)
	return c.transform(half, c.axes[:len(c.axes)-1], false)
}

// IRFFT is the inverse of [RFFT]: of complex numbers [.. m 2], half of a transform whose other half are conjugates,
// to real ones [.. n]. n is 2(m-1) unless [Size] says 2(m-1)+1. The imaginary parts of the first number and, for even
// n, of the last count for nothing.
func IRFFT(x *tensor.Tensor, opts ...Option) *tensor.Tensor {
	const op = "irfft"
	c := optionsOf(op, wantComplex(op, x), opts)
	last := c.axes[len(c.axes)-1]
	n := 2 * (x.Dim(last) - 1)
	if c.sizes != nil {
		n = c.sizes[len(c.sizes)-1]
		halves := slices.Clone(c.sizes)
		halves[len(halves)-1] = n/2 + 1
		x = c.resize(op, x, halves)
	}
	if n < 1 {
		engine.Fail(tensor.ErrShape, op, "%v has no inverse of %d elements along axis %d; fft.Size gives the size",
			x, n, last)
	}
	x = c.transform(x, c.axes[:len(c.axes)-1], true)
	// y[j] = Re(x[0]) + 2 Re(sum of the others), but the last for even n: the whole transform from its half.
	rest := Conj(x.Slice(last, 1, n-n/2)).Flip(last)
	return Real(c.transform(tensor.Cat(last, x, rest), []int{last}, true))
}

// optionsOf reads options for a tensor of so many axes that may be transformed.
func optionsOf(op string, rank int, opts []Option) (c config) {
	for _, o := range opts {
		if o.set != nil {
			o.set(&c)
		}
	}
	if len(c.axes) == 0 {
		c.axes = []int{-1}
	}
	c.axes = slices.Clone(c.axes)
	for i, a := range c.axes {
		if a < 0 {
			c.axes[i] += rank
		}
		if a < -rank || a >= rank {
			engine.Fail(tensor.ErrIndex, op, "axis %d is outside [%d, %d), the axes without that of parts",
				a, -rank, rank)
		}
		if slices.Contains(c.axes[:i], c.axes[i]) {
			engine.Fail(tensor.ErrValue, op, "axis %d is transformed twice", a)
		}
	}
	if c.sizes != nil && len(c.sizes) != len(c.axes) {
		engine.Fail(tensor.ErrValue, op, "%d sizes for %d axes", len(c.sizes), len(c.axes))
	}
	return c
}

// resize cuts the axes or fills them up with zeros.
func (c *config) resize(op string, x *tensor.Tensor, sizes []int) *tensor.Tensor {
	pads := make([][2]int, x.Rank())
	for i, a := range c.axes {
		n := x.Dim(a)
		if sizes != nil {
			n = sizes[i]
		}
		if n < 1 {
			engine.Fail(tensor.ErrShape, op, "axis %d of %v would have %d elements; at least 1 is needed", a, x, n)
		}
		pads[a][1] = n - x.Dim(a)
	}
	return x.Pad(0, pads...)
}

// transform transforms the axes, and divides.
func (c *config) transform(x *tensor.Tensor, axes []int, inverse bool) *tensor.Tensor {
	n, dt := 1.0, x.DType()
	if dt.IsHalf() {
		x = x.To(tensor.Float32)
	}
	for _, a := range axes {
		x = engine.DFT(x, a, inverse)
		n *= float64(x.Dim(a))
	}
	switch {
	case n == 1:
	case c.norm == ortho:
		x = x.Scale(1 / math.Sqrt(n))
	case inverse == (c.norm == backward):
		x = x.Scale(1 / n)
	}
	return x.To(dt)
}

// Freq are the frequencies of the numbers that [FFT] gives for n samples at the given spacing, in cycles for each
// unit of it: 0, 1, .., -2, -1, over n times the spacing, in float64.
func Freq(n int, spacing float64) *tensor.Tensor {
	return frequencies("freq", n, n, spacing)
}

// RealFreq are those of [RFFT]: 0, 1, .., n/2, over n times the spacing.
func RealFreq(n int, spacing float64) *tensor.Tensor {
	return frequencies("real_freq", n, n/2+1, spacing)
}

// frequencies are the first count of n.
func frequencies(op string, n, count int, spacing float64) *tensor.Tensor {
	if n < 1 || !(math.Abs(spacing) > 0 && math.Abs(spacing) <= math.MaxFloat64) {
		engine.Fail(tensor.ErrValue, op, "n is %d, at least 1 is needed; the spacing is %v, which must be finite "+
			"and not 0", n, spacing)
	}
	k := tensor.Arange(tensor.Float64, 0, float64(count), 1)
	if count == n && n > 1 {
		first := (n + 1) / 2
		k = tensor.Cat(0, k.Slice(0, 0, first), k.Slice(0, first, n).AddScalar(-float64(n)))
	}
	return k.Scale(1 / (float64(n) * spacing))
}

// Shift moves the frequency 0 from the start of the axes to their middle; without axes of all of x. Of complex
// numbers name the axes: the last one holds parts.
func Shift(x *tensor.Tensor, axes ...int) *tensor.Tensor {
	return roll("fft_shift", x, axes, func(n int) int { return n / 2 })
}

// Unshift undoes [Shift].
func Unshift(x *tensor.Tensor, axes ...int) *tensor.Tensor {
	return roll("fft_unshift", x, axes, func(n int) int { return n - n/2 })
}

// roll rolls each of the axes, of n elements, by shift(n).
func roll(op string, x *tensor.Tensor, axes []int, shift func(n int) int) *tensor.Tensor {
	engine.Given(op, "x", x)
	if len(axes) == 0 {
		for a := range x.Rank() {
			axes = append(axes, a)
		}
	}
	for _, a := range axes {
		x = x.Roll(a, shift(x.Dim(a)))
	}
	return x
}

package fft_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/fft"
	"github.com/weft-ml/weft/tensor"
)

// TestShift compares frequencies, and what moves them, with values by hand.
func TestShift(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want *tensor.Tensor
	}{
		{"Freq(4, 0.5)", fft.Freq(4, 0.5), tensor.FromSlice([]float64{0, 0.5, -1, -0.5}, 4)},
		{"Freq(5, 1)", fft.Freq(5, 1), tensor.FromSlice([]float64{0, 0.2, 0.4, -0.4, -0.2}, 5)},
		{"Freq(1, 1)", fft.Freq(1, 1), tensor.FromSlice([]float64{0}, 1)},
		{"RealFreq(5, 1)", fft.RealFreq(5, 1), tensor.FromSlice([]float64{0, 0.2, 0.4}, 3)},
		{"Shift", fft.Shift(tensor.FromSlice([]float64{0, 1, 2, -2, -1}, 5)),
			tensor.FromSlice([]float64{-2, -1, 0, 1, 2}, 5)},
		{"Unshift", fft.Unshift(tensor.FromSlice([]float64{-2, -1, 0, 1, 2}, 5)),
			tensor.FromSlice([]float64{0, 1, 2, -2, -1}, 5)},
		{"Shift of rows", fft.Shift(tensor.FromNested([][]float64{{0, 1}, {2, 3}}), 0),
			tensor.FromNested([][]float64{{2, 3}, {0, 1}})},
	} {
		if !c.got.AllClose(c.want, 1e-15, 1e-15) {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
}

// TestRoundTrip transforms many numbers, sizes with large prime factors, and types, forth and back.
func TestRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 1000, 1009, 1 << 17, 2 * 65537} {
		x := tensor.Randn(tensor.Seed(1), n)
		if y := fft.IRFFT(fft.RFFT(x), fft.Size(n)); !y.AllClose(x, 0, 1e-5) {
			t.Errorf("%d numbers do not come back", n)
		}
	}
	x := tensor.Randn(tensor.Seed(2), 3, 50, 2)
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float64} {
		y := fft.IFFT(fft.FFT(x.To(dt), fft.Ortho(), fft.Axes(0, 1)), fft.Ortho(), fft.Axes(0, 1))
		if y.DType() != dt || !y.To(tensor.Float32).AllClose(x, 0.05, 0.05) {
			t.Errorf("%v: does not come back", dt)
		}
	}
}

// TestComplex compares the arithmetic of pairs with Go's.
func TestComplex(t *testing.T) {
	a, b := complex(3.0, -4), complex(-1, 0.5)
	pair := func(v complex128) *tensor.Tensor { return fft.Complex(tensor.Of(real(v)), tensor.Of(imag(v))) }
	for what, c := range map[string]struct{ got, want *tensor.Tensor }{
		"Mul": {fft.Mul(pair(a), pair(b)), pair(a * b)}, "Conj": {fft.Conj(pair(a)), pair(complex(3, 4))},
		"Abs": {fft.Abs(pair(a)), tensor.Of(5.0)}, "Angle": {fft.Angle(pair(a)), tensor.Of(math.Atan2(-4, 3))},
		"Real": {fft.Real(pair(a)), tensor.Of(3.0)}, "Imag": {fft.Imag(pair(a)), tensor.Of(-4.0)},
	} {
		if !c.got.AllClose(c.want, 1e-15, 0) {
			t.Errorf("%s is %v, want %v", what, c.got, c.want)
		}
	}
}

// TestGradients compares first and second derivatives through all transforms with differences.
func TestGradients(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	f := func(xs []*tensor.Tensor) *tensor.Tensor {
		y := fft.RFFT(xs[0], fft.Axes(0, 1), fft.Size(3, 5))
		y = fft.IFFT(fft.Mul(fft.FFT(y, fft.Axes(0)), fft.Conj(y)), fft.Axes(1))
		return fft.IRFFT(y, fft.Axes(1, 0), fft.Ortho()).Square()
	}
	x := tensor.Randn(tensor.Seed(3), 4, 4).To(tensor.Float64)
	if err := errors.Join(autograd.Gradcheck(dev, f, x), autograd.GradGradcheck(dev, f, x)); err != nil {
		t.Error(err)
	}
}

// TestMisuse: what cannot be transformed is a typed error of the function.
func TestMisuse(t *testing.T) {
	x, z := tensor.Zeros(tensor.Float32, 3, 4), tensor.Zeros(tensor.Float32, 3, 4, 2)
	for name, f := range map[string]func() *tensor.Tensor{
		"fft: not complex":    func() *tensor.Tensor { return fft.FFT(x) },
		"fft: nil":            func() *tensor.Tensor { return fft.FFT(nil) },
		"fft: axis of parts":  func() *tensor.Tensor { return fft.FFT(z, fft.Axes(2)) },
		"fft: an axis twice":  func() *tensor.Tensor { return fft.FFT(z, fft.Axes(0, -2)) },
		"ifft: sizes":         func() *tensor.Tensor { return fft.IFFT(z, fft.Size(1, 2)) },
		"ifft: size 0":        func() *tensor.Tensor { return fft.IFFT(z, fft.Size(0)) },
		"irfft: nothing left": func() *tensor.Tensor { return fft.IRFFT(z.Slice(1, 0, 1)) },
		"irfft: negative":     func() *tensor.Tensor { return fft.IRFFT(z, fft.Size(-3)) },
		"rfft: a number":      func() *tensor.Tensor { return fft.RFFT(tensor.Of(1.0)) },
		"rfft: no elements":   func() *tensor.Tensor { return fft.RFFT(tensor.Zeros(tensor.Float32, 2, 0)) },
		"dft: integers":       func() *tensor.Tensor { return fft.FFT(tensor.Zeros(tensor.Int64, 4, 2)) },
		"freq: none":          func() *tensor.Tensor { return fft.Freq(0, 1) },
		"real_freq: spacing":  func() *tensor.Tensor { return fft.RealFreq(4, math.NaN()) },
		"complex: nil":        func() *tensor.Tensor { return fft.Complex(x, nil) },
		"fft_shift: nil":      func() *tensor.Tensor { return fft.Shift(nil) },
	} {
		func() {
			defer func() {
				op, _, _ := strings.Cut(name, ":")
				if e, ok := recover().(*tensor.Error); !ok || e.Op != op {
					t.Errorf("%s: %v", name, e)
				}
			}()
			t.Errorf("%s: no error, but %v", name, f())
		}()
	}
}

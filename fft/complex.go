package fft

import "github.com/weft-ml/weft/tensor"

// Complex is re + i im: real numbers of one shape to pairs [.. 2].
func Complex(re, im *tensor.Tensor) *tensor.Tensor {
	engine.Given("complex", "the real part", re)
	engine.Given("complex", "the imaginary part", im)
	return tensor.Stack(re.Rank(), re, im)
}

// Real is the real part of complex numbers [.. 2].
func Real(x *tensor.Tensor) *tensor.Tensor { return x.Select(wantComplex("real", x), 0) }

// Imag is the imaginary part of complex numbers [.. 2].
func Imag(x *tensor.Tensor) *tensor.Tensor { return x.Select(wantComplex("imag", x), 1) }

// Conj is the conjugate of complex numbers [.. 2].
func Conj(x *tensor.Tensor) *tensor.Tensor { return Complex(Real(x), Imag(x).Neg()) }

// Abs is the absolute value of complex numbers [.. 2], without overflow. Its derivative at 0 is 0.
func Abs(x *tensor.Tensor) *tensor.Tensor {
	re, im, zero := parts(x)
	return re.MaskedFill(zero, 1).Hypot(im).MaskedFill(zero, 0)
}

// Angle is the argument of complex numbers [.. 2], in [-π, π]. Its derivative at 0 is 0.
func Angle(x *tensor.Tensor) *tensor.Tensor {
	re, im, zero := parts(x)
	angle := im.Atan2(re)
	return zero.Where(angle.Detach(), angle)
}

// parts are the real and imaginary parts of complex numbers, and where both are 0.
func parts(x *tensor.Tensor) (re, im, zero *tensor.Tensor) {
	re, im = Real(x), Imag(x)
	return re, im, re.EqualScalar(0).And(im.EqualScalar(0))
}

// Mul is the product of complex numbers [.. 2], which broadcast.
func Mul(x, y *tensor.Tensor) *tensor.Tensor {
	a, b, c, d := Real(x), Imag(x), Real(y), Imag(y)
	ac := a.Mul(c)
	if dt := ac.DType(); dt.IsHalf() { // products may be out of its range
		return Mul(x.To(tensor.Float32), y.To(tensor.Float32)).To(dt)
	}
	return Complex(ac.Sub(b.Mul(d)), a.Mul(d).Add(b.Mul(c)))
}

// wantComplex is the number of axes of x without that of parts. It fails unless x is complex.
func wantComplex(op string, x *tensor.Tensor) int {
	engine.Given(op, "x", x)
	last := x.Rank() - 1
	if last < 0 || x.Dim(last) != 2 {
		engine.Fail(tensor.ErrShape, op, "%v is not complex: the last axis must hold real and imaginary parts; "+
			"fft.Complex makes it", x)
	}
	return last
}

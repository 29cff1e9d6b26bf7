package expr

// Special functions as expressions. One text serves float32 and float64: coefficients have the digits of float64, and
// float32 rounds them.

// A first value by Winitzki's formula, which is off by 0.002, then Halley's step twice, each of which cubes the error.
// Next to 1 it is erfc that tells values apart, and 1 - |y| is exact.
const erfinv = `
	a = abs(y)
	l = log1p(-a*a)
	b = 4.330746750799873 + l/2
	c = l/0.147
	r = sqrt(-c/(sqrt(b*b - c) + b))
	d = where(a < 0.5, erf(r) - a, 1 - a - erfc(r))*(sqrt(pi)/2*exp(r*r))
	s = r - d/(1 + r*d)
	e = where(a < 0.5, erf(s) - a, 1 - a - erfc(s))*(sqrt(pi)/2*exp(s*s))
	t = where(a == 1, inf, s - e/(1 + s*e))
	where(y < 0, -t, where(y == 0, y, t))`

// Where v is below 10, psi(v) = psi(v + 10) - 1/v - ... - 1/(v + 9); above, Stirling's series; below 0 the reflection
// psi(x) = psi(1 - x) - pi cot(pi x). A negative integer adds NaN to a derivative that stays infinite. The chain rule
// over this gives trigamma.
const digamma = `
	low = x < 0
	v = where(x == 0, 1, where(low, 1 - x, x))
	near = v < 10
	y = where(near, v + 10, v)
	u = where(near, v, 1)
	s = 1/u + 1/(u + 1) + 1/(u + 2) + 1/(u + 3) + 1/(u + 4) + 1/(u + 5) + 1/(u + 6) + 1/(u + 7) + 1/(u + 8) + 1/(u + 9)
	w = 1/y
	i = w*w
	q = 1/132 - i*(691/32760 - i/12)
	h = log(y) - w/2 - i*(1/12 - i*(1/120 - i*(1/252 - i*(1/240 - i*q))))
	d = x - round(x)
	f = where(low, d, 0.25)
	t = h - where(near, s, 0) - where(low, pi*cos(pi*f)/sin(pi*f), 0)
	where(x == 0, -1/x, t + where(low && d == 0, nan, 0))`

// With a = |x|, and r the nearest integer below 8: lgamma(2+z) = z*P(z) for z = a - r in [-1/2, 1/2], whose Taylor
// coefficients are 1 - Euler's constant and (-1)^k (zeta(k) - 1)/k; the factors m lead from 2+z to a, or to x itself
// for a <= 1/2. From 8 on Stirling's series. Below -1/2 the reflection lgamma(x) = log(pi/(a|sin pi a|)) - lgamma(a).
const lgamma = `
	a = abs(x)
	b = where(a < 8, a, 8)
	r = round(b)
	z = where(r == 0, x, b - r)
	p8 = fma(z, 5.731367241678862e-10, -1.1921401405860912e-09)
	p7 = fma(z, fma(z, fma(z, p8, 2.4836745438024785e-09), -5.183475041970047e-09), 1.0838659214896955e-08)
	p6 = fma(z, fma(z, fma(z, p7, -2.2711094608943164e-08), 4.7698101693639804e-08), -1.0043224823968099e-07)
	p5 = fma(z, fma(z, fma(z, p6, 2.1207184805554665e-07), -4.492469198764566e-07), 9.55141213040742e-07)
	p4 = fma(z, fma(z, fma(z, p5, -2.039215753801366e-06), 4.374866789907488e-06), -9.439488275268397e-06)
	p3 = fma(z, fma(z, fma(z, p4, 2.050721277567069e-05), -4.492623673813314e-05), 9.945751278180853e-05)
	p2 = fma(z, fma(z, fma(z, p3, -0.00022315475845357939), 0.0005096695247430425), -0.001192753911703261)
	p1 = fma(z, fma(z, fma(z, p2, 0.0028905103307415234), -0.007385551028673986), 0.020580808427784546)
	p0 = fma(z, fma(z, fma(z, p1, -0.0673523010531981), 0.3224670334241132), 0.42278433509846713)
	m2 = where(3 <= r, a - 1, 1)*where(4 <= r, a - 2, 1)*where(5 <= r, a - 3, 1)
	m5 = where(6 <= r, a - 4, 1)*where(7 <= r, a - 5, 1)*where(8 <= r, a - 6, 1)
	m = where(r == 0, abs(x*(1 + x)), where(r == 1, a, m2*m5))
	l = log(m)
	w = 1/a
	i = w*w
	e = 1/1188 - i*(691/360360 - i*(1/156 - i*(3617/122400)))
	c = w*(1/12 - i*(1/360 - i*(1/1260 - i*(1/1680 - i*e))))
	g = where(a < 8, where(r <= 1, z*p0 - l, z*p0 + l), (a - 0.5)*(log(a) - 1) + (0.41893853320467274 + c))
	s = abs(sin(pi*(x - round(x))))
	where(a == inf || x <= -1 && s == 0, inf, where(x < -0.5, log(pi/(a*s)) - g, g))`

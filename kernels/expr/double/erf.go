package double

import "math"

// A ratio is a quotient of two polynomials, the constant coefficients first.
type ratio struct{ above, below []float64 }

func (r *ratio) at(x float64) float64 { return horner(x, r.above) / horner(x, r.below) }

// The rational approximations of FDLIBM (s_erf.c, Copyright 1993 by Sun Microsystems, Inc.; permission to use, copy,
// modify and distribute it is freely granted, provided that this notice is preserved), with errors below 2^-57.
var (
	// erf x = x + x r(x^2) for x < 0.84375.
	erfNear = ratio{[]float64{
		0x1.06eba8214db68p-3, -0x1.4cd7d691cb913p-2, -0x1.d2a51dbd7194fp-6, -0x1.7a291236668e4p-8,
		-0x1.8ead6120016acp-16,
	}, []float64{
		1, 0x1.97779cddadc09p-2, 0x1.0a54c5536cebap-4, 0x1.4d022c4d36b0fp-8, 0x1.15dc9221c1a10p-13,
		-0x1.09c4342a26120p-18,
	}}
	// erf x = erfOne + r(x - 1) for x < 1.25.
	erfMiddle = ratio{[]float64{
		-0x1.359b8bef77538p-9, 0x1.a8d00ad92b34dp-2, -0x1.7d240fbb8c3f1p-2, 0x1.45fca805120e4p-2,
		-0x1.c63983d3e28ecp-4, 0x1.22a36599795ebp-5, -0x1.1bf380a96073fp-9,
	}, []float64{
		1, 0x1.b3e6618eee323p-4, 0x1.14af092eb6f33p-1, 0x1.2635cd99fe9a7p-4, 0x1.02660e763351fp-3,
		0x1.bedc26b51dd1cp-7, 0x1.88b545735151dp-7,
	}}
	// erfc x = e^(-x^2 - 0.5625 + r(1/x^2)) / x below 1/0.35 and above.
	erfcNear = ratio{[]float64{
		-0x1.43412600d6435p-7, -0x1.63416e4ba7360p-1, -0x1.51e0441b0e726p+3, -0x1.f300ae4cba38dp+5,
		-0x1.44cb184282266p+7, -0x1.7135cebccabb2p+7, -0x1.4526557e4d2f2p+6, -0x1.3a0efc69ac25cp+3,
	}, []float64{
		1, 0x1.3a6b9bd707687p+4, 0x1.1350c526ae721p+7, 0x1.b290dd58a1a71p+8, 0x1.42b1921ec2868p+9,
		0x1.ad02157700314p+8, 0x1.b28a3ee48ae2cp+6, 0x1.a47ef8e484a93p+2, -0x1.eeff2ee749a62p-5,
	}}
	erfcFar = ratio{[]float64{
		-0x1.4341239e86f4ap-7, -0x1.993ba70c285dep-1, -0x1.1c209555f995ap+4, -0x1.4145d43c5ed98p+7,
		-0x1.3ec881375f228p+9, -0x1.004616a2e5992p+10, -0x1.e384e9bdc383fp+8,
	}, []float64{
		1, 0x1.e568b261d5190p+4, 0x1.45cae221b9f0ap+8, 0x1.802eb189d5118p+10, 0x1.8ffb7688c246ap+11,
		0x1.3f219cedf3be6p+11, 0x1.da874e79fe763p+8, -0x1.670e242712d62p+4,
	}}
)

var sqrtHalf = pair{0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55}

// erfOne is erf 1, rounded to float32.
const erfOne = 0x1.b0ac16p-1

// erfcTail is erfc x for x >= 1.25.
func erfcTail(x pair) float64 {
	if x.hi > 27.5 {
		return 0
	}
	r := &erfcFar
	if x.hi < 1/0.35 {
		r = &erfcNear
	}
	s := x.mul(x)
	k, q := expParts(s.neg().add(pair{hi: -0.5625}).add(pair{hi: r.at(1 / s.hi)}))
	return ldexp(q.add(pair{hi: 1}).div(x), k)
}

// Erf is the error function.
func Erf(x float64) float64 {
	a := math.Abs(x)
	var y float64
	switch {
	case a < 0.84375:
		y = pair{hi: a}.add(product(a, erfNear.at(float64(a*a)))).round()
	case a < 1.25:
		y = erfOne + erfMiddle.at(a-1)
	case a < 6:
		y = 1 - erfcTail(pair{hi: a})
	case x != x:
		return x
	default:
		y = 1
	}
	return math.Copysign(y, x)
}

// Erfc is 1 - erf(x), accurate for large x.
func Erfc(x float64) float64 {
	switch {
	case x < -6:
		return 2
	case x < 0.84375 && x > -0.84375:
		p := product(x, erfNear.at(float64(x*x)))
		return pair{hi: 1}.add(pair{hi: -x}).add(p.neg()).round()
	case x < -1.25:
		return 2 - erfcTail(pair{hi: -x})
	case x < 0:
		return 1 + (erfOne + erfMiddle.at(-x-1))
	case x < 1.25:
		return (1 - erfOne) - erfMiddle.at(x-1)
	case x != x:
		return x
	}
	return erfcTail(pair{hi: x})
}

// NormCDF is the distribution function of the standard normal distribution, erfc(-x/sqrt(2))/2.
func NormCDF(x float64) float64 {
	if math.Abs(x) > 40 {
		return math.Copysign(0.5, x) + 0.5
	}
	t := sqrtHalf.mul(pair{hi: -x})
	if t.hi >= 1.25 {
		return erfcTail(t) / 2
	}
	return Erfc(t.hi)/2 - float64(math.Sqrt2*NormPDF(x)*t.lo) // by the slope
}

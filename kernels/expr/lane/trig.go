package lane

import (
	"math"
	"math/bits"
)

// TrigLimit is the largest |x| for which the programs Sin, Cos and Tan hold.
// Beyond it the values are those of SinLarge, CosLarge and TanLarge.
const TrigLimit = 48000

// Pi/2 in three parts of 24 bits.
const (
	halfPiHi  = 0x1.921fb6p+0
	halfPiMid = -0x1.777a5cp-25
	halfPiLo  = -0x1.ee59dap-50
)

// trigReduce splits x = n Pi/2 + r with |r| <= Pi/4 (Cody and Waite with fused multiply-adds: the first product is
// subtracted exactly). bits holds n in its low bits.
func trigReduce(b *Builder, x Value) (bits, r Value) {
	bits = b.FMA(x, b.Const(2/math.Pi), b.Const(magic))
	n := b.Sub(bits, b.Const(magic))
	r = b.FNMA(n, b.Const(halfPiHi), x)
	r = b.FNMA(n, b.Const(halfPiMid), r)
	return bits, b.FNMA(n, b.Const(halfPiLo), r)
}

// sinPoly is sin r and cosPoly is cos r for |r| <= Pi/4; s is r².
func sinPoly(b *Builder, r, s Value) Value {
	p := b.Horner(s, 2.83251e-06, -1.9853064e-04, 8.333379e-03, -1.6666667e-01)
	return b.FMA(b.Mul(r, s), p, r)
}

func cosPoly(b *Builder, s Value) Value {
	return b.Horner(s, 2.4507624e-05, -1.3888071e-03, 4.1666664e-02, -0.5, 1)
}

// sinQuadrant is the sine of r plus (bits mod 4) quarter turns.
func sinQuadrant(b *Builder, bits, r Value) Value {
	s := b.Mul(r, r)
	odd := b.ILT(b.Shl(bits, 31), b.Bits(0))
	y := b.Select(odd, cosPoly(b, s), sinPoly(b, r, s))
	return b.Xor(y, b.And(b.Shl(bits, 30), b.Bits(signBit)))
}

// Sin is the sine for |x| <= TrigLimit. Maximal error 1.55 ulp.
func Sin(b *Builder, x Value) Value {
	bits, r := trigReduce(b, x)
	return b.Select(b.EQ(x, b.Const(0)), x, sinQuadrant(b, bits, r)) // keeps -0
}

// Cos is the cosine for |x| <= TrigLimit. Maximal error 1.55 ulp.
func Cos(b *Builder, x Value) Value {
	bits, r := trigReduce(b, x)
	return sinQuadrant(b, b.IAdd(bits, b.Bits(1)), r)
}

// Tan is the tangent for |x| <= TrigLimit: sin r / cos r, or -cos r / sin r in odd quadrants. Maximal error 3 ulp.
func Tan(b *Builder, x Value) Value {
	bits, r := trigReduce(b, x)
	s := b.Mul(r, r)
	sin, cos := sinPoly(b, r, s), cosPoly(b, s)
	odd := b.ILT(b.Shl(bits, 31), b.Bits(0))
	num := b.Select(odd, Neg(b, cos), sin)
	y := b.Div(num, b.Select(odd, sin, cos))
	return b.Select(b.EQ(x, b.Const(0)), x, y) // keeps -0
}

// SinLarge is the sine of any x, for |x| > TrigLimit, with an error below 0.51 ulp.
func SinLarge(x float32) float32 {
	q, r := reduceLarge(x)
	return float32(sinTurn(q, r))
}

// CosLarge is the cosine of any x, for |x| > TrigLimit, with an error below 0.51 ulp.
func CosLarge(x float32) float32 {
	q, r := reduceLarge(x)
	return float32(sinTurn(q+1, r))
}

// TanLarge is the tangent of any x, for |x| > TrigLimit, with an error below 0.51 ulp.
func TanLarge(x float32) float32 {
	q, r := reduceLarge(x)
	return float32(sinTurn(q, r) / sinTurn(q+1, r))
}

// twoOverPi holds the bits of 2/Pi after the binary point, behind 64 zeros.
var twoOverPi = [...]uint64{
	0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
}

// reduceLarge returns q and r with x = (4k+q) Pi/2 + r and |r| <= Pi/4 for some integer k (Payne and Hanek): x is m 2^e
// with a 24-bit m, and of 2/Pi only the 128 bits that matter modulo 4 are multiplied by m. An infinite x or a NaN gives
// a NaN.
func reduceLarge(x float32) (q uint64, r float64) {
	u := math.Float32bits(x)
	if u&0x7f800000 == 0x7f800000 {
		return 0, math.NaN()
	}
	m := uint64(u&0x7fffff | 0x800000)
	e := int(u>>23&0xff) - 150
	// (t1, t0) is 2/Pi 2^(e+126) modulo 2^128; e is at least -8.
	at := uint(e + 126 + 64 - 128)
	i, s := at/64, at%64
	t1 := twoOverPi[i]<<s | twoOverPi[i+1]>>(64-s)
	t0 := twoOverPi[i+1]<<s | twoOverPi[i+2]>>(64-s)
	hi, lo := bits.Mul64(m, t0)
	hi += m * t1
	// The top two bits of (hi, lo) are the quadrant, the rest is the fraction;
	// one half and more belong to the next quadrant, with a negative rest.
	q = hi >> 62
	f, g := int64(hi<<2|lo>>62), lo<<2
	if f < 0 {
		q++
	}
	frac := float64(f)*0x1p-64 + float64(g)*0x1p-128
	r = frac * (math.Pi / 2)
	if u&signBit != 0 {
		return -q, -r
	}
	return q, r
}

// sinTurn is the sine of r plus q quarter turns, by Taylor's series for |r| <= Pi/4.
// The conversions keep the compiler from fusing products and sums.
func sinTurn(q uint64, r float64) float64 {
	s := float64(r * r)
	var y float64
	if q&1 == 0 {
		y = float64(1.0/6227020800*s) - 1.0/39916800
		y = float64(y*s) + 1.0/362880
		y = float64(y*s) - 1.0/5040
		y = float64(y*s) + 1.0/120
		y = float64(y*s) - 1.0/6
		y = float64(float64(y*s)*r) + r
	} else {
		y = float64(-1.0/87178291200*s) + 1.0/479001600
		y = float64(y*s) - 1.0/3628800
		y = float64(y*s) + 1.0/40320
		y = float64(y*s) - 1.0/720
		y = float64(y*s) + 1.0/24
		y = float64(y*s) - 0.5
		y = float64(y*s) + 1
	}
	if q&2 != 0 {
		return -y
	}
	return y
}

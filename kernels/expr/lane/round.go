package lane

import "math"

// Min is the smaller operand: a NaN if either is one, and -0 is less than +0 (the minimum of IEEE 754-2019), so the
// order of the operands does not matter. Both choices of a tie are taken and their bits joined, which settles the sign
// of zero and keeps a NaN.
func Min(b *Builder, x, y Value) Value {
	return b.Or(b.Lesser(x, y), b.Lesser(y, x))
}

// Max is the larger operand: a NaN if either is one, and +0 is more than -0.
func Max(b *Builder, x, y Value) Value {
	m := b.And(b.Greater(x, y), b.Greater(y, x))
	return b.Select(b.Unord(x, y), nan(b), m)
}

// BFloat16 is x rounded to the nearest bfloat16, ties to even. A NaN keeps its upper bits and becomes quiet.
func BFloat16(b *Builder, x Value) Value {
	odd := b.And(b.Shr(x, 16), b.Bits(1))
	y := b.IAdd(x, b.IAdd(odd, b.Bits(0x7fff)))
	y = b.Select(b.Unord(x, x), b.Or(x, b.Bits(quietBit)), y)
	return b.And(y, b.Bits(0xffff0000))
}

// Float16 is x rounded to the nearest IEEE half-precision number, ties to even; from 65520 on it is infinite.
func Float16(b *Builder, x Value) Value {
	a := Abs(b, x)
	odd := b.And(b.Shr(a, 13), b.Bits(1))
	y := b.And(b.IAdd(a, b.IAdd(odd, b.Bits(0xfff))), b.Bits(0xffffe000))
	y = b.Select(b.LT(y, b.Const(65536)), y, inf(b))
	// Subnormal halves are multiples of 2^-24, the last place of 1/2.
	tiny := b.Sub(b.Add(a, b.Const(0.5)), b.Const(0.5))
	y = b.Select(b.LT(a, b.Const(0x1p-14)), tiny, y)
	return b.Select(b.Unord(x, x), nan(b), withSign(b, y, x))
}

// Truth is 1 where the mask is true and 0 elsewhere.
func Truth(b *Builder, m Value) Value { return b.Select(m, b.Const(1), b.Const(0)) }

// Where is y if x is not zero (a NaN is not) and z if it is. The truth of a mask is not compared with 0 again.
func Where(b *Builder, x, y, z Value) Value {
	if in := b.insts[x]; in.Op == OpSelect && in.Args[1] == b.Const(1) && in.Args[2] == b.Const(0) {
		return b.Select(in.Args[0], y, z)
	}
	return b.Select(b.EQ(x, b.Const(0)), z, y)
}

// Reciprocal is 1/x.
func Reciprocal(b *Builder, x Value) Value { return b.Div(b.Const(1), x) }

// Rsqrt is 1/sqrt(x), rounded twice. Maximal error 1.5 ulp.
func Rsqrt(b *Builder, x Value) Value { return b.Div(b.Const(1), b.Sqrt(x)) }

// Fmod is x - n*y with the sign of x, where n is x/y rounded towards zero: exact, whatever the quotient. From 2^264
// |y| down to |y|, multiples of 2^(24i) |y| are subtracted; the quotient is then below 2^24, so that the fused
// multiply-add is exact. A rounded quotient may be one too large, which leaves a negative rest. A NaN for y = 0 and
// an infinite x.
func Fmod(b *Builder, x, y Value) Value {
	r, d := Abs(b, x), Abs(b, y)
	scale := []Value{d}
	for i := 1; i < 12; i++ { // 2^264 is no float32
		scale = append(scale, b.Mul(scale[(i-1)/5*5], b.Const(math.Ldexp(1, 24*(i-(i-1)/5*5)))))
	}
	for i := len(scale) - 1; i >= 0; i-- {
		s := scale[i]
		rest := b.FNMA(b.Trunc(b.Div(r, s)), s, r)
		rest = b.Select(b.LT(rest, b.Const(0)), b.Add(rest, s), rest)
		r = b.Select(b.LT(r, s), r, rest)
	}
	return withSign(b, r, x)
}

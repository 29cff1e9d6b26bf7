package lane

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"
)

var (
	posInf  = float32(math.Inf(1))
	negInf  = float32(math.Inf(-1))
	qNaN    = float32(math.NaN())
	negZero = float32(math.Copysign(0, -1))
)

// compiled are the instructions with their programs.
var compiled = func() map[string]func(x ...float32) float32 {
	m := map[string]func(x ...float32) float32{}
	for i := range Instrs {
		in, p := &Instrs[i], Instrs[i].Program()
		m[in.Name] = func(x ...float32) float32 {
			var v [3]float32
			copy(v[:], x)
			return in.Eval(p, v[0], v[1], v[2])
		}
	}
	return m
}()

// evalInstr runs the instruction of that name.
func evalInstr(t *testing.T, name string, x ...float32) float32 {
	t.Helper()
	if compiled[name] == nil {
		t.Fatalf("no instruction %s", name)
	}
	return compiled[name](x...)
}

// same reports equal bits, any NaN being equal to any other.
func same(x, y float32) bool {
	return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
}

// TestSpecialValues lists the points where the result is exact by definition.
func TestSpecialValues(t *testing.T) {
	for _, c := range []struct {
		name    string
		x, want float32
	}{
		{"exp", 0, 1}, {"exp", negZero, 1}, {"exp", negInf, 0}, {"exp", posInf, posInf}, {"exp", 88.8, posInf},
		{"exp", -104, 0},
		{"exp", -103.5, math.SmallestNonzeroFloat32},
		{"exp2", 0, 1}, {"exp2", 10, 1024}, {"exp2", -149, math.SmallestNonzeroFloat32}, {"exp2", -151, 0},
		{"exp2", 127, 0x1p127}, {"exp2", 128, posInf},
		{"expm1", 0, 0}, {"expm1", negZero, negZero}, {"expm1", negInf, -1}, {"expm1", posInf, posInf},
		{"expm1", 1e-40, 1e-40}, {"expm1", -30, -1},
		{"log", 1, 0}, {"log", 0, negInf}, {"log", negZero, negInf}, {"log", -1, qNaN}, {"log", negInf, qNaN},
		{"log", posInf, posInf},
		{"log2", 1, 0}, {"log2", 8, 3}, {"log2", 0x1p-149, -149}, {"log2", 0x1p-126, -126}, {"log2", 0, negInf},
		{"log2", -2, qNaN},
		{"log10", 1, 0}, {"log10", 1000, 3}, {"log10", 0, negInf}, {"log10", posInf, posInf},
		{"log1p", 0, 0}, {"log1p", negZero, negZero}, {"log1p", -1, negInf}, {"log1p", -1.5, qNaN},
		{"log1p", posInf, posInf}, {"log1p", 1e-40, 1e-40},
		{"tanh", 0, 0}, {"tanh", negZero, negZero}, {"tanh", posInf, 1}, {"tanh", negInf, -1}, {"tanh", 9.1, 1},
		{"tanh", 1e-40, 1e-40},
		{"erf", 0, 0}, {"erf", negZero, negZero}, {"erf", posInf, 1}, {"erf", negInf, -1}, {"erf", 4, 1},
		{"erfc", 0, 1}, {"erfc", posInf, 0}, {"erfc", negInf, 2}, {"erfc", 11, 0}, {"erfc", -11, 2},
		{"sigmoid", 0, 0.5}, {"sigmoid", negInf, 0}, {"sigmoid", posInf, 1}, {"sigmoid", -110, 0}, {"sigmoid", 30, 1},
		{"rsqrt", 4, 0.5}, {"rsqrt", 0, posInf}, {"rsqrt", posInf, 0}, {"rsqrt", -1, qNaN},
		{"reciprocal", 4, 0.25}, {"reciprocal", 0, posInf}, {"reciprocal", negZero, negInf},
		{"reciprocal", negInf, negZero},
		{"sin", 0, 0}, {"sin", negZero, negZero}, {"sin", posInf, qNaN}, {"sin", 1e-40, 1e-40}, {"cos", 0, 1},
		{"cos", negInf, qNaN},
		{"tan", 0, 0}, {"tan", negZero, negZero}, {"tan", posInf, qNaN},
		{"asin", 0, 0}, {"asin", negZero, negZero}, {"asin", 1, math.Pi / 2}, {"asin", -1, -math.Pi / 2},
		{"asin", 1.001, qNaN}, {"asin", negInf, qNaN},
		{"acos", 1, 0}, {"acos", 0, math.Pi / 2}, {"acos", -1, math.Pi}, {"acos", -1.001, qNaN},
		{"atan", 0, 0}, {"atan", negZero, negZero}, {"atan", posInf, math.Pi / 2}, {"atan", negInf, -math.Pi / 2},
		{"sinh", 0, 0}, {"sinh", negZero, negZero}, {"sinh", posInf, posInf}, {"sinh", negInf, negInf},
		{"sinh", 1e-40, 1e-40},
		{"cosh", 0, 1}, {"cosh", negInf, posInf}, {"cosh", posInf, posInf},
		{"asinh", 0, 0}, {"asinh", negZero, negZero}, {"asinh", posInf, posInf}, {"asinh", negInf, negInf},
		{"asinh", -1e-40, -1e-40},
		{"acosh", 1, 0}, {"acosh", 0.999, qNaN}, {"acosh", negInf, qNaN}, {"acosh", -1e30, qNaN},
		{"acosh", posInf, posInf},
		{"atanh", 0, 0}, {"atanh", negZero, negZero}, {"atanh", 1, posInf}, {"atanh", -1, negInf},
		{"atanh", 1.001, qNaN}, {"atanh", posInf, qNaN},
		{"floor", -0.5, -1}, {"floor", negZero, negZero}, {"ceil", -0.5, negZero}, {"round", 2.5, 2},
		{"round", -0.5, negZero}, {"trunc", -1.9, -1},
		{"neg", 0, negZero}, {"abs", negZero, 0}, {"abs", negInf, posInf}, {"sqrt", negZero, negZero},
		{"sqrt", -1, qNaN},
		{"bf16", 1.00390625, 1}, {"bf16", 3.4e38, posInf}, {"f16", 65519, 65504}, {"f16", 65520, posInf},
		{"f16", -0x1p-25, negZero}, {"f16", 0x1.8p-25, 0x1p-24},
	} {
		if got := evalInstr(t, c.name, c.x); !same(got, c.want) {
			t.Errorf("%s(%v) = %v (%#x), want %v", c.name, c.x, got, math.Float32bits(got), c.want)
		}
	}
	for i := range Instrs {
		if in := &Instrs[i]; in.Args == 1 {
			if y := evalInstr(t, in.Name, qNaN); y == y {
				t.Errorf("%s(NaN) = %v", in.Name, y)
			}
		}
	}
}

// TestOrdered holds functions that are bounded and never decrease to that, over a
// dense ascending sequence.
func TestOrdered(t *testing.T) {
	for _, c := range []struct {
		name   string
		lo, hi float32
		slack  float32 // in units in the last place of 1: how far a rounding may step back
	}{
		{"tanh", -1, 1, 2}, {"erf", -1, 1, 2}, {"sigmoid", 0, 1, 2}, {"atan", -math.Pi / 2, math.Pi / 2, 2},
	} {
		last := c.lo
		for i := range 100_000 {
			x := -12 + 24*float32(i)/100_000
			y := evalInstr(t, c.name, x)
			if y < c.lo || y > c.hi {
				t.Fatalf("%s(%v) = %v is outside [%v, %v]", c.name, x, y, c.lo, c.hi)
			}
			if y < last-c.slack*0x1p-23 {
				t.Fatalf("%s(%v) = %v falls below %v", c.name, x, y, last)
			}
			last = max(last, y)
		}
	}
}

// TestOdd: odd functions change only the sign.
func TestOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"tanh", "erf", "sin", "tan", "asin", "atan", "sinh", "asinh", "atanh"} {
		for range 2000 {
			x := float32(r.NormFloat64())
			if y, z := evalInstr(t, name, x), evalInstr(t, name, -x); !same(-y, z) {
				t.Fatalf("%s(%v) = %v but %s(%v) = %v", name, x, y, name, -x, z)
			}
		}
	}
}

// TestExact: powers of two have exact logarithms and integers exact powers.
func TestExact(t *testing.T) {
	for e := -149; e < 128; e++ {
		p := float32(math.Ldexp(1, e))
		if y := evalInstr(t, "log2", p); y != float32(e) {
			t.Errorf("log2(2^%d) = %v", e, y)
		}
		if y := evalInstr(t, "exp2", float32(e)); y != p {
			t.Errorf("exp2(%d) = %v", e, y)
		}
		if y := evalInstr(t, "pow", 2, float32(e)); y != p {
			t.Errorf("pow(2, %d) = %v", e, y)
		}
	}
}

// TestMinMax: the result is a NaN if an operand is, zeros are ordered by sign, and
// the order of the operands does not matter.
func TestMinMax(t *testing.T) {
	values := []float32{0, negZero, 1, -1, posInf, negInf, qNaN, math.SmallestNonzeroFloat32, math.MaxFloat32}
	for _, x := range values {
		for _, y := range values {
			if got := evalInstr(t, "min", x, y); !same(got, min(x, y)) {
				t.Errorf("min(%v, %v) = %v", x, y, got)
			}
			if got := evalInstr(t, "max", x, y); !same(got, max(x, y)) {
				t.Errorf("max(%v, %v) = %v", x, y, got)
			}
		}
	}
}

// TestCompare covers the comparisons and where.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name       string
		x, y, want float32
	}{
		{"lt", 1, 2, 1}, {"lt", 2, 2, 0}, {"lt", qNaN, 2, 0}, {"le", 2, 2, 1}, {"le", 2, qNaN, 0},
		{"eq", 0, negZero, 1}, {"eq", qNaN, qNaN, 0},
	} {
		if got := evalInstr(t, c.name, c.x, c.y); got != c.want {
			t.Errorf("%s(%v, %v) = %v", c.name, c.x, c.y, got)
		}
	}
	for _, c := range []struct{ cond, want float32 }{{1, 2}, {0, 3}, {negZero, 3}, {qNaN, 2}, {-1, 2}} {
		if got := evalInstr(t, "where", c.cond, 2, 3); got != c.want {
			t.Errorf("where(%v, 2, 3) = %v", c.cond, got)
		}
	}
}

const powULP = 1.2 // stated by Pow

// TestPow compares the special cases with math.Pow, which follows C99, and the rest
// with its values.
func TestPow(t *testing.T) {
	values := []float32{0, negZero, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 2.5, -2.5, posInf, negInf, qNaN, 1e30, -1e30, 1e-30,
		16777217, 33554432, 0x1p-140, -0x1p-140}
	check := func(x, y float32) float64 {
		got, want := evalInstr(t, "pow", x, y), math.Pow(float64(x), float64(y))
		e := ulpError(got, want)
		if e > powULP || want == 0 && math.Signbit(want) != math.Signbit(float64(got)) {
			t.Errorf("pow(%v, %v) = %v, want %v", x, y, got, want)
		}
		return e
	}
	for _, x := range values {
		for _, y := range values {
			check(x, y)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	worst := 0.0
	for range 100_000 {
		x := float32(math.Exp2(r.Float64()*40 - 20))
		y := float32((r.Float64()*300 - 150) / math.Log2(float64(x)))
		worst = max(worst, check(x, y), check(1+float32(r.Float64()-0.5)*0.01, float32(r.NormFloat64()*3000)))
	}
	t.Logf("maximal error %.3f ulp", worst)
}

// TestFMA32 compares with exact arithmetic rounded once.
func TestFMA32(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	number := func(i int) float32 {
		switch i % 5 {
		case 0:
			return math.Float32frombits(r.Uint32())
		case 1: // few bits, so that ties are common
			return float32(math.Ldexp(float64(r.IntN(4096)-2048), r.IntN(60)-40))
		case 2: // products that are subnormal
			return float32(math.Ldexp(r.Float64(), -60-r.IntN(20)))
		}
		return float32(r.NormFloat64())
	}
	for i := range 500_000 {
		k := i / 3
		x, y, z := number(k), number(k), number(k)
		if i%3 == 1 { // close to cancelling
			z = -float32(float64(x) * float64(y))
		}
		if i%5 == 4 {
			z = float32(math.Ldexp(float64(z), -126))
		}
		want := float32(float64(x)*float64(y) + float64(z)) // for NaN and infinite operands
		if finite(x) && finite(y) && finite(z) {
			sum := new(big.Float).SetPrec(2000).SetMode(big.ToNearestEven)
			sum.Mul(new(big.Float).SetPrec(2000).SetFloat64(float64(x)), big.NewFloat(float64(y)))
			sum.Add(sum, big.NewFloat(float64(z)))
			if want, _ = sum.Float32(); want == 0 && sum.Sign() == 0 {
				want = float32(float64(x)*float64(y) + float64(z)) // the sign of an exact zero
			}
		}
		if got := FMA32(x, y, z); !same(got, want) {
			t.Fatalf("FMA32(%v, %v, %v) = %v (%#x), want %v (%#x)", x, y, z, got, math.Float32bits(got), want,
				math.Float32bits(want))
		}
	}
}

func finite(x float32) bool { return !math.IsInf(float64(x), 0) && x == x }

// TestHalf compares the rounding to half precision with package float16, and that to
// bfloat16 with a float64 computation.
func TestHalf(t *testing.T) {
	for i := range 1 << 18 {
		x := math.Float32frombits(uint32(i) << 14 * 3)
		if got, want := evalInstr(t, "f16", x), float16.Fromfloat32(x).Float32(); !same(got, want) {
			t.Fatalf("f16(%v) = %v, want %v", x, got, want)
		}
		got := evalInstr(t, "bf16", x)
		_, e := math.Frexp(float64(x))
		ulp := math.Ldexp(1, max(e-8, -133))
		if want := float32(math.RoundToEven(float64(x)/ulp) * ulp); finite(x) && !same(got, want) {
			t.Fatalf("bf16(%v) = %v, want %v", x, got, want)
		}
	}
}

// TestFmod compares with remainders of float64, which are exact: any quotient, subnormal divisors, quotients that round
// up to an integer.
func TestFmod(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for i := range 200_000 {
		x, y := math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32())
		switch i % 4 {
		case 0:
			y = math.Float32frombits(r.Uint32N(1 << r.IntN(25))) // the quotient has up to 277 bits
		case 1:
			x = y * float32(r.IntN(1<<25)) // next to a multiple
		case 2:
			x, y = math.Float32frombits(0x7f000000+r.Uint32N(1<<23)), math.Float32frombits(3+r.Uint32N(60))
		case 3:
			x, y = float32(r.NormFloat64()*100), float32(r.NormFloat64())
		}
		if got, want := evalInstr(t, "fmod", x, y), float32(math.Mod(float64(x), float64(y))); !same(got, want) {
			t.Fatalf("fmod(%g, %g) = %g, want %g", x, y, got, want)
		}
	}
	for _, x := range []float32{0, negZero, 1, -1, posInf, negInf, qNaN, math.MaxFloat32, 0x1p-149, -0x1p-149} {
		for _, y := range []float32{0, negZero, 1, -3, posInf, negInf, qNaN, math.MaxFloat32, 0x1p-149, -0x1p-149} {
			if got, want := evalInstr(t, "fmod", x, y), float32(math.Mod(float64(x), float64(y))); !same(got, want) {
				t.Errorf("fmod(%g, %g) = %g, want %g", x, y, got, want)
			}
		}
	}
}

// TestLargeTrig compares the reduction of large arguments with exact arithmetic.
func TestLargeTrig(t *testing.T) {
	const digits = "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348" +
		"253421170679821480865132823066470938446095505822317253594081284811174502841027019385211055" +
		"5964462294895493038196"
	pi, _, err := big.ParseFloat(digits, 10, 600, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	twoPi := new(big.Float).Add(pi, pi)
	r := rand.New(rand.NewPCG(7, 8))
	for range 5000 {
		x := float32(math.Ldexp(1+r.Float64(), 16+r.IntN(112)))
		turns := new(big.Float).Quo(new(big.Float).SetPrec(600).SetFloat64(float64(x)), twoPi)
		whole, _ := turns.Int(nil)
		rest := new(big.Float).SetPrec(600).Sub(turns, new(big.Float).SetPrec(600).SetInt(whole))
		angle, _ := rest.Mul(rest, twoPi).Float64()
		for _, c := range []struct {
			name string
			got  float32
			want float64
		}{{"sin", SinLarge(x), math.Sin(angle)}, {"cos", CosLarge(-x), math.Cos(angle)},
			{"tan", TanLarge(x), math.Tan(angle)}} {
			if e := ulpError(c.got, c.want); e > 0.51 {
				t.Errorf("%s(%v) = %v, want %v", c.name, x, c.got, c.want)
			}
		}
	}
}

// TestExpBelow: the bits of exp from 40 to -infinity, more closely where results are subnormal or vanish.
func TestExpBelow(t *testing.T) {
	b := NewBuilder()
	p := b.Program(ExpBelow(b, b.In(0)))
	check := func(x float32) {
		if got, want := p.Eval([]float32{x}, nil, nil)[0], evalInstr(t, "exp", x); math.Float32bits(got) !=
			math.Float32bits(want) {
			t.Fatalf("exp(%v) is %v, not %v", x, want, got)
		}
	}
	for u := math.Float32bits(40); u < signBit; u -= 40009 {
		check(math.Float32frombits(u))
	}
	inf := math.Float32bits(negInf)
	for u := uint32(signBit); u < inf; u += 40009 {
		check(math.Float32frombits(u))
	}
	for u := math.Float32bits(-86); u < math.Float32bits(-105); u += 13 {
		check(math.Float32frombits(u))
	}
	check(negInf)
}

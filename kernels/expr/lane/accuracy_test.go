package lane

import (
	"flag"
	"math"
	"testing"
)

var samples = flag.Int("samples", 200_000, "sample points of each accuracy test, spread over all float32; 1<<32 tries every one")

// accuracy lists, for each instruction of one operand that is not exact, the
// float64 function it approximates and the maximal error in units in the last
// place that its documentation states.
var accuracy = map[string]struct {
	ref func(float64) float64
	ulp float64
}{
	"exp":        {math.Exp, 0.90},
	"exp2":       {math.Exp2, 0.84},
	"expm1":      {math.Expm1, 1.4},
	"log":        {math.Log, 0.90},
	"log2":       {math.Log2, 1.5},
	"log10":      {math.Log10, 2},
	"log1p":      {math.Log1p, 1.4},
	"tanh":       {math.Tanh, 2.6},
	"erf":        {math.Erf, 2.6},
	"erfc":       {math.Erfc, 4},
	"sigmoid":    {func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 2.6},
	"rsqrt":      {func(x float64) float64 { return 1 / math.Sqrt(x) }, 1.6},
	"reciprocal": {func(x float64) float64 { return 1 / x }, 0.5},
	"sin":        {math.Sin, 1.6},
	"cos":        {math.Cos, 1.6},
	"tan":        {math.Tan, 3},
	"asin":       {math.Asin, 2.2},
	"acos":       {math.Acos, 1.6},
	"atan":       {math.Atan, 1.7},
	"sinh":       {math.Sinh, 2},
	"cosh":       {math.Cosh, 1.5},
	"asinh":      {math.Asinh, 2},
	"acosh":      {math.Acosh, 2},
	"atanh":      {math.Atanh, 2.5},
}

// ulpError is |got - want| in units in the last place of want rounded to float32.
func ulpError(got float32, want float64) float64 {
	switch w := float32(want); {
	case got != got || want != want:
		if got != got && want != want {
			return 0
		}
		return math.Inf(1)
	case math.IsInf(float64(got), 0) || math.IsInf(float64(w), 0):
		if got == w {
			return 0
		}
		if math.IsInf(float64(w), 0) != math.IsInf(float64(got), 0) && math.Abs(want) > 0x1.fffffep127 && math.Abs(want) < 0x1.000001p128 {
			return math.Abs(want-math.Copysign(0x1.fffffep127, want)) / 0x1p104
		}
		return math.Inf(1)
	default:
		_, e := math.Frexp(want)
		return math.Abs(float64(got)-want) / math.Ldexp(1, max(e-24, -149))
	}
}

func TestAccuracy(t *testing.T) {
	for i := range Instrs {
		in := &Instrs[i]
		acc, ok := accuracy[in.Name]
		if !ok {
			continue
		}
		t.Run(in.Name, func(t *testing.T) {
			t.Parallel()
			p := in.Program()
			worst, at := 0.0, float32(0)
			for k := range *samples {
				x := math.Float32frombits(uint32(uint64(k) * (1 << 32) / uint64(*samples)))
				if e := ulpError(in.Eval(p, x, 0, 0), acc.ref(float64(x))); e > worst {
					worst, at = e, x
				}
			}
			t.Logf("maximal error %.3f ulp at %v (%x)", worst, at, math.Float32bits(at))
			if worst > acc.ulp {
				t.Errorf("error %v ulp at %v: got %v, want %v", worst, at, in.Eval(p, at, 0, 0), acc.ref(float64(at)))
			}
		})
	}
}

package lane

import (
	"flag"
	"math"
	"testing"
)

var samples = flag.Int("samples", 50_000, "arguments of each accuracy test, spread over all float32")

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
		if math.IsInf(float64(w), 0) != math.IsInf(float64(got), 0) && math.Abs(want) > 0x1.fffffep127 &&
			math.Abs(want) < 0x1.000001p128 {
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
		if in.Ref == nil {
			continue
		}
		t.Run(in.Name, func(t *testing.T) {
			t.Parallel()
			p := in.Program()
			worst, at := 0.0, float32(0)
			for k := range *samples {
				x := math.Float32frombits(uint32(uint64(k) * (1 << 32) / uint64(*samples)))
				if e := ulpError(in.Eval(p, x, 0, 0), in.Ref(float64(x))); e > worst {
					worst, at = e, x
				}
			}
			t.Logf("maximal error %.3f ulp at %v (%x)", worst, at, math.Float32bits(at))
			if worst > in.ULP {
				t.Errorf("error %v ulp at %v: got %v, want %v", worst, at, in.Eval(p, at, 0, 0), in.Ref(float64(at)))
			}
		})
	}
}

package vec

import (
	"flag"
	"math"
	"testing"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

var every = flag.Int("every", 4099,
	"TestAccuracy tries every nth float32; 61 takes half a minute and finds the errors that package lane states")

// ulps is |got - want| in units in the last place of want rounded to float32.
func ulps(got float32, want float64) float64 {
	const largest, last = 0x1.fffffep127, 0x1p104 // of float32, and its last place
	switch {
	case got != got || want != want:
		if got != got && want != want {
			return 0
		}
		return math.Inf(1)
	case math.IsInf(float64(got), 0) && math.Abs(want) > largest:
		return max(0, largest+last-math.Abs(want)) / last
	case math.IsInf(float64(got), 0):
		return math.Inf(1)
	}
	_, e := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, min(max(e-24, -149), 104))
}

// TestAccuracy compares the instructions with float64 over all of float32.
func TestAccuracy(t *testing.T) {
	const chunk = 4096
	for i := range lane.Instrs {
		in := &lane.Instrs[i]
		if in.Ref == nil {
			continue
		}
		t.Run(in.Name, func(t *testing.T) {
			k := Instr(in.Name)
			x, y := make([]float32, chunk), make([]float32, chunk)
			worst, at := 0.0, float32(0)
			for lo := uint64(0); lo < 1<<32; lo += chunk * uint64(*every) {
				for j := range x {
					x[j] = math.Float32frombits(uint32(lo + uint64(j)*uint64(*every)))
				}
				k(y, x, nil, nil)
				for j, v := range x {
					if e := ulps(y[j], in.Ref(float64(v))); e > worst {
						worst, at = e, v
					}
				}
			}
			t.Logf("%s: maximal error %.3f ulp at %v", in.Name, worst, at)
			if worst > in.ULP {
				t.Errorf("error %.3f ulp at %v, stated are %v", worst, at, in.ULP)
			}
		})
	}
}

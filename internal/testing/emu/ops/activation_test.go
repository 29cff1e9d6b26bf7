//go:build emu && cuda && cgo && linux

package ops

import (
	"math"
	"testing"

	"github.com/weft-ml/weft/tensor"
	"github.com/x448/float16"
)

// TestShortActivations: on every number of half precision the activations that may be approximate are within a unit in
// the last place of the CPU's results, which are rounded once; their gradients, too, or within 2^-16, because terms of
// size 1 cancel. Functions below 2^-126 may be 0.
func TestShortActivations(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	tested := 0
	for _, op := range engine.Ops() {
		if !op.Approximate || len(op.Args) != 1 { // gates of several operands are made of the same functions
			continue
		}
		tested++
		for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
			all := make([]float32, 1<<16)
			for i := range all {
				if all[i] = float16.Frombits(uint16(i)).Float32(); dt == tensor.BFloat16 {
					all[i] = math.Float32frombits(uint32(i) << 16)
				}
			}
			f := func(x []*tensor.Tensor) []*tensor.Tensor {
				w := watched([]*tensor.Tensor{x[0].To(dt)})
				return withGradients(engine.Apply(op, w, nil, nil), x[1].To(dt), w...)
			}
			in := []*tensor.Tensor{tensor.FromSlice(all, len(all)), tensor.Zeros(tensor.Float32, len(all)).AddScalar(1)}
			want, err := run(cpu, in, f)
			must(t, err)
			got, err := run(gpu, in, f)
			must(t, err)
			for k, slack := range []float64{0x1p-119, 0x1p-16} {
				most, differ := 0.0, 0
				for i := range all {
					x, y := value32(got[k][i]), value32(want[k][i])
					if got[k][i] == want[k][i] {
						continue
					}
					differ++
					if d := math.Abs(x - y); d > slack {
						most = max(most, d/ulp(dt, y))
					}
					if d := math.Abs(x - y); !(d <= max(slack, ulp(dt, y))) {
						t.Errorf("result %d of %s in %v at %v is %v, want %v", k, op.Name, dt, all[i], x, y)
						break
					}
				}
				t.Logf("%s in %v, result %d: %d of %d differ, by at most %.3g units", op.Name, dt, k, differ, len(all),
					most)
			}
		}
	}
	if tested < 5 {
		t.Errorf("%d operations may be approximate", tested)
	}
}

func value32(bits uint64) float64 { return float64(math.Float32frombits(uint32(bits))) }

// ulp is the unit in the last place of the numbers around x.
func ulp(dt tensor.DType, x float64) float64 {
	digits, least := 10, -24
	if dt == tensor.BFloat16 {
		digits, least = 7, -133
	}
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-1-digits, least))
}

//go:build cuda && cgo && linux

package cuda

import "testing"

// TestProbe: results of the probe's kernels are what they should be, and all memory is given back; what would begin too
// late is named.
func TestProbe(t *testing.T) {
	b := kernelDevice(t)
	was := len(b.memory)
	figures, err := b.Probe(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"latency of a load, ns", "loads, GB/s", "mma of bf16, TFLOP/s",
		"wgmma of bf16, TFLOP/s", "fma, TFLOP/s", "graphs, us"} {
		if figures[name] == nil {
			t.Errorf("no %s in %v", name, figures)
		}
	}
	if n := len(b.memory); n != was {
		t.Errorf("%d pieces of memory are left, there were %d", n, was)
	}
	limit := probeLimit
	probeLimit = -1
	t.Cleanup(func() { probeLimit = limit })
	if figures, err = b.Probe(true); err != nil || len(figures["left out"].([]string)) != 9 {
		t.Errorf("%v, %v", figures, err)
	}
}

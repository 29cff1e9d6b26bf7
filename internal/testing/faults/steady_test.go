package faults

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

var steadySteps = flag.Int("steady", 500, "training steps of changing shapes")

// TestSteady: over training steps whose shapes change, with checkpoints, what is reserved, Go's heap and the goroutines
// stay what they were after the first fifth, and nothing runs Go's collector.
func TestSteady(t *testing.T) {
	if inner != "cpu" {
		t.Skip("the emulator is slow; TestDriverCalls of internal/testing/emu/train looks at its memory")
	}
	dev, err := tensor.Open(inner)
	must(t, err)
	defer dev.Close()
	model := nn.NewGPT(nn.GPTConfig{Vocab: 32, Context: 32, Width: 64, Heads: 2, Layers: 3, Dropout: 0.1,
		CheckpointBlocks: 2})
	must(t, nn.Init(dev, model))
	opt := optim.New(optim.AdamW(1e-3), model, optim.Clip(1))
	r := rand.New(rand.NewPCG(1, 2))
	step := func(batch, length int) {
		x := tensor.Zeros(tensor.Int64, batch, length)
		must(t, dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), s.In(x)))
			return opt.Step(s)
		}))
	}
	type state struct {
		reserved, goroutines int
		heap                 uint64
		forced               uint32
	}
	look := func() (s state) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.forced = m.NumForcedGC
		runtime.GC()
		runtime.ReadMemStats(&m)
		s.heap, s.goroutines = m.HeapAlloc, runtime.NumGoroutine()
		s.reserved = dev.MemoryReserved()
		return s
	}
	step(8, 32) // the largest
	var first state
	for i := range *steadySteps {
		if i == *steadySteps/5 {
			first = look()
		}
		step(1+r.IntN(8), 1+r.IntN(32))
	}
	last := look()
	t.Logf("after %d steps %+v, after %d %+v", *steadySteps/5, first, *steadySteps, last)
	if last.reserved > first.reserved || last.goroutines > first.goroutines || last.heap > first.heap+1<<20 ||
		last.forced != first.forced+1 {
		t.Errorf("%+v has become %+v", first, last)
	}
	runtime.KeepAlive(opt)
}

package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// BenchmarkCheckpoint trains a char-GPT of twelve blocks, plain and with each block in a checkpoint, in turn: the ratio
// of the least times of a step, which is to be at most 1.35, and that of the memory for activations at the peak, on the
// null device, which is to be at most 0.25.
func BenchmarkCheckpoint(b *testing.B) {
	const blocks = 12
	steps := func(device string, every int) (step call, activations func() int) {
		dev, err := tensor.Open(device)
		must(err)
		b.Cleanup(func() { dev.Close() })
		model := nn.NewGPT(nn.GPTConfig{Vocab: vocab, Context: length, Width: width, Heads: heads, Layers: blocks,
			CheckpointBlocks: every})
		must(nn.Init(dev, model))
		dev.ResetPeak()
		opt := optim.New(optim.AdamW(1e-3), model)
		x := classes(batch*length, vocab).Reshape(batch, length)
		step = timed(func() { must(dev.Step(func(s *tensor.Scope) error { return train(s, model, opt, x, x) })) })
		return step, func() int {
			m := dev.Stats().Memory
			return m.Peak.Active - m.Active - 4*nn.CountParameters(model)
		}
	}
	var memory [2]float64
	for i, every := range []int{1, 0} {
		step, activations := steps("null", every)
		repeat(step, 0, 2)
		memory[i] = float64(activations())
	}
	plain, _ := steps("cpu", 0)
	checkpointed, _ := steps("cpu", 1)
	repeat(plain, 0, 1)
	repeat(checkpointed, 0, 1)
	var times [2][]time.Duration
	for b.Loop() {
		times[0], times[1] = append(times[0], checkpointed()), append(times[1], plain())
	}
	b.ReportMetric(float64(slices.Min(times[0]))/float64(slices.Min(times[1])), "time/plain")
	b.ReportMetric(memory[0]/memory[1], "activations/plain")
}

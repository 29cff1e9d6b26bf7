//go:build emu && cuda && cgo && linux

package train

import (
	"errors"
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

// What a training is said to take on a card is what it takes there, within 1 %.
func TestFit(t *testing.T) {
	for name, c := range map[string]struct {
		layers, every int
		opts          []tensor.Option
	}{
		"gpt":              {3, 0, nil},
		"with checkpoints": {3, 1, nil},
		"offloaded":        {3, 1, []tensor.Option{autograd.Offload()}},
		"no block":         {0, 0, nil},
	} {
		begin := func(dev *tensor.Device) (func(batch int) error, error) {
			model := nn.NewGPT(nn.GPTConfig{Vocab: 40, Context: 16, Width: 32, Heads: 2, Layers: c.layers, Dropout: 0.1,
				CheckpointBlocks: c.every})
			if err := nn.Init(dev, model); err != nil {
				return nil, err
			}
			opt := optim.New(optim.AdamW(1e-3), model, optim.Clip(1))
			return func(batch int) error {
				x := tensor.Zeros(tensor.Int64, batch, 16)
				return dev.Step(func(s *tensor.Scope) error {
					autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), s.In(x)))
					return opt.Step(s)
				}, c.opts...)
			}, nil
		}
		r, err := train.Fit(64<<20, 12, begin)
		must(t, err)
		dev := open(t, "cuda")
		dev.EmptyCache()
		before := dev.Stats().Memory.Active
		dev.ResetPeak()
		step, err := begin(dev)
		must(t, errors.Join(err, step(12), step(12)))
		got, want := dev.Stats().Memory.Peak.Active-before, r.Stats.Memory.Peak.Active
		t.Logf("%s: %d bytes, on the card %d", name, want, got)
		if math.Abs(float64(got-want)) > 0.01*float64(got) {
			t.Errorf("%s takes %d bytes, on the card %d", name, want, got)
		}
	}
}

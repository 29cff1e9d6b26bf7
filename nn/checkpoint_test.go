package nn_test

import (
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// gptTraining is what parameters and moments of a GPT hash to after three steps, and the memory that a step takes at
// its peak beside them.
func gptTraining(t *testing.T, device string, c nn.GPTConfig, batch int, opts ...tensor.Option) (hash string,
	activations int) {
	t.Helper()
	dev, err := tensor.Open(device, tensor.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	model := nn.NewGPT(c)
	if err := nn.Init(dev, model); err != nil {
		t.Fatal(err)
	}
	opt, scaler := optim.New(optim.AdamW(1e-3), model), amp.NewGradScaler()
	v := make([]int64, batch*(c.Context+1))
	for i := range v {
		v[i] = int64(i * i % c.Vocab)
	}
	tokens := tensor.FromSlice(v, batch, c.Context+1)
	dev.ResetPeak()
	for range 3 {
		err := dev.Step(func(s *tensor.Scope) error {
			x := s.In(tokens)
			y := model.Forward(x.Slice(1, 0, c.Context))
			autograd.Backward(scaler.Scale(nn.CrossEntropy(y, x.Slice(1, 1, c.Context+1))))
			return scaler.Step(s, opt)
		}, opts...)
		if err != nil {
			t.Fatal(err)
		}
	}
	m := dev.Stats().Memory
	return opt.Hash(), m.Peak.Active - m.Active - 4*nn.CountParameters(model)
}

func TestGPTCheckpointBlocks(t *testing.T) {
	c := nn.GPTConfig{Vocab: 17, Context: 12, Width: 16, Heads: 2, Layers: 5, Dropout: 0.1}
	for _, opts := range [][]tensor.Option{nil, {amp.Autocast(tensor.BFloat16)}} {
		c.CheckpointBlocks = 0
		want, _ := gptTraining(t, "cpu", c, 3, opts...)
		for _, c.CheckpointBlocks = range []int{1, 2, 9} {
			if got, _ := gptTraining(t, "cpu", c, 3, opts...); got != want {
				t.Errorf("%d options, every %d. block: other bits", len(opts), c.CheckpointBlocks)
			}
		}
	}
}

// TestGPTCheckpointMemory: a char-GPT of twelve blocks takes a quarter of the memory for activations.
func TestGPTCheckpointMemory(t *testing.T) {
	c := nn.GPTConfig{Vocab: 96, Context: 64, Width: 128, Heads: 4, Layers: 12, CheckpointBlocks: 1}
	_, less := gptTraining(t, "null", c, 16)
	c.CheckpointBlocks = 0
	_, all := gptTraining(t, "null", c, 16)
	t.Logf("activations: %d bytes, %d with checkpoints: %.3f", all, less, float64(less)/float64(all))
	if float64(less) > 0.25*float64(all) {
		t.Errorf("activations take %d bytes, with checkpoints %d, more than a quarter", all, less)
	}
}

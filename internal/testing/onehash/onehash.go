package onehash

import (
	"fmt"
	"strings"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// Training is a model that is trained on a device.
type Training struct {
	Optimizer *optim.Optimizer
	Look      func(loss *tensor.Tensor) // called in each step, before the update; may be nil

	dev   *tensor.Device
	model nn.Module
	batch func(k int) (data.Batch, error)
	rate  optim.Schedule
	dtype tensor.DType // of products
	opts  []tensor.Option
	scale *amp.GradScaler
}

// seed of devices and data.
const seed = 7

// Open opens a device for a training.
func Open(device string, opts ...tensor.OpenOption) (*tensor.Device, error) {
	return tensor.Open(device, append(opts, tensor.Seed(seed))...)
}

// MLP is a multilayer perceptron that learns the digits, with dropout, so that random streams are tested too.
func MLP(dev *tensor.Device, opts ...optim.Option) (*Training, error) {
	set, _, err := data.Digits(seed)
	if err != nil {
		return nil, err
	}
	loader := &data.Loader{Dataset: set, BatchSize: 50, Shuffle: true, Seed: seed, Epochs: data.Forever}
	n := loader.BatchesPerEpoch()
	t := &Training{dev: dev, rate: optim.Constant(3e-3), scale: amp.NewGradScaler(amp.Enabled(false)),
		batch: func(k int) (data.Batch, error) { return loader.Batch(k/n, k%n) }}
	t.model = nn.Sequential(nn.NewLinear(64, 48), nn.GELU, nn.NewDropout(0.1), nn.NewLinear(48, 10))
	if err := nn.Init(dev, t.model); err != nil {
		return nil, err
	}
	t.Optimizer = optim.New(optim.AdamW(3e-3), t.model, opts...)
	return t, nil
}

// corpus is the text that the model learns; the test must not depend on files of the Go installation.
var corpus = strings.Repeat("the loom holds the warp and the weft goes over and under; "+
	"a cloth is made of crossings. ", 40)

// GPT is a small character model, trained with dropout, clipping, weight decay and a schedule of the given steps, with
// products in type dt. The loss of float16 is scaled, at first so high that updates are skipped.
func GPT(dev *tensor.Device, dt tensor.DType, steps int) (*Training, error) {
	text, err := data.NewText([]byte(corpus), data.Chars)
	if err != nil {
		return nil, err
	}
	t := &Training{dev: dev, rate: optim.WarmupCosine(3e-3, 3e-4, 20, steps), dtype: dt,
		batch: func(k int) (data.Batch, error) { return text.Batch(3, 33, seed, k) }}
	t.scale = amp.NewGradScaler(amp.InitScale(1<<24), amp.Growth(2, 10), amp.Enabled(dt == tensor.Float16))
	t.model = nn.NewGPT(nn.GPTConfig{Vocab: text.VocabSize(), Context: 33, Width: 24, Heads: 3, Layers: 2,
		Dropout: 0.1})
	if err := nn.Init(dev, t.model); err != nil {
		return nil, err
	}
	t.Optimizer = optim.New(optim.AdamW(3e-3, optim.WeightDecay(0.1)), t.model, optim.Clip(1),
		optim.NoDecay(optim.Vectors))
	return t, nil
}

// Checkpoint has the blocks of a GPT in checkpoints from now on, whose operands are in the host's memory.
func (t *Training) Checkpoint() {
	t.model.(*nn.GPT).Config.CheckpointBlocks = 1
	t.opts = append(t.opts, autograd.Offload())
}

// Step is step k, counted from 0.
func (t *Training) Step(k int) error {
	b, err := t.batch(k)
	if err != nil {
		return err
	}
	t.Optimizer.LR.Set(t.rate(k))
	return t.dev.Step(func(s *tensor.Scope) error {
		loss := nn.CrossEntropy(t.model.Forward(s.In(b.X)), s.In(b.Y))
		autograd.Backward(t.scale.Scale(loss))
		if t.Look != nil {
			t.Look(loss)
		}
		return t.scale.Step(s, t.Optimizer)
	}, append(t.opts, amp.Autocast(t.dtype))...)
}

// Hash is the SHA-256 of all weights and optimizer state after steps [0, n).
func (t *Training) Hash(n int) (string, error) {
	for k := range n {
		if err := t.Step(k); err != nil {
			return "", err
		}
	}
	if st := t.scale.State(); !st.Off && st.Skipped == 0 {
		return "", fmt.Errorf("no update was skipped: %+v", st)
	}
	return t.Optimizer.Hash(), nil
}

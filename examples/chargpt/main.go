// Chargpt trains a small GPT on the characters of a text, by default Newton's Opticks, which every Go
// toolchain carries, and then writes in the manner of that text.
//
//	go run ./examples/chargpt
//	go run ./examples/chargpt -data FILE -layers 6 -width 256 -heads 8 -context 128
//	go run ./examples/chargpt -amp bf16
//	go run ./examples/chargpt -amp fp16 -accumulate 4
//	go run ./examples/chargpt -checkpoint DIR -resume
//	go run ./examples/chargpt -layers 24 -width 256 -checkpoint-blocks 1
//	go run ./examples/chargpt -layers 24 -width 256 -checkpoint-blocks 1 -offload
//	go run ./examples/chargpt -memory-limit 64MiB -halve-batch
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

var (
	layers   = flag.Int("layers", 4, "transformer blocks")
	heads    = flag.Int("heads", 4, "attention heads")
	width    = flag.Int("width", 128, "width of the model")
	length   = flag.Int("context", 64, "characters the model sees")
	batch    = flag.Int("batch", 16, "sequences in a step")
	every    = flag.Int("checkpoint-blocks", 0, "k: recompute every k-th block in the backward pass; 0: none")
	offload  = flag.Bool("offload", false, "keep what these blocks save in the host's memory (GPUs)")
	parts    = flag.Int("accumulate", 1, "micro-batches that a batch is split into")
	dropout  = flag.Float64("dropout", 0, "probability of dropping a value")
	rate     = flag.Float64("lr", 2e-3, "highest learning rate")
	sampleOf = flag.Int("sample", 500, "characters to write at the end")
)

func main() {
	os.Exit(train.Main(train.Options{Steps: 2000, Seed: 42, AMP: true, Workers: true, Checkpoints: true, Halves: true,
		Check: check, Data: "text file (default: Newton's Opticks from the Go toolchain)"}, learn))
}

// most is more than any machine has memory for.
const most = 1 << 20

// check reports flags that make no model.
func check() error {
	switch {
	case *layers < 1 || *heads < 1 || *width < 1 || *length < 1 || *batch < 1:
		return fmt.Errorf("-layers, -heads, -width, -context and -batch must be at least 1")
	case *layers > most || *heads > most || *width > most || *length > most || *batch > most || *sampleOf > most:
		return fmt.Errorf("-layers, -heads, -width, -context, -batch and -sample must be at most %d", most)
	case *width%*heads != 0:
		return fmt.Errorf("-width %d is not a multiple of -heads %d", *width, *heads)
	case *every < 0:
		return fmt.Errorf("-checkpoint-blocks cannot be negative")
	case *offload && *every == 0:
		return fmt.Errorf("-offload needs -checkpoint-blocks")
	case *parts < 1 || *parts > *batch:
		return fmt.Errorf("-accumulate %d: a batch of %d sequences has 1 to %d parts", *parts, *batch, *batch)
	case !(*dropout >= 0 && *dropout < 1):
		return fmt.Errorf("-dropout %g is not in [0, 1)", *dropout)
	case !(*rate > 0 && *rate <= math.MaxFloat32):
		return fmt.Errorf("-lr %g is not a positive number of float32", *rate)
	case *sampleOf < 0:
		return fmt.Errorf("-sample cannot be negative")
	}
	return nil
}

func learn(ctx context.Context, r *train.Run) error {
	dev, err := r.Open()
	if err != nil {
		return err
	}
	defer dev.Close()

	if *offload && dev.Name() == "cpu" {
		r.Printf("-offload changes nothing on the CPU")
		*offload = false
	}
	text, err := read(r.Data)
	if err != nil {
		return err
	}
	t, err := newTrainer(dev, r, text.VocabSize(), *every)
	if err != nil {
		return err
	}
	model, opt := t.model, t.opt
	r.Printf("%d parameters, %d characters, %d of them different", nn.CountParameters(model),
		text.TrainLen()+text.ValidationLen(), text.VocabSize())

	schedule := optim.WarmupCosine(*rate, *rate/10, min(100, r.Steps/10), r.Steps)
	r.Health(t.scaler, opt.GradNorm, nn.Parameters(model))
	r.Expect(r.Steps, "tokens")
	first, err := r.Resume(&checkpoint.State{Device: dev, Model: model, Optimizer: opt, Scaler: t.scaler})
	if err != nil {
		return err
	}
	size := largest(*parts)
	it, err := batches(text, r, dev, first).Start(ctx, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	for b, err := range it.All() {
		_, k := it.Position()
		if ctx.Err() != nil || first+k == r.Steps {
			break // Ctrl-C or the end
		}
		if err != nil {
			return err
		}
		opt.LR.Set(schedule(first + k))
		var loss float64
		size, err = r.Halve(size, func(size int) (err error) {
			n := *parts
			for largest(n) > size {
				n++
			}
			loss, err = t.step(b, n)
			return err
		})
		if err != nil {
			return r.Explain(err, *batch, t.remedy("", *every), t.remedy("-checkpoint-blocks 1", 1))
		}
		r.Step(loss, *batch**length)
	}
	if err := r.SaveLast(); err != nil {
		return err
	}
	loss, err := validate(ctx, dev, model, text, size)
	if err != nil {
		return err
	}
	r.Metric("val_loss", loss)
	if r.Hash {
		r.Metric("hash", opt.Hash())
	}
	sample, err := write(ctx, dev, model, text, *sampleOf, r.Seed)
	if err != nil {
		return err
	}
	r.Printf("\n%s", sample)
	return nil
}

// trainer trains a model of so many characters.
type trainer struct {
	dev    *tensor.Device
	run    *train.Run
	vocab  int
	model  *nn.GPT
	opt    *optim.Optimizer
	scaler *amp.GradScaler
	look   func(s *tensor.Scope) // at the gradients of a step
}

// newTrainer makes the model and its optimizer, with every k-th block in a checkpoint.
func newTrainer(dev *tensor.Device, r *train.Run, vocab, k int) (*trainer, error) {
	t := &trainer{dev: dev, run: r, vocab: vocab, scaler: r.Scaler(), look: r.Gradients}
	t.model = nn.NewGPT(nn.GPTConfig{Vocab: vocab, Context: *length, Width: *width, Heads: *heads, Layers: *layers,
		Dropout: *dropout, CheckpointBlocks: k})
	if err := nn.Init(dev, t.model); err != nil {
		return nil, err
	}
	t.opt = optim.New(optim.AdamW(*rate, optim.Betas(0.9, 0.99), optim.WeightDecay(0.1)), t.model,
		optim.Clip(1), optim.NoDecay(optim.Vectors))
	return t, nil
}

// mode is the options of a step.
func (t *trainer) mode() []tensor.Option {
	if *offload {
		return append(t.run.Mode(), autograd.Offload())
	}
	return t.run.Mode()
}

// step trains one step on a batch, of which so many parts go through the model one after the other.
func (t *trainer) step(b data.Batch, parts int) (loss float64, err error) {
	err = t.dev.Step(func(s *tensor.Scope) error {
		x, y := s.In(b.X), s.In(b.Y)
		n := x.Dim(0)
		l := autograd.Accumulate(s, parts, float64(y.Len()), func(i int) *tensor.Tensor {
			lo, hi := i*n/parts, (i+1)*n/parts
			return nn.CrossEntropy(t.model.Forward(x.Slice(0, lo, hi)), y.Slice(0, lo, hi), nn.ReduceSum())
		}, t.scaler.Scale)
		loss = l.Item()
		t.look(s)
		return t.scaler.Step(s, t.opt)
	}, t.mode()...)
	return loss, err
}

// remedy is this training with every k-th block in a checkpoint, for [train.Run.Explain].
func (t *trainer) remedy(flags string, k int) train.Remedy {
	return train.Remedy{Flags: flags, Begin: func(dev *tensor.Device) (func(batch int) error, error) {
		try, err := newTrainer(dev, t.run, t.vocab, k)
		if err != nil {
			return nil, err
		}
		try.look = func(*tensor.Scope) {} // it is not the run's
		return func(n int) error {
			x := tensor.Zeros(tensor.Int64, n, *length)
			_, err := try.step(data.Batch{X: x, Y: x}, min(*parts, n))
			return err
		}, nil
	}}
}

// largest is the most sequences of a batch in one of so many parts.
func largest(parts int) int { return (*batch + parts - 1) / parts }

// read is the text of a file, or of the book.
func read(path string) (text *data.Text, err error) {
	if path == "" {
		if path, err = opticks(); err != nil {
			return nil, err
		}
	}
	text, err = data.ReadText(path, data.Chars)
	if err == nil && text.ValidationLen() <= *length {
		err = fmt.Errorf("%s: the last tenth, %d characters, is for validation; -context %d needs more", path,
			text.ValidationLen(), *length)
	}
	return text, err
}

// batches are those of the steps from first on, without end: one of each epoch.
func batches(text *data.Text, r *train.Run, dev *tensor.Device, first int) *data.Batched[data.Batch] {
	drawn := data.Map(data.From(data.Slice[struct{}]{{}}), func(s data.Sample, _ struct{}) (data.Batch, error) {
		return text.Batch(*batch, *length, r.Seed, s.Epoch)
	})
	steps := data.Skip(data.Repeat(drawn, data.Forever), first)
	return data.Batches(steps, 1, func(one []data.Batch) (data.Batch, error) { return one[0], nil },
		data.Workers(r.Workers), data.Prefetch(cmp.Or(r.Prefetch, 2*r.Workers)), data.On(dev))
}

// validate is the mean loss over the windows of the text's last tenth, so many of them at a time.
func validate(ctx context.Context, dev *tensor.Device, model *nn.GPT, text *data.Text, size int) (float64, error) {
	sum, count := 0.0, 0
	for b, err := range text.Validation(size, model.Config.Context, 0) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return 0, err
		}
		err = dev.Eval(func(s *tensor.Scope) error {
			n := b.Y.Len()
			sum += nn.CrossEntropy(model.Forward(s.In(b.X)), s.In(b.Y)).Item() * float64(n)
			count += n
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return sum / float64(count), nil
}

// write samples n characters from the model, one after the other. Caches hold the keys and values of those before; when
// they hold a whole context they begin again with its second half.
func write(ctx context.Context, dev *tensor.Device, model *nn.GPT, text *data.Text, n int, seed uint64) (string,
	error) {
	random := rand.New(rand.NewPCG(seed, 0))
	tokens := []int64{0} // the first character of the vocabulary, the line break
	caches, cached := model.Caches(), 0
	for range n {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if len(tokens)-cached+caches[0].Len() > model.Config.Context {
			caches, cached = model.Caches(), len(tokens)-max(1, model.Config.Context/2)
		}
		err := dev.Eval(func(s *tensor.Scope) error {
			window := tokens[cached:]
			logits := model.ForwardCached(s.In(tensor.FromSlice(window, 1, len(window))), caches)
			p := tensor.ToSlice[float64](logits.Select(1, -1).Scale(1 / 0.8).Softmax(-1))
			u := random.Float64()
			next := 0
			for next < len(p)-1 && u >= p[next] {
				u -= p[next]
				next++
			}
			cached = len(tokens)
			tokens = append(tokens, int64(next))
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return text.Decode(tokens[1:]...), nil
}

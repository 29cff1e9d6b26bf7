package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

// A shipped model: how it is made, what one example of its input is, and how many classes its results have.
type shipped struct {
	about   string
	model   func(checkpointBlocks int) nn.Module
	blocks  int // that can be in checkpoints; 0: it is no GPT
	example []int
	classes int
}

var gpt2Config = nn.GPTConfig{Vocab: 50257, Context: 1024, Width: 768, Heads: 12, Layers: 12, Dropout: 0.1,
	TiedHead: true}

var charConfig = nn.GPTConfig{Vocab: 96, Context: 64, Width: 128, Heads: 4, Layers: 4}

var shippedModels = map[string]shipped{
	"mlp": {"784-256-128-10, as examples/mlp", func(int) nn.Module {
		return nn.Sequential(nn.NewLinear(784, 256), nn.GELU, nn.NewLinear(256, 128), nn.GELU, nn.NewLinear(128, 10))
	}, 0, []int{784}, 10},
	"cnn": {"four convolutions on images of 28x28, as examples/cnn", func(int) nn.Module { return cnn(28, 32) }, 0,
		[]int{1, 28, 28}, 10},
	"chargpt": {"4 blocks of width 128, context 64, as examples/chargpt", func(k int) nn.Module {
		c := charConfig
		c.CheckpointBlocks = k
		return nn.NewGPT(c)
	}, charConfig.Layers, []int{charConfig.Context}, charConfig.Vocab},
	"gpt2": {"GPT-2 124M, context 1024", func(k int) nn.Module {
		c := gpt2Config
		c.CheckpointBlocks = k
		return nn.NewGPT(c)
	}, gpt2Config.Layers, []int{gpt2Config.Context}, gpt2Config.Vocab},
}

func cnn(size, width int) nn.Module {
	conv := func(in, out, stride int) *nn.Conv2d {
		return nn.NewConv2d(in, out, 3, nn.Padding(1), nn.Stride(stride))
	}
	return nn.Sequential(conv(1, width, 1), nn.ReLU, conv(width, width, 2), nn.ReLU,
		conv(width, 2*width, 1), nn.ReLU, conv(2*width, 2*width, 2), nn.ReLU,
		nn.Flatten, nn.NewDropout(0.25), nn.NewLinear(2*width*(size/4)*(size/4), 128), nn.ReLU,
		nn.NewDropout(0.5), nn.NewLinear(128, 10))
}

// contextBytes is what driver and kernels take of a card.
const contextBytes = 512 << 20

// fit prints what memory a training takes, and the largest batch.
func fit(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("fit", flag.ContinueOnError)
	names := slices.Sorted(maps.Keys(shippedModels))
	name := f.String("model", "gpt2", "the model: "+strings.Join(names, ", "))
	card := f.String("card", "24GB", "memory of the card: 8GB to 141GB")
	batch := f.Int("batch", 1, "the batch that is reported")
	every := f.Int("checkpoint-blocks", 0, "k: every k-th block of a GPT in a checkpoint; 0: none; -1: as few as\n"+
		"are needed for -batch")
	offload := f.Bool("offload", false, "what these blocks save is in the host's memory")
	lower := f.String("amp", "off", "mixed precision: off, bf16 or fp16")
	if err := parse(f, args, stderr); err != nil {
		return err
	}
	m, known := shippedModels[*name]
	size, err := cardBytes(*card)
	modes := map[string][]tensor.Option{"off": nil, "bf16": {amp.Autocast(tensor.BFloat16)},
		"fp16": {amp.Autocast(tensor.Float16)}}
	mode, ok := modes[*lower]
	switch {
	case !known:
		err = fmt.Errorf("there is no model %q; there are %s", *name, strings.Join(names, ", "))
	case err == nil && !ok:
		err = fmt.Errorf("-amp %q is not off, bf16 or fp16", *lower)
	case err == nil && (*batch < 1 || *batch > 1<<20 || *every < -1):
		err = fmt.Errorf("-batch must be 1 to %d, -checkpoint-blocks -1 or more", 1<<20)
	case err == nil && *every != 0 && m.blocks == 0:
		err = fmt.Errorf("-checkpoint-blocks: %s has no blocks", *name)
	case err == nil && *offload && *every == 0:
		err = fmt.Errorf("-offload needs -checkpoint-blocks")
	}
	if err != nil {
		fmt.Fprintf(stderr, "weft fit: %v\n", err)
		return usageError{err}
	}
	if *offload {
		mode = append(mode, autograd.Offload())
	}
	if *every < 0 {
		*every, err = train.FitCheckpoints(size-contextBytes, *batch, m.blocks,
			func(dev *tensor.Device, k int) (func(int) error, error) { return m.begin(dev, k, mode) })
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "-checkpoint-blocks %d suffices for a batch of %d on %s\n", *every, *batch, *card)
	}
	r, err := train.Fit(size-contextBytes, *batch, func(dev *tensor.Device) (func(int) error, error) {
		return m.begin(dev, *every, mode)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %s; AdamW, mixed precision %s\n", *name, m.about, *lower)
	table(stdout, r)
	if r.Largest == 0 {
		fmt.Fprintf(stdout, "no batch fits into %s\n", *card)
		return nil
	}
	fmt.Fprintf(stdout, "largest batch on %s: %d\n", *card, r.Largest)
	return nil
}

// table prints the peaks of a report.
func table(stdout io.Writer, r train.FitReport) {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "batch of %d\tat most\t\n", r.Batch)
	row := func(name string, bytes int) { fmt.Fprintf(w, "%s\t%.1f MiB\t\n", name, float64(bytes)/(1<<20)) }
	m := &r.Stats.Memory
	for c := range m.Categories {
		row(kernels.MemoryCategory(c).String(), m.Categories[c].Peak)
	}
	row("together", m.Peak.Active)
	w.Flush()
}

// begin makes the model and one that trains it.
func (m shipped) begin(dev *tensor.Device, every int, mode []tensor.Option) (step func(batch int) error, err error) {
	model := m.model(every)
	if err := nn.Init(dev, model); err != nil {
		return nil, err
	}
	opt, scaler := optim.New(optim.AdamW(1e-3), model, optim.Clip(1)), amp.NewGradScaler()
	return func(batch int) error {
		x, y := tensor.Zeros(tensor.Float32, append([]int{batch}, m.example...)...), tensor.Zeros(tensor.Int64, batch)
		if m.blocks > 0 {
			x = tensor.Zeros(tensor.Int64, batch, m.example[0])
			y = x
		}
		return dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(scaler.Scale(nn.CrossEntropy(model.Forward(s.In(x)), s.In(y))))
			return scaler.Step(s, opt)
		}, mode...)
	}, nil
}

// cardBytes is the memory of a card: "24GB" has 24 GiB.
func cardBytes(card string) (int, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(strings.ToUpper(card), "GB"), 64)
	if err != nil || !(n >= 1 && n <= 4096) {
		return 0, fmt.Errorf("-card %q is no size from 1GB to 4096GB, such as 24GB", card)
	}
	return int(n * (1 << 30)), nil
}

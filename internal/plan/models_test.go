package plan_test

import (
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/plan"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// traced is the CPU, and notes op calls.
type traced struct {
	kernels.Backend
	trace *plan.Trace // nil: not now
}

var device traced

func init() {
	kernels.Register("traced", func(int) (b kernels.Backend, err error) {
		if device.Backend == nil {
			device.Backend, err = kernels.Open("cpu")
		}
		return &device, err
	})
}

func (*traced) Name() string { return "traced" }

func (d *traced) Run(l *kernels.Launch) error {
	if d.trace != nil {
		d.trace.Add(l)
	}
	return d.Backend.Run(l)
}

// measured is what a step of a model takes: the blocks of its op calls, and the bytes that tensors have asked the pool
// for at the peak, beside parameters, moments and data.
type measured struct {
	blocks []plan.Block
	peak   int
}

// kept are the optimizers, and with them the parameters, of all models: memory of what is gone comes back whenever the
// collector has run, in the middle of what is measured, too.
var kept []*optim.Optimizer

func measure(t testing.TB, model nn.Module, x *tensor.Tensor, classes int, training bool) (m measured) {
	t.Helper()
	dev, err := tensor.Open("traced", tensor.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if err := nn.Init(dev, model); err != nil {
		t.Fatal(err)
	}
	opt := optim.New(optim.AdamW(1e-3), model)
	kept = append(kept, opt)
	rows := x.Dim(0)
	if x.DType() == tensor.Int64 {
		rows = x.Len()
	}
	y := tensor.Zeros(tensor.Int64, rows)
	step := func(s *tensor.Scope) error {
		out := nn.Call("model", model, s.In(x)).Reshape(rows, classes)
		if !training {
			out.Sum().Item()
			return nil
		}
		autograd.Backward(nn.CrossEntropy(out, s.In(y)))
		return opt.Step(s)
	}
	run := dev.Eval
	if training {
		run = dev.Step
	}
	for i := range 2 {
		dev.EmptyCache()
		dev.ResetPeak()
		if i == 1 {
			device.trace = &plan.Trace{}
		}
		if err := run(step); err != nil {
			t.Fatal(err)
		}
	}
	m.blocks, device.trace = device.trace.Blocks(), nil
	s := dev.Stats().Memory
	m.peak = s.Peak.Requested - s.Requested - x.Len()*x.DType().Size()
	if training {
		m.peak -= 8 * y.Len()
	}
	return m
}

func gpt(layers, every int) nn.Module {
	return nn.NewGPT(nn.GPTConfig{Vocab: 64, Context: 32, Width: 64, Heads: 4, Layers: layers, CheckpointBlocks: every})
}

func cnn() nn.Module {
	return nn.Sequential(nn.NewConv2d(1, 8, 3, nn.Padding(1)), nn.ReLU, nn.NewConv2d(8, 16, 3, nn.Stride(2)), nn.ReLU,
		nn.Flatten, nn.NewDropout(0.25), nn.NewLinear(16*13*13, 10))
}

// TestModels: the plan of a step takes at most 3 % more than what is alive. In training tensors have at most 6 % more
// than that: they are freed soon after their last use.
func TestModels(t *testing.T) {
	tokens := tensor.Zeros(tensor.Int64, 8, 32)
	mlp := nn.Sequential(nn.NewLinear(784, 256), nn.GELU, nn.NewLinear(256, 128), nn.GELU, nn.NewLinear(128, 10))
	for _, c := range []struct {
		name     string
		model    nn.Module
		x        *tensor.Tensor
		classes  int
		training bool
	}{
		{"mlp", mlp, tensor.Zeros(tensor.Float32, 128, 784), 10, true},
		{"cnn", cnn(), tensor.Zeros(tensor.Float32, 16, 1, 28, 28), 10, true},
		{"gpt", gpt(12, 0), tokens, 64, true},
		{"gpt with checkpoints", gpt(12, 1), tokens, 64, true},
		{"gpt, evaluated", gpt(12, 0), tokens, 64, false},
	} {
		m := measure(t, c.model, c.x, c.classes, c.training)
		live := plan.Live(m.blocks)
		_, size := plan.Pack(m.blocks)
		t.Logf("%s: %d blocks, %d bytes alive, %.3f of that planned, %.3f in tensors", c.name, len(m.blocks), live,
			float64(size)/float64(live), float64(m.peak)/float64(live))
		if float64(size) > 1.03*float64(live) {
			t.Errorf("%s: the plan takes %d bytes for %d", c.name, size, live)
		}
		if c.training && float64(m.peak) > 1.06*float64(live) {
			t.Errorf("%s: tensors have %d bytes for %d", c.name, m.peak, live)
		}
	}
}

// TestDepth: evaluation takes the memory of one block, however many there are.
func TestDepth(t *testing.T) {
	tokens := tensor.Zeros(tensor.Int64, 8, 32)
	twelve, more := measure(t, gpt(12, 0), tokens, 64, false), measure(t, gpt(24, 0), tokens, 64, false)
	t.Logf("12 blocks: %d bytes, 24 blocks: %d", twelve.peak, more.peak)
	if float64(more.peak) > 1.02*float64(twelve.peak) {
		t.Errorf("evaluation of 12 blocks takes %d bytes, of 24 blocks %d", twelve.peak, more.peak)
	}
}

// BenchmarkPack plans a training step of a char-GPT of twelve blocks: the time, and what is reserved over what is
// alive.
func BenchmarkPack(b *testing.B) {
	for name, every := range map[string]int{"plain": 0, "checkpoints": 1} {
		b.Run(name, func(b *testing.B) {
			m := measure(b, gpt(12, every), tensor.Zeros(tensor.Int64, 8, 32), 64, true)
			size := 0
			for b.Loop() {
				_, size = plan.Pack(m.blocks)
			}
			b.ReportMetric(float64(size)/float64(plan.Live(m.blocks)), "reserved/live")
		})
	}
}

package autograd_test

import (
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// late is the CPU with memory of its own. What is queued on its side streams happens as late as it may: when a stream
// that waits for it does something.
type late struct {
	kernels.Backend
	queues map[kernels.Stream][]func()
	copies int
	full   bool // the host has no memory to pin
}

var theLate late

func init() {
	kernels.Register("late", func(int) (b kernels.Backend, err error) {
		theLate.Backend, err = kernels.Open("cpu")
		theLate.queues = map[kernels.Stream][]func(){}
		return &theLate, err
	})
}

func (*late) Name() string { return "late" }

func (d *late) AllocHost(n int) (kernels.Buffer, error) {
	if d.full {
		return nil, kernels.Errorf(kernels.ErrMemory, "alloc", "the host is full")
	}
	return d.Alloc(n)
}

func (d *late) Copy(s kernels.Stream, dst kernels.Buffer, off int, src kernels.Buffer, srcOff, n int) error {
	d.copies++
	d.queues[s] = append(d.queues[s], func() { d.Backend.Copy(0, dst, off, src, srcOff, n) })
	return nil
}

// mark is what a stream had queued.
type mark struct{ stream kernels.Stream }

func (mark) Done() (bool, error) { return true, nil }

func (*late) Record(s kernels.Stream) kernels.Event { return mark{s} }

func (d *late) Wait(s kernels.Stream, e kernels.Event) {
	from := e.(mark).stream
	queue := d.queues[from]
	d.queues[from] = nil
	if s != 0 {
		d.queues[s] = append(d.queues[s], queue...)
		return
	}
	for _, f := range queue {
		f()
	}
}

// offloaded is a part in a checkpoint whose operand only that keeps, in the host's memory.
func offloaded(f func(x *tensor.Tensor) *tensor.Tensor, x *tensor.Tensor) (y *tensor.Tensor) {
	s := x.Scope()
	s.With(func() {
		x := x.Clone()
		y = engine.Checkpoint(s, func() []*tensor.Tensor { return []*tensor.Tensor{f(x)} }, x)[0]
	}, autograd.Offload())
	return y
}

// TestOffloadMemory: what checkpoints keep is not on the device, and on the CPU all is as without.
func TestOffloadMemory(t *testing.T) {
	peak := func(name string, width, blocks int, opts ...tensor.Option) int { // in tensors of the width of the model
		dev, err := tensor.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		model := nn.NewGPT(nn.GPTConfig{Vocab: 8, Context: 32, Width: width, Heads: 4, Layers: blocks,
			CheckpointBlocks: 1})
		if err := nn.Init(dev, model); err != nil {
			t.Fatal(err)
		}
		opt := optim.New(optim.SGD(0.1), model)
		tokens := tensor.Zeros(tensor.Int64, 16, 32)
		step := func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(tokens)), s.In(tokens)))
			return opt.Step(s)
		}
		for range 2 {
			dev.ResetPeak()
			if err := dev.Step(step, opts...); err != nil {
				t.Fatal(err)
			}
		}
		m := dev.Stats().Memory
		return m.Categories[kernels.Activations].Peak / (16 * 32 * 4 * width)
	}
	kept := peak("null", 64, 24) - peak("null", 64, 12)
	away := peak("null", 64, 24, autograd.Offload()) - peak("null", 64, 12, autograd.Offload())
	if kept < 12 || away > 0 {
		t.Errorf("12 more blocks keep %d more tensors, offloaded %d", kept, away)
	}
	if with, without := peak("cpu", 8, 4, autograd.Offload()), peak("cpu", 8, 4); with != without {
		t.Errorf("the CPU keeps %d tensors, %d without Offload", with, without)
	}
}

// TestOffloadFails: a step for which the host has no memory fails, and leaves nothing.
func TestOffloadFails(t *testing.T) {
	dev, err := tensor.Open("late")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	theLate.full = true
	defer func() { theLate.full = false }()
	err = inStep(dev, func(s *tensor.Scope) {
		offloaded(func(x *tensor.Tensor) *tensor.Tensor { return x.Exp() }, autograd.Watch(s, param("x", 1, 2)))
	})
	wantError(t, err, tensor.ErrMemory, "offload_test.go", "the host is full")
	if n := dev.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live", n)
	}
}

package train_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

// begin is what Fit takes.
type begin = func(*tensor.Device) (func(int) error, error)

// trainer trains a model on batches of zeros.
func trainer(model nn.Module, input func(batch int) (x, y *tensor.Tensor)) begin {
	return func(dev *tensor.Device) (func(int) error, error) {
		if err := nn.Init(dev, model); err != nil {
			return nil, err
		}
		opt := optim.New(optim.AdamW(1e-3), model, optim.Clip(1))
		return func(batch int) error {
			x, y := input(batch)
			return dev.Step(func(s *tensor.Scope) error {
				autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), s.In(y)))
				return opt.Step(s)
			})
		}, nil
	}
}

func mlp() begin {
	return trainer(nn.Sequential(nn.NewLinear(64, 128), nn.GELU, nn.NewLinear(128, 10)),
		func(batch int) (x, y *tensor.Tensor) {
			return tensor.Zeros(tensor.Float32, batch, 64), tensor.Zeros(tensor.Int64, batch)
		})
}

func cnn() begin {
	return trainer(nn.Sequential(nn.NewConv2d(1, 8, 3), nn.ReLU, nn.Flatten, nn.NewLinear(8*10*10, 10)),
		func(batch int) (x, y *tensor.Tensor) {
			return tensor.Zeros(tensor.Float32, batch, 1, 12, 12), tensor.Zeros(tensor.Int64, batch)
		})
}

func gpt(every int) begin {
	c := nn.GPTConfig{Vocab: 50, Context: 24, Width: 32, Heads: 4, Layers: 4, Dropout: 0.1, CheckpointBlocks: every}
	return trainer(nn.NewGPT(c), func(batch int) (x, y *tensor.Tensor) {
		x = tensor.Zeros(tensor.Int64, batch, 24)
		return x, x
	})
}

// TestFitPeak: the peak is that of the CPU, within 1 %, beside copies of host data, which the CPU does not make.
func TestFitPeak(t *testing.T) {
	for name, model := range map[string]func() begin{
		"mlp": mlp, "cnn": cnn, "gpt": func() begin { return gpt(0) },
		"gpt with checkpoints": func() begin { return gpt(1) },
	} {
		r, err := train.FitCPU(4<<20, 8, model())
		if err != nil {
			t.Fatal(name, err)
		}
		card, err := train.Fit(4<<20, 8, model())
		if more := card.Stats.Memory.Peak.Active - r.Stats.Memory.Peak.Active; err != nil || more < 0 || more > 8<<20 {
			t.Errorf("%s takes %d bytes more on a card, %v", name, more, err)
		}
		dev, err := tensor.Open("cpu")
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		dev.EmptyCache()
		before := dev.Stats().Memory.Active
		dev.ResetPeak()
		step, err := model()(dev)
		if err := errors.Join(err, step(8), step(8)); err != nil {
			t.Fatal(name, err)
		}
		got := dev.Stats().Memory.Peak.Active - before
		want := r.Stats.Memory.Peak.Active - r.Stats.Memory.Categories[kernels.Data].Peak
		t.Logf("%s: %d bytes, on the CPU %d", name, want, got)
		if math.Abs(float64(got-want)) > 0.01*float64(got) {
			t.Errorf("%s takes %d bytes, on the CPU %d", name, want, got)
		}
	}
}

// TestFitLargest: the largest batch fits, and a larger one does not; checkpoints let a larger one fit.
func TestFitLargest(t *testing.T) {
	const memory = 8 << 20
	steps := func(batch int) error { // with the limit from the beginning
		dev, err := tensor.Open("null", engine.Batched(), tensor.MemoryLimit(memory))
		if err != nil {
			return err
		}
		defer dev.Close()
		step, err := gpt(0)(dev)
		return errors.Join(err, step(batch), step(batch))
	}
	r, err := train.Fit(memory, 2, gpt(0))
	if err != nil || r.Largest < 3 || r.Batch != 2 {
		t.Fatalf("%+v, error %v", r, err)
	}
	if err := steps(r.Largest); err != nil {
		t.Errorf("batch %d does not fit: %v", r.Largest, err)
	}
	if err := steps(r.Largest + 1); !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("batch %d fits, too: %v", r.Largest+1, err)
	}
	more, err := train.Fit(memory, 2, gpt(1))
	if err != nil || more.Largest < 2*r.Largest {
		t.Errorf("with checkpoints batch %d fits, without %d, error %v", more.Largest, r.Largest, err)
	}
	if none, err := train.Fit(1<<10, 1, gpt(0)); err != nil || none.Largest != 0 {
		t.Errorf("a batch of %d fits into a KiB, error %v", none.Largest, err)
	}
}

// TestFitCheckpoints: the k that is found fits, one more does not, and less memory asks for more checkpoints.
func TestFitCheckpoints(t *testing.T) {
	const batch = 8
	model := func(dev *tensor.Device, k int) (func(int) error, error) { return gpt(k)(dev) }
	fits := func(memory, k int) bool {
		dev, err := tensor.Open("null", engine.Batched(), tensor.MemoryLimit(memory))
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		step, err := model(dev, k)
		err = errors.Join(err, step(batch), step(batch))
		if err != nil && !errors.Is(err, tensor.ErrMemory) {
			t.Fatal(err)
		}
		return err == nil
	}
	found := map[int]bool{}
	for memory := 4 << 20; ; memory -= 100 << 10 {
		k, err := train.FitCheckpoints(memory, batch, 4, model)
		if errors.Is(err, tensor.ErrMemory) {
			if fits(memory, 1) {
				t.Errorf("%d bytes are said not to suffice: %v", memory, err)
			}
			break
		}
		found[k] = true
		if err != nil || !fits(memory, k) || k > 0 && fits(memory, 0) || k > 0 && k < 4 && fits(memory, k+1) {
			t.Errorf("%d bytes: every %d. block; error %v", memory, k, err)
		}
	}
	if !found[0] || !found[1] || !found[2] && !found[3] {
		t.Errorf("found were %v", found)
	}
	boom := errors.New("boom")
	for _, c := range []struct {
		memory int
		begin  func(*tensor.Device, int) (func(int) error, error)
		want   error
	}{
		{0, model, tensor.ErrValue}, {1 << 20, nil, tensor.ErrValue},
		{1 << 20, func(*tensor.Device, int) (func(int) error, error) { return nil, nil }, tensor.ErrValue},
		{1 << 20, func(*tensor.Device, int) (func(int) error, error) { return nil, boom }, boom},
	} {
		if _, err := train.FitCheckpoints(c.memory, batch, 4, c.begin); !errors.Is(err, c.want) {
			t.Errorf("%d bytes: %v, want %v", c.memory, err, c.want)
		}
	}
}

func TestFitErrors(t *testing.T) {
	boom := errors.New("boom")
	gives := func(step func(int) error, err error) begin {
		return func(*tensor.Device) (func(int) error, error) { return step, err }
	}
	for _, c := range []struct {
		memory, batch int
		begin         begin
		want          error
	}{
		{1 << 20, math.MaxInt, mlp(), tensor.ErrValue}, {0, 1, mlp(), tensor.ErrValue},
		{1 << 20, 0, mlp(), tensor.ErrValue}, {1, 1, nil, tensor.ErrValue},
		{1 << 20, 1, gives(nil, boom), boom}, {1 << 20, 1, gives(nil, nil), tensor.ErrValue},
		{1 << 20, 1, gives(func(int) error { return boom }, nil), boom},
	} {
		if _, err := train.Fit(c.memory, c.batch, c.begin); !errors.Is(err, c.want) {
			t.Errorf("%d bytes, batch %d: %v, want %v", c.memory, c.batch, err, c.want)
		}
	}
}

// How large a batch can be in 64 MiB.
func ExampleFit() {
	model := nn.Sequential(nn.NewLinear(64, 256), nn.GELU, nn.NewLinear(256, 10))
	r, err := train.Fit(64<<20, 32, func(dev *tensor.Device) (func(batch int) error, error) {
		if err := nn.Init(dev, model); err != nil {
			return nil, err
		}
		opt := optim.New(optim.AdamW(1e-3), model)
		return func(batch int) error {
			x, y := tensor.Zeros(tensor.Float32, batch, 64), tensor.Zeros(tensor.Int64, batch)
			return dev.Step(func(s *tensor.Scope) error {
				autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), s.In(y)))
				return opt.Step(s)
			})
		}, nil
	})
	fmt.Println("some thousands:", 1000 < r.Largest && r.Largest < 1e5, err)
	// Output:
	// some thousands: true <nil>
}

//go:build emu && cuda && cgo && linux

package train

import (
	"fmt"
	"math"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A task is a model with batches for it.
type task struct {
	model nn.Module
	batch func(k int) (data.Batch, error)
}

// tasks are an MLP for the digits and a GPT, with heads that flash attention takes, for text.
var tasks = map[string]func(t *testing.T) task{
	"mlp": func(t *testing.T) task {
		set, _, err := data.Digits(7)
		must(t, err)
		loader := &data.Loader{Dataset: set, BatchSize: 50, Shuffle: true, Seed: 7, Epochs: data.Forever}
		return task{nn.Sequential(nn.NewLinear(64, 48), nn.GELU, nn.NewDropout(0.1), nn.NewLinear(48, 10)),
			func(k int) (data.Batch, error) { return loader.Batch(0, k) }}
	},
	"gpt": func(t *testing.T) task {
		text, err := data.NewText([]byte("the loom holds the warp and the weft goes over and under; a cloth is made "+
			"of crossings."), data.Chars)
		must(t, err)
		return task{nn.NewGPT(nn.GPTConfig{Vocab: text.VocabSize(), Context: 8, Width: 64, Heads: 1, Layers: 1,
			Dropout: 0.1}),
			func(k int) (data.Batch, error) { return text.Batch(4, 8, 7, k) }}
	},
}

// What mixed precision did in a step.
type decision struct {
	amp.State
	Overflow bool // the norm is not finite
}

// mixed trains in mixed precision, with batches in two parts of unequal size and clipping, and returns what was decided
// and how far the model came. In two steps the loss is infinite.
func mixed(t *testing.T, device string, begin func(*testing.T) task, dt tensor.DType, scale float64) (all []decision,
	losses, norms []float64) {
	t.Helper()
	dev := open(t, device)
	m := begin(t)
	must(t, nn.Init(dev, m.model))
	opt := optim.New(optim.AdamW(3e-3), m.model, optim.Clip(0.5), optim.NoDecay(optim.Vectors))
	scaler := amp.NewGradScaler(amp.InitScale(scale), amp.Growth(4, 2))
	for k := range 12 {
		b, err := m.batch(k)
		must(t, err)
		var loss float64
		must(t, dev.Step(func(s *tensor.Scope) error {
			x, y := s.In(b.X), s.In(b.Y)
			cut := []int{0, y.Dim(0) / 4, y.Dim(0)}
			loss = autograd.Accumulate(s, 2, float64(y.Len()), func(i int) *tensor.Tensor {
				l := nn.CrossEntropy(m.model.Forward(x.Slice(0, cut[i], cut[i+1])), y.Slice(0, cut[i], cut[i+1]),
					nn.ReduceSum())
				if k == 2 || k == 9 {
					l = l.Scale(math.Inf(1))
				}
				return l
			}, scaler.Scale).Item()
			return scaler.Step(s, opt)
		}, amp.Autocast(dt)))
		norm := opt.GradNorm()
		all = append(all, decision{scaler.State(), math.IsInf(norm, 0) || math.IsNaN(norm)})
		losses, norms = append(losses, loss), append(norms, norm)
	}
	return all, losses, norms
}

// TestMixedPrecision: the loss scaler decides on the GPU as on the CPU in each step: which updates are skipped, and
// what the factor is. The first factor of float16 is too large; that of bfloat16 is the largest power of 2. Sums of
// products differ in their order and are then rounded to the lower type: losses and norms agree to 4 units in its last
// place.
func TestMixedPrecision(t *testing.T) {
	for name, begin := range tasks {
		for _, c := range []struct {
			dt          tensor.DType
			scale, unit float64
			skipped     int // at least
		}{
			{tensor.Float16, 0x1p21, 0x1p-10, 5},
			{tensor.BFloat16, 0x1p127, 0x1p-7, 2},
		} {
			t.Run(fmt.Sprint(name, " ", c.dt), func(t *testing.T) {
				want, losses, norms := mixed(t, "cpu", begin, c.dt, c.scale)
				got, lossesGPU, normsGPU := mixed(t, "cuda", begin, c.dt, c.scale)
				worst, grown := 0., 0
				for k := range want {
					if got[k] != want[k] {
						t.Fatalf("step %d: the GPU decides %+v, the CPU %+v", k, got[k], want[k])
					}
					if !want[k].Overflow {
						worst = max(worst, math.Abs(lossesGPU[k]/losses[k]-1), math.Abs(normsGPU[k]/norms[k]-1))
					}
					if k > 0 && want[k].Scale > want[k-1].Scale {
						grown++
					}
				}
				last := want[len(want)-1]
				t.Logf("%d skipped, %d times grown, at last %g; the loss falls from %.4f to %.4f; the GPU's losses "+
					"and norms differ by %.2g",
					last.Skipped, grown, last.Scale, losses[0], losses[len(losses)-1], worst)
				if !(worst <= 4*c.unit) {
					t.Errorf("losses or norms differ by %g of their size", worst)
				}
				if last.Skipped < c.skipped || grown == 0 {
					t.Errorf("little was decided: %d skipped, %d times grown", last.Skipped, grown)
				}
			})
		}
	}
}

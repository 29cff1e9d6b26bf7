package nn_test

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// keeper keeps the operand and the result of a layer that it embeds.
type keeper struct {
	*nn.Linear
	kept *[]*tensor.Tensor
}

func (k keeper) Forward(x *tensor.Tensor) *tensor.Tensor {
	y := k.Linear.Forward(x)
	*k.kept = append(*k.kept, x, y)
	return y
}

// witness keeps its operands.
type witness struct{ kept []*tensor.Tensor }

func (w *witness) Forward(x *tensor.Tensor) *tensor.Tensor {
	w.kept = append(w.kept, x)
	return x.Neg()
}

// runIn is the method of dev that runs a step, or an evaluation.
func runIn(dev *tensor.Device, record bool) func(f func(*tensor.Scope) error, opts ...tensor.Option) error {
	if record {
		return dev.Step
	}
	return dev.Eval
}

// What a function or a module of the caller has seen, and what the caller gave, lives on behind a chain.
func TestSequentialKeeps(t *testing.T) {
	dev := open(t)
	var kept []*tensor.Tensor
	keep := nn.Func(func(x *tensor.Tensor) *tensor.Tensor { kept = append(kept, x); return x })
	change := nn.Func(func(x *tensor.Tensor) *tensor.Tensor { kept = append(kept, x); return x.Neg() })
	seen := &witness{}
	linear := func() *nn.Linear { return nn.NewLinear(8, 8) }
	for name, layers := range map[string][]nn.Module{
		"a function between":  {linear(), keep, nn.ReLU, change, nn.ReLU, linear()},
		"a module around one": {linear(), keeper{linear(), &kept}, nn.Tanh},
		"a module":            {linear(), seen, nn.ReLU, linear(), seen, nn.Tanh},
		"a chain within":      {linear(), nn.Sequential(nn.ReLU, keep), nn.ReLU, nn.Sequential(keep), linear()},
		"a layer around one":  {linear(), nn.NewWeightNorm(&keeper{linear(), &kept}), nn.Tanh},
		"the operand":         {nn.Identity, nn.NewDropout(0.5), nn.Flatten, nn.ReLU, linear()},
		"the result":          {linear(), nn.Identity, nn.Flatten, nn.NewDropout(0.5)},
	} {
		chain := nn.Sequential(layers...)
		if err := nn.Init(dev, chain); err != nil {
			t.Fatal(err)
		}
		run := func(record bool) error {
			kept, seen.kept = nil, nil
			f := func(s *tensor.Scope) error {
				x := s.In(tensor.Randn(tensor.Seed(1), 4, 8)).Scale(2)
				y := chain.Forward(x)
				for _, k := range append(append(kept, seen.kept...), x, y) {
					k.Sum().Item()
				}
				return nil
			}
			return runIn(dev, record)(f)
		}
		for _, record := range []bool{false, true} {
			if err := run(record); err != nil {
				t.Errorf("%s, in a step %v: %v", name, record, err)
			}
		}
	}
}

// A chain holds what one layer hands to the next no longer than the derivatives need it, and computes what its layers
// do one by one.
func TestSequentialMemory(t *testing.T) {
	dev := open(t)
	layers := []nn.Module{nn.NewConv2d(4, 16, 3, nn.Padding(1)), nn.ReLU, nn.NewConv2d(16, 16, 3, nn.Padding(1)),
		nn.NewBatchNorm2d(16), nn.ReLU, nn.NewMaxPool2d(2), nn.Flatten, nn.NewLinear(16*64, 5)}
	chain := nn.Sequential(layers...)
	if err := nn.Init(dev, chain); err != nil {
		t.Fatal(err)
	}
	x := tensor.Randn(tensor.Seed(1), 32, 4, 16, 16)
	run := func(record bool, forward func(x *tensor.Tensor) *tensor.Tensor) (elements []float32, peak int) {
		f := func(s *tensor.Scope) error {
			x := s.In(x).Neg()
			before := dev.MemoryAllocated()
			dev.ResetPeak()
			y := forward(x)
			if record {
				autograd.Backward(y.Square().Sum())
			}
			peak = dev.PeakMemory() - before
			elements = tensor.ToSlice[float32](y)
			return nil
		}
		if err := runIn(dev, record)(f); err != nil {
			t.Fatal(err)
		}
		if !record {
			return elements, peak
		}
		for _, p := range nn.Parameters(chain) {
			elements = append(elements, tensor.ToSlice[float32](p.Grad())...)
		}
		nn.Parameters(chain)[0].ClearGrads()
		return elements, peak
	}
	for _, record := range []bool{false, true} {
		want, all := run(record, func(x *tensor.Tensor) *tensor.Tensor {
			for _, m := range layers {
				x = m.Forward(x)
			}
			return x
		})
		got, peak := run(record, chain.Forward)
		if !slices.Equal(got, want) {
			t.Errorf("in a step %v: the results of a chain differ from those of its layers", record)
		}
		if peak > all*3/4 {
			t.Errorf("in a step %v: the peak is %d bytes, layer by layer %d", record, peak, all)
		}
	}
}

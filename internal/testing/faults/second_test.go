package faults

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A placed is a computation whose operands may be on another device than that of the step: a model and its call.
type placed struct {
	name string
	make func() any // nil: no model
	in   []*tensor.Tensor
	call func(model any, s *tensor.Scope, x []*tensor.Tensor) []*tensor.Tensor
}

// placedOf are the samples of all operations.
func placedOf() (all []placed) {
	for _, op := range engine.Ops() {
		if op.CPUOnly != "" {
			continue
		}
		for _, s := range engine.Samples(op) {
			c := placed{name: op.Name + " " + s.Name}
			for i, a := range s.In {
				x := tensor.Uniform(tensor.Seed(uint64(i)+1), a.Lo, a.Hi, a.Shape...)
				if a.Values != nil {
					x = tensor.FromSlice(a.Values, a.Shape...)
				}
				c.in = append(c.in, x.To(a.DType))
			}
			c.call = func(_ any, _ *tensor.Scope, x []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{s.Call(x)}
			}
			all = append(all, c)
		}
	}
	return all
}

// composed are operations and layers that make operands of their own.
func composed() (all []placed) {
	add := func(name string, make func() any, in []*tensor.Tensor,
		call func(model any, s *tensor.Scope, x []*tensor.Tensor) []*tensor.Tensor) {
		all = append(all, placed{name, make, in, call})
	}
	numbers := func(shape ...int) *tensor.Tensor { return tensor.Uniform(tensor.Seed(1), -1, 1, shape...) }
	integers := tensor.FromSlice([]int64{3, 1, 0, 3, 2, 2, 0, 1}, 2, 4)
	for name, c := range map[string]struct {
		in   *tensor.Tensor
		make func() nn.Module
	}{
		"batch norm":       {numbers(4, 3, 5), func() nn.Module { return nn.NewBatchNorm1d(3) }},
		"not affine":       {numbers(4, 3, 5), func() nn.Module { return nn.NewBatchNorm1d(3, nn.Affine(false)) }},
		"instance norm":    {numbers(2, 3, 5), func() nn.Module { return nn.NewInstanceNorm1d(3) }},
		"spectral norm":    {numbers(2, 3), func() nn.Module { return nn.NewSpectralNorm(nn.NewLinear(3, 4)) }},
		"block":            {numbers(2, 3, 5, 5), func() nn.Module { return nn.NewBasicBlock(3, 4, 2) }},
		"bag":              {integers, func() nn.Module { return nn.NewEmbeddingBag(4, 3, "mean") }},
		"largest of a bag": {integers, func() nn.Module { return nn.NewEmbeddingBag(4, 3, "max") }},
		"padded bag":       {integers, func() nn.Module { return nn.NewEmbeddingBag(4, 3, "sum", nn.PaddingIndex(2)) }},
		"rnn":              {numbers(3, 2, 3), func() nn.Module { return nn.NewRNN(3, 4) }},
		"lstm":             {numbers(3, 2, 3), func() nn.Module { return nn.NewLSTM(3, 4, nn.Bidirectional()) }},
		"gru":              {numbers(3, 2, 3), func() nn.Module { return nn.NewGRU(3, 4) }},
		"cell":             {numbers(2, 3), func() nn.Module { return nn.NewLSTMCell(3, 4) }},
		"average pool":     {numbers(2, 3, 8), func() nn.Module { return nn.NewAvgPool1d(2) }},
		"local response":   {numbers(2, 5, 8), func() nn.Module { return nn.NewLocalResponseNorm(3) }},
		"upsample":         {numbers(2, 3, 8), func() nn.Module { return nn.NewUpsample(nn.ScaleFactor(2)) }},
		"gpt": {integers, func() nn.Module {
			return nn.NewGPT(nn.GPTConfig{Vocab: 5, Context: 4, Width: 8, Heads: 2, Layers: 1, Dropout: 0.2})
		}},
		"encoder": {numbers(2, 5, 8), func() nn.Module {
			return nn.NewTransformerEncoderLayer(8, 2, nn.DropoutRate(0.2))
		}},
	} {
		add(name, func() any { return c.make() }, []*tensor.Tensor{c.in},
			func(model any, _ *tensor.Scope, x []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{model.(nn.Module).Forward(x[0])}
			})
	}
	add("lengths", func() any { return nn.NewLSTM(3, 4, nn.Bidirectional()) }, []*tensor.Tensor{numbers(3, 2, 3)},
		func(model any, _ *tensor.Scope, x []*tensor.Tensor) []*tensor.Tensor {
			y, after := model.(*nn.Recurrent).Run(x[0], nn.RecurrentState{}, []int{3, 1})
			return []*tensor.Tensor{y, after.H, after.C}
		})
	for name, f := range map[string]func(s *tensor.Scope, x *tensor.Tensor) []*tensor.Tensor{
		"unique": func(_ *tensor.Scope, x *tensor.Tensor) []*tensor.Tensor {
			a, b, c := x.Sign().Unique()
			d, e, f := x.Sign().Unique(0)
			return []*tensor.Tensor{a, b, c, d, e, f}
		},
		"histogram": func(_ *tensor.Scope, x *tensor.Tensor) []*tensor.Tensor {
			positive := x.GreaterScalar(0).To(tensor.Int64)
			return []*tensor.Tensor{x.Histc(4, -1, 1), positive.Flatten(0, -1).BinCount(nil, 3)}
		},
		"nonzero": func(_ *tensor.Scope, x *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{x.Nonzero(), x.MaskedSelect(x.GreaterScalar(0))}
		},
		"draws": func(s *tensor.Scope, x *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{s.Multinomial(x.Exp(), 3, true), s.Multinomial(x.Exp(), 2, false),
				s.Multinomial(x.Exp(), 0, true), x.Dropout(0.5)}
		},
		"triangles": func(_ *tensor.Scope, x *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{x.Tril(0), x.Triu(1), x.DiagEmbed(1), x.Diagonal(0, 0, 1)}
		},
		"medians": func(_ *tensor.Scope, x *tensor.Tensor) []*tensor.Tensor {
			median, at := x.Median(-1)
			most, place := x.CumMax(-1)
			return []*tensor.Tensor{median, at, most, place, x.Quantile([]float64{0.3}, -1, "linear"), x.NaNMean(-1)}
		},
		"empty": func(_ *tensor.Scope, x *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{x.Slice(1, 0, 0).IndexSelect(0, tensor.FromSlice([]int64{1, 0}, 2))}
		},
		"two uses": func(s *tensor.Scope, x *tensor.Tensor) []*tensor.Tensor {
			mask := numbers(3, 4)
			s.In(mask).Mul(mask) // on the step's device
			return []*tensor.Tensor{x.Mul(mask)}
		},
		"derivatives": func(s *tensor.Scope, x *tensor.Tensor) []*tensor.Tensor {
			f := func(x *tensor.Tensor) *tensor.Tensor { return x.Square().Sum(0) }
			g := func(xs []*tensor.Tensor) *tensor.Tensor { return f(xs[0]) }
			v := engine.Beside(x, func() *tensor.Tensor { return s.Full(1, x.DType(), 3, 4) })
			y, product := autograd.JVP(s, g, []*tensor.Tensor{x}, []*tensor.Tensor{v})
			return []*tensor.Tensor{y, product, autograd.Jacobian(s, g, []*tensor.Tensor{x})[0],
				autograd.Hessian(s, func(x *tensor.Tensor) *tensor.Tensor { return f(x).Sum() }, x)}
		},
	} {
		add(name, nil, []*tensor.Tensor{numbers(3, 4)},
			func(_ any, s *tensor.Scope, x []*tensor.Tensor) []*tensor.Tensor { return f(s, x[0]) })
	}
	return all
}

// on is c in a step of home, its model and operands on another device: results, gradients and what the model holds.
func (c placed) on(home, other *tensor.Device) (all []string, err error) {
	var model any
	if c.make != nil {
		if model = c.make(); model != nil {
			if err := nn.Init(other, model, nn.Named("m")); err != nil {
				return nil, err
			}
		}
	}
	keep := func(what string, y *tensor.Tensor) {
		values := tensor.ToSlice[float64](y)
		for i, v := range values {
			if v != v {
				values[i] = math.NaN()
			}
		}
		all = append(all, fmt.Sprint(what, " ", y.DType(), y.Shape(), " ", values))
	}
	err = home.Step(func(s *tensor.Scope) error {
		var x, wanted []*tensor.Tensor
		for _, t := range c.in {
			if t = s.In(t); t.DType().IsFloat() {
				t = autograd.Watch(s, t)
				wanted = append(wanted, t)
			}
			x = append(x, t.To(other))
		}
		if model != nil {
			wanted = append(wanted, nn.Parameters(model)...)
		}
		for _, y := range c.call(model, s, x) {
			if y.Device() != nil && y.Device().Name() != other.Name() {
				all = append(all, fmt.Sprint(y, " is on ", y.Device().Name()))
			}
			keep("result", y)
			if !y.NeedsGrad() {
				continue
			}
			seed := tensor.Uniform(tensor.Seed(9), 0.5, 1.5, y.Shape()...).To(y.DType())
			for i, g := range autograd.Grad(y.To(home), wanted, autograd.AllowUnused(), autograd.GradOutput(seed)) {
				if g != nil {
					keep(fmt.Sprint("gradient ", i), g)
				}
			}
		}
		return nil
	}, tensor.RandomStream(5))
	if model != nil {
		nn.Walk(model, func(name string, p *tensor.Tensor) { keep(name, p) })
	}
	return all, err
}

// TestSecondDevice: in a step, what is on another device is computed there, with the same bits as on that of the step,
// and gradients find their way back, in both directions.
func TestSecondDevice(t *testing.T) {
	dev := open(t)
	cpu, err := tensor.Open("cpu", tensor.Seed(3))
	must(t, err)
	defer cpu.Close()
	all := composed()
	if inner == "cpu" { // a compiler makes the kernels of each sample, and those of dft have bits of their own
		all = append(all, placedOf()...)
	}
	for _, c := range all {
		want, err := c.on(cpu, cpu)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, devices := range [][2]*tensor.Device{{cpu, dev}, {dev, cpu}} {
			got, err := c.on(devices[0], devices[1])
			if err != nil {
				t.Errorf("%s on %s in a step of %s: %v", c.name, devices[1].Name(), devices[0].Name(), err)
			} else if !slices.Equal(got, want) {
				t.Errorf("%s on %s in a step of %s:\n%q\n%q", c.name, devices[1].Name(), devices[0].Name(), got, want)
			}
		}
	}
}

// TestLBFGSElsewhere: L-BFGS has the CPU's bits where parameters are in a device's own memory, also resumed.
func TestLBFGSElsewhere(t *testing.T) {
	run := func(dev *tensor.Device, opts ...optim.LBFGSOption) (all []float64) {
		model := nn.Sequential(nn.NewLinear(3, 4), nn.Tanh, nn.NewLinear(4, 1))
		must(t, nn.Init(dev, model, nn.Named("m")))
		x, y := tensor.Uniform(tensor.Seed(1), -1, 1, 8, 3), tensor.Uniform(tensor.Seed(2), -1, 1, 8, 1)
		opt := optim.NewLBFGS(model, 0.5, opts...)
		for range 3 {
			loss, err := opt.Step(dev, func(s *tensor.Scope) *tensor.Tensor {
				return nn.MSE(model.Forward(s.In(x)), s.In(y))
			})
			must(t, err)
			all = append(all, loss)
			next := optim.NewLBFGS(model, 0.5, opts...)
			must(t, dev.Step(func(s *tensor.Scope) error { return next.Restore(s, opt.State()) }))
			opt = next
		}
		nn.Walk(model, func(_ string, p *tensor.Tensor) { all = append(all, tensor.ToSlice[float64](p)...) })
		return all
	}
	dev := open(t)
	cpu, err := tensor.Open("cpu", tensor.Seed(3))
	must(t, err)
	defer cpu.Close()
	for _, opts := range [][]optim.LBFGSOption{nil, {optim.StrongWolfe()}} {
		if got, want := run(dev, opts...), run(cpu, opts...); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

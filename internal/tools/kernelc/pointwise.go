package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/src"
	"github.com/weft-ml/weft/kernels/null"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

var engine = tensor.Engine(seam.Key{})

// Pointwise kernels have no file: their sources are written from expressions when these are launched. To compile those
// of the library beforehand, this program uses the library on a device that computes nothing and notes what it is asked
// to launch.

// recorder is that device.
type recorder struct {
	null.Backend
	sources map[string]*src.Pointwise // by text
	faults  map[string]bool
}

var recording recorder

func init() {
	kernels.Register("recorder", func(int) (kernels.Backend, error) { return &recording, nil })
}

// Run notes the source of a pointwise launch.
func (r *recorder) Run(l *kernels.Launch) error {
	if l.Op.Expr != nil {
		p := src.PointwiseOf(l)
		if text, err := p.Text(); err == nil {
			r.sources[text] = p
		} else {
			r.faults[err.Error()] = true
		}
	}
	return r.Backend.Run(l)
}

// readPointwise returns the family of pointwise kernels: those of every operation and of its gradients, of casts, and
// of optimizers.
func (p *project) readPointwise() (*source, error) {
	files, err := included(p.sources(), "pointwise.cuh")
	if err != nil {
		return nil, err
	}
	s := newSource("pointwise", files)
	recording.sources, recording.faults = map[string]*src.Pointwise{}, map[string]bool{}
	if err := useLibrary(); err != nil {
		return nil, fmt.Errorf("looking for pointwise kernels: %w", err)
	}
	for _, text := range slices.Sorted(maps.Keys(recording.sources)) {
		k := recording.sources[text]
		s.generated = append(s.generated,
			&unit{source: s, name: k.Name, symbols: k.Symbols(), program: text, text: src.Sum(text)})
	}
	slices.SortFunc(s.generated, func(a, b *unit) int { return cmp.Compare(a.name, b.name) })
	return s, nil
}

// useLibrary does with the recorder what programs do with a GPU: it trains in float32 and in mixed precision.
func useLibrary() error {
	dev, err := tensor.Open("recorder")
	if err != nil {
		return err
	}
	defer dev.Close()
	var faults []error
	step := func(what string, f func(s *tensor.Scope) error, options ...tensor.Option) {
		if err := dev.Step(f, options...); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", what, err))
		}
	}
	trained := []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16}
	for _, op := range engine.Ops() {
		for _, sample := range engine.Samples(op) {
			for _, dt := range trained {
				if op.Cast == seam.CastBanned && dt != tensor.Float32 {
					continue
				}
				differentiated := func(s *tensor.Scope) error { return differentiate(s, op, sample, dt) }
				step(fmt.Sprintf("%s %s of %v", op.Name, sample.Name, dt), differentiated, amp.Autocast(dt))
			}
		}
	}
	all := append(trained, tensor.Float64, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool)
	for _, dt := range all {
		step(fmt.Sprint("operations of ", dt), func(s *tensor.Scope) error {
			x, mask := s.In(tensor.Zeros(dt, 2, 3)), s.In(tensor.Zeros(tensor.Bool, 2, 3))
			for _, to := range all {
				x.To(to)
			}
			if dt.IsFloat() {
				x = autograd.Watch(s, x)
			}
			for _, y := range []*tensor.Tensor{mask.Where(x, x), x.MaskedFill(mask, 0)} {
				if dt.IsFloat() {
					autograd.Grad(y.Sum(), []*tensor.Tensor{x})
				}
			}
			useBits(x)
			s.Full(1, dt, 2)
			wide := s.In(tensor.Zeros(tensor.Float32, 2, 3)) // what stays in float32 meets what does not
			wide.Add(x)
			x.Add(wide)
			wide.Mul(x)
			x.Mul(wide)
			return nil
		})
	}
	for _, dt := range trained {
		if err := trainRecurrent(dev, dt, step); err != nil {
			return err
		}
	}
	step("levels", func(s *tensor.Scope) error {
		engine.Fraction(s.In(tensor.Zeros(tensor.Uint8, 2, 3)), 255)
		return nil
	})
	step("random numbers", func(s *tensor.Scope) error {
		s.Uniform(0, 1, 2)
		s.Randn(2)
		s.RandInt(0, 9, 2)
		return nil
	})
	for _, rule := range []optim.Rule{optim.AdamW(1e-3), optim.SGD(1e-3), optim.SGD(1e-3, optim.Momentum(0.9)),
		optim.SGD(1e-3, optim.Momentum(0.9), optim.Nesterov()), optim.Lion(1e-4), optim.Adam(1e-3),
		optim.Adam(1e-3, optim.AMSGrad()), optim.AdamW(1e-3, optim.AMSGrad()), optim.NAdam(1e-3), optim.RAdam(1e-3),
		optim.Adamax(1e-3), optim.RMSprop(1e-3), optim.RMSprop(1e-3, optim.Momentum(0.9)),
		optim.RMSprop(1e-3, optim.Centered()), optim.RMSprop(1e-3, optim.Centered(), optim.Momentum(0.9)),
		optim.Adagrad(1e-3), optim.Adadelta(1), optim.Rprop(1e-3), optim.LAMB(1e-3)} {
		for _, dt := range trained {
			if err := train(dev, rule, dt, step); err != nil {
				return err
			}
		}
	}
	return errors.Join(faults...)
}

// trainRecurrent takes gradients of recurrent layers, whose cells have kernels of their own.
func trainRecurrent(dev *tensor.Device, dt tensor.DType,
	step func(what string, f func(s *tensor.Scope) error, options ...tensor.Option)) error {
	for _, layer := range []*nn.Recurrent{nn.NewLSTM(4, 4), nn.NewGRU(4, 4)} {
		if err := nn.Init(dev, layer); err != nil {
			return err
		}
		step(fmt.Sprint("gradients of ", layer, " in ", dt), func(s *tensor.Scope) error {
			autograd.Backward(layer.Forward(s.In(tensor.Zeros(tensor.Float32, 3, 2, 4))).Sum())
			return nil
		}, amp.Autocast(dt))
	}
	return nil
}

// train trains a model by a rule, with the options of optimizers that make kernels of their own.
func train(dev *tensor.Device, rule optim.Rule, dt tensor.DType,
	step func(what string, f func(s *tensor.Scope) error, options ...tensor.Option)) error {
	model := nn.NewGPT(nn.GPTConfig{Vocab: 11, Context: 4, Width: 8, Heads: 2, Layers: 1, Dropout: 0.1})
	if err := nn.Init(dev, model); err != nil {
		return err
	}
	words := tensor.Zeros(tensor.Int64, 2, 4)
	for i, options := range [][]optim.Option{{optim.Clip(1), optim.ClipValue(1)}, {optim.Clip(1)},
		{optim.Clip(1), optim.NoDecay(optim.Vectors)}} { // several sums of squares
		opt := optim.New(rule, model, options...)
		scaler := amp.NewGradScaler(amp.Enabled(dt != tensor.Float32))
		step(fmt.Sprint("training by ", rule.Name, " in ", dt), func(s *tensor.Scope) error {
			autograd.Accumulate(s, 2, 2,
				func(int) *tensor.Tensor { return nn.CrossEntropy(model.Forward(s.In(words)), s.In(words)) },
				scaler.Scale)
			if i == 0 {
				scaler.Unscale(s, opt)
			}
			return scaler.Step(s, opt)
		}, amp.Autocast(dt))
	}
	return nil
}

// useBits calls the operations on bits, whose samples are of int32, if x may have them.
func useBits(x *tensor.Tensor) {
	if x.DType().IsFloat() {
		return
	}
	x.BitAnd(x)
	x.BitOr(x)
	x.BitXor(x)
	x.BitNot()
	if x.DType().IsInt() {
		x.ShiftLeft(x)
		x.ShiftRight(x)
	}
}

// differentiate calls an operation and asks for its gradients.
func differentiate(s *tensor.Scope, op *tensor.Op, sample seam.Sample[*tensor.Tensor], dt tensor.DType) error {
	var in, watched []*tensor.Tensor
	for _, a := range sample.In {
		if !a.DType.IsFloat() {
			in = append(in, s.In(tensor.Zeros(a.DType, a.Shape...)))
			continue
		}
		x := autograd.Watch(s, s.In(tensor.Zeros(dt, a.Shape...)))
		in, watched = append(in, x), append(watched, x)
	}
	if y := sample.Call(in); op.NoGrad == "" && y.DType().IsFloat() {
		autograd.Grad(y.Sum(), watched, autograd.AllowUnused())
	}
	return nil
}

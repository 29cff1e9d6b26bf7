package nn_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// Sizes of the golden recurrent layers.
const recurrentIn, recurrentHidden = 2, 3

var recurrentLengths = []int{2, 4, 1}

// stateOf is the state in a list of operands or results.
func stateOf(x []*tensor.Tensor) (s nn.RecurrentState) {
	x = append(x, nil, nil)
	return nn.RecurrentState{H: x[0], C: x[1]}
}

// stateList is the parts of a state that are there.
func stateList(s nn.RecurrentState) []*tensor.Tensor {
	if s.C == nil {
		return []*tensor.Tensor{s.H}
	}
	return []*tensor.Tensor{s.H, s.C}
}

// sequences calls recurrent layers on sequences of these lengths.
func sequences(lengths []int) func(m any, x []*tensor.Tensor) []*tensor.Tensor {
	return func(m any, x []*tensor.Tensor) []*tensor.Tensor {
		y, after := m.(*nn.Recurrent).Run(x[0], stateOf(x[1:]), lengths)
		return append([]*tensor.Tensor{y}, stateList(after)...)
	}
}

func TestGoldenRecurrent(t *testing.T) {
	var cases []moduleCase
	for kind, make := range map[string]func(in, hidden int, opts ...nn.LayerOption) *nn.Recurrent{
		"rnn": nn.NewRNN, "lstm": nn.NewLSTM, "gru": nn.NewGRU,
	} {
		add := func(name string, lengths []int, opts ...nn.LayerOption) {
			cases = append(cases, moduleCase{kind + " " + name,
				func() any { return make(recurrentIn, recurrentHidden, opts...) }, sequences(lengths)})
		}
		add("plain", nil)
		add("state", nil)
		add("no bias", nil, nn.NoBias(), nn.BatchFirst())
		add("deep", nil, nn.Layers(2), nn.Bidirectional())
		add("packed", recurrentLengths, nn.Bidirectional())
		add("packed deep", recurrentLengths, nn.Layers(2))
		switch kind {
		case "rnn":
			add("relu", nil, nn.WithReLU())
		case "lstm":
			add("projection", nil, nn.Projection(2))
			add("projection deep", recurrentLengths, nn.Projection(2), nn.Layers(2), nn.Bidirectional())
		}
	}
	type newCell = func(in, hidden int, opts ...nn.LayerOption) *nn.RecurrentCell
	cell := func(name string, f newCell, opts ...nn.LayerOption) {
		cases = append(cases, moduleCase{name, func() any { return f(recurrentIn, recurrentHidden, opts...) },
			func(m any, x []*tensor.Tensor) []*tensor.Tensor {
				return stateList(m.(*nn.RecurrentCell).Run(x[0], stateOf(x[1:])))
			}})
	}
	cell("rnn cell", nn.NewRNNCell)
	cell("rnn relu cell", nn.NewRNNCell, nn.WithReLU())
	cell("lstm cell", nn.NewLSTMCell)
	cell("gru cell", nn.NewGRUCell)
	cell("gru cell without bias", nn.NewGRUCell, nn.NoBias())
	goldenModules(t, "recurrent.json.gz", cases)
}

// recurrentLayers are kinds and options of which derivatives are checked.
var recurrentLayers = []struct {
	name string
	make func() *nn.Recurrent
}{
	{"rnn", func() *nn.Recurrent { return nn.NewRNN(2, 3, nn.Bidirectional()) }},
	{"relu", func() *nn.Recurrent { return nn.NewRNN(2, 3, nn.WithReLU()) }},
	{"lstm", func() *nn.Recurrent { return nn.NewLSTM(2, 3, nn.Layers(2)) }},
	{"projection", func() *nn.Recurrent { return nn.NewLSTM(2, 3, nn.Projection(2)) }},
	{"gru", func() *nn.Recurrent { return nn.NewGRU(2, 3, nn.Bidirectional()) }},
}

// TestRecurrentDerivatives compares first and second derivatives for sequences, states and weights with differences,
// with and without lengths.
func TestRecurrentDerivatives(t *testing.T) {
	for _, c := range recurrentLayers {
		for _, lengths := range [][]int{nil, {2, 3}} {
			t.Run(fmt.Sprint(c.name, lengths), func(t *testing.T) {
				dev := open(t)
				model := c.make()
				inputs := []*tensor.Tensor{tensor.Uniform(tensor.Seed(1), -1, 1, 3, 2, 2).To(tensor.Float64)}
				nn.Walk(model, func(_ string, p *tensor.Tensor) {
					w := tensor.Uniform(tensor.Seed(uint64(len(inputs))), 0.1, 0.9, p.Shape()...)
					inputs = append(inputs, w.To(tensor.Float64))
				})
				f := func(xs []*tensor.Tensor) *tensor.Tensor {
					r, w := c.make(), xs[1:]
					for i := range r.Weights {
						for _, p := range []**tensor.Tensor{&r.Weights[i].IH, &r.Weights[i].HH, &r.Weights[i].BiasIH,
							&r.Weights[i].BiasHH, &r.Weights[i].HR} {
							if *p != nil {
								*p, w = w[0], w[1:]
							}
						}
					}
					y, after := r.Run(xs[0], nn.RecurrentState{}, lengths)
					parts := []*tensor.Tensor{y.Flatten(0, -1)}
					for _, s := range stateList(after) {
						parts = append(parts, s.Flatten(0, -1))
					}
					return tensor.Cat(0, parts...)
				}
				if err := autograd.Gradcheck(dev, f, inputs...); err != nil {
					t.Error(err)
				}
				if err := autograd.GradGradcheck(dev, f, inputs...); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestRecurrentPadding: what lies behind the end of a sequence, be it NaN, changes neither results nor gradients.
func TestRecurrentPadding(t *testing.T) {
	dev := open(t)
	r := nn.NewGRU(1, 2, nn.Bidirectional())
	if err := nn.Init(dev, r); err != nil {
		t.Fatal(err)
	}
	var got [2]string
	for i, padding := range []float32{0, float32(math.NaN())} {
		x := tensor.FromSlice([]float32{1, 2, 3, padding, 4, padding}, 3, 2, 1)
		if err := dev.Step(func(s *tensor.Scope) error {
			y, after := r.Run(s.In(x), nn.RecurrentState{}, []int{3, 1})
			grads := autograd.Grad(y.Square().Sum(), nn.Parameters(r))
			for _, g := range append(grads, y, after.H) {
				got[i] += fmt.Sprint(tensor.ToSlice[float64](g))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got[0] != got[1] || strings.Contains(got[1], "NaN") {
		t.Errorf("with zeros %s,\nwith NaN %s", got[0], got[1])
	}
}

// TestRecurrentParts: two runs, the second from the state of the first, are one run, also in regions.
func TestRecurrentParts(t *testing.T) {
	for _, c := range recurrentLayers {
		if c.name == "rnn" || c.name == "gru" { // both directions
			continue
		}
		dev := open(t)
		r := c.make()
		if err := nn.Init(dev, r); err != nil {
			t.Fatal(err)
		}
		x := tensor.Uniform(tensor.Seed(1), -1, 1, 5, 2, 2)
		if err := dev.Step(func(s *tensor.Scope) error {
			whole := nn.Call("rnn", r, s.In(x))
			first, state := r.Run(s.In(x).Slice(0, 0, 2), nn.RecurrentState{}, nil)
			second, _ := r.Run(s.In(x).Slice(0, 2, 5), state, nil)
			parts := tensor.Cat(0, first, second)
			if !whole.AllEqual(parts) {
				t.Errorf("%s: in one run %v, in two %v", c.name, whole, parts)
			}
			want := autograd.Grad(whole.Square().Sum(), nn.Parameters(r))
			for i, g := range autograd.Grad(parts.Square().Sum(), nn.Parameters(r)) {
				if !g.AllClose(want[i], 1e-4, 1e-5) {
					t.Errorf("%s: the gradients of %v differ", c.name, nn.Parameters(r)[i])
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRecurrentModes: dropout lies between layers and in training alone, and autocast gives gradients the types of the
// parameters.
func TestRecurrentModes(t *testing.T) {
	dev := open(t)
	r := nn.NewLSTM(2, 8, nn.Layers(2), nn.DropoutRate(0.5))
	if err := nn.Init(dev, r); err != nil {
		t.Fatal(err)
	}
	x := tensor.Uniform(tensor.Seed(1), -1, 1, 4, 2, 2)
	results := func(run func(func(*tensor.Scope) error, ...tensor.Option) error) (all [2]string) {
		for i := range all {
			if err := run(func(s *tensor.Scope) error {
				_, after := r.Run(s.In(x), nn.RecurrentState{}, nil)
				all[i] = fmt.Sprint(tensor.ToSlice[float64](after.H))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	if y := results(dev.Step); y[0] == y[1] {
		t.Error("two training steps without dropout")
	}
	if y := results(dev.Eval); y[0] != y[1] {
		t.Error("dropout in evaluation")
	}
	for _, c := range recurrentLayers {
		m := c.make()
		if err := nn.Init(dev, m); err != nil {
			t.Fatal(err)
		}
		if err := dev.Step(func(s *tensor.Scope) error {
			y, _ := m.Run(s.In(x), nn.RecurrentState{}, []int{4, 2})
			for i, g := range autograd.Grad(y.Sum(), nn.Parameters(m)) {
				if y.DType() != tensor.BFloat16 || g.DType() != tensor.Float32 {
					t.Errorf("%s: the result is %v, gradient %d %v", c.name, y, i, g)
				}
			}
			return nil
		}, amp.Autocast(tensor.BFloat16)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestRecurrentMisuse: what recurrent layers cannot take is a typed error.
func TestRecurrentMisuse(t *testing.T) {
	dev := open(t)
	lstm, gru, cell := nn.NewLSTM(2, 3, nn.Projection(2)), nn.NewGRU(2, 3), nn.NewRNNCell(2, 3)
	for _, m := range []any{lstm, gru, cell} {
		if err := nn.Init(dev, m); err != nil {
			t.Fatal(err)
		}
	}
	zeros := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	type state = nn.RecurrentState
	x := zeros(4, 2, 2)
	for i, c := range []struct {
		kind error
		f    func(s *tensor.Scope)
	}{
		{tensor.ErrShape, func(s *tensor.Scope) { lstm.Forward(s.In(zeros(4, 2))) }},
		{tensor.ErrShape, func(s *tensor.Scope) { lstm.Forward(s.In(zeros(4, 2, 3))) }},
		{tensor.ErrShape, func(s *tensor.Scope) { lstm.Forward(s.In(zeros(0, 2, 2))) }},
		{tensor.ErrStep, func(*tensor.Scope) { lstm.Forward(x) }},
		{tensor.ErrShape, func(s *tensor.Scope) { lstm.Run(s.In(x), state{H: zeros(1, 2, 3)}, nil) }},
		{tensor.ErrValue, func(s *tensor.Scope) { gru.Run(s.In(x), state{C: zeros(1, 2, 3)}, nil) }},
		{tensor.ErrShape, func(s *tensor.Scope) { gru.Run(s.In(x), nn.RecurrentState{}, []int{4}) }},
		{tensor.ErrIndex, func(s *tensor.Scope) { gru.Run(s.In(x), nn.RecurrentState{}, []int{4, 0}) }},
		{tensor.ErrIndex, func(s *tensor.Scope) { gru.Run(s.In(x), nn.RecurrentState{}, []int{5, 1}) }},
		{tensor.ErrShape, func(s *tensor.Scope) { cell.Run(s.In(zeros(2, 2)), state{H: zeros(3, 3)}) }},
		{tensor.ErrValue, func(s *tensor.Scope) { cell.Run(s.In(zeros(2, 2)), state{C: zeros(2, 3)}) }},
		{tensor.ErrShape, func(s *tensor.Scope) { cell.Forward(s.In(zeros(2, 3))) }},
		{tensor.ErrValue, func(*tensor.Scope) { nn.NewLSTM(2, 3, nn.Projection(3)) }},
		{tensor.ErrValue, func(*tensor.Scope) { nn.NewGRU(2, 3, nn.Projection(2)) }},
		{tensor.ErrValue, func(*tensor.Scope) { nn.NewGRU(2, 3, nn.Layers(0)) }},
		{tensor.ErrValue, func(*tensor.Scope) { nn.NewGRU(2, 3, nn.DropoutRate(1)) }},
		{nil, func(s *tensor.Scope) { gru.Forward(s.In(zeros(4, 0, 2))) }},
	} {
		if err := dev.Step(func(s *tensor.Scope) error { c.f(s); return nil }); !errors.Is(err, c.kind) {
			t.Errorf("case %d: %v", i, err)
		}
	}
}

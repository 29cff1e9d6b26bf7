package nn

import (
	"fmt"
	"iter"
	"math"

	"github.com/weft-ml/weft/tensor"
)

// RecurrentWeights are those of one recurrent layer in one direction, for G gates: 1 of an RNN, 3 of a GRU (reset,
// update, candidate) and 4 of an LSTM (input, forget, candidate, output).
type RecurrentWeights struct {
	IH, HH         *tensor.Tensor // [G*H in], [G*H P]; P is the size of the projection, H without
	BiasIH, BiasHH *tensor.Tensor // [G*H]; nil: none
	HR             *tensor.Tensor // [P H], of an LSTM with projection; else nil
}

// declareRecurrent declares weights, uniform within ±1/sqrt(hidden) as in PyTorch.
func (k *cell) declareRecurrent(in, hidden int, c layerConfig) (w RecurrentWeights) {
	init, rows, size := within(1/math.Sqrt(float64(max(1, hidden)))), k.gates*hidden, hidden
	if c.projection > 0 {
		size = c.projection
		w.HR = Parameter(init, size, hidden)
	}
	w.IH, w.HH = Parameter(init, rows, in), Parameter(init, rows, size)
	if !c.noBias {
		w.BiasIH, w.BiasHH = Parameter(init, rows), Parameter(init, rows)
	}
	return w
}

// all yields the weights under PyTorch's names with a suffix.
func (w *RecurrentWeights) all(suffix string, yield func(string, any) bool) bool {
	for _, p := range []struct {
		name string
		t    *tensor.Tensor
	}{{"weight_ih", w.IH}, {"weight_hh", w.HH}, {"bias_ih", w.BiasIH}, {"bias_hh", w.BiasHH}, {"weight_hr", w.HR}} {
		if p.t != nil && !yield(p.name+suffix, p.t) {
			return false
		}
	}
	return true
}

// input is the product of the weights with x, [... in], with all biases that do not go through a gate.
func (w *RecurrentWeights) input(k cell, x *tensor.Tensor) *tensor.Tensor {
	if w.BiasIH == nil || k.name == "gru" {
		return x.Linear(w.IH, w.BiasIH)
	}
	return x.Linear(w.IH, x.Scope().In(w.BiasIH).Add(w.BiasHH))
}

// loop is the operands of a recurrence from x, what input gives, and a state.
func (w *RecurrentWeights) loop(k cell, x *tensor.Tensor, from RecurrentState) loop {
	l := loop{x: x, h: from.H, c: from.C, hh: w.HH, hr: w.HR}
	if k.name == "gru" {
		l.bias = w.BiasHH
	}
	return l
}

// RecurrentState is what recurrent layers hand on from one time to the next: H, and of an LSTM also C. H is
// [L*D B P] and C [L*D B H], for L layers in D directions, or of a cell [B H]; nil stands for zeros.
type RecurrentState struct{ H, C *tensor.Tensor }

// Recurrent is layers of an RNN, LSTM or GRU, as [NewRNN], [NewLSTM] and [NewGRU] declare them. Names and layouts of
// weights are PyTorch's: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0, weight_ih_l0_reverse, ...
type Recurrent struct {
	Weights       []RecurrentWeights // of layer l in direction d at l*directions + d
	Input, Hidden int                // features
	Dropout       float64            // on the results of all layers but the last
	BatchFirst    bool               // sequences are [B T C]

	cell       cell
	directions int
}

// NewRNN declares layers h' = tanh(W_ih x + b_ih + W_hh h + b_hh) (Elman 1990). Options are [Layers], [Bidirectional],
// [DropoutRate], [BatchFirst], [NoBias] and [WithReLU].
func NewRNN(input, hidden int, opts ...LayerOption) *Recurrent {
	return newRecurrent(tanhCell, input, hidden, layerOf("rnn", opts, recurrentOptions("WithReLU")...))
}

// NewLSTM declares long short-term memory (Hochreiter and Schmidhuber 1997). Options are [Layers], [Bidirectional],
// [DropoutRate], [BatchFirst], [NoBias] and [Projection].
func NewLSTM(input, hidden int, opts ...LayerOption) *Recurrent {
	return newRecurrent(lstmCell, input, hidden, layerOf("lstm", opts, recurrentOptions("Projection")...))
}

// NewGRU declares gated recurrent units (Cho et al. 2014), with the reset gate behind the product as in PyTorch.
// Options are [Layers], [Bidirectional], [DropoutRate], [BatchFirst] and [NoBias].
func NewGRU(input, hidden int, opts ...LayerOption) *Recurrent {
	return newRecurrent(gruCell, input, hidden, layerOf("gru", opts, recurrentOptions()...))
}

func recurrentOptions(more ...string) []string {
	return append([]string{"Layers", "Bidirectional", "DropoutRate", "BatchFirst", "NoBias"}, more...)
}

func newRecurrent(k cell, input, hidden int, c layerConfig) *Recurrent {
	if c.projection >= hidden && c.projection > 0 {
		engine.Fail(tensor.ErrValue, k.name, "a projection to %d features; it must be smaller than the state, %d",
			c.projection, hidden)
	}
	if c.relu {
		k = reluCell
	}
	r := &Recurrent{Input: input, Hidden: hidden, Dropout: c.dropout, BatchFirst: c.batchFirst, cell: k, directions: 1}
	if c.bidirectional {
		r.directions = 2
	}
	size := hidden
	if c.projection > 0 {
		size = c.projection
	}
	for range max(1, c.layers) {
		for range r.directions {
			r.Weights = append(r.Weights, k.declareRecurrent(input, hidden, c))
		}
		input = size * r.directions
	}
	return r
}

// given fails unless a constructor has made r.
func (r *Recurrent) given() {
	engine.Given("recurrent", "the layer", r)
	if r.directions == 0 || len(r.Weights) == 0 || len(r.Weights)%r.directions != 0 {
		engine.Fail(tensor.ErrValue, "recurrent", "%d parts with weights; NewRNN, NewLSTM and NewGRU make layers",
			len(r.Weights))
	}
}

// Children yields the weights under PyTorch's names.
func (r *Recurrent) Children() iter.Seq2[string, any] {
	r.given()
	return func(yield func(string, any) bool) {
		for i := range r.Weights {
			suffix := fmt.Sprint("_l", i/r.directions)
			if i%r.directions == 1 {
				suffix += "_reverse"
			}
			if !r.Weights[i].all(suffix, yield) {
				return
			}
		}
	}
}

// Forward is the results of the last layer for sequences [T B Input], or [B T Input] with [BatchFirst]: [T B D*P], or
// [B T D*P]. The state before is zero.
func (r *Recurrent) Forward(x *tensor.Tensor) *tensor.Tensor {
	y, _ := r.Run(x, RecurrentState{}, nil)
	return y
}

// Run is Forward from a state, and the state after. If lengths are given, one for each sequence, elements from there on
// are not looked at, results there are zero, and the state after is that of the last element, in the other direction of
// the first.
func (r *Recurrent) Run(x *tensor.Tensor, from RecurrentState, lengths []int) (y *tensor.Tensor, after RecurrentState) {
	r.given()
	op := r.cell.name
	engine.Given(op, "x", x)
	wantSequence(op, x, 3, r.Input, "[T B C], or [B T C] with BatchFirst,")
	if r.BatchFirst {
		x = x.Transpose(0, 1)
	}
	if x.Dim(0) == 0 {
		engine.Fail(tensor.ErrShape, op, "x %v has no times", x)
	}
	alive := aliveOf(op, x, lengths)
	if alive != nil {
		x = alive.Where(x, engine.NewFull(x, 0, x.DType()))
	}
	var hs, cs []*tensor.Tensor
	for layer := 0; layer < len(r.Weights); layer += r.directions {
		var ys []*tensor.Tensor
		for d := range r.directions {
			w := &r.Weights[layer+d]
			run := recurrence{cell: r.cell, reverse: d == 1, alive: alive}
			gates := w.input(r.cell, x)
			l := w.loop(r.cell, gates, r.stateOf(gates, w, from, layer+d))
			y, c := run.run(l)
			ys, hs, cs = append(ys, y), append(hs, y.Select(0, run.times(y.Dim(0))[y.Dim(0)-1])), append(cs, c)
		}
		x = tensor.Cat(-1, ys...)
		if alive != nil {
			x = alive.Where(x, engine.NewFull(x, 0, x.DType()))
		}
		if layer+r.directions < len(r.Weights) {
			x = x.Dropout(r.Dropout)
		}
	}
	after.H = tensor.Stack(0, hs...)
	if r.cell.name == "lstm" {
		after.C = tensor.Stack(0, cs...)
	}
	if r.BatchFirst {
		x = x.Transpose(0, 1)
	}
	return x, after
}

// wantSequence fails unless x belongs to a step, and has so many axes and features on the last.
func wantSequence(op string, x *tensor.Tensor, rank, features int, form string) {
	if x.Rank() != rank || x.Dim(-1) != features {
		engine.Fail(tensor.ErrShape, op, "x %v is not %s with C = %d", x, form, features)
	}
	if x.Scope() == nil {
		engine.Fail(tensor.ErrStep, op, "x %v belongs to no step; take it in with s.In", x)
	}
}

// aliveOf tells, [T B 1], which elements sequences of these lengths have; nil if all are whole.
func aliveOf(op string, x *tensor.Tensor, lengths []int) *tensor.Tensor {
	if lengths == nil {
		return nil
	}
	times, batch := x.Dim(0), x.Dim(1)
	if len(lengths) != batch {
		engine.Fail(tensor.ErrShape, op, "%d lengths for %d sequences", len(lengths), batch)
	}
	alive := make([]bool, times*batch)
	for i, n := range lengths {
		if n < 1 || n > times {
			engine.Fail(tensor.ErrIndex, op, "the length of sequence %d is %d, outside [1, %d]", i, n, times)
		}
		for t := range n {
			alive[t*batch+i] = true
		}
	}
	return engine.Beside(x, func() *tensor.Tensor {
		return x.Scope().In(tensor.FromSlice(alive, times, batch, 1))
	})
}

// stateOf is the state of layer and direction i; gates are what they begin with.
func (r *Recurrent) stateOf(gates *tensor.Tensor, w *RecurrentWeights, from RecurrentState, i int) (s RecurrentState) {
	one := func(name string, all *tensor.Tensor, size int) *tensor.Tensor {
		batch := gates.Dim(1)
		if all == nil {
			return engine.NewFull(gates, 0, gates.DType(), batch, size)
		}
		if all.Rank() != 3 || all.Dim(0) != len(r.Weights) || all.Dim(1) != batch || all.Dim(2) != size {
			engine.Fail(tensor.ErrShape, r.cell.name, "state %s is %v, must be %v", name, all,
				[]int{len(r.Weights), batch, size})
		}
		return gates.Scope().In(all).Select(0, i).To(gates.DType())
	}
	s.H = one("H", from.H, w.HH.Dim(1))
	if r.cell.name == "lstm" {
		s.C = one("C", from.C, r.Hidden)
	} else {
		r.cell.refuseC(from)
	}
	return s
}

// refuseC fails if there is a state C.
func (k *cell) refuseC(from RecurrentState) {
	if from.C != nil {
		engine.Fail(tensor.ErrValue, k.name, "state C is given; only an LSTM has one")
	}
}

// RecurrentCell is one time of an RNN, LSTM or GRU, as [NewRNNCell], [NewLSTMCell] and [NewGRUCell] declare it, with
// weights under PyTorch's names: weight_ih, weight_hh, bias_ih, bias_hh.
type RecurrentCell struct {
	RecurrentWeights
	Input, Hidden int // features

	cell cell
}

// NewRNNCell declares a cell of [NewRNN]. Options are [NoBias] and [WithReLU].
func NewRNNCell(input, hidden int, opts ...LayerOption) *RecurrentCell {
	c := layerOf("rnn_cell", opts, "NoBias", "WithReLU")
	if c.relu {
		return newRecurrentCell(reluCell, input, hidden, c)
	}
	return newRecurrentCell(tanhCell, input, hidden, c)
}

// NewLSTMCell declares a cell of [NewLSTM]. The option is [NoBias].
func NewLSTMCell(input, hidden int, opts ...LayerOption) *RecurrentCell {
	return newRecurrentCell(lstmCell, input, hidden, layerOf("lstm_cell", opts, "NoBias"))
}

// NewGRUCell declares a cell of [NewGRU]. The option is [NoBias].
func NewGRUCell(input, hidden int, opts ...LayerOption) *RecurrentCell {
	return newRecurrentCell(gruCell, input, hidden, layerOf("gru_cell", opts, "NoBias"))
}

func newRecurrentCell(k cell, input, hidden int, c layerConfig) *RecurrentCell {
	return &RecurrentCell{RecurrentWeights: k.declareRecurrent(input, hidden, c), Input: input, Hidden: hidden, cell: k}
}

// Children yields the weights under PyTorch's names.
func (r *RecurrentCell) Children() iter.Seq2[string, any] {
	engine.Given("recurrent_cell", "the cell", r)
	return func(yield func(string, any) bool) { r.all("", yield) }
}

// Run is the state after input x, [B Input], from the state before; H is the result.
func (r *RecurrentCell) Run(x *tensor.Tensor, from RecurrentState) RecurrentState {
	engine.Given("recurrent_cell", "the cell", r)
	if r.cell.op == nil {
		engine.Fail(tensor.ErrValue, "recurrent_cell", "NewRNNCell, NewLSTMCell and NewGRUCell make cells")
	}
	op := r.cell.name
	engine.Given(op, "x", x)
	wantSequence(op, x, 2, r.Input, "[B C]")
	parts := []**tensor.Tensor{&from.H, &from.C}
	if op != "lstm" {
		r.cell.refuseC(from)
		parts = parts[:1]
	}
	gates := r.input(r.cell, x)
	for _, part := range parts {
		switch {
		case *part == nil:
			*part = engine.NewFull(x, 0, gates.DType(), x.Dim(0), r.Hidden)
		case (*part).Rank() != 2 || (*part).Dim(0) != x.Dim(0) || (*part).Dim(1) != r.Hidden:
			engine.Fail(tensor.ErrShape, op, "the state is %v, must be %v", *part, []int{x.Dim(0), r.Hidden})
		default:
			*part = (*part).To(gates.DType())
		}
	}
	f := r.cell.step(gates, r.loop(r.cell, gates, from), from.H, from.C)
	return RecurrentState{f.next, f.nextC}
}

// Forward is the state H after one input x, [B Input], from a state of zeros.
func (r *RecurrentCell) Forward(x *tensor.Tensor) *tensor.Tensor { return r.Run(x, RecurrentState{}).H }

// String is the [Tree] of the layers.
func (r *Recurrent) String() string { return Tree(r) }

// String is the [Tree] of the cell.
func (r *RecurrentCell) String() string { return Tree(r) }

package onnx

import (
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func init() {
	define(map[string]func(c *call) []*tensor.Tensor{
		"RNN":  func(c *call) []*t { return c.recurrent(nn.NewRNN, 0) },
		"LSTM": func(c *call) []*t { return c.recurrent(nn.NewLSTM, 0, 2, 3, 1) }, // input, output, forget, cell
		"GRU":  gru,
	})
}

// operandsOf are input [T B I], and the weights of the one direction; without a bias it is zero.
func (c *call) operandsOf(gates int) (x, w, r, wb, rb *t) {
	x, w, r = c.in[0], c.in[1].Select(0, 0), c.in[2].Select(0, 0)
	if c.int("layout", 0) == 1 {
		x = x.Transpose(0, 1)
	}
	n := gates * c.int("hidden_size", 0)
	b := c.scope.Full(0, x.DType(), 2*n)
	if c.operand(3) != nil {
		b = c.in[3].Select(0, 0)
	}
	return x, w, r, b.Slice(0, 0, n), b.Slice(0, n, 2*n)
}

// results are Y and Y_h, of results [T B H].
func (c *call) results(y *t) []*t {
	last := y.Select(0, y.Dim(0)-1)
	if c.int("layout", 0) == 1 {
		return []*t{y.Transpose(0, 1).Unsqueeze(2), last.Unsqueeze(1)}
	}
	return []*t{y.Unsqueeze(1), last.Unsqueeze(0)}
}

// recurrent runs layers of package nn. Gate i is that at order[i] in ONNX.
func (c *call) recurrent(layers func(input, hidden int, opts ...nn.LayerOption) *nn.Recurrent, order ...int) []*t {
	hidden := c.int("hidden_size", 0)
	x, w, r, wb, rb := c.operandsOf(len(order))
	sorted := func(x *t) *t {
		parts := x.Chunk(0, len(order))
		gates := []*t{}
		for _, i := range order {
			gates = append(gates, parts[i])
		}
		return tensor.Cat(0, gates...)
	}
	model := layers(x.Dim(2), hidden)
	model.Weights[0] = nn.RecurrentWeights{IH: sorted(w), HH: sorted(r), BiasIH: sorted(wb), BiasHH: sorted(rb)}
	return c.results(model.Forward(x))
}

// gru resets the state before the product, unlike PyTorch; so it is composed of operations.
func gru(c *call) []*t {
	x, w, r, wb, rb := c.operandsOf(3) // update, reset, candidate
	gate := func(v *t, i int) *t { return v.Chunk(0, 3)[i] }
	h := c.scope.Full(0, x.DType(), x.Dim(1), c.int("hidden_size", 0))
	ys := []*t{}
	for time := range x.Dim(0) {
		now := x.Select(0, time)
		part := func(i int, h *t) *t {
			return now.Linear(gate(w, i), gate(wb, i)).Add(h.Linear(gate(r, i), gate(rb, i)))
		}
		z, reset := part(0, h).Sigmoid(), part(1, h).Sigmoid()
		h = part(2, reset.Mul(h)).Tanh().Lerp(h, z)
		ys = append(ys, h)
	}
	return c.results(tensor.Stack(0, ys...))
}

package tensor

// What the recurrent layers of package nn are made of. The operands are what their products make of inputs and state,
// before the activations.

// The cell state of an LSTM (Hochreiter and Schmidhuber 1997; with the forget gate of Gers et al. 2000): input gate,
// forget gate, candidate, and the state before.
var _ = pointwise{
	name: "lstm_state", expr: "sigmoid(forget)*state + sigmoid(input)*tanh(candidate)",
	args: "input forget candidate state", approximate: true,
}.op()

// The output of an LSTM, from its output gate and cell state.
var _ = pointwise{
	name: "lstm_output", expr: "sigmoid(output)*tanh(state)", args: "output state", approximate: true,
}.op()

// The state of a GRU (Cho et al. 2014, with the reset gate behind the product): reset and update gate, what input and
// state give for the candidate, and the state before.
var _ = pointwise{
	name: "gru", expr: "tanh(candidate + sigmoid(reset)*recurrent) + sigmoid(update)*(state - " +
		"tanh(candidate + sigmoid(reset)*recurrent))",
	args: "reset update candidate recurrent state", approximate: true,
}.op()

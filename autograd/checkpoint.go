package autograd

import (
	"github.com/weft-ml/weft/tensor"
)

// Checkpoint is f(x), such as Checkpoint(block.Forward, x), that takes less memory and more time: until the backward
// pass the step keeps x, and what else f uses from outside, but nothing that f made beside its result. The backward
// pass repeats the operations of f as far as derivatives need their results, which costs up to the time of f once more.
// Values, gradients, random numbers and everything else are to the bit what they are without Checkpoint; f is called
// once. Checkpoints can be inside one another. In a step that does not record it is f(x).
func Checkpoint(f func(x *tensor.Tensor) *tensor.Tensor, x *tensor.Tensor) *tensor.Tensor {
	engine.Given("checkpoint", "the function", f)
	return CheckpointAll(func(xs []*tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{f(xs[0])} }, x)[0]
}

// Offload is an option of a step, or of a part of it, in which a [Checkpoint] keeps what it needs from outside in
// pinned memory of the host: x, unless the step keeps that to its end. It is copied beside the step's other work, on
// streams of its own, and is back before the backward pass uses it; bits do not change. A GPU has less to hold then,
// and the bus more to do: a copy hides behind a checkpoint that takes as long. On the CPU, whose memory is the host's,
// Offload changes nothing. A checkpoint in another one keeps nothing of its own. A host without memory fails the step
// ([tensor.ErrMemory]).
func Offload() tensor.Option { return engine.Offload() }

// CheckpointAll is [Checkpoint] for a function with any number of operands and results.
func CheckpointAll(f func(xs []*tensor.Tensor) []*tensor.Tensor, xs ...*tensor.Tensor) []*tensor.Tensor {
	engine.Given("checkpoint", "the function", f)
	s := stepOf(xs)
	if s == nil {
		engine.Fail(tensor.ErrStep, "checkpoint", "no operand belongs to a step; take one in with s.In")
	}
	return engine.Checkpoint(s, func() []*tensor.Tensor {
		ys := f(xs)
		for _, y := range ys {
			engine.Given("checkpoint", "a result of the function", y)
		}
		return ys
	})
}

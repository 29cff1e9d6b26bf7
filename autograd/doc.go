// Package autograd differentiates what a step recorded, in reverse.
//
// [Backward] adds the gradient of a loss to the parameters; [Grad] returns gradients of chosen tensors
// and touches no parameter, if wanted in a form that can be differentiated again. [Custom] adds an
// operation with a hand-written gradient, [Hook] looks at a gradient on its way, [Gradcheck] compares
// gradients with finite differences.
//
// The rules of differentiation stand beside the operations, in package tensor; this package only walks
// the tape: from the loss back, each node maps the gradient of its output to gradients of its operands,
// and gradients of one tensor add up in the order of the tape, so results do not vary from run to run.
package autograd

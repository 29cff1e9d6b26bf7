// Package autograd differentiates what a step recorded, in reverse.
//
// [Backward] adds the gradient of a loss to the parameters. [Grad] returns gradients, of parameters and of tensors
// given to [Watch], and changes no parameter; with [CreateGraph] they can be differentiated again. [Custom] adds an
// operation with a hand-written gradient, [Hook] looks at a gradient on its way, [Gradcheck] compares gradients with
// finite differences. [VJP], [JVP], [Jacobian] and [Hessian] are derivatives of functions, [Vmap] makes one of a batch.
// [Checkpoint] gives time for memory.
//
// The derivatives stand beside the operations, in package tensor, and so does the backward pass: from the loss back,
// each operation on the tape maps the gradients of its outputs to gradients of its operands. Gradients of one tensor
// are added in the order of the tape, so that results do not vary from run to run.
package autograd

// Package seam is what package tensor shares with the packages beside it and nobody else: the key to its engine, and
// the plain data that go through it. Tests and tools of this module use it, too.
//
// Package tensor has two faces. Users see its exported names. The packages that complete the library (autograd, amp,
// nn, optim, data, checkpoint) need more: gradients of a step, memory of parameters, the table of operations. These are
// methods of tensor.Engine(seam.Key{}), which only code of this module can call, since a [Key] is made only where this
// package can be imported:
//
//	var engine = tensor.Engine(seam.Key{})
//	...
//	engine.Fail(tensor.ErrShape, "conv", "the kernel is %v", w)
//
// The methods are listed by "go doc -u ./tensor engine".
package seam

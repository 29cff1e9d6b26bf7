// Package tensor holds tensors, devices and steps, and the table of operations.
//
// A [Device] outlives steps: it owns memory, the random seed and statistics. Work happens in a step:
//
//	dev, err := tensor.Open("auto", tensor.Seed(42))
//	err = dev.Step(func(s *tensor.Scope) error {
//		x := s.In(batch)          // host data into the step
//		y := x.MatMul(w).GELU()   // operations are methods; nothing is freed by hand
//		...
//	})
//
// [Device.Step] records operations for differentiation (package autograd), [Device.Eval] does not.
// Misuse inside a step, such as shapes that do not fit, comes back from the step as an [*Error] that
// names the operation, the sizes, the caller's line and the layer. Memory made in a step returns to
// the device when the step ends; [Tensor.Keep] takes a tensor out.
//
// Reading order: tensor.go (what a tensor is), scope.go (steps), op.go (what an operation is),
// apply.go (how one runs), pointwise.go and the op_*.go files (the operations themselves), tape.go
// and param.go (what differentiation and optimizers need).
package tensor

// Package tensor has tensors, devices and steps, and the table of operations.
//
// A [Device] has memory, a random seed and statistics, and outlives steps. Work happens in a step:
//
//	dev, err := tensor.Open("auto", tensor.Seed(42))
//	err = dev.Step(func(s *tensor.Scope) error {
//		x := s.In(batch)          // host data into the step
//		y := x.MatMul(w).GELU()   // operations are methods; nothing is freed by hand
//		...
//	})
//
// [Device.Step] records operations for differentiation (package autograd), [Device.Eval] does not. Misuse inside a
// step, such as shapes that do not fit, comes back from the step as an [*Error] with the operation, the sizes, the
// caller's line and the layer; a step that fails changes nothing. Memory made in a step returns to the device when the
// step ends; [Tensor.Keep] takes a tensor out. docs/OPS.md lists all operations with their formulas.
//
// # Files
//
// What users call:
//
//	tensor.go    a tensor: element type, shape, strides and memory
//	dtype.go     element types, and the type of an operation on several
//	error.go     errors, and how they leave a step; given.go refuses what is nil
//	device.go    devices: opening, options, statistics; cuda.go adds GPUs to a build, nocuda.go says how
//	scope.go     steps and regions; busy.go has one goroutine use them at a time, access.go has steps that use
//	             the same parameters take turns
//	data.go      host data from and to slices; nested.go and arange.go make some, fetch.go reads without waiting,
//	             raw.go has bytes for files, room.go tells how much memory the process may have
//	index.go     several axes at once; its parts are op_view_select.go and op_view_slice.go
//	compare.go   whether two tensors are equal or close
//	format.go    prints values by package fmt
//	param.go     parameters, states and their arenas; commit.go writes them at the end of a step
//	model.go     finds the parameters of a model, and their names
//	scalar.go    a value of the host that changes between steps
//	anomaly.go   finds the operation that makes the first NaN or infinity
//
// What an operation passes through, in this order:
//
//	op.go         what an operation is: an entry of the table
//	pointwise.go  entries that are made from an expression, and their derivatives
//	apply.go      one op call: shapes, memory, run, record
//	autocast.go   the types of operands in mixed precision
//	transfer.go   copies between devices
//	block.go      memory with its owners
//	tape.go       what is recorded for the backward pass
//	backward.go   the backward pass, behind package autograd
//
// The operations by family, with what each family shares:
//
//	op_view_*.go            share memory: reshape, permute, expand, slice, select
//	op_copy_*.go            cat and stack, flip, pad, triangles
//	op_index_*.go           embedding, gather, index select and add, one-hot, scatter-add
//	op_pointwise*.go        arithmetic, functions, comparisons, activations, casts, constants, random numbers;
//	                        multinomial.go draws classes with these
//	reduce.go, op_reduce_*  sums, products, extremes and their indices, variance, any and all
//	op_scan_*.go            running sums
//	op_softmax*.go          softmax, its logarithm, log-sum-exp
//	op_norm_*.go            layer norm and RMS norm, also of a sum
//	op_cross_entropy.go     the loss of classification; loss.go has the options of all losses
//	op_matmul*.go           matrix products, linear layers
//	op_attention.go         attention, also of packed queries, keys and values
//	reference.go            what references share
//	samples.go              operands for the tests of all operations
package tensor

// Package cpu is the device "cpu": it is always there and is the reference for all others.
//
// Importing it registers the device with package kernels:
//
//	import _ "github.com/weft-ml/weft/kernels/cpu"
//
//	dev, err := kernels.Open("cpu")
//
// An op call is executed by the first of these that its operation has: direct loops for the element type (Op.CPU), the
// pointwise program of its expression (Op.Expr), for float16 and bfloat16 the direct loops for float32 on widened
// operands, or the float64 reference (Op.Ref). Work is done when Run returns, so streams and events are trivial. The
// results do not depend on the number of threads or on how the elements are cut into blocks.
//
// # Files
//
// In processing order:
//
//   - cpu.go is the backend and chooses what executes an op call; tier.go names the vector instructions in use.
//   - memory.go, memory_linux.go, memory_other.go: device memory; scratch.go: working memory; room.go and room_*.go:
//     how much of either the process may have.
//   - half.go widens float16 and bfloat16 operands, reference.go runs references, convert.go converts element types.
//   - Pointwise operations: pointwise.go chooses the type of the registers float32, float64 or int64; program.go
//     compiles an expression to instructions (instructions.go) or finds a fused kernel; blocks.go cuts the elements
//     into blocks and gathers strided ones; execution.go runs the program block by block in the working memory of
//     workspace.go.
//   - copy.go: strided and contiguous copies, cat, stack, pad, flip, triangles.
//   - index.go: gather, index select, scatter and index add, one-hot.
//   - rows.go gives the operations along axes their rows, rows_abreast.go several short ones at a time: reduce.go,
//     reduce_arg.go, reduce_var.go, softmax.go, scan.go, norm.go, cross_entropy.go.
//   - matmul.go and attention.go: matrix products, by internal/matmul.
//
// The vector kernels are in internal/vec, the goroutines in internal/par.
package cpu

// Package cpu is the device "cpu": it is always there and is the reference for all others.
//
// Importing it registers the device with package kernels:
//
//	import _ "github.com/weft-ml/weft/kernels/cpu"
//
//	dev, err := kernels.Open("cpu")
//
// A launch is executed by the first of these that its operation has: loops written for the element type (Op.CPU), the
// pointwise program of its expression (Op.Expr), for float16 and bfloat16 the loops for float32 on widened operands
// (half.go), or the float64 reference (Op.Ref). Work is done when Run returns, so streams and events are trivial.
//
// # Pointwise operations
//
// In processing order: operand.go brings the layouts of a launch to the fewest dimensions and copies strided elements
// into contiguous blocks, convert.go turns element types into the three register types float32, float64 and int64,
// program.go compiles an expression into instructions on registers (instructions.go) or finds a kernel of the whole of it,
// pointwise.go chooses the type of the registers, and execution.go runs the program block by block in the working memory
// of frame.go. A mere change of layout is a copy (relayout.go). The vector kernels are in internal/vec, the goroutines in
// internal/par.
//
// The results do not depend on the number of threads or on how the elements are cut into blocks.
package cpu

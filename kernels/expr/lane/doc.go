// Package lane writes scalar FP32 algorithms once, as programs of primitive operations on 32-bit lanes, so that plain
// Go, AVX2, AVX-512, NEON and CUDA compute the same bits.
//
// A [Builder] collects the operations of a program: IEEE 754 arithmetic rounded to nearest even, integer and bit
// operations, comparisons and selections. The functions of the package ([Exp], [Erf], [Pow], ...) are algorithms
// written with it; they compose, so an activation, its derivative or a whole optimizer step is one program:
//
//	b := lane.NewBuilder()
//	x := b.In(0)
//	silu := b.Program(b.Mul(x, lane.Sigmoid(b, x)))
//
// [Program.Eval] is the definition of what a program computes. The generator in internal/tools/genvec turns the same
// program into vector kernels and their portable twins. Nothing is contracted or reordered on the way: a fused
// multiply-add happens where the source says FMA and nowhere else, which is why a fused kernel equals its instructions
// run one by one.
//
// [Instrs] lists the instructions of pointwise expressions. The documentation of each algorithm states its largest
// error in units in the last place (ulp), the largest among 70 million arguments spread over all float32, rounded up;
// the tests hold it.
package lane

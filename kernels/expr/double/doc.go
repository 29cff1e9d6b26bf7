// Package double has the functions of float64 for pointwise expressions, with the same bits on every processor.
//
// Package math promises neither bits nor accuracy: some of its functions are assembly on some processors, others are
// contracted by some compilers, and Exp, Log2, Acos or Pow lose digits near the ends of their ranges. Here every
// product that is added to something is a [math.FMA] or converted, which forbids contraction (Go specification,
// Floating-point operators), and only functions of package math are called that are exact or correctly rounded
// everywhere.
//
// The functions compute in sums of two float64 (type pair), where rounding to one of them would show, and in float64
// where it would not: results are wrong by little more than half a unit in the last place. The tests compare them with
// package math/big.
package double

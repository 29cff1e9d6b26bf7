// Package expr is the language of pointwise operations: functions that compute each element of their results from the
// same element of their operands. One line of mathematics,
//
//	gelu := expr.Must("0.5*x*(1 + erf(x*sqrt(0.5)))", []string{"x"}, nil)
//
// is the float64 reference ([Func.Eval]), the text that devices compile, and its own derivatives ([Func.Pullback]).
//
// # The language
//
// An expression is written as in Go, with the operators
//
//	||    &&    == != < <= > >=    + -    * /    and the unary - !
//
// on scalars: a comparison is 0 or 1, and every value but 0 is true. Names are the function's arguments (operands,
// which are tensors), its parameters (scalars of an op call, such as a learning rate) and pi, inf and nan. Calls are
// the instructions ([Instructions]), the functions of the library ([Library]), and rand(k), which is uniform in [0,1):
// the number of random stream k at this element, the same wherever it appears; rand() is rand(0). The instructions
// bitand, bitor, bitxor, shl and shr are of integers alone.
//
// A function may have several results, separated by semicolons or by line breaks outside parentheses, and definitions
// before them:
//
//	m2 = b1*m + (1 - b1)*g
//	v2 = b2*v + (1 - b2)*g*g
//	p - lr*m2/(sqrt(v2) + eps); m2; v2
//
// A name is defined once and must be used.
//
// Nothing is simplified, for x*0 == 0 is a test for finiteness; only operations on constants alone are computed, in
// float64. Derivatives are simplified where they hold structural zeros and ones. The value of where(c, a, b) does not
// depend on the operand that was not chosen, but its derivative multiplies that operand's derivative by 0, so an
// infinite one gives NaN: where(0 < x, log(x), x) has no gradient at 0, as in PyTorch. Some functions of the library
// have a derivative of their own where the chain rule would lose it (rule.go).
package expr

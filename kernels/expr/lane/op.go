package lane

import "fmt"

// Op is a primitive operation on 32-bit lanes. Each one is a single IEEE 754 operation rounded to nearest even, or a
// bit operation, with one result for every operand; a NaN result may be any NaN.
type Op uint8

// The primitives. In the comments x, y and z are the operands.
const (
	OpIn      Op = iota // element of input stream K
	OpUniform           // scalar K, the same for every element
	OpAcc               // partial sum of accumulator K of a reduction
	OpIndex             // the number of the element, modulo 2^32
	OpConst             // the constant Bits

	OpAdd  // x + y
	OpSub  // x - y
	OpMul  // x * y
	OpDiv  // x / y
	OpSqrt // square root of x
	OpFMA  // x*y + z, rounded once
	OpFNMA // z - x*y, rounded once

	OpLesser  // x < y ? x : y (a NaN or a tie gives y)
	OpGreater // x > y ? x : y (a NaN or a tie gives y)

	OpRound // x to the nearest integer, ties to even
	OpFloor // x rounded down
	OpCeil  // x rounded up
	OpTrunc // x rounded towards zero

	OpFloat // the int32 x as a float
	OpLdexp // x * 2^y rounded once, for integral y; see Builder.Ldexp

	OpIAdd   // x + y on integers modulo 2^32
	OpISub   // x - y on integers modulo 2^32
	OpIMul   // x * y on integers modulo 2^32
	OpIMulHi // the upper half of the 64-bit product of x and y as uint32
	OpAnd    // x & y
	OpOr     // x | y
	OpXor    // x ^ y
	OpShl    // x << K
	OpShr    // x >> K, zeros shifted in
	OpSar    // x >> K, the sign shifted in

	OpLookup // table K at index x & 15

	// Comparisons give a mask; with a NaN operand all but OpUnord are false.
	OpLT    // x < y
	OpLE    // x <= y
	OpEQ    // x == y
	OpUnord // x or y is a NaN
	OpILT   // x < y as int32

	OpMaskAnd // both masks
	OpMaskOr  // either mask
	OpMaskNot // the inverted mask
	OpSelect  // mask x ? y : z

	numOps
)

// info is what the package knows about an Op.
type info struct {
	name    string
	args    int
	mask    bool // the result is a mask
	maskArg int  // how many leading operands are masks
}

var infos = [numOps]info{
	OpIn: {"in", 0, false, 0}, OpUniform: {"uniform", 0, false, 0}, OpAcc: {"acc", 0, false, 0},
	OpIndex: {"index", 0, false, 0}, OpConst: {"const", 0, false, 0},
	OpAdd: {"add", 2, false, 0}, OpSub: {"sub", 2, false, 0}, OpMul: {"mul", 2, false, 0}, OpDiv: {"div", 2, false, 0},
	OpSqrt: {"sqrt", 1, false, 0}, OpFMA: {"fma", 3, false, 0}, OpFNMA: {"fnma", 3, false, 0},
	OpLesser: {"lesser", 2, false, 0}, OpGreater: {"greater", 2, false, 0},
	OpRound: {"round", 1, false, 0}, OpFloor: {"floor", 1, false, 0},
	OpCeil: {"ceil", 1, false, 0}, OpTrunc: {"trunc", 1, false, 0},
	OpFloat: {"float", 1, false, 0}, OpLdexp: {"ldexp", 2, false, 0},
	OpIAdd: {"iadd", 2, false, 0}, OpISub: {"isub", 2, false, 0},
	OpIMul: {"imul", 2, false, 0}, OpIMulHi: {"imulhi", 2, false, 0},
	OpAnd: {"and", 2, false, 0}, OpOr: {"or", 2, false, 0}, OpXor: {"xor", 2, false, 0},
	OpShl: {"shl", 1, false, 0}, OpShr: {"shr", 1, false, 0}, OpSar: {"sar", 1, false, 0},
	OpLookup: {"lookup", 1, false, 0},
	OpLT:     {"lt", 2, true, 0}, OpLE: {"le", 2, true, 0}, OpEQ: {"eq", 2, true, 0}, OpUnord: {"unord", 2, true, 0},
	OpILT:     {"ilt", 2, true, 0},
	OpMaskAnd: {"maskand", 2, true, 2}, OpMaskOr: {"maskor", 2, true, 2}, OpMaskNot: {"masknot", 1, true, 1},
	OpSelect: {"select", 3, false, 1},
}

// String returns the name of the primitive.
func (o Op) String() string {
	if o < numOps {
		return infos[o].name
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Args returns the number of operands.
func (o Op) Args() int { return infos[o].args }

// IsMask reports whether the result is a mask and not a 32-bit lane.
func (o Op) IsMask() bool { return infos[o].mask }

package tensor

// Operations on the bits of integers in two's complement. Operands are integers or bools and broadcast; the result has
// their common type.

var bitAndOp = pointwise{
	name: "bit_and", expr: "bitand(x, y)", args: "x y", result: integerType, lo: -99, hi: 99,
}.op()

// BitAnd is the bits that both have; x is t. It takes integers and bools and broadcasts.
func (t *Tensor) BitAnd(y *Tensor) *Tensor { return apply2(bitAndOp, t, y) }

var bitOrOp = pointwise{
	name: "bit_or", expr: "bitor(x, y)", args: "x y", result: integerType, lo: -99, hi: 99,
}.op()

// BitOr is the bits that one has; x is t. It takes integers and bools and broadcasts.
func (t *Tensor) BitOr(y *Tensor) *Tensor { return apply2(bitOrOp, t, y) }

var bitXorOp = pointwise{
	name: "bit_xor", expr: "bitxor(x, y)", args: "x y", result: integerType, lo: -99, hi: 99,
}.op()

// BitXor is the bits that exactly one has; x is t. It takes integers and bools and broadcasts.
func (t *Tensor) BitXor(y *Tensor) *Tensor { return apply2(bitXorOp, t, y) }

var bitNotOp = pointwise{
	name: "bit_not", expr: "bitxor(x, -1)", result: integerType, lo: -99, hi: 99,
}.op()

// BitNot is the bits that x, which is t, has not: -1-x in types with a sign, 255-x of uint8, [Tensor.Not] of bools. It
// takes integers and bools.
func (t *Tensor) BitNot() *Tensor {
	if t.given(bitNotOp.Name).dtype == Bool {
		return t.Not()
	}
	return apply1(bitNotOp, t)
}

var shiftLeftOp = pointwise{
	name: "shift_left", expr: "shl(x, n)", args: "x n", result: integerType, lo: -9, hi: 40,
}.op()

// ShiftLeft is x*2^n, bits beyond the type dropped, and 0 for negative n; x is t. It takes integers and broadcasts.
func (t *Tensor) ShiftLeft(n *Tensor) *Tensor { return t.bitShift(shiftLeftOp, n) }

var shiftRightOp = pointwise{
	name: "shift_right", expr: "shr(x, n)", args: "x n", result: integerType, lo: -9, hi: 40,
}.op()

// ShiftRight is the floor of x/2^n; for negative n, as for those beyond the type, it is -1 where x is negative, else 0;
// x is t. It takes integers and broadcasts.
func (t *Tensor) ShiftRight(n *Tensor) *Tensor { return t.bitShift(shiftRightOp, n) }

func (t *Tensor) bitShift(op *Op, n *Tensor) *Tensor {
	if t.given(op.Name).dtype == Bool && n.given(op.Name).dtype == Bool {
		fail(ErrDType, op.Name, "%v and %v hold bools, which have no bits; x.To(tensor.Uint8) converts", t, n)
	}
	return apply2(op, t, n)
}

package expr

import "math"

// Derivatives: adjoint rules of the instructions, and constructors that drop structural zeros and ones. Only
// derivatives are simplified, never the expression that was written.

func add(a, b *Node) *Node {
	switch {
	case a == nil || a.is(0):
		return b
	case b.is(0):
		return a
	case b.Op == Neg:
		return sub(a, b.X[0])
	case a.Op == Neg:
		return sub(b, a.X[0])
	case a.Op == Where && b.Op == Where && a.X[0] == b.X[0]: // the two halves of a choice
		if a.X[2].is(0) && b.X[1].is(0) {
			return where(a.X[0], a.X[1], b.X[2])
		}
		if a.X[1].is(0) && b.X[2].is(0) {
			return where(a.X[0], b.X[1], a.X[2])
		}
	}
	return apply(Add, a, b)
}

func sub(a, b *Node) *Node {
	if b.is(0) {
		return a
	}
	return apply(Sub, a, b)
}

func neg(a *Node) *Node {
	if a.Op == Neg {
		return a.X[0]
	}
	return apply(Neg, a)
}

func mul(a, b *Node) *Node {
	switch {
	case a.is(0) || b.is(0):
		return constant(0)
	case a.is(1):
		return b
	case b.is(1):
		return a
	case a.Op == Neg && b.Op == Neg:
		return mul(a.X[0], b.X[0])
	}
	return apply(Mul, a, b)
}

func div(a, b *Node) *Node {
	if a.is(0) || b.is(1) {
		return a
	}
	return apply(Div, a, b)
}

func pow(a, b *Node) *Node {
	switch {
	case b.is(0):
		return constant(1)
	case b.is(1):
		return a
	case b.is(2):
		return mul(a, a)
	}
	return apply(Pow, a, b)
}

func where(c, a, b *Node) *Node {
	if a == b {
		return a
	}
	return apply(Where, c, a, b)
}

func addAdjoint(n, g *Node) [3]*Node { return [3]*Node{g, g} }
func subAdjoint(n, g *Node) [3]*Node { return [3]*Node{g, neg(g)} }
func negAdjoint(n, g *Node) [3]*Node { return [3]*Node{neg(g)} }

func mulAdjoint(n, g *Node) [3]*Node {
	return [3]*Node{mul(g, n.X[1]), mul(g, n.X[0])}
}

func fmaAdjoint(n, g *Node) [3]*Node {
	return [3]*Node{mul(g, n.X[1]), mul(g, n.X[0]), g}
}

// d(a/b) = da/b - (a/b) db/b
func divAdjoint(n, g *Node) [3]*Node {
	q := div(g, n.X[1])
	return [3]*Node{q, neg(mul(q, n))}
}

// The remainder r = a - q*b has the slopes 1 and -q. The rounded a/b may be above q: (a - r)/b is next to
// it. Where there is no remainder, q is a/b.
func fmodAdjoint(n, g *Node) [3]*Node {
	r := where(apply(EQ, n, n), n, constant(0))
	return [3]*Node{g, neg(mul(g, apply(Round, div(sub(n.X[0], r), n.X[1]))))}
}

// |x|' = sign x, and 0 at 0.
func absAdjoint(n, g *Node) [3]*Node {
	zero := constant(0)
	return [3]*Node{mul(g, apply(Sub, apply(LT, zero, n.X[0]), apply(LT, n.X[0], zero)))}
}

// The smaller operand has the gradient; a tie is shared evenly.
func minAdjoint(n, g *Node) [3]*Node {
	a, b := n.X[0], n.X[1]
	return [3]*Node{unlessLess(b, a, g), unlessLess(a, b, g)}
}

func maxAdjoint(n, g *Node) [3]*Node {
	a, b := n.X[0], n.X[1]
	return [3]*Node{unlessLess(a, b, g), unlessLess(b, a, g)}
}

// unlessLess is 0 where a < b, g/2 where a = b and else g.
func unlessLess(a, b, g *Node) *Node {
	shared := where(apply(EQ, a, b), mul(constant(0.5), g), g)
	return where(apply(LT, a, b), constant(0), shared)
}

func whereAdjoint(n, g *Node) [3]*Node {
	zero := constant(0)
	return [3]*Node{nil, where(n.X[0], g, zero), where(n.X[0], zero, g)}
}

func expAdjoint(n, g *Node) [3]*Node  { return [3]*Node{mul(g, n)} }
func exp2Adjoint(n, g *Node) [3]*Node { return [3]*Node{mul(g, mul(constant(math.Ln2), n))} }

// Where e^x - 1 is next to -1, the result no longer has e^x.
func expm1Adjoint(n, g *Node) [3]*Node { return [3]*Node{mul(g, apply(Exp, n.X[0]))} }

func logAdjoint(n, g *Node) [3]*Node   { return [3]*Node{div(g, n.X[0])} }
func log2Adjoint(n, g *Node) [3]*Node  { return [3]*Node{div(g, mul(n.X[0], constant(math.Ln2)))} }
func log10Adjoint(n, g *Node) [3]*Node { return [3]*Node{div(g, mul(n.X[0], constant(math.Ln10)))} }
func log1pAdjoint(n, g *Node) [3]*Node { return [3]*Node{div(g, add(n.X[0], constant(1)))} }

// d(a^b) = b a^(b-1) da + a^b log a db. The first term is 0 where b = 0, also if 1/a is too large or NaN, and the
// second where a = 0 <= b; a negative base has no derivative in the exponent: its logarithm is NaN.
func powAdjoint(n, g *Node) [3]*Node {
	a, b := n.X[0], n.X[1]
	zero := constant(0)
	base := a
	if b.Op != Const {
		small := apply(EQ, apply(LE, constant(0x1p-126), apply(Abs, a)), zero)
		base = where(mul(apply(EQ, b, zero), small), constant(1), a)
	}
	da := mul(g, mul(b, pow(base, sub(b, constant(1)))))
	if b.is(0) {
		da = nil
	}
	flat := mul(apply(EQ, a, zero), apply(LE, zero, b))
	return [3]*Node{da, where(flat, zero, mul(g, mul(n, apply(Log, a))))}
}

func sqrtAdjoint(n, g *Node) [3]*Node { return [3]*Node{div(mul(constant(0.5), g), n)} }

// (x^-1/2)' = -1/2 (x^-1/2)^3
func rsqrtAdjoint(n, g *Node) [3]*Node {
	return [3]*Node{mul(mul(constant(-0.5), g), mul(n, mul(n, n)))}
}

func sinAdjoint(n, g *Node) [3]*Node { return [3]*Node{mul(g, apply(Cos, n.X[0]))} }
func cosAdjoint(n, g *Node) [3]*Node { return [3]*Node{neg(mul(g, apply(Sin, n.X[0])))} }
func tanAdjoint(n, g *Node) [3]*Node { return [3]*Node{mul(g, add(mul(n, n), constant(1)))} }

// asin' x = 1/sqrt(1 - x^2)
func asinAdjoint(n, g *Node) [3]*Node {
	return [3]*Node{div(g, apply(Sqrt, sub(constant(1), mul(n.X[0], n.X[0]))))}
}

func acosAdjoint(n, g *Node) [3]*Node { return [3]*Node{neg(asinAdjoint(n, g)[0])} }

// atan' x = 1/(1 + x^2)
func atanAdjoint(n, g *Node) [3]*Node {
	return [3]*Node{div(g, add(mul(n.X[0], n.X[0]), constant(1)))}
}

func sinhAdjoint(n, g *Node) [3]*Node { return [3]*Node{mul(g, apply(Cosh, n.X[0]))} }
func coshAdjoint(n, g *Node) [3]*Node { return [3]*Node{mul(g, apply(Sinh, n.X[0]))} }

// tanh' = 1 - tanh^2
func tanhAdjoint(n, g *Node) [3]*Node { return [3]*Node{saturate(g, sub(constant(1), mul(n, n)))} }

// saturate is g*slope for a function that levels off. A product g, such as the x of x*sigmoid(x) times the gradient,
// may have overflowed where the slope is 0: that is 0, not NaN.
func saturate(g, slope *Node) *Node {
	if g.Op == Mul {
		g = where(apply(EQ, slope, constant(0)), constant(0), g)
	}
	return mul(g, slope)
}

// asinh' x = 1/sqrt(x^2 + 1)
func asinhAdjoint(n, g *Node) [3]*Node {
	return [3]*Node{div(g, apply(Sqrt, add(mul(n.X[0], n.X[0]), constant(1))))}
}

// acosh' x = 1/sqrt(x^2 - 1)
func acoshAdjoint(n, g *Node) [3]*Node {
	return [3]*Node{div(g, apply(Sqrt, sub(mul(n.X[0], n.X[0]), constant(1))))}
}

// atanh' x = 1/(1 - x^2)
func atanhAdjoint(n, g *Node) [3]*Node {
	return [3]*Node{div(g, sub(constant(1), mul(n.X[0], n.X[0])))}
}

// erf' x = 2/sqrt(pi) exp(-x^2)
func erfAdjoint(n, g *Node) [3]*Node {
	bell := apply(Exp, neg(mul(n.X[0], n.X[0])))
	return [3]*Node{mul(g, mul(constant(2/math.SqrtPi), bell))}
}

func erfcAdjoint(n, g *Node) [3]*Node { return [3]*Node{neg(erfAdjoint(n, g)[0])} }

func normPDFAdjoint(n, g *Node) [3]*Node { return [3]*Node{neg(mul(g, mul(n.X[0], n)))} }
func normCDFAdjoint(n, g *Node) [3]*Node { return [3]*Node{saturate(g, apply(NormPDF, n.X[0]))} }

// sigmoid' = sigmoid (1 - sigmoid)
func sigmoidAdjoint(n, g *Node) [3]*Node {
	return [3]*Node{saturate(g, mul(n, sub(constant(1), n)))}
}

// A cast rounds the gradient on its way back, too.
func bf16Adjoint(n, g *Node) [3]*Node { return [3]*Node{apply(BF16, g)} }
func f16Adjoint(n, g *Node) [3]*Node  { return [3]*Node{apply(F16, g)} }

// gradient is the adjoint of Arg(i) below root for the adjoint g of root, by the chain rule over the shared
// expression; nil if it is zero everywhere.
func gradient(root *Node, i int, g *Node) *Node {
	order := Order(root)
	reaches := map[*Node]bool{} // nodes through which a derivative can reach the argument
	for _, n := range order {
		reaches[n] = n.Op == Arg && n.K == i
		if instructions[n.Op].adjoint == nil {
			continue
		}
		for _, x := range n.Operands() {
			reaches[n] = reaches[n] || reaches[x]
		}
	}
	if !reaches[root] {
		return nil
	}
	adjoints := map[*Node]*Node{root: g}
	for at := len(order) - 1; at >= 0; at-- {
		n := order[at]
		if !reaches[n] || adjoints[n] == nil || n.Op == Arg {
			continue
		}
		if r, xs := ruleOf(n); r != nil {
			for j, x := range xs {
				if reaches[x] {
					adjoints[x] = add(adjoints[x], r.adjoint(j, xs, adjoints[n]))
				}
			}
			continue
		}
		for j, d := range instructions[n.Op].adjoint(n, adjoints[n]) {
			if d != nil && !d.is(0) && reaches[n.X[j]] {
				adjoints[n.X[j]] = add(adjoints[n.X[j]], d)
			}
		}
	}
	return adjoints[argument(i)]
}

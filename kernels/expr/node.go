package expr

import (
	"math"
	"weak"

	"github.com/weft-ml/weft/internal/weaktable"
)

// Node is one operation of an expression. Nodes are immutable and hash-consed: equal mathematics, as written, is one
// node, so comparing pointers compares expressions and common subexpressions are shared by construction.
type Node struct {
	Op Op
	K  int      // number of the argument, parameter or random stream
	C  float64  // value of a constant
	X  [3]*Node // operands; the first Op.Arity() are set

	truth bool // always 0 or 1
}

// Operands are the nodes that n is computed from.
func (n *Node) Operands() []*Node { return n.X[:n.Op.Arity()] }

type nodeKey struct {
	op   Op
	k    int
	bits uint64 // of the constant: -0 is not 0, and a NaN equals itself
	x    [3]weak.Pointer[Node]
}

// nodes are those in use. The keys do not hold the operands, so that an expression is collected as a whole.
var nodes weaktable.Table[nodeKey, Node]

func intern(n Node) *Node {
	key := nodeKey{op: n.Op, k: n.K, bits: math.Float64bits(n.C)}
	for i, x := range n.Operands() {
		key.x[i] = weak.Make(x)
	}
	n.truth = n.isTruth()
	node, _ := nodes.Get(key, func() (*Node, error) { return &n, nil })
	return node
}

// isTruth tells whether n, whose operands are interned, is seen to be always 0 or 1.
func (n *Node) isTruth() bool {
	switch n.Op {
	case LT, LE, EQ:
		return true
	case Mul, Max: // what && and || make
		return n.X[0].truth && n.X[1].truth
	}
	return n.is(0) || n.is(1)
}

func argument(k int) *Node        { return intern(Node{Op: Arg, K: k}) }
func parameter(k int) *Node       { return intern(Node{Op: Param, K: k}) }
func random(k int) *Node          { return intern(Node{Op: Rand, K: k}) }
func (n *Node) is(v float64) bool { return n.Op == Const && n.C == v }

func constant(v float64) *Node {
	if v != v {
		v = math.NaN() // all NaNs are one
	}
	return intern(Node{Op: Const, C: v})
}

// apply makes op(x...). Nothing is simplified: x*0 is a test for finiteness and x+0 turns -0 into 0. Only an operation
// on constants alone becomes a constant, computed in float64 here and nowhere else, so that all devices agree; bits of
// integers are not, of which float64 has 53.
func apply(op Op, x ...*Node) *Node {
	n := Node{Op: op}
	folds := op.Float()
	var v [3]float64
	for i, a := range x {
		n.X[i], v[i] = a, a.C
		folds = folds && a.Op == Const
	}
	if folds {
		return constant(op.Eval(v[0], v[1], v[2]))
	}
	return intern(n)
}

// Order lists the nodes below the roots, each once, operands first.
func Order(roots ...*Node) []*Node {
	var order []*Node
	seen := map[*Node]bool{}
	var visit func(n *Node)
	visit = func(n *Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, x := range n.Operands() {
			visit(x)
		}
		order = append(order, n)
	}
	for _, r := range roots {
		visit(r)
	}
	return order
}

// substitute rebuilds the expression below root with the nodes in with replaced. It does not simplify.
func substitute(root *Node, with map[*Node]*Node) *Node {
	done := map[*Node]*Node{}
	var visit func(n *Node) *Node
	visit = func(n *Node) *Node {
		if r := with[n]; r != nil {
			return r
		}
		if r := done[n]; r != nil {
			return r
		}
		r := n
		if k := n.Op.Arity(); k > 0 {
			c := *n
			for i, x := range n.Operands() {
				c.X[i] = visit(x)
			}
			r = intern(c)
		}
		done[n] = r
		return r
	}
	return visit(root)
}

package expr

import (
	"fmt"
	"go/token"
	"math"
	"strconv"
	"strings"
)

// String writes the function in the language of [New], which reads the same roots from it. Values that are used more
// than once become definitions.
func (f *Func) String() string { return strings.Join(f.statements(), "; ") }

// statements are the definitions and then the results.
func (f *Func) statements() []string {
	f.prepare()
	uses := map[*Node]int{}
	for _, n := range f.order {
		for _, x := range n.Operands() {
			uses[x]++
		}
	}
	for _, r := range f.Roots {
		uses[r]++
	}

	names := map[*Node]string{}
	var lines []string
	for _, n := range f.order {
		if n.Op.Arity() == 0 || uses[n] < 2 {
			continue
		}
		text := f.text(n, names, token.LowestPrec)
		names[n] = fresh(fmt.Sprintf("t%d", len(names)), f.Args, f.Params)
		lines = append(lines, names[n]+" = "+text)
	}
	for _, r := range f.Roots {
		lines = append(lines, f.text(r, names, token.LowestPrec))
	}
	return lines
}

// operators are the instructions that have one in Go.
var operators = map[Op]token.Token{
	Add: token.ADD, Sub: token.SUB, Mul: token.MUL, Div: token.QUO,
	LT: token.LSS, LE: token.LEQ, EQ: token.EQL,
}

// text writes n, in parentheses if its operator binds less tightly than outer.
func (f *Func) text(n *Node, names map[*Node]string, outer int) string {
	if name := names[n]; name != "" {
		return name
	}
	switch n.Op {
	case Arg:
		return f.Args[n.K]
	case Param:
		return f.Params[n.K]
	case Rand:
		return fmt.Sprintf("rand(%d)", n.K)
	case Const:
		return constantText(n.C)
	case Neg:
		x := f.text(n.X[0], names, token.UnaryPrec)
		if x[0] == '-' { // two signs in a row are another token
			return "-(" + x + ")"
		}
		return "-" + x
	}
	if op, ok := operators[n.Op]; ok {
		left, right := op.Precedence(), op.Precedence()+1
		if left == token.EQL.Precedence() { // comparisons do not chain
			left++
		}
		s := f.text(n.X[0], names, left) + " " + op.String() + " " + f.text(n.X[1], names, right)
		if op.Precedence() < outer {
			return "(" + s + ")"
		}
		return s
	}
	var xs []string
	for _, x := range n.Operands() {
		xs = append(xs, f.text(x, names, token.LowestPrec))
	}
	return n.Op.String() + "(" + strings.Join(xs, ", ") + ")"
}

func constantText(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

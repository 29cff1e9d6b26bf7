package expr

import (
	"fmt"
	"go/token"
	"math"
	"slices"
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
		text := f.text(n, names)
		names[n] = fresh(fmt.Sprintf("t%d", len(names)), f.Args, f.Params)
		lines = append(lines, names[n]+" = "+text)
	}
	for _, r := range f.Roots {
		lines = append(lines, f.text(r, names))
	}
	return lines
}

// text is n as an expression of the nodes that have names.
func (f *Func) text(n *Node, names map[*Node]string) string {
	return string(f.appendText(nil, n, names, token.LowestPrec))
}

// operators are the instructions that have one in Go.
var operators = map[Op]token.Token{
	Add: token.ADD, Sub: token.SUB, Mul: token.MUL, Div: token.QUO,
	LT: token.LSS, LE: token.LEQ, EQ: token.EQL,
}

// appendText appends n, in parentheses if its operator binds less tightly than outer.
func (f *Func) appendText(to []byte, n *Node, names map[*Node]string, outer int) []byte {
	if name := names[n]; name != "" {
		return append(to, name...)
	}
	switch n.Op {
	case Arg:
		return append(to, f.Args[n.K]...)
	case Param:
		return append(to, f.Params[n.K]...)
	case Rand:
		return fmt.Appendf(to, "rand(%d)", n.K)
	case Const:
		return append(to, constantText(n.C)...)
	case Neg:
		to = append(to, '-')
		at := len(to)
		if to = f.appendText(to, n.X[0], names, token.UnaryPrec); to[at] == '-' { // two signs are another token
			to = append(slices.Insert(to, at, '('), ')')
		}
		return to
	}
	if op, ok := operators[n.Op]; ok {
		left, right := op.Precedence(), op.Precedence()+1
		if left == token.EQL.Precedence() { // comparisons do not chain
			left++
		}
		nested := op.Precedence() < outer
		if nested {
			to = append(to, '(')
		}
		to = f.appendText(to, n.X[0], names, left)
		to = append(append(append(to, ' '), op.String()...), ' ')
		to = f.appendText(to, n.X[1], names, right)
		if nested {
			to = append(to, ')')
		}
		return to
	}
	to = append(append(to, n.Op.String()...), '(')
	for i, x := range n.Operands() {
		if i > 0 {
			to = append(to, ", "...)
		}
		to = f.appendText(to, x, names, token.LowestPrec)
	}
	return append(to, ')')
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

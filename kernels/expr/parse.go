package expr

import (
	"fmt"
	"go/scanner"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"
)

// SyntaxError says what is wrong with an expression and where.
type SyntaxError struct {
	Src       string
	Line, Col int // from 1; the column counts bytes
	Msg       string
}

// Error is a message such as: expression "relu(z)": 1:6: no operand z; there are x.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("expression %q: %d:%d: %s", e.Src, e.Line, e.Col, e.Msg)
}

// maxNesting bounds the parser's recursion.
const maxNesting = 250

type lexeme struct {
	offset int
	tok    token.Token
	lit    string
}

// A parser turns the text of a function into nodes, by recursive descent.
type parser struct {
	src     string
	tokens  []lexeme // ends with EOF
	at      int      // of the current token
	nesting int

	vars    map[string]*Node // arguments, parameters and definitions
	known   []string         // their names in order
	defined map[string]int   // where the definitions are that were not used yet
}

var constants = map[string]float64{"pi": math.Pi, "inf": math.Inf(1), "nan": math.NaN()}

func parse(src string, args, params []string) (roots []*Node, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *SyntaxError:
			roots, err = nil, e
		default:
			panic(e)
		}
	}()
	p := newParser(src)
	for i, name := range args {
		p.bind(0, name, argument(i))
	}
	for i, name := range params {
		p.bind(0, name, parameter(i))
	}
	return p.program(), nil
}

func newParser(src string) *parser {
	p := &parser{src: src, vars: map[string]*Node{}, defined: map[string]int{}}
	file := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, []byte(src), func(at token.Position, msg string) { p.fail(at.Offset, "%s", msg) }, 0)
	open := 0 // parentheses: line breaks inside them mean nothing
	for {
		pos, tok, lit := s.Scan()
		switch tok {
		case token.LPAREN:
			open++
		case token.RPAREN:
			open--
		case token.SEMICOLON:
			if lit == "\n" && open > 0 {
				continue
			}
		}
		p.tokens = append(p.tokens, lexeme{file.Offset(pos), tok, lit})
		if tok == token.EOF {
			return p
		}
	}
}

// fail leaves the parser; parse catches it.
func (p *parser) fail(offset int, format string, a ...any) {
	before := p.src[:min(offset, len(p.src))]
	panic(&SyntaxError{
		Src:  p.src,
		Line: 1 + strings.Count(before, "\n"),
		Col:  len(before) - strings.LastIndexByte(before, '\n'),
		Msg:  fmt.Sprintf(format, a...),
	})
}

// bind gives a name its meaning.
func (p *parser) bind(offset int, name string, n *Node) {
	switch _, isConstant := constants[name]; {
	case !token.IsIdentifier(name):
		p.fail(offset, "%q cannot be the name of an operand", name)
	case isConstant:
		p.fail(offset, "%s is a number and cannot be the name of an operand", name)
	case p.vars[name] != nil:
		p.fail(offset, "%s is defined twice", name)
	}
	p.vars[name] = n
	p.known = append(p.known, name)
}

func (p *parser) peek() lexeme { return p.tokens[p.at] }
func (p *parser) next() lexeme {
	t := p.tokens[p.at]
	if t.tok != token.EOF {
		p.at++
	}
	return t
}

func (p *parser) expect(tok token.Token) {
	if t := p.next(); t.tok != tok {
		p.fail(t.offset, "found %v, want %q", t, tok)
	}
}

// String describes the token for an error.
func (t lexeme) String() string {
	switch {
	case t.tok == token.EOF:
		return "the end"
	case t.tok == token.SEMICOLON && t.lit == "\n":
		return "the end of the line"
	case t.lit != "":
		return strconv.Quote(t.lit)
	}
	return strconv.Quote(t.tok.String())
}

// program = statement { ";" statement }, with at least one result.
func (p *parser) program() (roots []*Node) {
	for p.peek().tok != token.EOF {
		switch {
		case p.peek().tok == token.SEMICOLON: // an empty statement
		case p.peek().tok == token.IDENT && p.tokens[p.at+1].tok == token.ASSIGN:
			p.definition()
		default:
			roots = append(roots, p.expression())
		}
		if p.peek().tok != token.EOF {
			p.expect(token.SEMICOLON)
		}
	}
	for name, offset := range p.defined {
		p.fail(offset, "%s is defined but not used", name)
	}
	if len(roots) == 0 {
		p.fail(len(p.src), "there is no result")
	}
	return roots
}

// definition = name "=" expression.
func (p *parser) definition() {
	name := p.next()
	p.expect(token.ASSIGN)
	n := p.expression() // before the name is known: it cannot use itself
	p.bind(name.offset, name.lit, n)
	p.defined[name.lit] = name.offset
}

func (p *parser) expression() *Node { return p.binary(1) }

// binary = unary { operator unary }, with operators that bind at least as tightly as the given precedence of Go.
func (p *parser) binary(precedence int) *Node {
	a := p.unary()
	compared := false
	for {
		op := p.peek()
		if op.tok.Precedence() < precedence {
			return a
		}
		p.next()
		if op.tok.Precedence() == token.EQL.Precedence() {
			if compared {
				p.fail(op.offset, "%v compares the result of a comparison; write a < b && b < c", op)
			}
			compared = true
		}
		b := p.binary(op.tok.Precedence() + 1)
		a = p.operator(op, a, b)
	}
}

func (p *parser) operator(op lexeme, a, b *Node) *Node {
	for instruction, tok := range operators {
		if tok == op.tok {
			return apply(instruction, a, b)
		}
	}
	switch op.tok {
	case token.GTR:
		return apply(LT, b, a)
	case token.GEQ:
		return apply(LE, b, a)
	case token.NEQ:
		return not(apply(EQ, a, b))
	case token.LAND:
		return apply(Mul, boolean(a), boolean(b))
	case token.LOR:
		return apply(Max, boolean(a), boolean(b))
	}
	p.fail(op.offset, "found %v, which is not an operator here; there are || && == != < <= > >= + - * /", op)
	return nil
}

// not is 1 where a is 0, else 0.
func not(a *Node) *Node { return apply(EQ, a, constant(0)) }

// boolean is a if its value is always 0 or 1, else a != 0.
func boolean(a *Node) *Node {
	if a.truth {
		return a
	}
	return not(not(a))
}

// unary = ("-" | "!") unary | operand.
func (p *parser) unary() *Node {
	p.nesting++
	if p.nesting > maxNesting {
		p.fail(p.peek().offset, "nested more than %d deep", maxNesting)
	}
	defer func() { p.nesting-- }()
	switch t := p.peek(); t.tok {
	case token.SUB:
		p.next()
		return apply(Neg, p.unary())
	case token.NOT:
		p.next()
		return not(p.unary())
	}
	return p.operand()
}

// operand = number | name | name "(" [ expression { "," expression } ] ")" | "(" expression ")".
func (p *parser) operand() *Node {
	t := p.next()
	switch t.tok {
	case token.INT, token.FLOAT:
		v, err := strconv.ParseFloat(t.lit, 64)
		if err != nil && t.tok == token.INT { // 0x10 and 1_000 are integers to ParseInt alone
			var i int64
			i, err = strconv.ParseInt(t.lit, 0, 64)
			v = float64(i)
		}
		if err != nil {
			p.fail(t.offset, "%s is not a float64", t.lit)
		}
		return constant(v)
	case token.LPAREN:
		n := p.expression()
		p.expect(token.RPAREN)
		return n
	case token.IDENT:
		if p.peek().tok == token.LPAREN {
			return p.call(t)
		}
		return p.name(t)
	}
	p.fail(t.offset, "found %v, want a number, a name or \"(\"", t)
	return nil
}

func (p *parser) name(t lexeme) *Node {
	if n := p.vars[t.lit]; n != nil {
		delete(p.defined, t.lit)
		return n
	}
	if v, ok := constants[t.lit]; ok {
		return constant(v)
	}
	if xs, ok := namesOfOperands(t.lit); ok {
		p.fail(t.offset, "%s is a function; call it as %s(%s)", t.lit, t.lit, strings.Join(xs, ", "))
	}
	known := append(slices.Clone(p.known), "pi", "inf", "nan")
	p.fail(t.offset, "no operand %s; there are %s", t.lit, strings.Join(known, ", "))
	return nil
}

func (p *parser) call(t lexeme) *Node {
	p.expect(token.LPAREN)
	xs := p.operands()

	if t.lit == "rand" {
		return p.rand(t, xs)
	}
	want, ok := namesOfOperands(t.lit)
	if !ok {
		p.fail(t.offset, "no function %s; there are %s", t.lit, strings.Join(functionNames(), ", "))
	}
	if len(xs) != len(want) {
		p.fail(t.offset, "%s takes %d operands, found %d; call it as %s(%s)", t.lit, len(want), len(xs), t.lit,
			strings.Join(want, ", "))
	}
	if op, ok := lookup(t.lit); ok {
		return apply(op, xs...)
	}
	return expand(t.lit, xs)
}

// operands = [ expression { "," expression } [ "," ] ] ")".
func (p *parser) operands() (xs []*Node) {
	for p.peek().tok != token.RPAREN {
		xs = append(xs, p.expression())
		switch t := p.peek(); t.tok {
		case token.COMMA:
			p.next()
		case token.RPAREN:
		default:
			p.fail(t.offset, "found %v, want \",\" or \")\"", t)
		}
	}
	p.next()
	return xs
}

func (p *parser) rand(t lexeme, xs []*Node) *Node {
	if len(xs) == 0 {
		return random(0)
	}
	k := xs[0]
	if len(xs) > 1 || k.Op != Const || k.C < 0 || k.C >= MaxStreams || k.C != math.Trunc(k.C) {
		p.fail(t.offset, "rand takes the number of a random stream, from 0 to %d", MaxStreams-1)
	}
	return random(int(k.C))
}

package tensor

import (
	"slices"
	"sync"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// resultType is the rule for the type of a pointwise result.
type resultType uint8

const (
	sameType  resultType = iota // the operands' common type
	floatType                   // that, but float32 for integers and booleans
	boolType
)

// pointwise enters a row that is its expression. The operands' names are single letters; lo and hi
// bound the operands in tests, away from poles and kinks.
func pointwise(o *Op, name, src, args string, params []string, result resultType, lo, hi float64) {
	row := Op{Doc: src, result: result, lo: lo, hi: hi}
	row.Name = name
	for _, a := range args {
		row.Args = append(row.Args, string(a))
	}
	row.Expr = expr.Must(src, row.Args, params)
	row.Approximate = slices.Contains(approximate, name)
	row.setPointwise()
	if result == boolType {
		row.VJP, row.NoGrad = nil, "the result is a truth value"
	}
	define(o, row)
}

// approximate are the operations that, with their gradients, may be approximate in half precision: activations whose
// functions take longer than their bytes.
var approximate = []string{"tanh", "sigmoid", "gelu", "gelu_tanh", "silu"}

func (o *Op) setPointwise() {
	o.Shape, o.VJP = pointwiseShape, pointwiseVJP
	row := o.Op
	o.pulls = sync.OnceValue(func() []pull { return pullbacks(&row) })
	for _, n := range o.Expr.Order() {
		if n.Op == expr.Rand {
			o.draws = max(o.draws, n.K+1)
		}
	}
}

// Pointwise makes an operation from an expression over its operands, such as
//
//	swish, err := tensor.Pointwise("swish", "x*sigmoid(beta*x)", []string{"x"}, "beta")
//	y := tensor.Apply(swish, []*tensor.Tensor{x}, nil, []float64{1.5})
//
// Package expr describes the language. Operands broadcast; derivatives of any order follow from the
// expression. Several results, separated by semicolons, are for [Scope.Update].
func Pointwise(name, src string, args []string, params ...string) (*Op, error) {
	f, err := expr.New(src, args, params)
	if err != nil {
		return nil, kernels.Errorf(ErrValue, name, "%v", err)
	}
	o := &Op{Doc: src, Args: args, result: floatType}
	o.Name, o.Expr = name, f
	o.setPointwise()
	return o, nil
}

// MustPointwise is [Pointwise] for operations kept in variables: it panics where Pointwise returns an error.
func MustPointwise(name, src string, args []string, params ...string) *Op {
	o, err := Pointwise(name, src, args, params...)
	if err != nil {
		panic(err)
	}
	return o
}

func pointwiseShape(c *Ctx) {
	if want := len(c.Op.Expr.Args); len(c.In) != want || len(c.Floats) != len(c.Op.Expr.Params) {
		c.Fail(ErrValue, "takes %d tensors and %d numbers, got %d and %d", want, len(c.Op.Expr.Params), len(c.In), len(c.Floats))
	}
	shape := c.In[0].layout.Shape
	for _, x := range c.In[1:] {
		if !slices.Equal(shape, x.layout.Shape) {
			shape = broadcast(c.Op.Name, shape, x.layout.Shape)
		}
	}
	c.result(c.Op.resultOf(c.In), shape)
}

// resultOf is the type of a pointwise result.
func (o *Op) resultOf(in []*Tensor) DType {
	if o.result == boolType {
		return Bool
	}
	if o == &whereOp { // the condition has no say
		in = in[1:]
	}
	dt := promote(in)
	if o.result == floatType && !dt.IsFloat() {
		return Float32
	}
	return dt
}

// broadcast is the common shape of two operands: axes are aligned at the end, and one of size 1 repeats.
func broadcast(op string, a, b []int) []int {
	n := max(len(a), len(b))
	shape := make([]int, n)
	for i := range shape {
		x, y := 1, 1
		if j := i - n + len(a); j >= 0 {
			x = a[j]
		}
		if j := i - n + len(b); j >= 0 {
			y = b[j]
		}
		if x != y && x != 1 && y != 1 {
			Fail(ErrShape, op, "shapes %v and %v do not broadcast: axis %d from the end has %d and %d", a, b, n-i, x, y)
		}
		if shape[i] = x; x == 1 {
			shape[i] = y
		}
	}
	return shape
}

// pull is the derivative for one operand: itself a pointwise row, so derivatives of any order exist.
type pull struct {
	op   *Op // nil: no gradient
	uses []int
}

func pullbacks(o *kernels.Op) (pulls []pull) {
	for i, arg := range o.Expr.Args {
		p := o.Expr.Pullback(i)
		if p.Func == nil {
			pulls = append(pulls, pull{})
			continue
		}
		d := &Op{Doc: p.Func.Src, Args: p.Func.Args}
		d.Name, d.Expr = o.Name+"_grad_"+arg, p.Func
		d.setPointwise()
		d.Approximate = o.Approximate // but not its own derivatives
		pulls = append(pulls, pull{d, p.Uses})
	}
	return pulls
}

// saves is what the gradient of operand i reads.
func (o *Op) saves(i int) (set Saves) {
	if o.pulls == nil { // the row has its own VJP
		if i < len(o.Saves) {
			set = o.Saves[i]
		}
		return set
	}
	n := len(o.Expr.Args)
	for _, k := range o.pulls()[i].uses {
		switch {
		case k < n:
			set |= SaveIn(k)
		case k == n+1:
			set |= SaveOut(0)
		}
	}
	return set
}

func pointwiseVJP(c *Ctx, g *Tensor) []*Tensor {
	grads := make([]*Tensor, len(c.In))
	n := len(c.In)
	for i, p := range c.Op.pulls() {
		x := c.In[i]
		if p.op == nil || !x.needs {
			continue
		}
		in := make([]*Tensor, len(p.uses))
		for j, k := range p.uses {
			switch {
			case k < n:
				in[j] = c.In[k]
			case k == n:
				in[j] = g
			default:
				in[j] = c.Out[0]
			}
		}
		if e := p.op.Expr.Roots[0]; e.Op == expr.Arg { // the gradient passes through
			grads[i] = in[e.K].SumTo(x.layout.Shape...)
			continue
		}
		d := c.derivative(p.op, in)
		if !sameShape(d, c.Out[0]) { // no operand of the derivative had the full shape
			d = d.Expand(c.Out[0].layout.Shape...)
		}
		grads[i] = d.SumTo(x.layout.Shape...)
	}
	return grads
}

// derivative applies op, which draws the random numbers that c drew.
func (c *Ctx) derivative(op *Op, in []*Tensor) *Tensor {
	if op.draws > 0 {
		defer func(outer *kernels.Random) { c.scope.replay = outer }(c.scope.replay)
		c.scope.replay = &c.random
	}
	return c.scope.apply(op, in, nil, c.Floats)
}

// SumTo undoes broadcasting: it sums over the axes that shape lacks or has with size 1.
func (t *Tensor) SumTo(shape ...int) *Tensor {
	if slices.Equal(t.layout.Shape, shape) {
		return t
	}
	lead := len(t.layout.Shape) - len(shape)
	if lead < 0 || !slices.Equal(broadcast("sum_to", t.layout.Shape, shape), t.layout.Shape) {
		Fail(ErrShape, "sum_to", "%v is not a broadcast of %v", t.layout.Shape, shape)
	}
	var axes []int
	for i, d := range t.layout.Shape {
		if i < lead || shape[i-lead] == 1 && d != 1 {
			axes = append(axes, i)
		}
	}
	return t.Sum(axes...).Reshape(shape...)
}

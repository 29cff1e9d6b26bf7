package tensor

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// resultType is the rule for the type of a pointwise result.
type resultType uint8

const (
	floatType resultType = iota // the operands' common type, but float32 for integers and bools
	sameType                    // the operands' common type
	boolType
	integerType // the operands' common type, integers or bools
)

// A pointwise literal is an operation of the table that is its expression. Kernels on all devices, derivatives, what
// they save, tests and documentation follow from it.
type pointwise struct {
	name    string
	expr    string     // in the language of package expr
	args    string     // names of the operands; x if empty
	scalars string     // names of the scalars
	result  resultType // rule for the result's type
	lo, hi  float64    // range of operands in tests, away from poles and kinks; -2 to 2 if both are 0

	condition bool           // the first operand is a condition, which does not affect the result's type
	cast      seam.CastClass // what autocast does with the operands
	instead   string         // what to use where autocast refuses the operation
	noGrad    string         // why there is no derivative

	// A GPU may compute it and its gradients approximately in half precision: for functions that take longer than
	// their bytes.
	approximate bool
	// The CPU has a kernel of the whole expression, and of each gradient, where the operands in uniform, and no others,
	// are one element, or one for each row, such as those of a channel: for operations whose instructions one by one
	// would pass over a chunk several times.
	fused   bool
	uniform string
}

// pointwiseOps are the operations made by pointwise literals. They are complete after init.
var pointwiseOps []*Op

// op makes the operation. It leaves to init what refers to methods, which refer back to the operation.
func (p pointwise) op() *Op {
	o := &Op{entry{
		Doc: p.expr, Args: strings.Fields(cmp.Or(p.args, "x")), Cast: p.cast, Instead: p.instead,
		result: p.result, condition: p.condition, lo: p.lo, hi: p.hi,
	}}
	if o.lo == 0 && o.hi == 0 {
		o.lo, o.hi = -2, 2
	}
	o.Name, o.Approximate, o.NoGrad = p.name, p.approximate, p.noGrad
	o.Expr = expr.Must(p.expr, o.Args, strings.Fields(p.scalars))
	if p.result == integerType {
		o.NoGrad = "the result is an integer"
	}
	if p.fused {
		fuse(o, strings.Fields(p.uniform))
	}
	pointwiseOps = append(pointwiseOps, o)
	return o
}

// fuse asks for kernels of an operation and, unless some of its operands are uniform, of the gradients that it has.
func fuse(o *Op, uniform []string) {
	o.Expr.Fuse(o.Name, uniform...)
	for i, arg := range o.Args {
		if d := o.Expr.Pullback(i); d.Func != nil && len(uniform) == 0 && o.NoGrad == "" {
			d.Func.Fuse(gradName(o.Name, arg))
		}
	}
}

func init() {
	for _, o := range pointwiseOps {
		o.setPointwise()
		if o.result == boolType {
			o.NoGrad = "the result is a bool"
		}
		if o.NoGrad != "" {
			o.VJP = nil
		}
		define(o, o.entry)
	}
}

// gradName is the name of the gradient for an operand.
func gradName(op, arg string) string { return op + "_grad_" + arg }

func (o *Op) setPointwise() {
	o.Floats = o.Expr.Params
	o.Shape, o.VJP = pointwiseShape, pointwiseVJP
	forward := o.Op
	o.pulls = sync.OnceValue(func() []pull { return pullbacks(&forward) })
	o.joint = sync.OnceValue(func() pull { return jointPullback(&forward) })
	for _, n := range o.Expr.Order() {
		if n.Op == expr.Rand {
			o.draws = max(o.draws, n.K+1)
		}
	}
}

// scalar applies an operation with scalar operands. Integer tensors take integers only, so that the result's type never
// depends on a scalar's value.
func (t *Tensor) scalar(op *Op, v ...float64) *Tensor {
	if op.result != floatType && t != nil && !t.dtype.IsFloat() {
		for _, a := range v {
			if a != math.Trunc(a) {
				fail(ErrValue, op.Name, "%v holds integers and %v is none; x.To(tensor.Float32) converts", t, a)
			}
		}
	}
	return apply(op, []*Tensor{t}, nil, v)
}

// Pointwise makes an operation from an expression over its operands, such as
//
//	swish, err := tensor.Pointwise("swish", "x*sigmoid(beta*x)", []string{"x"}, "beta")
//	y := swish.Call(x, 1.5)
//
// Package expr describes the language. Operands broadcast; derivatives of any order follow from the expression. Results
// are floating numbers, but those of expressions on bits, such as "bitand(x, 15)", integers.
func Pointwise(name, src string, args []string, params ...string) (*Op, error) {
	f, err := expr.New(src, args, params)
	if err != nil {
		e := kernels.Errorf(ErrValue, name, "%v", err)
		e.Site = caller.Site()
		return nil, e
	}
	result := floatType
	if slices.ContainsFunc(f.Order(), func(n *expr.Node) bool { return !n.Op.Float() }) {
		result = integerType
	}
	return newPointwise(name, f, result), nil
}

// newPointwise makes an operation that is not in the table.
func newPointwise(name string, f *expr.Func, result resultType) *Op {
	o := &Op{entry{Doc: f.Src, Args: f.Args, result: result}}
	o.Name, o.Expr = name, f
	o.setPointwise()
	o.setTakes()
	return o
}

// MustPointwise is [Pointwise] for operations kept in variables: it panics where Pointwise returns an error.
func MustPointwise(name, src string, args []string, params ...string) *Op {
	o, err := Pointwise(name, src, args, params...)
	if err != nil {
		panic(err)
	}
	return o
}

// guard is engine.Guard.
func (o *Op) guard(name string, old ...string) *Op {
	if o == nil || o.Expr == nil {
		fail(ErrValue, "guard", "the operation is nil, or not pointwise")
	}
	if len(old) != len(o.Expr.Roots) {
		fail(ErrValue, o.Name, "has %d results, got %d operands to keep: %q", len(o.Expr.Roots), len(old), old)
	}
	for _, x := range old {
		if !slices.Contains(o.Expr.Args, x) {
			fail(ErrValue, o.Name, "has no operand %q; there are %q", x, o.Expr.Args)
		}
	}
	return newPointwise(o.Name, o.Expr.Guard(name, old), o.result)
}

func pointwiseShape(c *ctx) {
	shape := c.In[0].layout.Shape
	for _, x := range c.In[1:] {
		if !slices.Equal(shape, x.layout.Shape) {
			shape = broadcast(c.Op.Name, shape, x.layout.Shape)
		}
	}
	for range c.Op.Expr.Roots {
		c.result(c.Op.resultOf(c.In), shape...)
	}
}

// resultOf is the type of a pointwise result.
func (o *Op) resultOf(in []*Tensor) DType {
	if o.result == boolType {
		return Bool
	}
	if o.condition {
		in = in[1:]
	}
	dt := promote(in)
	switch {
	case o.result == floatType && !dt.IsFloat():
		return Float32
	case o.result == integerType && dt.IsFloat():
		i := slices.IndexFunc(in, func(x *Tensor) bool { return x.dtype.IsFloat() })
		fail(ErrDType, o.Name, "%v must hold integers or bools; x.To(tensor.Int64) converts", in[i])
	}
	return dt
}

// broadcast is the common shape of two operands: axes are aligned at the end, and one of size 1 repeats.
func broadcast(op string, a, b []int) []int {
	shape := make([]int, max(len(a), len(b)))
	if i := broadcastTo(shape, a, b); i > 0 {
		fail(ErrShape, op, "shapes %v and %v do not broadcast: axis %d from the end has %d and %d",
			a, b, i, a[len(a)-i], b[len(b)-i])
	}
	return shape
}

// broadcastTo writes the common shape of a and b. If they have none, it returns the axis that differs, counted from 1
// at the end; else 0.
func broadcastTo(shape, a, b []int) (axis int) {
	for i := 1; i <= len(shape); i++ {
		x, y := 1, 1
		if i <= len(a) {
			x = a[len(a)-i]
		}
		if i <= len(b) {
			y = b[len(b)-i]
		}
		if x == 1 {
			x = y
		} else if y != 1 && x != y {
			return i
		}
		shape[len(shape)-i] = x
	}
	return 0
}

// pull is the derivative for one operand: itself a pointwise operation, so derivatives of any order exist.
type pull struct {
	op    *Op   // nil: no gradient
	uses  []int // its operands: those of the operation, then the gradient of the result, then the result
	saves saves // the same, without the gradient
}

func pullbacks(o *kernels.Op) (pulls []pull) {
	for i, arg := range o.Expr.Args {
		p := o.Expr.Pullback(i)
		if p.Func == nil {
			pulls = append(pulls, pull{})
			continue
		}
		d := newPointwise(gradName(o.Name, arg), p.Func, sameType)
		d.Approximate = o.Approximate // but not its own derivatives
		var set saves
		for _, k := range p.Uses {
			switch n := len(o.Expr.Args); {
			case k < n:
				set |= saveIn(k)
			case k == n+1:
				set |= saveOut(0)
			}
		}
		pulls = append(pulls, pull{d, p.Uses, set})
	}
	return pulls
}

// jointPullback is the derivatives for all operands as one operation, which itself has none.
func jointPullback(o *kernels.Op) (p pull) {
	f := o.Expr.JointPullback()
	if f.Func == nil {
		return p
	}
	p = pull{op: newPointwise(o.Name+"_grad", f.Func, sameType), uses: f.Uses}
	p.op.Approximate, p.op.NoGrad = o.Approximate, "it has several results"
	return p
}

// saves is what the gradient of operand i reads.
func (o *Op) saves(i int) (set saves) {
	if o.pulls != nil {
		return o.pulls()[i].saves
	}
	if i < len(o.Saves) { // the operation has its own VJP
		set = o.Saves[i]
	}
	return set
}

func pointwiseVJP(c *ctx, g *Tensor) []*Tensor {
	grads := make([]*Tensor, len(c.In))
	last := len(c.In) - 1
	for last > 0 && (!c.In[last].needs || c.Op.pulls()[last].op == nil) {
		last--
	}
	for i, x := range c.In[:last+1] {
		if x.needs {
			grads[i] = c.pull(i, g, i == last && !slices.Contains(grads, g))
		}
	}
	return grads
}

// operands are what p takes; the result of the operation has the gradient g.
func (p *pull) operands(c *ctx, g *Tensor) []*Tensor {
	in, n := make([]*Tensor, len(p.uses)), len(c.In)
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
	return in
}

// pull is the gradient of operand i of a pointwise operation, whose result has the gradient g; nil where there is none.
// Nobody reads g any more if it is spent.
func (c *ctx) pull(i int, g *Tensor, spent bool) *Tensor {
	p, x := c.Op.pulls()[i], c.In[i]
	if p.op == nil {
		return nil
	}
	in := p.operands(c, g)
	if e := p.op.Expr.Roots[0]; e.Op == expr.Arg { // the gradient passes through
		return in[e.K].SumTo(x.layout.Shape...)
	}
	if spent {
		c.scope.derived.spent = g
	}
	d := c.derivative(p.op, in)
	if !sameShape(d, c.Out[0]) { // no operand of the derivative had the full shape
		d = d.Expand(c.Out[0].layout.Shape...)
	}
	return d.SumTo(x.layout.Shape...)
}

// pullAll is engine.Pull.
func pullAll(op *Op, in []*Tensor, y, g *Tensor) []*Tensor {
	if op == nil || op.Expr == nil || len(op.Expr.Params) > 0 || op.draws > 0 {
		fail(ErrValue, "pull", "the operation is not pointwise, or has scalars or draws random numbers")
	}
	op.wantTakes(in, nil, nil)
	for _, t := range append([]*Tensor{y, g}, in...) {
		t.usable(op.Name)
	}
	c := &ctx{}
	c.set(op, g.scope, in, nil, nil)
	c.Out = append(c.Out, y)
	differs := func(x *Tensor) bool { return !sameShape(x, g) }
	if p := op.joint(); len(in) > 1 && p.op != nil && !g.scope.recording() && !slices.ContainsFunc(in, differs) {
		return g.scope.applyAll(p.op, p.operands(c, g), nil, nil)
	}
	grads := make([]*Tensor, len(in))
	for i := range in {
		grads[i] = c.pull(i, g, false)
	}
	return grads
}

// derivative applies op, which draws the random numbers that c drew.
func (c *ctx) derivative(op *Op, in []*Tensor) *Tensor {
	if op.draws > 0 {
		defer func(outer *kernels.Random) { c.scope.replay = outer }(c.scope.replay)
		c.scope.replay = &c.random
	}
	return c.scope.apply(op, in, nil, c.Floats)
}

// SumTo undoes broadcasting: it sums over the axes that shape lacks or has with size 1.
func (t *Tensor) SumTo(shape ...int) *Tensor {
	t.given("sum_to")
	if slices.Equal(t.layout.Shape, shape) {
		return t
	}
	lead := len(t.layout.Shape) - len(shape)
	if lead < 0 || !slices.Equal(broadcast("sum_to", t.layout.Shape, shape), t.layout.Shape) {
		fail(ErrShape, "sum_to", "%v is not a broadcast of %v", t.layout.Shape, shape)
	}
	var axes []int
	for i, d := range t.layout.Shape {
		if i < lead || shape[i-lead] == 1 && d != 1 {
			axes = append(axes, i)
		}
	}
	return t.Sum(axes...).Reshape(shape...)
}

package tensor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
)

// Op is an operation made by [Pointwise].
type Op struct{ entry }

// entry is what the table has of an operation, from which dispatch, differentiation, tests, benchmarks and
// documentation are derived. Pointwise operations need little more than their expression.
type entry struct {
	kernels.Op
	Doc  string   // one line of mathematics
	Args []string // names of the tensor operands; x alone if nil
	// Ints and Floats name the attributes. In all three lists "bias?" may be missing, and "axes..." stands for any
	// number, 0 too. An operation of the table, or pointwise, is applied to no other number of operands or attributes.
	Ints, Floats []string
	Shape        func(c *ctx)
	// View gives the strides and offset of a result that shares its operand's memory; l comes with the
	// result's shape and the operand's offset. Operations that compute have none.
	View func(c *ctx, l *kernels.Layout)
	// VJP maps the gradient of the first output to one gradient for each operand, nil where there is
	// none, in ordinary tensor methods, so that gradients can be differentiated again.
	VJP func(c *ctx, g *Tensor) []*Tensor
	// VJPAll is VJP for an operation of which several outputs carry a gradient, the first Differentiable ones: g has an
	// element for each of them, nil where no gradient arrived. The other outputs, such as statistics, never carry one.
	VJPAll         func(c *ctx, g []*Tensor) []*Tensor
	Differentiable int // only with VJPAll; elsewhere the first output alone carries a gradient
	// Sum is the type in which the gradients that reach the first output from several uses are added up, and handed to
	// VJP; nil: the output's own.
	Sum func(c *ctx) DType
	// Saves lists, for each operand, what VJP reads to make that operand's gradient.
	Saves []saves
	// Overwrites are operands whose memory the first result may take, where they have its type and shape: each
	// element is read before it is written, and only by the thread that writes it. A VJP that applies the operation
	// reads them no more.
	Overwrites saves
	// Compose is the same computation in differentiable operations. It replaces an operation without VJP (fused
	// backward kernels) when a gradient is wanted through it.
	Compose func(c *ctx) *Tensor
	NoGrad  string               // why there is no VJP
	CPUOnly string               // why there is no CUDA kernel
	Cast    seam.CastClass       // what autocast does with the operands
	Instead string               // what to use instead where autocast refuses the operation
	Flops   func(c *ctx) float64 // arithmetic of one application; nil: one for each element of the result
	Samples func() []opSample
	Bench   func() []benchmark

	takes *takes // nil: Shape looks at the number of operands and attributes itself

	// Of a pointwise operation:
	result    resultType
	condition bool          // the first operand is a condition, which does not affect the result's type
	draws     int           // random streams that the expression reads
	lo, hi    float64       // range of operands in tests
	pulls     func() []pull // derivatives, made at first use
	joint     func() pull   // all of them in one; without operation where an operand has none
}

// under is the operation under the name of the one that the user called, for errors, also those that a device reports
// later.
func (o *Op) under(name string) *Op {
	named := *o
	named.Name = name
	return &named
}

// hasVJP tells whether the operation has a derivative of its own.
func (o *Op) hasVJP() bool { return o.VJP != nil || o.VJPAll != nil }

// differentiable is how many outputs, from the first on, carry a gradient.
func (o *Op) differentiable() int { return max(1, o.Differentiable) }

// Call applies an operation of one operand, with the values of its scalars, if it has any: swish.Call(x, 1.5). One of
// several operands is applied by [Tensor.Apply].
func (o *Op) Call(x *Tensor, scalars ...float64) *Tensor {
	in := []*Tensor{x}
	o.wantTakes(in, nil, scalars)
	return apply(o, in, nil, scalars)
}

// Apply is an operation made by [Pointwise] of t and the other operands, which broadcast, with the values of its
// scalars.
func (t *Tensor) Apply(op *Op, others []*Tensor, scalars ...float64) *Tensor {
	in := append([]*Tensor{t}, others...)
	op.wantTakes(in, nil, scalars)
	return apply(op, in, nil, scalars)
}

// saves is a set of operands and outputs.
type saves uint64

// saveable is how many operands, and how many outputs, a set of saves can hold.
const saveable = 32

func (s saves) in(i int) bool  { return i < saveable && s>>i&1 != 0 }
func (s saves) out(i int) bool { return s>>(saveable+i)&1 != 0 }

// saveIn is the set of the given operands, of the first 32.
func saveIn(i ...int) (s saves) {
	for _, k := range i {
		if k < 0 || k >= saveable {
			fail(ErrIndex, "saves", "%d is outside [0, %d)", k, saveable)
		}
		s |= 1 << k
	}
	return s
}

// saveOut is the set of the given outputs, of the first 32.
func saveOut(i ...int) saves { return saveIn(i...) << saveable }

type opSample = seam.Sample[*Tensor]

// benchmark is one size at which an operation is timed, with what it must compute and move.
type benchmark struct {
	Name  string
	In    []seam.Arg
	Call  func(x []*Tensor) *Tensor
	Flops float64
	Bytes float64
}

var (
	table  []*Op
	byName = map[string]*Op{}
)

// define fills an operation and enters it into the table. The kernels of one with a reference have its name. Operations
// are filled in init functions, because a method that a VJP calls refers back to the operation: as variable
// initialisers they would be cyclic.
func define(o *Op, filled entry) {
	o.entry = filled
	if o.Args == nil {
		o.Args = []string{"x"}
	}
	if o.Ref != nil && o.CPUOnly == "" {
		o.Kernel = cmp.Or(o.Kernel, o.Name)
	}
	o.setTakes()
	if byName[o.Name] != nil {
		panic("tensor: operation " + o.Name + " defined twice")
	}
	byName[o.Name] = o
	table = append(table, o)
}

// arity is how many operands, or attributes of one kind, an operation takes.
type arity struct {
	least, most int
	names       string // for errors
}

// takes is what an operation takes: tensors, integers and floating numbers.
type takes struct{ in, ints, floats arity }

// setTakes reads Args, Ints and Floats.
func (o *Op) setTakes() {
	o.takes = &takes{arityOf(o.Args), arityOf(o.Ints), arityOf(o.Floats)}
	o.Args = slices.Clone(o.Args)
	for i, name := range o.Args {
		o.Args[i] = strings.TrimRight(name, "?.")
	}
}

func arityOf(names []string) arity {
	a := arity{names: strings.Join(names, ", ")}
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, "..."):
			a.most = math.MaxInt - 1
		case !strings.HasSuffix(name, "?"):
			a.least++
		}
		a.most++
	}
	return a
}

// wantTakes fails unless the operation takes so many operands and attributes. Whoever gets these from outside the
// package asks; methods of Tensor have the right number.
func (o *Op) wantTakes(in []*Tensor, ints []int, floats []float64) {
	o.given()
	if o.takes == nil {
		return
	}
	o.takes.in.want(o, "operands", len(in))
	o.takes.ints.want(o, "integer attributes", len(ints))
	o.takes.floats.want(o, "floating attributes", len(floats))
}

func (a *arity) want(o *Op, what string, got int) {
	if got < a.least || got > a.most {
		a.fail(o, what, got)
	}
}

func (a *arity) fail(o *Op, what string, got int) {
	if a.most == 0 {
		fail(ErrValue, o.Name, "takes no %s, got %d", what, got)
	}
	fail(ErrValue, o.Name, "takes the %s (%s), got %d", what, a.names, got)
}

// ctx is one application of an operation: what shape rules and VJPs read.
type ctx struct {
	Op     *Op
	In     []*Tensor
	Out    []*Tensor
	Ints   []int
	Floats []float64

	scope    *Scope
	random   kernels.Random
	inBuf    [4]*Tensor
	outBuf   [3]*Tensor
	intBuf   [8]int
	floatBuf [3]float64
}

// set fills c for an application of op, copying the slices so that callers' literals stay on their stacks.
func (c *ctx) set(op *Op, s *Scope, in []*Tensor, ints []int, floats []float64) {
	c.Op, c.scope, c.random = op, s, kernels.Random{}
	c.In = append(c.inBuf[:0], in...)
	c.Out = c.outBuf[:0]
	c.Ints = append(c.intBuf[:0], ints...)
	c.Floats = append(c.floatBuf[:0], floats...)
}

// result adds an output of the given type and shape. It fails unless a tensor can have that shape, so shape rules may
// add sizes up.
func (c *ctx) result(dt DType, shape ...int) {
	if !kernels.Fits(shape) {
		misfit(c.Op.Name, slices.Clone(shape), c.In)
	}
	if c.Op.View != nil {
		c.Out = append(c.Out, newTensor(nil, dt, shape, c.scope))
		return
	}
	made := &struct { // one Go allocation for both
		t Tensor
		b block
	}{}
	made.t.init(&made.b, dt, shape, c.scope)
	c.Out = append(c.Out, &made.t)
}

// shape is the shape of operand i; it must not be changed.
func (c *ctx) shape(i int) []int { return c.In[i].layout.Shape }

// needs tells whether a gradient is wanted for operand i.
func (c *ctx) needs(i int) bool { return c.In[i].needs }

// flops is the arithmetic of this application.
func (c *ctx) flops() float64 {
	switch {
	case c.Op.View != nil:
		return 0
	case c.Op.Flops != nil:
		return c.Op.Flops(c)
	}
	return float64(c.Out[0].Len())
}

// fail panics with an error of this operation.
func (c *ctx) fail(kind error, format string, args ...any) { fail(kind, c.Op.Name, format, args...) }

// wantDType fails unless operand i has one of the given types.
func (c *ctx) wantDType(i int, want ...DType) {
	names := make([]string, 0, len(want))
	for _, w := range want {
		if c.In[i].dtype == w {
			return
		}
		names = append(names, w.String())
	}
	c.fail(ErrDType, "%s %v must be %s; x.To(...) converts", c.argName(i), c.In[i], strings.Join(names, " or "))
}

// wantFloat fails unless operand i is floating and all later ones given have its type.
func (c *ctx) wantFloat(i int, others ...int) {
	if !c.In[i].dtype.IsFloat() {
		c.fail(ErrDType, "%s %v must hold floating numbers; x.To(tensor.Float32) converts", c.argName(i), c.In[i])
	}
	for _, j := range others {
		if c.In[j].dtype != c.In[i].dtype {
			c.fail(ErrDType, "%s is %v, %s is %v; x.To(...) converts", c.argName(i), c.In[i], c.argName(j), c.In[j])
		}
	}
}

// wantInts fails unless there are n integer attributes, as the rank of the operand asks for.
func (c *ctx) wantInts(n int) {
	if len(c.Ints) != n {
		c.fail(ErrValue, "%v takes %d integer attributes (%s), got %d", c.In[0], n, c.Op.takes.ints.names, len(c.Ints))
	}
}

// wantRank fails unless operand i has at least n axes.
func (c *ctx) wantRank(i, n int) {
	if r := c.In[i].Rank(); r < n {
		c.fail(ErrShape, "%s %v has %d axes, at least %d are needed", c.argName(i), c.In[i], r, n)
	}
}

func (c *ctx) argName(i int) string {
	if i < len(c.Op.Args) {
		return c.Op.Args[i]
	}
	return fmt.Sprintf("operand %d", i)
}

package tensor

import (
	"cmp"
	"errors"
	"runtime"
	"slices"

	"github.com/weft-ml/weft/kernels"
)

// apply runs one operation and, if the step records, enters it in the tape: what the methods of Tensor call. It
// returns the first output.
func apply(op *Op, in []*Tensor, ints []int, floats []float64) *Tensor {
	return stepOf(op.Name, in).apply(op, in, ints, floats)
}

// applyAll is apply for operations with several outputs.
func applyAll(op *Op, in []*Tensor, ints []int, floats []float64) []*Tensor {
	return stepOf(op.Name, in).applyAll(op, in, ints, floats)
}

func apply1(op *Op, x *Tensor) *Tensor    { return apply(op, []*Tensor{x}, nil, nil) }
func apply2(op *Op, x, y *Tensor) *Tensor { return apply(op, []*Tensor{x, y}, nil, nil) }

// stepOf is the step that the operands belong to; nil if they are all host data or parameters.
func stepOf(op string, in []*Tensor) *Scope {
	for _, t := range in {
		t.given(op)
		if t.scope != nil {
			return t.scope
		}
	}
	return nil
}

// apply does one operation and returns its first output.
func (s *Scope) apply(op *Op, in []*Tensor, ints []int, floats []float64) *Tensor {
	if s == nil {
		return hostApply(op, in, ints, floats).Out[0]
	}
	y, rest := s.record(op, in, ints, floats, nil, false)
	if rest != nil {
		y = s.complete(rest, y)
	}
	return y
}

// applyAll does one operation and returns all outputs.
func (s *Scope) applyAll(op *Op, in []*Tensor, ints []int, floats []float64) (all []*Tensor) {
	if s == nil {
		return hostApply(op, in, ints, floats).Out
	}
	y, rest := s.record(op, in, ints, floats, &all, false)
	if rest != nil {
		y = s.complete(rest, y)
	}
	if all == nil {
		all = []*Tensor{y}
	}
	return all
}

// rest is what remains to be done of an operation, in calls of their own: the operation itself if it is composed of
// others, and what an observer is to see.
type rest struct {
	composed *ctx
	observed []*ctx
}

// complete does r; y is the first output of the operation, if it is not composed.
func (s *Scope) complete(r *rest, y *Tensor) *Tensor {
	if r.composed != nil {
		y = r.composed.Op.Compose(r.composed)
	}
	for _, c := range r.observed {
		s.show(c)
	}
	return y
}

// show calls the observer of the step with c.
func (s *Scope) show(c *ctx) {
	path, f := s.path(), s.top.mode.observe
	s.With(func() {
		s.Region("", func() []*Tensor { f(path, c); return nil })
	}, NoGrad(), observe(nil), Option{func(m *mode) { m.checkpoint = nil }})
}

// record does one operation, operands, shape, memory, op call, and enters it in the tape, if a gradient is wanted. It
// returns the first output, appends all of them to all, if that is given, and says what remains to be done. A nested
// operation is part of a call that has entered the step; nothing of it remains.
func (s *Scope) record(op *Op, in []*Tensor, ints []int, floats []float64, all *[]*Tensor, nested bool) (y *Tensor,
	left *rest) {
	if !nested {
		s.enter(op.Name)
		s.observed = s.observed[:0]
	}
	defer s.recorded(s.dev, nested)
	var adopted [8]*Tensor
	xs := append(adopted[:0], in...)
	if s.top.mode.autocast != Float32 {
		s.autocast(op, xs)
	}
	s.setDevice(s.deviceOf(xs))
	needs := false
	for i, t := range xs {
		xs[i] = s.adopt(op.Name, t)
		needs = needs || xs[i].needs
	}
	s.wantOneDevice(op.Name, xs)
	needs = needs && s.top.mode.record && op.NoGrad == ""
	if needs && !op.hasVJP() {
		if op.Compose == nil {
			fail(ErrGrad, op.Name, "this operation has no derivative")
		}
		c := &ctx{}
		c.set(op, s, xs, ints, floats)
		return nil, &rest{composed: c, observed: slices.Clone(s.observed)}
	}
	observes, cp := s.top.mode.observe != nil, s.top.mode.checkpoint
	c := &s.scratch
	var n *node
	if needs {
		for i, t := range xs { // VJPs use operands alone, so each must know its step
			if t.scope == nil {
				xs[i] = t.alias(s)
			}
		}
		n = s.tape.node()
		n.layer = s.layer()
		c = &n.ctx
	} else if observes || cp != nil { // the observer's operations use the other one; a checkpoint keeps it
		c = &ctx{}
	}
	c.set(op, s, xs, ints, floats)
	op.Shape(c)
	if op.View != nil {
		c.view()
	} else {
		for i, y := range c.Out {
			if s.aimed(y) {
				continue
			}
			if i > 0 || n != nil || !s.overwrite(c) {
				s.give(op.Name, y, s.makes)
			}
			s.top.own(y.blk)
		}
		if s.together == nil {
			s.run(c)
		} else {
			s.together.add(c.Out[0], c.In[0])
		}
		if cp != nil {
			cp.add(c)
		}
	}
	if n != nil && c.Out[0].dtype.IsFloat() {
		s.tape.record(n)
	}
	if all != nil {
		*all = append(*all, c.Out...)
	}
	if observes {
		if s.observed = append(s.observed, c); !nested {
			left = &rest{observed: slices.Clone(s.observed)}
		}
	}
	return c.Out[0], left
}

// recorded ends record: the device is that of before.
func (s *Scope) recorded(d *Device, nested bool) {
	s.setDevice(d)
	if !nested {
		s.leave()
	}
}

// view makes the result a view of the operand.
func (c *ctx) view() {
	x, y := c.In[0], c.Out[0]
	y.blk, y.dtype, y.root = x.blk, x.dtype, x.root
	y.layout.Offset = x.layout.Offset
	c.Op.View(c, &y.layout)
}

// overwrite puts the first result into the memory of an operand, if the operation allows that and nothing but the
// running derivative needs the operand. An observer would look at it afterwards.
func (s *Scope) overwrite(c *ctx) bool {
	n := s.derived
	if n == nil || s.top.mode.observe != nil {
		return false
	}
	for i, x := range c.In {
		if (x == n.spent || c.Op.Overwrites.in(i)) && n.handOver(c.Op.Name, x, c.Out[0]) {
			return true
		}
	}
	return false
}

// run makes the op call of an operation whose outputs have memory.
func (s *Scope) run(c *ctx) {
	s.sumFirst(c)
	if c.Op.draws > 0 && !s.launch.Prepared { // else drawn before
		c.random = s.draw(c.Op.draws, c.Out[0].Len())
	}
	s.launches++
	s.strides = fill(&s.launch, c, s.strides)
	runOn(s.dev, &s.launch)
	for _, y := range c.Out {
		y.blk.checkGuard(c.Op.Name)
	}
	runtime.KeepAlive(c) // the op call knows the memory, not who owns it
}

// draw reserves random numbers: n streams of count elements each. A derivative draws what its forward drew.
func (s *Scope) draw(n, count int) kernels.Random {
	if s.replay != nil {
		return *s.replay
	}
	r := s.random
	s.random.Counter += uint64(n) * uint64((count+3)/4)
	return r
}

// fill writes c into l. Layouts of pointwise operands are broadcast to the output's shape, in memory from strides.
func fill(l *kernels.Launch, c *ctx, strides []int) []int {
	l.Op, l.Ints, l.Floats, l.Random = &c.Op.Op, c.Ints, c.Floats, c.random
	l.In, l.Out = argsOf(l.In, c.In), argsOf(l.Out, c.Out)
	if c.Op.Expr == nil {
		return strides
	}
	strides = strides[:0]
	for i, x := range c.In {
		if !sameShape(x, c.Out[0]) {
			n := len(strides)
			strides = appendBroadcast(strides, x.layout, c.Out[0].layout.Shape)
			l.In[i].Shape, l.In[i].Strides = c.Out[0].layout.Shape, strides[n:len(strides):len(strides)]
		}
	}
	return strides
}

// argsOf is the operands or results ts of an op call, in the memory of args.
func argsOf(args []kernels.Arg, ts []*Tensor) []kernels.Arg {
	args = slices.Grow(args[:0], len(ts))[:len(ts)]
	for i, t := range ts { // field by field: a copy in wide words would wait for the narrow stores that made t
		a := &args[i]
		a.Buf, a.DType = t.blk.buf, t.dtype
		a.Shape, a.Strides, a.Offset = t.layout.Shape, t.layout.Strides, t.layout.Offset
	}
	return args
}

// appendBroadcast appends the strides that repeat l over shape: 0 along new axes and axes of size 1.
func appendBroadcast(strides []int, l kernels.Layout, shape []int) []int {
	lead := len(shape) - len(l.Shape)
	for i := range shape {
		st := 0
		if i >= lead && l.Shape[i-lead] != 1 {
			st = l.Strides[i-lead]
		}
		strides = append(strides, st)
	}
	return strides
}

// runOn runs an op call; results without elements need no work.
func runOn(d *Device, l *kernels.Launch) {
	work := 0
	for i := range l.Out {
		work += l.Out[i].Len()
	}
	if work == 0 {
		return
	}
	err := d.shared.backend.Run(l)
	if err == nil {
		return
	}
	if errors.Is(err, kernels.ErrScratch) && d.shared.pool.Trim() > 0 { // memory is cached in the pool
		err = d.shared.backend.Run(l)
	}
	if err != nil {
		failed(l, err)
	}
}

// failed panics with the error of an op call.
func failed(l *kernels.Launch, err error) {
	if e, ok := err.(*Error); ok && e.Site != "" { // of an earlier op call
		panic(e)
	} else if ok {
		fail(e.Kind, cmp.Or(e.Op, l.Op.Name), "%s", e.Msg)
	}
	fail(ErrDevice, l.Op.Name, "%v", err)
}

// hostApply runs an operation on plain host data, on the Go heap. Views of parameters become lazy:
// the step that first uses one records it.
func hostApply(op *Op, in []*Tensor, ints []int, floats []float64) *ctx {
	c := &ctx{}
	needs := false
	for _, t := range in {
		if t.lazy == nil {
			t.alive(op.Name)
		}
		needs = needs || t.needs
		if op.View == nil && t.blk != nil && t.blk.dev != nil && !t.blk.dev.inHostMemory() {
			fail(ErrStep, op.Name, "%v is on %s; operations outside a step work on host data; in a step take it in "+
				"with s.In", t, t.blk.dev.Name())
		}
	}
	if needs && op.View == nil && op.NoGrad == "" {
		fail(ErrStep, op.Name, "a parameter meets no tensor of a step, so none would record this; "+
			"take an operand in with s.In, or use Detach for values alone")
	}
	c.set(op, nil, in, ints, floats)
	op.Shape(c)
	if op.View != nil {
		c.view()
		if needs {
			c.Out[0].needs, c.Out[0].lazy = true, c
		}
		return c
	}
	for _, y := range c.Out {
		*y.blk = block{buf: hostMemory(op.Name, y.Len()*y.dtype.Size()), refs: 1, shared: true, op: op.Name}
	}
	if op.draws > 0 {
		fail(ErrStep, op.Name, "random numbers come from a step's stream; take the operand into a step with s.In")
	}
	var l kernels.Launch
	fill(&l, c, nil)
	runOn(host(), &l)
	return c
}

package tensor

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
)

// param is what all handles of one parameter or state share.
type param struct {
	name      string
	tensor    *Tensor // the canonical handle
	trainable bool
	init      seam.Initializer
	arena     *arena
	index     int // in arena.params
	lo, hi    int // elements of the arena
	version   atomic.Uint64
	pending   atomic.Bool // a step has updated it and has not committed
	hooks     []func(g *Tensor)
	taken     atomic.Bool // an optimizer has taken a gradient
	left      int         // gradients that no optimizer has taken, while others were; under arena.mu
}

// declare makes a parameter, or a state, without values.
func declare(init seam.Initializer, trainable bool, shape []int) *Tensor {
	checkShape("parameter", shape)
	t := newTensor(nil, Float32, shape, nil)
	t.needs = trainable
	t.root = &param{tensor: t, trainable: trainable, init: init}
	return t
}

// counter is engine.Counter.
func counter(shape []int) *Tensor {
	t := declare(nil, false, shape)
	t.dtype = Int64
	return t
}

// parameterOf is engine.ParameterOf.
func parameterOf(name string, t *Tensor) *Tensor {
	t.usable("parameter")
	if t.scope != nil || t.root != nil || !t.dtype.IsFloat() || !t.IsContiguous() {
		fail(ErrValue, "parameter", "%v must be contiguous host data of a floating type", t)
	}
	t.last()
	t.root = &param{name: name, tensor: t, trainable: true, hi: t.Len()}
	t.needs = true
	newArena(t.blk.dev, t.dtype, t.blk, []*Tensor{t}, t.Len()).values.layout.Offset = t.layout.Offset
	return t
}

// newState is engine.NewState.
func (d *Device) newState(name string, dt DType, shape ...int) (t *Tensor, err error) {
	err = try(func() {
		made := declare(nil, false, shape)
		d.place(name, firstModel, []string{name}, []*Tensor{made}, dt, kernels.Optimizer)
		t = made
	})
	return t, err
}

// placeLike is engine.PlaceLike.
func (d *Device) placeLike(dt DType, like []*Tensor) (made []*Tensor, err error) {
	err = try(func() {
		var names []string
		model := firstModel
		for _, t := range like {
			a, _, _ := t.arena()
			model = a.model
			if t.root.tensor != t {
				fail(ErrValue, "place", "%v is a view of a parameter or state, not all of it", t)
			}
			names = append(names, t.root.name)
			made = append(made, declare(nil, t.root.trainable, t.layout.Shape))
		}
		d.place("copies", model, names, made, dt, kernels.Parameters)
		for i, t := range made {
			t.root.init, t.needs = like[i].root.init, like[i].needs
		}
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// arena is the flat memory of parameters of one element type on one device. Gradients and optimizer moments have the
// same offsets, so that clipping, unscaling and updates are single passes.
type arena struct {
	id     uint64  // in order of making
	dev    *Device // nil: host memory
	dtype  DType
	model  string // whose values these are; see engine.Place
	n      int
	values *Tensor // flat [n]
	params []*Tensor
	torn   atomic.Bool // the device failed while a step wrote the values

	mu      sync.Mutex
	grads   *block           // committed gradients, flat [n]; nil: none
	unused  runtime.Cleanup  // frees grads with the arena
	present []bool           // which parameters have one
	version uint64           // of grads
	warned  bool             // of gradients that no optimizer takes
	lowered map[DType][]bool // the parameters that the last step has cast

	holders []holder // steps that use the values; see access.go
}

func newArena(d *Device, dt DType, blk *block, params []*Tensor, n int) *arena {
	a := &arena{id: arenas.Add(1), dev: d, dtype: dt, n: n, params: params}
	a.values = newTensor(blk, dt, []int{n}, nil)
	a.values.root = &param{name: "parameters", tensor: a.values, arena: a, hi: n}
	for _, t := range params {
		t.root.arena = a
	}
	return a
}

// arenaAlign is the alignment of a parameter in its arena, in elements; the padding between parameters holds zeros.
const arenaAlign = 16

// placeModel is engine.Place.
func (d *Device) placeModel(model string, names []string, tensors []*Tensor, dt DType) error {
	return try(func() {
		if d.usable("place"); model != "" {
			d.place("parameters", model, names, tensors, dt, kernels.Parameters)
			return
		}
		n, placed := d.models.Add(1), false
		defer func() {
			if !placed {
				d.models.CompareAndSwap(n, n-1)
			}
		}()
		d.place("parameters", fmt.Sprint("#", n), names, tensors, dt, kernels.Parameters)
		placed = true
	})
}

// firstModel is the name of a device's first model, whose streams are those of the parameters' names alone.
const firstModel = "#1"

// stream is that of a parameter's first values.
func (d *Device) stream(model, name string) philox.Source {
	if model != firstModel {
		name = model + "/" + name
	}
	return philox.Source{Key: philox.Derive(d.seed, name)}
}

// place is Place of a model with a name; op names the memory in errors, and use says what it is for.
func (d *Device) place(op, model string, names []string, tensors []*Tensor, dt DType, use kernels.MemoryCategory) {
	d.usable("place")
	if len(names) != len(tensors) {
		fail(ErrValue, "place", "%d names for %d tensors", len(names), len(tensors))
	}
	params, state, counters := placement{dtype: dt}, placement{dtype: dt}, placement{dtype: Int64}
	called, seen := map[string]bool{}, map[*Tensor]bool{}
	for i, t := range tensors {
		if t == nil || t.root == nil || t.lazy != nil || t.root.tensor != t || seen[t] {
			fail(ErrValue, "place", "%v is not a declared parameter or state, or it is given twice", t)
		}
		if t.root.trainable && !dt.IsFloat() {
			fail(ErrDType, "place", "%s is trained, so its type is a floating one, not %v", names[i], dt)
		}
		if called[names[i]] {
			fail(ErrValue, "place", "two parameters are called %s; a field tag `weft:\"name\"` renames one", names[i])
		}
		called[names[i]], seen[t] = true, true
		p := &state
		switch {
		case t.root.trainable:
			p = &params
		case t.dtype == Int64:
			p = &counters
		}
		p.names, p.tensors, p.offsets = append(p.names, names[i]), append(p.tensors, t), append(p.offsets, p.n)
		if p.n += (t.Len() + arenaAlign - 1) / arenaAlign * arenaAlign; p.n > kernels.MaxLen {
			fail(ErrMemory, op, "the first %d of %d parameters have more than %d elements; the last of them is %v",
				i+1, len(tensors), kernels.MaxLen, t)
		}
	}
	all := []*placement{&params, &state, &counters}
	defer func() {
		for _, p := range all {
			if p.blk != nil && !p.blk.shared { // not committed
				p.blk.release("placing")
			}
		}
	}()
	for _, p := range all {
		p.prepare(d, op, model, use)
	}
	for _, p := range all {
		p.commit(d, model)
	}
}

// A placement is an arena in the making.
type placement struct {
	dtype   DType
	names   []string
	tensors []*Tensor
	offsets []int // of the tensors, in elements
	n       int
	blk     *block
}

// prepare makes the memory and draws the values: all that can fail.
func (p *placement) prepare(d *Device, op, model string, use kernels.MemoryCategory) {
	if p.tensors == nil {
		return
	}
	p.blk = d.deviceBlock(op, p.n*p.dtype.Size(), use)
	d.zero(op, p.blk)
	for i, t := range p.tensors {
		if t.root.init != nil {
			v := makeHost[float64](op, t.Len())
			t.root.init(v, t.Shape(), d.stream(model, p.names[i]))
			d.copyIn(op, p.blk, p.offsets[i]*p.dtype.Size(), bytesOf(FromSlice(v, len(v)).To(p.dtype)))
		}
	}
}

// commit hands the arena to the tensors.
func (p *placement) commit(d *Device, model string) {
	if p.tensors == nil {
		return
	}
	p.blk.disown()
	newArena(d, p.dtype, p.blk, p.tensors, p.n).model = model
	for i, t := range p.tensors {
		r := t.root
		r.name, r.index = p.names[i], i
		r.lo, r.hi = p.offsets[i], p.offsets[i]+t.Len()
		r.version.Add(1)
		t.blk, t.dtype, t.layout.Offset = p.blk, p.dtype, r.lo
	}
}

// Trainable tells whether t is a parameter, not state.
func (t *Tensor) Trainable() bool { return t.given("trainable").root != nil && t.root.trainable }

// SetNeedsGrad says whether gradients flow to parameter t. If not, its values count as data, and a gradient that it has
// is dropped: optimizers leave the parameter alone. It may not run beside a step.
func (t *Tensor) SetNeedsGrad(needs bool) {
	if t.given("set_needs_grad"); !t.Trainable() || t.root.tensor != t {
		fail(ErrGrad, "set_needs_grad", "%v is no parameter as a whole", t)
	}
	t.needs = needs
	if a := t.root.arena; a != nil && !needs {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.grads != nil {
			a.present[t.root.index] = false
			a.version++
		}
	}
}

// arena is that of a placed parameter or state, and the range of its elements there.
func (t *Tensor) arena() (a *arena, lo, hi int) {
	t.given("arena")
	if t.root == nil || t.root.arena == nil {
		fail(ErrStep, "arena", "%v has not been placed; nn.Init places a model", t)
	}
	return t.root.arena, t.root.lo, t.root.hi
}

// parameter fails unless t is a parameter or state.
func (t *Tensor) parameter(op string) {
	if t.given(op).root == nil {
		fail(ErrGrad, op, "%v is no parameter; the gradient of another tensor, made a leaf by autograd.Watch, is what "+
			"autograd.Grad returns", t)
	}
}

// Grad is the gradient that steps have committed to a parameter and no optimizer has taken; nil if there is none; of a
// view of a parameter it is the same view of the gradient. Reading it waits for nothing; the tensor is valid until the
// next step commits, and Keep makes it last.
func (t *Tensor) Grad() *Tensor {
	t.parameter("grad")
	a, lo, _ := t.arena()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.grads == nil || !a.present[t.root.index] {
		return nil
	}
	g := t.alias(nil)
	g.blk, g.root = a.grads, nil
	g.layout.Offset += lo - t.root.tensor.layout.Offset // t may be a view
	return g
}

// ClearGrads drops the gradients that steps have committed to the parameter t, and to all others of its element type
// that the same nn.Init has placed.
func (t *Tensor) ClearGrads() {
	t.parameter("clear_grads")
	a, _, _ := t.arena()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replace(nil, nil)
}

// replace puts b in the place of the committed gradients, which go back to the pool. The last ones go there when
// nothing refers to the arena any more.
func (a *arena) replace(b *block, present []bool) {
	if old := a.grads; old != nil {
		a.unused.Stop()
		old.refs, old.closed = 0, "a later step"
		old.dev.shared.pool.Free(old.mem)
	}
	if b != nil {
		a.unused = b.disown()
	}
	a.grads, a.present = b, present
	a.version++
}

// stepGrads are the gradients of one arena during a step, on top of those committed before it.
type stepGrads struct {
	flat    *Tensor
	present []bool
	base    uint64 // arena version they started from
}

func (g *stepGrads) drop() {
	if g.flat.blk != nil && !g.flat.blk.shared {
		g.flat.blk.release("its step")
	}
}

// gradsOf is engine.Grads.
func (s *Scope) gradsOf(a *arena) (flat *Tensor, present []bool) {
	s.given("grads")
	s.enter("grads")
	defer s.leave()
	s.waiting.run(s)
	if g := s.stepGrads(a, false); g != nil {
		return g.flat, g.present
	}
	return nil, nil
}

func (s *Scope) stepGrads(a *arena, create bool) *stepGrads {
	if g := s.grads[a]; g != nil {
		return g
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.grads == nil && !create {
		return nil
	}
	g := &stepGrads{present: make([]bool, len(a.params)), base: a.version}
	if a.dev != nil {
		defer s.setDevice(s.dev)
		s.setDevice(a.dev)
	}
	blk := s.dev.deviceBlock("gradients", a.n*a.dtype.Size(), kernels.Gradients)
	blk.grads = true
	g.flat = newTensor(blk, a.dtype, []int{a.n}, s)
	copy(g.present, a.present)
	if s.grads == nil {
		s.grads = map[*arena]*stepGrads{}
	}
	s.grads[a] = g
	s.order = append(s.order, a)
	if a.grads != nil { // the gradients start from those committed before the step
		s.into(copyOp, []*Tensor{g.flat}, []*Tensor{newTensor(a.grads, a.dtype, []int{a.n}, nil)}, nil, nil)
	}
	return g
}

// addGrad adds g to the gradient of parameter p in this step, which a backward pass has to itself.
func (s *Scope) addGrad(p, g *Tensor) {
	dst := s.putGrad("backward", p, g)
	if len(p.root.hooks) > 0 {
		s.waiting.run(s)
	}
	for _, h := range p.root.hooks {
		h(dst)
	}
}

// putGrad adds g to the gradient of parameter p in this step, and returns the sum.
func (s *Scope) putGrad(op string, p, g *Tensor) (sum *Tensor) {
	a, lo, hi := p.arena()
	sg := s.stepGrads(a, true)
	i := p.root.index
	s.unappliedGrads(op, sg.flat, lo, hi)
	dst := span(sg.flat, lo, hi)
	dst.setShape(g.layout.Shape)
	kernels.RowMajor(dst.layout.Strides, dst.layout.Shape)
	if sg.present[i] {
		s.waiting.run(s)
		s.into(addOp, []*Tensor{dst}, []*Tensor{dst, g}, nil, nil)
		return dst
	}
	end := a.n // passes over several parameters run over the gaps between them, and what has been placed anew since
	if k := slices.IndexFunc(a.params[i+1:], func(q *Tensor) bool { return q.root.arena == a }); k >= 0 {
		end = a.params[i+1+k].root.lo
	}
	s.copyGrad(sg.flat, g, lo, hi, end)
	sg.present[i] = true
	return dst
}

// setGrad is engine.SetGrad.
func (s *Scope) setGrad(p, g *Tensor) {
	s.given("set_grad")
	a, _, _ := p.arena()
	if g != nil {
		if !p.Trainable() || p.root.tensor != p || !p.needs {
			fail(ErrGrad, "set_grad", "%v is no parameter that gets a gradient", p)
		}
		if g.DType() != p.dtype || !sameShape(g, p) {
			fail(ErrShape, "set_grad", "the gradient is %v, the parameter %v", g, p)
		}
		if g = s.In(g.Detach()); a.dev != nil {
			g = g.To(a.dev)
		}
	}
	s.enter("set_grad")
	defer s.leave()
	if had := s.stepGrads(a, false); had != nil {
		had.present[p.root.index] = false
	}
	if g != nil {
		if a.dev != nil {
			defer s.setDevice(s.dev)
			s.setDevice(a.dev)
		}
		s.putGrad("set_grad", p, g)
		s.waiting.run(s)
	}
}

// hasGrad tells whether parameter p has a gradient in this step or from steps before it.
func (s *Scope) hasGrad(p *Tensor) bool {
	s.given("has_grad")
	a, _, _ := p.arena()
	s.enter("has_grad")
	defer s.leave()
	g := s.stepGrads(a, false)
	return g != nil && g.present[p.root.index]
}

// takeGrads marks the gradient of p as used up: an optimizer applies it when the step commits.
func (s *Scope) takeGrads(p *Tensor) {
	s.given("take_grads")
	a, _, _ := p.arena()
	s.enter("take_grads")
	defer s.leave()
	if g := s.stepGrads(a, false); g != nil {
		g.present[p.root.index] = false
	}
	p.root.taken.Store(true)
	s.took = true
}

// OnGrad calls f with every total gradient that Backward writes to the parameter t, after it is written.
// The returned function stops that. Neither may run beside a step.
func (t *Tensor) OnGrad(f func(g *Tensor)) (stop func()) {
	t.arena()
	given("on_grad", "the hook", f)
	p := t.root
	p.hooks = append(p.hooks, f)
	i := len(p.hooks) - 1
	return func() { p.hooks[i] = func(*Tensor) {} }
}

// claim is engine.Claim.
func (s *Scope) claim(a *arena) {
	s.given("update")
	s.enter("update")
	defer s.leave()
	s.touch(a, writing)
}

// span is the view of elements [lo, hi) of a flat contiguous tensor, off the tape.
func span(t *Tensor, lo, hi int) *Tensor {
	v := newTensor(t.blk, t.dtype, []int{hi - lo}, t.scope)
	v.layout.Offset, v.root = t.layout.Offset+lo, t.root
	return v
}

// update is engine.Update.
func (s *Scope) update(op *Op, lo, hi int, dst, in []*Tensor, floats []float64) {
	s.given("update")
	op.checkUpdate(lo, hi, dst, in, floats)
	s.enter(op.Name)
	defer s.leave()
	held := dst[0].scope != s
	out := make([]*Tensor, len(dst))
	for i, t := range dst {
		t.alive(op.Name)
		switch {
		case !held && (t.root != nil || t.blk.shared):
			fail(ErrStep, op.Name, "%v was not made by the step; give a parameter or state itself, not what s.In "+
				"makes of it", t)
		case (t.scope != s) != held:
			fail(ErrStep, op.Name, "%v is written at another time than %v: one belongs to the step", t, dst[0])
		case held:
			s.written(t, lo, hi)
		default:
			s.unappliedGrads(op.Name, t, lo, hi)
		}
		out[i] = span(t, lo, hi)
	}
	xs := make([]*Tensor, len(in))
	for i, t := range in {
		if t.alive(op.Name); t.scope != nil && t.scope != s {
			t.foreign(op.Name)
		}
		if !held {
			t.fresh(op.Name)
		}
		if xs[i] = s.local(op.Name, t); t.Len() != 1 {
			xs[i] = span(xs[i], lo, hi)
		}
	}
	s.into(op, out, xs, nil, floats)
}

// evaluate is engine.Evaluate.
func (s *Scope) evaluate(op *Op, types []DType, in []*Tensor, floats []float64) []*Tensor {
	s.given("evaluate")
	if op.wantTakes(in, nil, floats); op.Expr == nil || len(types) != len(op.Expr.Roots) {
		fail(ErrValue, op.Name, "is not pointwise, or has not %d results", len(types))
	}
	made := make([]*Tensor, len(types))
	for i, dt := range types {
		made[i] = s.empty(op.Name, dt, nil)
	}
	s.update(op, 0, 1, made, in, floats)
	return made
}

// empty is engine.Empty, for the results of op.
func (s *Scope) empty(op string, dt DType, shape []int) *Tensor {
	s.given(op).enter(op)
	defer s.leave()
	t := newTensor(&block{}, dt, shape, s)
	s.give(op, t, s.makes)
	s.top.own(t.blk)
	return t
}

// placed is engine.Into.
func (s *Scope) placed(dst *Tensor, f func() *Tensor) *Tensor {
	s.target = dst
	defer func() { s.target = nil }()
	y := s.In(f())
	if s.target = nil; y.dtype != dst.dtype || !sameShape(y, dst) {
		fail(ErrShape, "into", "%v does not fit into %v", y, dst)
	}
	if !y.IsContiguous() || y.blk != dst.blk || y.layout.Offset != dst.layout.Offset {
		s.into(copyOp, []*Tensor{dst}, []*Tensor{y}, nil, nil)
	}
	return dst
}

// checkUpdate fails for operands that an update by o of elements [lo, hi) cannot have: it reads and writes memory by
// position.
func (o *Op) checkUpdate(lo, hi int, dst, in []*Tensor, floats []float64) {
	if o == nil || o.Expr == nil {
		fail(ErrValue, "update", "the operation is nil, or not pointwise")
	}
	if f := o.Expr; len(dst) != len(f.Roots) || len(in) != len(f.Args) || len(floats) != len(f.Params) {
		fail(ErrValue, o.Name, "takes %d tensors and %d scalars and has %d results, got %d, %d and %d", len(f.Args),
			len(f.Params), len(f.Roots), len(in), len(floats), len(dst))
	}
	n := dst[0].Len()
	if lo < 0 || lo > hi || hi > n {
		fail(ErrIndex, o.Name, "elements [%d, %d) are outside those of %v, [0, %d)", lo, hi, dst[0], n)
	}
	for i, t := range append(slices.Clone(dst), in...) {
		switch t.given(o.Name); {
		case i >= len(dst) && t.Len() == 1:
		case t.Len() != n:
			fail(ErrShape, o.Name, "%v has %d elements, %v has %d; they are updated by position", t, t.Len(), dst[0], n)
		case !t.IsContiguous():
			fail(ErrShape, o.Name, "%v has strides %v; take Contiguous first", t, t.layout.Strides)
		}
	}
}

// into runs an operation whose results go to existing memory: at once if that belongs to the step, else when the step
// commits.
func (s *Scope) into(op *Op, out, in []*Tensor, ints []int, floats []float64) {
	defer s.setDevice(s.dev)
	s.setDevice(s.deviceOf(out))
	s.wantOneDevice(op.Name, out)
	s.wantOneDevice(op.Name, in)
	c := &ctx{}
	c.set(op, s, in, ints, floats)
	c.Out = append(c.Out, out...)
	if out[0].scope == s {
		s.wantOutside(op, out)
		s.run(c)
	} else {
		s.hold(c)
	}
}

// Assign writes v, broadcast and converted, into t: a parameter, a state, or a view of one, such as p.Slice(0, 1, 3).
// It is the only operation that changes a tensor, and is not recorded. Inside a step t is written when the step
// commits; until then reading the parameter fails, and so does a backward pass over it. Host data is assigned at once,
// as between steps; inside a step take it in with s.In.
func (t *Tensor) Assign(v *Tensor) {
	t = t.assigned()
	v.usable("assign")
	if shape := broadcast("assign", t.layout.Shape, v.layout.Shape); !slices.Equal(shape, t.layout.Shape) {
		fail(ErrShape, "assign", "%v does not fit into %v", v, t)
	}
	s := v.scope
	if s == nil {
		dev := t.root.arena.dev
		if dev == nil {
			dev = v.device()
		}
		dev.do(func(s *Scope) { t.Assign(s.In(v.Detach())) })
		return
	}
	if v = v.Detach(); v.blk.grads || v.blk == t.blk && !v.layout.Equal(t.layout) {
		v = v.Clone() // elements that would be overwritten before they are read: of gradients, or of t itself
	}
	op, ints := copyOp, []int(nil)
	if !t.IsContiguous() { // of one operand, cat is a copy to any strides
		op, ints = &cat, []int{0}
		v = v.To(t.dtype).Expand(t.layout.Shape...)
	}
	s.enter("assign")
	defer s.leave()
	v.fresh("assign")
	s.written(t.root.tensor, 0, t.root.tensor.Len())
	s.into(op, []*Tensor{t}, []*Tensor{v}, ints, nil)
}

// assignAll is engine.AssignAll.
func assignAll(dst, src []*Tensor) error {
	var dev *Device
	err := try(func() {
		if len(dst) != len(src) {
			fail(ErrValue, "assign", "%d tensors to assign to, %d values", len(dst), len(src))
		}
		for i, t := range append(slices.Clone(dst), src...) {
			t.usable("assign")
			if x := src[i%len(src)]; t.scope != nil || x != nil && !slices.Equal(t.layout.Shape, x.layout.Shape) {
				fail(ErrShape, "assign", "%v and %v differ in shape, or belong to a step", t, x)
			}
			if dev == nil {
				dev = t.blk.dev
			}
		}
	})
	if err != nil || len(dst) == 0 {
		return err
	}
	if dev == nil {
		dev = host()
	}
	return dev.run(func(s *Scope) error {
		for i, t := range dst {
			v := s.In(src[i].Detach())
			if to := t.Device(); to != nil {
				v = v.To(to)
			}
			t.Assign(v)
		}
		return nil
	}, mode{wait: true}, nil, nil, 0)
}

// assigned is t, a parameter or state or a view of one, outside steps and off the tape.
func (t *Tensor) assigned() *Tensor {
	t.given("assign")
	if t.lazy != nil {
		t = t.Detach()
	}
	t.usable("assign")
	if t.root == nil || t.root.arena == nil {
		fail(ErrStep, "assign", "%v is no parameter or state and no view of one; only those are assigned", t)
	}
	whole := t.root.tensor
	switch {
	case t.layout.Equal(whole.layout):
		return whole
	case t.blk != whole.blk:
		fail(ErrStep, "assign", "%v does not have the memory of %v: it is a copy, or was made before nn.Init", t, whole)
	}
	axes, reach := make([]int, t.Rank()), 0
	for i := range axes {
		axes[i] = i
	}
	slices.SortFunc(axes, func(i, j int) int { return t.layout.Strides[i] - t.layout.Strides[j] })
	for _, i := range axes {
		n, stride := t.layout.Shape[i], t.layout.Strides[i]
		if n > 1 && stride <= reach {
			fail(ErrStep, "assign", "%v repeats elements of %v along axis %d; assign before Expand and Unfold", t,
				whole, i)
		}
		reach += (n - 1) * stride
	}
	return t.alias(nil)
}

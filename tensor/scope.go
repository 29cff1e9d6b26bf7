package tensor

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/kernels"
)

// mode is what an operation asks of its step: the innermost entry of a stack of modes.
type mode struct {
	record   bool   // keep a tape for differentiation
	training bool   // dropout and the like are on
	autocast DType  // what package amp lowers operations to, Float16 or BFloat16; Float32: off
	stream   uint64 // steps, evaluations and chosen streams have numbers of their own
	observe  func(path string, c *ctx)
	wait     bool // for other steps, where ErrBusy would come

	checkpoint *checkpoint // the innermost one; nil: nodes own what they save
	offload    bool        // what checkpoints keep is in the host's memory
}

// Option changes how a step runs or, given to [Scope.With], how a piece of it does. The zero Option changes nothing.
type Option struct{ set func(*mode) }

// NoGrad turns recording off and leaves training behaviour, such as dropout, as it is. The package comment has it
// beside [Inference] and [Device.Eval].
func NoGrad() Option { return Option{func(m *mode) { m.record = false }} }

// Inference turns recording and training behaviour off: a piece of a training step then runs as [Device.Eval] would.
func Inference() Option { return Option{func(m *mode) { m.record, m.training = false, false }} }

// RandomStream fixes the random stream of a step. Steps that run in parallel need it to be reproducible, because the
// order in which they start is not determined. It is an option of Step and Eval only.
func RandomStream(k uint64) Option { return Option{func(m *mode) { m.stream = 3*k + 2 }} }

// observe has f called after every operation; see engine.Observe.
func observe(f func(path string, c *ctx)) Option { return Option{func(m *mode) { m.observe = f }} }

// region is one dynamic extent inside a step: a mode, and the memory made in it.
type region struct {
	up    *region
	name  string
	mode  mode
	owner uintptr // the goroutine that it belongs to; 0: none
	owned []*block
	layer *layer // see path

	loose []*loose // see loose.go
	cycle uint64   // of Go's collector, when these were looked at

	givenUp atomic.Bool // its owner could not end it
}

// Scope is one step of work on one goroutine.
type Scope struct {
	home      *Device // of the step
	dev       *Device // of the operation, or of the one whose derivative is computed: results are made there
	outermost *region
	top       *region // innermost
	free      []*region

	tape      tape
	random    kernels.Random // next in the step's stream
	replay    *kernels.Random
	state     atomic.Uint32          // see busy.go
	goroutine uintptr                // of the step's function
	site      string                 // the line that called Step or Eval
	backward  int                    // depth of running backward passes
	makes     kernels.MemoryCategory // what memory of results is for
	derived   *node                  // whose derivative is computed, innermost
	adds      *backward              // to gradients of parameters, innermost
	target    *Tensor                // see gradOf
	failed    bool                   // with an error
	took      bool                   // an optimizer took gradients
	leaves    map[*param]*node
	uploads   map[upload]*Tensor  // copies of host data on the device
	casts     map[lowered]*Tensor // copies of parameters in half precision
	lowered   map[lowering][]bool // the parameters that were cast, of each arena
	together  *batch              // casts that are one launch, while they are collected
	waiting   batch               // gradients on their way to those of the arena
	sums      batch               // that are some of these
	grads     map[*arena]*stepGrads
	order     []*arena // of grads, in order of first use
	access    map[*arena]access
	fault     atomic.Pointer[error] // why the step cannot commit
	writes    []write               // wait for the commit
	pending   []*arena              // that they write
	onCommit  []func()
	launches  uint64         // op calls on dev, not yet counted there
	launch    kernels.Launch // reused from operation to operation
	scratch   ctx            // likewise, for operations that are not recorded
	observed  []*ctx         // operations of the call under way that are to be shown
	strides   []int          // backs broadcast layouts of the op call
}

// Step runs f as one training step: operations are recorded and dropout is on. The step commits when f returns nil:
// gradients reach the parameters, updates and assignments are written. A step that fails changes nothing. An [*Error]
// raised inside comes back as the error; a bug in f stays a panic. The n-th step of a device draws its random numbers
// from stream (seed, n); a step that fails gives its number back, unless another one has begun.
func (d *Device) Step(f func(*Scope) error, opts ...Option) error {
	if err := d.check("step", f); err != nil {
		return err
	}
	d.counting.RLock()
	defer d.counting.RUnlock()
	n := d.steps.Add(1)
	return d.run(f, mode{record: true, training: true, stream: 3 * n}, opts, &d.steps, n)
}

// Warm runs f as [Device.Step] does, and changes nothing: kernels are loaded, users' expressions compiled, memory
// taken, so that the first step takes no longer than those that follow. f is what the program does in a step, with
// operands of the sizes that it will have; what it fetches it may throw away. The error is that which the step would
// have ended with.
func (d *Device) Warm(f func(*Scope) error, opts ...Option) error {
	if err := d.check("warm", f); err != nil {
		return err
	}
	err := d.Step(func(s *Scope) error {
		if err := s.outcome(f(s)); err != nil {
			return err
		}
		s.enter("warm")
		defer s.leave()
		s.prepare()
		return errWarm
	}, opts...)
	if err == errWarm {
		return nil
	}
	return err
}

// errWarm ends a step that is to change nothing.
var errWarm = errors.New("warm")

// Eval runs f as one step without recording and without training behaviour. Evaluations count apart from steps, so that
// they do not change the random numbers of training.
func (d *Device) Eval(f func(*Scope) error, opts ...Option) error {
	if err := d.check("eval", f); err != nil {
		return err
	}
	d.counting.RLock()
	defer d.counting.RUnlock()
	n := d.evals.Add(1)
	return d.run(f, mode{stream: 3*n + 1}, opts, &d.evals, n)
}

// check is an error if d is not open or there is no function of a step.
func (d *Device) check(op string, f func(*Scope) error) error {
	return try(func() { d.usable(op); given(op, "the function", f) })
}

// with is m under options.
func (m mode) with(opts []Option) mode {
	for _, o := range opts {
		if o.set != nil {
			o.set(&m)
		}
	}
	return m
}

// run is number n of those that count counts, if any does.
func (d *Device) run(f func(*Scope) error, m mode, opts []Option, count *atomic.Uint64, n uint64) (err error) {
	s := &Scope{home: d, dev: d, outermost: &region{}, goroutine: caller.Goroutine(), waiting: batch{op: &copies},
		sums: batch{op: &sums}}
	s.top = s.outermost
	underWay.Add(1)
	if count == &d.steps {
		s.launch.Step = n
	}
	if count != nil {
		s.site = caller.Site()
	}
	committed := false
	defer func() {
		if !committed {
			err = s.outcome(err)
			s.failed = true
			if count != nil {
				count.CompareAndSwap(n, n-1)
			}
		}
		s.finish()
	}()
	defer kernels.Catch(&err)
	s.outermost.mode = m.with(opts)
	s.random.Key = philox.DeriveN(d.seed, s.outermost.mode.stream)
	if err = s.outcome(f(s)); err == nil {
		s.enter("step")
		defer s.leave()
		s.commit()
		committed = true
		for _, f := range s.onCommit {
			f()
		}
	}
	return err
}

// do is run for what the library itself does in a step. It panics with an error of the step.
func (d *Device) do(f func(s *Scope)) {
	if err := d.run(func(s *Scope) error { f(s); return nil }, mode{}, nil, nil, 0); err != nil {
		panic(err)
	}
}

// end releases everything the step still owns.
func (s *Scope) end() {
	s.countLaunches()
	s.tape.release()
	s.dropWrites()
	s.waiting.drop()
	s.sums.drop()
	s.remember()
	for _, a := range s.order {
		s.grads[a].drop()
	}
	why := "its step"
	if s.site != "" {
		why += " at " + s.site
	}
	for r := s.top; r != nil; r = r.up {
		s.closeRegion(r, nil, why)
		s.top = r
	}
	s.release()
	underWay.Add(-1)
	s.leaves, s.uploads, s.casts, s.lowered, s.scratch, s.launch = nil, nil, nil, nil, ctx{}, kernels.Launch{}
}

// Device is the device the step runs on.
func (s *Scope) Device() *Device { return s.given("device").home }

// Training tells whether dropout and the like are on.
func (s *Scope) Training() bool { return s.mode("training").training }

// recording tells whether operations are recorded for differentiation.
func (s *Scope) recording() bool { return s.mode("recording").record }

// autocasting is the type that autocast lowers to; Float32 if it is off.
func (s *Scope) autocasting() DType { return s.mode("autocasting").autocast }

// mode is the innermost mode; after the step, that of the step.
func (s *Scope) mode(op string) mode {
	s.given(op)
	if s.over() {
		return s.outermost.mode
	}
	s.enter(op)
	defer s.leave()
	return s.top.mode
}

func (s *Scope) inBackward() bool { return s != nil && s.backward > 0 }

// path names the enclosing regions, outermost first.
func (s *Scope) path() string { return s.top.path().String() }

// layer is where memory is made now: for a gradient, the layer of the operation that it is the gradient of.
func (s *Scope) layer() *layer {
	if s.derived != nil {
		return s.derived.layer
	}
	return s.top.path()
}

// path is r as a layer; nil where neither it nor a region around it has a name.
func (r *region) path() *layer {
	switch {
	case r.layer != nil || r.up == nil:
	case r.name == "":
		r.layer = r.up.path()
	default:
		r.layer = &layer{r.up.path(), r.name}
	}
	return r.layer
}

func (s *Scope) push(name string, m mode) *region {
	var r *region
	if n := len(s.free); n > 0 {
		r, s.free = s.free[n-1], s.free[:n-1]
	} else {
		r = &region{}
	}
	r.up, r.name, r.mode, r.owner, r.layer = s.top, name, m, caller.Goroutine(), nil
	if r.givenUp.Load() {
		r.givenUp.Store(false)
	}
	s.top = r
	return r
}

// closeRegion gives the blocks of r in keep to the parent and releases the others.
func (s *Scope) closeRegion(r *region, keep []*Tensor, why string) {
	r.tighten()
next:
	for i, b := range r.owned {
		r.owned[i] = nil
		if b.shared {
			continue
		}
		for _, t := range keep {
			if t != nil && t.blk == b {
				r.up.owned = append(r.up.owned, b)
				continue next
			}
		}
		b.closed = why
		b.release(why)
	}
	r.owned = r.owned[:0]
}

// pop ends region r, which must be the innermost.
func (s *Scope) pop(r *region, keep []*Tensor) {
	why := "region " + r.name
	if r.name == "" {
		why = "its region"
	}
	s.closeRegion(r, keep, why)
	s.top = r.up
	s.free = append(s.free, r)
}

// Region runs f, which makes many tensors and returns those that outlive it; the memory of the others goes back to the
// pool when f returns, unless it was saved for backward. The name appears in errors. Tensors in last, which the region
// around it made, are used by f for the last time: their memory goes back, too.
func (s *Scope) Region(name string, f func() []*Tensor, last ...*Tensor) (out []*Tensor) {
	given("region", "the function", f)
	r := s.begin(name, last)
	held, done := len(s.writes), false
	defer func() {
		var e any
		if !done {
			e = recover()
		}
		s.resume(r)
		defer s.leave()
		defer s.pop(r, out)
		if done {
			return
		}
		if e, ok := e.(*Error); ok && e.In == "" { // the innermost region names itself and those around it
			e.In = s.path()
		}
		if len(s.writes) > held { // an update was cut short
			s.abort(kernels.Errorf(ErrStep, "region", "an update was not completed: %v", e))
		}
		if e != nil { // else runtime.Goexit
			panic(e)
		}
	}()
	out = f()
	done = true
	return out
}

// begin opens a region that takes over the tensors in last.
func (s *Scope) begin(name string, last []*Tensor) *region {
	s.given("region")
	s.enter(cmp.Or(name, "region"))
	defer s.leave()
	r := s.push(name, s.top.mode)
	for _, t := range last {
		if t == nil {
			continue
		}
		if t.blk != nil && t.blk.loose != nil {
			r.up.tighten()
		}
		if i := slices.Index(r.up.owned, t.blk); i >= 0 {
			r.up.owned = slices.Delete(r.up.owned, i, i+1)
			r.owned = append(r.owned, t.blk)
		}
	}
	return r
}

// With runs f under a changed mode, for every tensor of the step, old or new.
func (s *Scope) With(f func(), opts ...Option) {
	given("with", "the function", f)
	r := s.change(opts)
	defer func() {
		s.resume(r)
		defer s.leave()
		s.restore(r)
	}()
	f()
}

// change opens a region without name under a changed mode.
func (s *Scope) change(opts []Option) *region {
	s.given("with")
	s.enter("with")
	defer s.leave()
	m := s.top.mode.with(opts)
	if m.stream != s.top.mode.stream {
		fail(ErrValue, "with", "RandomStream is an option of Step and Eval, not of a part of a step")
	}
	return s.push("", m)
}

// restore ends a region that change opened. Memory passes through: its function assigned its results to variables of
// the caller.
func (s *Scope) restore(r *region) {
	r.tighten()
	r.up.owned = append(r.up.owned, r.owned...)
	clear(r.owned)
	r.owned = r.owned[:0]
	s.pop(r, nil)
}

// In takes host data, a parameter or state into the step; what belongs to the step passes unchanged. Operands that meet
// a tensor of the step are taken in by themselves, so it is needed where none of the operands is one: for a model's
// input, and for a parameter used alone. A device with memory of its own gets a copy of host data, one in a step.
func (s *Scope) In(t *Tensor) *Tensor {
	s.given("in")
	s.enter("in")
	defer s.leave()
	return s.in(t)
}

// in is In for callers that have entered the step.
func (s *Scope) in(t *Tensor) *Tensor {
	t = s.adopt("in", t)
	if t.scope == s {
		return t
	}
	return t.alias(s)
}

// watch makes t a leaf of the tape, so that autograd.Grad can be asked for its gradient. No gradient flows through it
// to what t was made from, except that a whole parameter stays itself.
func (s *Scope) watch(t *Tensor) *Tensor {
	s.given("watch")
	s.enter("watch")
	defer s.leave()
	t = s.adopt("watch", t)
	if !t.dtype.IsFloat() {
		fail(ErrGrad, "watch", "%v holds no floating numbers, so no gradient can flow to it", t)
	}
	if t.node != nil && t.node.param != nil {
		return t
	}
	return s.tape.leaf(t.alias(s)).Out[0]
}

// Full is a tensor of the step with all elements equal to v.
func (s *Scope) Full(v float64, dt DType, shape ...int) *Tensor {
	return s.given("full").apply(&full, nil, append([]int{dt.Code()}, shape...), []float64{v})
}

// adopt makes an operand usable in the step: lazy views are recorded, host data copied to the device of the operation,
// foreign steps refused. The caller has entered the step.
func (s *Scope) adopt(op string, t *Tensor) *Tensor {
	t.alive(op)
	switch {
	case t.scope == s:
		t.fresh(op)
	case t.scope != nil:
		t.foreign(op)
	case t.lazy != nil:
		y, _ := s.record(t.lazy.Op, t.lazy.In, t.lazy.Ints, t.lazy.Floats, nil, true)
		return y
	case t.root != nil:
		s.touch(t.root.arena, reading)
		t.fresh(op)
		if t.needs && s.top.mode.record {
			return s.leaf(op, t).Out[0]
		}
	}
	return s.local(op, t)
}

// foreign fails for a tensor of another step.
func (t *Tensor) foreign(op string) {
	fail(ErrStep, op, "%v belongs to another step; Keep it there, then it may be used in any step", t)
}

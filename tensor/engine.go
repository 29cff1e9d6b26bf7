package tensor

import (
	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// Engine is for the other packages of the library: what they need of this one beside what users see. Nobody else can
// make the key.
func Engine(seam.Key) engine { return engine{} }

// engine has no data: its methods are functions with a door in front of them.
type engine struct{}

// Fail panics with an [*Error] of the given kind, with the line of the caller outside the library. Inside a step the
// error comes back from the step. Of tensors among args the message has name, type and shape.
func (engine) Fail(kind error, op, format string, args ...any) { fail(kind, op, format, args...) }

// Given fails if v, an argument of op, is a nil interface, pointer or function; what names it.
func (engine) Given(op, what string, v any) { given(op, what, v) }

// Try runs f outside a step and returns the [*Error] that it panicked with.
func (engine) Try(f func()) error { return try(f) }

// Room returns an error of kind [ErrMemory] unless the process may have so many bytes more: of the machine's memory, of
// that of its container, and of its address space (ulimit -v). Go ends a process that asks for more. What reads data
// of any size asks first.
func (engine) Room(bytes int) error { return cpu.Room(bytes) }

// Free is how many bytes more the process may have of the machine's memory, or of that of its container.
func (engine) Free() int { return cpu.Free() }

// FreeMemory is how many bytes more the device has for the program; false if it does not say.
func (engine) FreeMemory(d *Device) (bytes int, known bool) {
	s, known := d.given("free memory").shared.backend.(kernels.Sizer)
	if known {
		bytes = s.FreeMemory()
	}
	return bytes, known
}

// Bytes is the memory of contiguous host data. It is valid as long as the tensor is.
func (engine) Bytes(t *Tensor) []byte { return t.hostBytes() }

// Raw gives access to the bytes of a parameter, a state or host data, for reading and writing files in pieces. It is
// not for use inside a step.
func (engine) Raw(t *Tensor) raw { return t.raw() }

// Shares tells whether x and y are in the same memory.
func (engine) Shares(x, y *Tensor) bool { return x != nil && y != nil && x.blk == y.blk }

// Snapshot copies the elements of parameters, states and host data, as they are now, for writing them while steps go
// on: each on its own device if that has room, else to the memory of the host, for which it waits. The error is of kind
// [ErrBusy] beside a step that writes some of them, and of kind [ErrMemory] if there is no room anywhere. Free the
// snapshot after use.
func (engine) Snapshot(ts []*Tensor) (*snapshot, error) { return newSnapshot(ts) }

// Recyclable makes host data for a batch, not set to anything. Recycle gives the memory of such data to later ones and
// ends its life, if it was made since Recyclables had returned so many.
func (engine) Recyclable(dt DType, shape ...int) *Tensor { return newRecyclable(dt, shape) }
func (engine) Recyclables() uint64                       { return recyclables.Load() }
func (engine) Recycle(t *Tensor, since uint64)           { t.recycle(since) }

// NewSlots is two slots on a device for batches that are uploaded beside the steps; nil where the device computes on
// the host's memory.
func (engine) NewSlots(d *Device) (s *slots, err error) {
	err = try(func() { s = newSlots(d) })
	return s, err
}

// MemoryLimit is the option of that name as text, in the form of WEFT_MEMORY_LIMIT, such as "20GiB", for programs with
// a flag; what is the name of that. Without text it does nothing.
func (engine) MemoryLimit(what, text string) OpenOption {
	return openOption(func(c *openConfig) { c.limit.what, c.limit.text = what, text })
}

// Batched has a device work as a [kernels.Batcher], until the last user closes it.
func (engine) Batched() OpenOption { return openOption(func(c *openConfig) { c.batch = true }) }

// StartMemoryProfile begins a profile of the device's memory; package profile documents it.
func (engine) StartMemoryProfile(d *Device) (p *pool.Profile, err error) {
	err = try(func() { d.usable("memory_profile"); p = d.shared.pool.StartProfile() })
	return p, err
}

// WarnLeaks has f called with what leaks; package profile documents it.
func (engine) WarnLeaks(d *Device, f func(leak pool.Leak)) error {
	return try(func() { d.usable("warn_leaks"); d.shared.pool.WatchLeaks(f) })
}

// Parameter declares a parameter, or a state, which is not trained.
func (engine) Parameter(init seam.Initializer, trainable bool, shape ...int) *Tensor {
	return declare(init, trainable, shape)
}

// Initializer draws the first values of a parameter or state; nil: they are zero.
func (engine) Initializer(t *Tensor) seam.Initializer {
	if t.given("initializer").root == nil {
		fail(ErrValue, "initializer", "%v is no parameter or state", t)
	}
	return t.root.init
}

// Counter declares state of type int64, whatever the type of the model, with values of zero.
func (engine) Counter(shape ...int) *Tensor { return counter(shape) }

// ParameterOf makes host data a trainable parameter of its own, without a model. It takes over t.
func (engine) ParameterOf(name string, t *Tensor) *Tensor { return parameterOf(name, t) }

// NewState makes state with values of zero on the device, outside any model: optimizer moments and counters.
func (engine) NewState(d *Device, name string, dt DType, shape ...int) (*Tensor, error) {
	return d.newState(name, dt, shape...)
}

// Place gives declared parameters and state their names and memory on d, parameters in one arena, state in another and
// counters in a third, in the order given, and draws their values from the streams (seed, model, name). Without a name
// the model is the n-th of the device, and called "#n". Placing again starts afresh. A Place that fails changes
// nothing.
func (engine) Place(d *Device, model string, names []string, tensors []*Tensor, dt DType) error {
	return d.placeModel(model, names, tensors, dt)
}

// PlaceLike makes parameters and states with the names, shapes and initializers of others, placed together on the
// device in the order given, with values of zero and of type dt. Package nn copies models with it.
func (engine) PlaceLike(d *Device, dt DType, like []*Tensor) ([]*Tensor, error) {
	return d.placeLike(dt, like)
}

// AssignAll assigns src[i], a parameter, state or host data of the same shape, to dst[i], a parameter or state, for all
// i: all or, with an error, none. It waits for steps that use them, as [Wait] does, and is used outside steps.
func (engine) AssignAll(dst, src []*Tensor) error { return assignAll(dst, src) }

// Walk visits every parameter and state of a model; nn.Walk documents it.
func (engine) Walk(model any, visit func(name string, t *Tensor)) { walkModel(model, visit) }

// Parameters lists the trainable tensors of a model, in the order of Walk.
func (engine) Parameters(model any) []*Tensor { return parameters(model) }

// Arena is the memory in which a parameter or state was placed, as the flat tensor of all its values, and the range of
// the parameter's elements there. That tensor stands for the arena in the methods below. Gradients and moments of an
// arena have the same offsets, so that clipping, unscaling and updates are single passes.
func (engine) Arena(p *Tensor) (values *Tensor, lo, hi int) {
	a, lo, hi := p.arena()
	return a.values, lo, hi
}

// Params lists the parameters of an arena in order of their offsets.
func (engine) Params(values *Tensor) []*Tensor { return arenaOf("params", values).params }

// Model is the name of the model that was placed: what Place was given, or "#n" for the n-th model of the device; ""
// for a parameter that is no part of one.
func (engine) Model(values *Tensor) string { return arenaOf("model", values).model }

// Grads are the gradients of an arena in this step, flat, and which parameters have one; nil if none has. Elements of
// parameters without gradient are undefined, and so is the padding behind them; other padding is zero.
func (engine) Grads(s *Scope, values *Tensor) (flat *Tensor, present []bool) {
	return s.gradsOf(arenaOf("grads", values))
}

// SetGrad makes g, of the type and shape of parameter p, the gradient of p in this step, in the place of what it has
// from this step or those before; nil drops that. It is what a checkpoint restores in the midst of accumulation, with
// [Tensor.Grad] on the other side. Hooks of p are not called.
func (engine) SetGrad(s *Scope, p, g *Tensor) { s.setGrad(p, g) }

// HasGrad tells whether parameter p has a gradient in this step or from steps before it.
func (engine) HasGrad(s *Scope, p *Tensor) bool { return s.hasGrad(p) }

// TakeGrads marks the gradient of p as used up: an optimizer applies it when the step commits.
func (engine) TakeGrads(s *Scope, p *Tensor) { s.takeGrads(p) }

// Claim notes that the step will update the values of an arena. It fails if another step uses them, or waits ([Wait]).
func (engine) Claim(s *Scope, values *Tensor) { s.claim(arenaOf("update", values)) }

// Update runs a pointwise operation in place over elements [lo, hi) of contiguous tensors of one length: dst are arena
// values and state, which are written when the step commits, or gradients and other tensors that the step made, which
// are written at once; in has tensors of that length and one-element ones. It is how optimizers write. Nothing is
// recorded.
func (engine) Update(s *Scope, op *Op, lo, hi int, dst, in []*Tensor, floats []float64) {
	s.update(op, lo, hi, dst, in, floats)
}

// Evaluate is the results of a pointwise operation of tensors of one element, each rounded to its type. Nothing is
// recorded.
func (engine) Evaluate(s *Scope, op *Op, types []DType, in []*Tensor, floats []float64) []*Tensor {
	return s.evaluate(op, types, in, floats)
}

// Committed is the parameter or state t as it was before the step, off the tape, also if the step has updated it.
func (engine) Committed(s *Scope, t *Tensor) *Tensor { return s.committed(t) }

// Guard is a pointwise operation with one more operand, the last, called name: where it is not 0, result i is the
// operand old[i] instead. It lets an Update leave everything as it is.
func (engine) Guard(op *Op, name string, old ...string) *Op { return op.guard(name, old...) }

// OnCommit calls f when the step has committed, for what the host keeps beside parameters and state. f does not use
// the step.
func (engine) OnCommit(s *Scope, f func()) { s.afterCommit(f) }

// Abort makes the step fail with err, also if its function returns nil. The first call counts. Any goroutine may call
// it.
func (engine) Abort(s *Scope, err error) { s.abort(err) }

// Failed tells whether the step has ended with an error, so that the gradients it made are gone.
func (engine) Failed(s *Scope) bool { return s.given("failed").failed }

// Counters are the numbers of the device's last step and evaluation. Beside a running step they count it.
func (engine) Counters(d *Device) seam.Counters { return d.counters() }

// SetCounters makes the device go on as the one that had the counters c did, if it has the same seed. It is an error of
// kind [ErrBusy] beside a running step or evaluation, and of kind [ErrValue] for counters of 2^60 and more.
func (engine) SetCounters(d *Device, c seam.Counters) error { return d.setCounters(c) }

// Seed is the seed given to [Open].
func (engine) Seed(d *Device) uint64 { return d.given("seed").seed }

// Backward adds the gradient of y with respect to every parameter it depends on to that parameter.
func (engine) Backward(y *Tensor, p seam.Pass[*Tensor]) { pass(p).run(y) }

// Grad is the gradient of y with respect to each of xs, nil where there is none and p.Unused permits that.
func (engine) Grad(y *Tensor, xs []*Tensor, p seam.Pass[*Tensor]) []*Tensor { return pass(p).of(y, xs) }

// Watch makes t a leaf of the tape; autograd.Watch documents it.
func (engine) Watch(s *Scope, t *Tensor) *Tensor { return s.watch(t) }

// Hook calls f with the gradient of t when a backward pass has it in full; autograd.Hook documents it.
func (engine) Hook(t *Tensor, f func(g *Tensor) *Tensor) (stop func()) { return addHook(t, f) }

// Record puts the operation called name on the tape, which was computed by other means: y came from in, and vjp, which
// may read the saved tensors, takes the gradient of y back to one gradient for each of in. The result is y on the tape;
// it is y itself if no operand needs a gradient or the step does not record.
func (engine) Record(s *Scope, name string, in []*Tensor, y *Tensor, saved []*Tensor,
	vjp func(g *Tensor) []*Tensor) *Tensor {
	op := &Op{entry{VJP: func(_ *ctx, g *Tensor) []*Tensor { return vjp(g) }}}
	op.Name = name
	return s.recordCustom(op, in, y, saved)
}

// Checkpoint is f(), of which the step keeps no more than results and operands until a backward pass makes the rest
// again; autograd.Checkpoint documents it. The region that f runs in takes over the tensors in last, as that of
// [Scope.Region] does.
func (engine) Checkpoint(s *Scope, f func() []*Tensor, last ...*Tensor) []*Tensor {
	return s.checkpoint(f, last)
}

// Offload is autograd.Offload, which documents it.
func (engine) Offload() Option { return offloadCheckpoints() }

// Autocasting is the type that autocast lowers to in the step's innermost mode; Float32 if it is off.
func (engine) Autocasting(s *Scope) DType { return s.autocasting() }

// Autocast is amp.Autocast, which documents it.
func (engine) Autocast(dt DType) Option { return autocastTo(dt) }

// Observe calls f after every operation, with the path of the enclosing regions, such as "blocks.0/attn". f may run
// operations on what c holds; they are neither recorded nor observed, and their results end with f. It must not keep c.
func (engine) Observe(f func(path string, c seam.Applied[*Op, *Tensor])) Option {
	given("observe", "the function", f)
	return observe(func(path string, c *ctx) {
		f(path, seam.Applied[*Op, *Tensor]{Op: c.Op, In: c.In, Out: c.Out, Ints: c.Ints, Floats: c.Floats,
			Flops: c.flops()})
	})
}

// CrossEntropy is [Tensor.CrossEntropy] of rows whose target is not ignore, with targets smoothed by a share from 0 to
// 1, combined as reduction says ([seam.ReduceMean] and the others).
func (engine) CrossEntropy(logits, targets *Tensor, ignore, reduction int, smoothing float64) *Tensor {
	return logits.crossEntropy(targets, ignore, reduction, smoothing)
}

// DFT is the discrete Fourier transform along an axis of complex numbers, which are pairs along the last axis, without
// a factor in either direction; package fft documents it.
func (engine) DFT(x *Tensor, axis int, inverse bool) *Tensor {
	return apply(&dft, []*Tensor{x}, []int{axis, toInt(inverse)}, nil)
}

// Gather is [Tensor.Gather] for the loss op, whose name its errors have, also those that a GPU reports later.
func (engine) Gather(op string, x *Tensor, axis int, indices *Tensor) *Tensor {
	return apply(gather.under(op), []*Tensor{x, indices}, []int{x.axis(op, axis)}, nil)
}

// IndexSelect is [Tensor.IndexSelect] for the loss op, likewise.
func (engine) IndexSelect(op string, x *Tensor, axis int, indices *Tensor) *Tensor {
	return applyIndexed(indexSelect.under(op), []*Tensor{x, indices}, x.axis(op, axis))
}

// Apply runs one operation and, if the step records, enters it in the tape. It returns the first output.
func (engine) Apply(op *Op, in []*Tensor, ints []int, floats []float64) *Tensor {
	op.wantTakes(in, ints, floats)
	return apply(op, in, ints, floats)
}

// ApplyAll is Apply for operations with several outputs.
func (engine) ApplyAll(op *Op, in []*Tensor, ints []int, floats []float64) []*Tensor {
	op.wantTakes(in, ints, floats)
	return applyAll(op, in, ints, floats)
}

// Op is the operation of the table with that name.
func (engine) Op(name string) *Op { return byName[name] }

// Pull is the gradients of the operands in of a pointwise operation without scalars, whose result y has the gradient g:
// of one op call, where none is recorded.
func (engine) Pull(op *Op, in []*Tensor, y, g *Tensor) []*Tensor { return pullAll(op, in, y, g) }

// Empty is a contiguous tensor of the step that is not set to anything; Into is what sets it.
func (engine) Empty(s *Scope, dt DType, shape ...int) *Tensor { return s.empty("empty", dt, shape) }

// Into is f(), written to dst, a contiguous part of an Empty of its type and shape: in place if an op call of f, the
// first that makes a result of that size, makes it, else by a copy. f records nothing.
func (engine) Into(dst *Tensor, f func() *Tensor) *Tensor {
	given("into", "the function", f)
	dst.usable("into")
	return dst.scope.given("into").placed(dst, f)
}

// Beside is f(), in which results without operands, and host data that are taken in, are on the device of x, which
// belongs to the step, and not on that of the step.
func (engine) Beside(x *Tensor, f func() *Tensor) *Tensor {
	given("beside", "the function", f)
	x.usable("beside")
	return x.scope.given("beside").beside(x, f)
}

// NewFull is all elements equal to v, in the step of x, on its device.
func (engine) NewFull(x *Tensor, v float64, dt DType, shape ...int) *Tensor {
	x.usable("full")
	s := x.scope.given("full")
	return s.beside(x, func() *Tensor { return s.Full(v, dt, shape...) })
}

// Recording tells whether operations are recorded for differentiation: in a backward function, whether derivatives of
// its results are wanted.
func (engine) Recording(s *Scope) bool { return s.recording() }

// Ops lists all operations.
func (engine) Ops() []*Op { return table }

// Samples are the operation's samples; pointwise operations without any get shapes that broadcast in every way. A
// sample of an operation of which several outputs carry a gradient becomes one for each of them, in which no gradient
// arrives at the others, and one for all together.
func (engine) Samples(op *Op) []seam.Sample[*Tensor] { return op.allSamples() }

// NewOp makes an operation that is not in the table, without derivative, whose result has the given type and shape
// whatever its operands: for decompositions in package linalg, and for tests of devices.
func (engine) NewOp(k kernels.Op, dt DType, shape ...int) *Op {
	op := &Op{entry{Op: k, NoGrad: "it is not in the table"}}
	op.Shape = func(c *ctx) { c.result(dt, shape...) }
	return op
}

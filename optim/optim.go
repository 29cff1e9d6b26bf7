package optim

import (
	"math"
	"slices"
	"strings"

	"github.com/weft-ml/weft/tensor"
)

// Optimizer runs a [Rule] over the parameters of a model. It is used by one step at a time.
type Optimizer struct {
	LR *tensor.Scalar // the learning rate; set it between steps: opt.LR.Set(schedule(i))

	rule    Rule
	params  []*tensor.Tensor
	noDecay func(*tensor.Tensor) bool
	clip    float64
	limit   float64 // of the elements of gradients; 0: none
	arenas  []*arena
	norm    *tensor.Tensor // of the last gradient before clipping, float64 of rank 0
	groups  []*group       // the first one has the parameters that are in no other
	groupOf map[*tensor.Tensor]int

	update, count *tensor.Op
	counters      []*tensor.Tensor // float64, one element each
	begun         bool             // a step has committed
}

// arena is what the optimizer keeps for one arena of parameters.
type arena struct {
	values *tensor.Tensor // flat
	params []*tensor.Tensor
	state  []*tensor.Tensor // flat, one for each name in Rule.State; parameters have their offsets of the arena
	mine   []bool           // which parameters belong to the optimizer

	whole map[*tensor.Tensor][]*tensor.Tensor // state of a rule with Whole, in its order, nil for what there is not
}

// Option changes an [Optimizer]. The zero Option changes nothing.
type Option struct{ set func(*Optimizer) }

// Clip scales the gradient of all parameters together to at most the given norm, which is positive, before the update.
func Clip(norm float64) Option {
	if !(norm > 0 && norm <= math.MaxFloat64) {
		engine.Fail(tensor.ErrValue, "clip", "the norm is %v; it must be positive and finite", norm)
	}
	return Option{func(o *Optimizer) { o.clip = norm }}
}

// ClipValue holds every element of the gradient between -limit and limit, which is positive, before [Clip] and the
// update.
func ClipValue(limit float64) Option {
	if !(limit > 0 && limit <= math.MaxFloat64) {
		engine.Fail(tensor.ErrValue, "clip_value", "the limit is %v; it must be positive and finite", limit)
	}
	return Option{func(o *Optimizer) { o.limit = limit }}
}

// NoDecay exempts parameters from weight decay. [Vectors] is the usual choice for transformers.
func NoDecay(exempt func(p *tensor.Tensor) bool) Option {
	return Option{func(o *Optimizer) { o.noDecay = exempt }}
}

// Vectors is true for parameters of fewer than two axes, such as biases and the weights of norms. It is for [NoDecay].
func Vectors(p *tensor.Tensor) bool { return p.Rank() < 2 }

// New makes an optimizer for the parameters of a model, which nn.Init has placed; a model may also be one parameter or
// a slice of them. It panics with a [tensor.Error] if there is none, if a hyperparameter is out of range, also when
// rounded to the type of the parameters, or if the rule's expression is wrong.
func New(rule Rule, model any, opts ...Option) *Optimizer {
	rule.check(tensor.Float64)
	o := &Optimizer{LR: tensor.NewScalar(rule.LR), rule: rule, params: engine.Parameters(model),
		groupOf: map[*tensor.Tensor]int{}}
	o.groups = []*group{{rate: o.LR, rule: rule}}
	for _, option := range opts {
		if option.set != nil {
			option.set(o)
		}
	}
	if len(o.params) == 0 {
		engine.Fail(tensor.ErrValue, rule.Name, "the model has no parameters")
	}
	for _, p := range o.params {
		var values *tensor.Tensor
		if engine.Try(func() { values, _, _ = engine.Arena(p) }) != nil {
			engine.Fail(tensor.ErrStep, rule.Name, "parameter %v has no values yet: call nn.Init(dev, model) first", p)
		}
		i := slices.IndexFunc(o.arenas, func(x *arena) bool { return x.values == values })
		if i < 0 {
			i = len(o.arenas)
			params := engine.Params(values)
			o.arenas = append(o.arenas, &arena{values: values, params: params, mine: make([]bool, len(params))})
		}
		o.arenas[i].mine[slices.Index(o.arenas[i].params, p)] = true
	}
	for _, g := range o.groups {
		for _, a := range o.arenas {
			g.rule.check(wide(a.values.DType()))
		}
	}
	if rule.Whole == nil {
		o.update = Operation(rule)
	}
	o.count = countOp(rule)
	return o
}

// given fails for an optimizer that New has not made.
func (o *Optimizer) given() {
	if o == nil || o.LR == nil {
		engine.Fail(tensor.ErrValue, "optimizer", "the optimizer is nil; optim.New makes one")
	}
}

// arenaOf is the arena of parameter p, and the range of p there. It fails if p has been placed again since New.
func (o *Optimizer) arenaOf(p *tensor.Tensor) (_ *arena, lo, hi int) {
	values, lo, hi := engine.Arena(p)
	for _, a := range o.arenas {
		if a.values == values {
			return a, lo, hi
		}
	}
	engine.Fail(tensor.ErrStep, o.rule.Name,
		"parameter %v was placed again after optim.New; call optim.New after nn.Init", p)
	return
}

// givenIn is given in a step, which must be one of the device that has the parameters.
func (o *Optimizer) givenIn(s *tensor.Scope) {
	o.given()
	dev := s.Device()
	for _, a := range o.arenas {
		if home := a.values.Device(); home != nil && home.Name() != dev.Name() { // nil: host data
			engine.Fail(tensor.ErrStep, o.rule.Name, "%v and what was placed with it are on %s, the step is one of %s",
				a.params[0], home.Name(), dev.Name())
		}
	}
}

// Operation is the rule for one element as a pointwise operation, as Step runs it: operands p, grad, the
// state, the counters, gradscale, which the gradient is multiplied with first, and skip, which leaves everything
// as it is unless it is 0; scalars lr and the rule's constants.
func Operation(rule Rule) *tensor.Op {
	rule.check(tensor.Float64)
	if rule.Whole != nil {
		engine.Fail(tensor.ErrValue, rule.Name, "the rule is of whole tensors, not of elements")
	}
	old := append([]string{"p"}, rule.State...)
	args := append([]string{"p", "grad"}, rule.State...)
	args = append(append(args, names(rule.Counters)...), "gradscale")
	src := "g = grad*gradscale\n" + rule.Update
	return engine.Guard(tensor.MustPointwise(rule.Name, src, args, scalars(rule)...), "skip", old...)
}

// countOp moves the counters on by one step, unless its last operand, skip, is not 0.
func countOp(rule Rule) *tensor.Op {
	if len(rule.Counters) == 0 {
		return nil
	}
	var next []string
	for _, c := range rule.Counters {
		next = append(next, c.Next)
	}
	args := names(rule.Counters)
	op := tensor.MustPointwise(rule.Name+"_count", strings.Join(next, "; "), args, scalars(rule)...)
	return engine.Guard(op, "skip", args...)
}

func names(counters []Counter) (all []string) {
	for _, c := range counters {
		all = append(all, c.Name)
	}
	return all
}

// scalars names the scalars of a rule's operations.
func scalars(rule Rule) []string {
	names := []string{"lr"}
	for _, n := range rule.Numbers {
		names = append(names, n.Name)
	}
	return names
}

// prepare allocates state at the first step, before anything is written.
func (o *Optimizer) prepare(dev *tensor.Device, norm bool) error {
	for _, c := range o.rule.Counters[len(o.counters):] {
		t, err := engine.NewState(dev, o.rule.Name+"."+c.Name, tensor.Float64)
		if err != nil {
			return err
		}
		t.Assign(tensor.FromSlice([]float64{c.First}))
		o.counters = append(o.counters, t)
	}
	if norm && o.norm == nil {
		var err error
		if o.norm, err = engine.NewState(dev, o.rule.Name+".norm", tensor.Float64); err != nil {
			return err
		}
	}
	if o.rule.Whole != nil {
		return o.prepareWhole(dev)
	}
	for _, a := range o.arenas {
		for _, name := range o.rule.State[len(a.state):] {
			t, err := engine.NewState(dev, o.rule.Name+"."+name, a.values.DType(), a.values.Len())
			if err != nil {
				return err
			}
			a.state = append(a.state, t)
		}
	}
	return nil
}

// Step applies the rule to every parameter that has a gradient in this step or from steps before, and clears those
// gradients. Parameters without gradient stay as they are. Parameters and state are written when the function of the
// step has returned nil; until then they cannot be read. It fails if no parameter has a gradient or memory is short.
func (o *Optimizer) Step(s *tensor.Scope) error {
	_, err := o.StepScaled(s, nil)
	return err
}

// StepScaled is Step for gradients that are to be multiplied by inv, which has one element. Where their norm is then
// not finite, parameters and state stay as they are, to the bit, and the result, of one element, is 1; else it is 0.
// Nothing waits for the device. It is what a loss scaler calls.
func (o *Optimizer) StepScaled(s *tensor.Scope, inv *tensor.Tensor) (overflow *tensor.Tensor, err error) {
	o.givenIn(s)
	for _, g := range o.groups {
		for _, a := range o.arenas {
			g.rule.checkRate(g.rate.Value(), wide(a.values.DType()))
		}
	}
	s.Region(o.rule.Name, func() []*tensor.Tensor {
		runs := o.runs(s, inv != nil)
		if err = o.prepare(s.Device(), o.clip > 0 || inv != nil); err != nil {
			engine.Abort(s, err)
			return nil
		}
		for i, a := range o.arenas {
			if len(runs[i]) > 0 {
				engine.Claim(s, a.values)
			}
		}
		s.With(func() { overflow = o.step(s, runs, inv) }, tensor.NoGrad())
		if !o.begun {
			engine.OnCommit(s, func() { o.begun = true })
		}
		return []*tensor.Tensor{overflow}
	})
	return overflow, err
}

// runs are the ranges of the arenas that an update passes over; scaled gradients must have the range to be unscaled in.
func (o *Optimizer) runs(s *tensor.Scope, scaled bool) (runs [][]run) {
	total := 0
	for _, a := range o.arenas {
		_, present := engine.Grads(s, a.values)
		r := o.runsOf(a, present)
		if scaled && len(r) > 0 && a.values.DType() == tensor.Float16 {
			engine.Fail(tensor.ErrDType, o.rule.Name,
				"the gradient of %v is float16, where it would vanish when unscaled; keep parameters in float32, "+
					"amp.Autocast casts them", a.params[r[0].first])
		}
		runs = append(runs, r)
		total += len(r)
	}
	if total == 0 {
		for _, p := range o.params {
			o.arenaOf(p)
		}
		engine.Fail(tensor.ErrGrad, o.rule.Name, "no parameter has a gradient; call autograd.Backward first")
	}
	return runs
}

// unscale is what Unscale does to an element, clipValue what [ClipValue] does.
var (
	unscale   = tensor.MustPointwise("unscale", "g*inv", []string{"g", "inv"})
	clipValue = tensor.MustPointwise("clip_value", "clamp(g*inv, -limit, limit)", []string{"g", "inv"}, "limit")
)

// Unscale multiplies the gradients of the step that Step would apply by inv, of one element, in place. Where their norm
// is then not finite overflow, of one element, is 1; else it is 0.
func (o *Optimizer) Unscale(s *tensor.Scope, inv *tensor.Tensor) (overflow *tensor.Tensor) {
	o.givenIn(s)
	runs := o.runs(s, true)
	_, _, overflow = o.clipping(s, runs, inv, math.Inf(1))
	o.multiply(s, unscale, runs, inv)
	return overflow
}

// multiply applies op to gradients and inv, in place.
func (o *Optimizer) multiply(s *tensor.Scope, op *tensor.Op, runs [][]run, inv *tensor.Tensor, floats ...float64) {
	for i, rs := range runs {
		grads, _ := engine.Grads(s, o.arenas[i].values)
		for _, r := range rs {
			in := []*tensor.Tensor{grads, inv.To(wide(grads.DType()))}
			engine.Update(s, op, r.lo, r.hi, in[:1], in, floats)
		}
	}
}

// wide is the type of norms and factors of an arena: half precision would lose bias corrections and small factors.
func wide(arena tensor.DType) tensor.DType {
	if arena == tensor.Float64 {
		return arena
	}
	return tensor.Float32
}

// Of the sum of the squares of all gradients: the norm; the factor of each element, scale less what [Clip] takes; and
// whether the update is skipped, 1, or not. Without scale nothing is skipped.
var (
	clipped = tensor.MustPointwise("clip", `
		norm = sqrt(sum)
		norm
		min(1/(norm + 1e-6)*clip, 1)
		0`, []string{"sum"}, "clip")
	clippedScaled = tensor.MustPointwise("clip_scaled", `
		norm = sqrt(sum)
		norm
		scale*min(1/(norm + 1e-6)*clip, 1)
		where(isfinite(norm), 0, 1)`, []string{"sum", "scale"}, "clip")
)

// step updates the ranges. Parameters are multiplied by inv, if it is not nil.
func (o *Optimizer) step(s *tensor.Scope, runs [][]run, inv *tensor.Tensor) (skip *tensor.Tensor) {
	scale := inv
	if o.limit > 0 {
		if scale == nil {
			scale = s.Full(1, tensor.Float32)
		}
		if o.clip > 0 || inv != nil {
			norm, _, bad := o.clipping(s, runs, inv, math.Inf(1))
			o.norm.Assign(norm)
			skip = bad
		}
		o.multiply(s, clipValue, runs, scale, o.limit)
		scale = nil
	}
	var factor *tensor.Tensor
	if o.clip > 0 || scale != nil {
		var norm, bad *tensor.Tensor
		limit := o.clip
		if limit == 0 {
			limit = math.Inf(1)
		}
		norm, factor, bad = o.clipping(s, runs, scale, limit)
		if o.limit == 0 {
			o.norm.Assign(norm)
			skip = bad
		}
	} else {
		factor = s.Full(1, tensor.Float32)
	}
	if skip == nil {
		skip = s.Full(0, tensor.Float32)
	}
	next := o.counted(s, skip)
	if o.rule.Whole != nil {
		s.With(func() { o.updateWhole(s, runs, next, factor, skip) }, engine.Autocast(tensor.Float32))
		return skip
	}
	for i, a := range o.arenas {
		grads, _ := engine.Grads(s, a.values)
		dst := append([]*tensor.Tensor{a.values}, a.state...)
		in := append([]*tensor.Tensor{a.values, grads}, a.state...)
		for _, c := range append(slices.Clone(next), factor, skip) { // operands of one element
			in = append(in, c.To(wide(a.values.DType())))
		}
		for _, r := range runs[i] {
			engine.Update(s, o.update, r.lo, r.hi, dst, in, o.groups[r.group].scalars(r.decay))
			for _, p := range a.params[r.first : r.last+1] {
				engine.TakeGrads(s, p)
			}
		}
	}
	return skip
}

// clipping is the norm of the gradients times scale, if that is not nil, as float64 of rank 0; the factor that scales
// them and clips that norm; and whether the norm is not finite, 1, or 0.
func (o *Optimizer) clipping(s *tensor.Scope, runs [][]run, scale *tensor.Tensor, clip float64) (norm, factor,
	skip *tensor.Tensor) {
	op, in := clipped, []*tensor.Tensor{o.squares(s, runs, scale)}
	if scale != nil {
		op, in = clippedScaled, append(in, scale)
	}
	y := engine.Evaluate(s, op, []tensor.DType{tensor.Float64, o.wide(), tensor.Float32}, in, []float64{clip})
	return y[0], y[1], y[2]
}

// wide is the type of counters and factors: that of one arena, where all have the same, else float64.
func (o *Optimizer) wide() tensor.DType {
	dt := wide(o.arenas[0].values.DType())
	for _, a := range o.arenas {
		if o.rule.Whole != nil || wide(a.values.DType()) != dt {
			return tensor.Float64
		}
	}
	return dt
}

// counted is the next value of each counter, or this one where the update is skipped. The step writes it.
func (o *Optimizer) counted(s *tensor.Scope, skip *tensor.Tensor) []*tensor.Tensor {
	if o.count == nil {
		return nil
	}
	in, numbers := append(slices.Clone(o.counters), skip), o.groups[0].scalars(true)
	next := engine.Evaluate(s, o.count, slices.Repeat([]tensor.DType{o.wide()}, len(o.counters)), in, numbers)
	engine.Update(s, o.count, 0, 1, o.counters, in, numbers)
	return next
}

// squares is the sum of the squares of all gradients, times scale if that is not nil, of rank 0; of several sums it is
// float64.
func (o *Optimizer) squares(s *tensor.Scope, runs [][]run, scale *tensor.Tensor) (sum *tensor.Tensor) {
	for i, a := range o.arenas {
		grads, _ := engine.Grads(s, a.values)
		for _, r := range runs[i] {
			part := grads.Slice(0, r.lo, r.hi).SumSquares(scale)
			if sum == nil {
				sum = part
			} else {
				sum = sum.To(tensor.Float64).Add(part)
			}
		}
	}
	return sum
}

// GradNorm is the norm of the gradient in the last step before clipping, not finite if a loss scaler had the update
// skipped; 0 without [Clip] or scaler. It waits for the device.
func (o *Optimizer) GradNorm() float64 {
	o.given()
	if o.norm == nil {
		return 0
	}
	return o.norm.Item()
}

// run is a range of an arena that one pass updates: neighbouring parameters treated alike.
type run struct {
	lo, hi      int // elements
	first, last int // parameters
	group       int
	decay       bool
}

// runsOf finds the ranges of parameters in a that belong to the optimizer and have a gradient.
func (o *Optimizer) runsOf(a *arena, present []bool) []run {
	var rs []run
	for i, p := range a.params {
		if present == nil || !present[i] || !a.mine[i] {
			continue
		}
		_, lo, hi := engine.Arena(p)
		group, decay := o.groupOf[p], o.noDecay == nil || !o.noDecay(p)
		if n := len(rs) - 1; n >= 0 && rs[n].last == i-1 && rs[n].group == group && rs[n].decay == decay {
			rs[n].hi, rs[n].last = hi, i
		} else {
			rs = append(rs, run{lo, hi, i, i, group, decay})
		}
	}
	return rs
}

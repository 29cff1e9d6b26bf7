package amp

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// ErrOverflow is the kind of error that ends a run in which too many updates in a row are skipped.
var ErrOverflow = errors.New("gradients overflow")

// Kinds of errors in the order of calls; the comments say which calls fail. All are tensor.ErrStep, too.
var (
	ErrNotScaled = fmt.Errorf("no loss was scaled: %w", tensor.ErrStep)     // Unscale or Step
	ErrStepped   = fmt.Errorf("the scaler has stepped: %w", tensor.ErrStep) // Scale, Unscale or Step

	// Unscale, State, Step without the unscaled gradients, or the next step.
	ErrUnscaled = fmt.Errorf("gradients are unscaled and not applied: %w", tensor.ErrStep)
)

// Optimizer is what a [GradScaler] drives; package optim has one.
type Optimizer interface {
	// Step updates the parameters with the gradients of the step, and clears these.
	Step(s *tensor.Scope) error
	// StepScaled is Step with the gradients times inv, which has one element. If their norm is not finite it only
	// clears them. overflow has one element: 1 in this case, else 0.
	StepScaled(s *tensor.Scope, inv *tensor.Tensor) (overflow *tensor.Tensor, err error)
	// Unscale multiplies the gradients of the step by inv, in place; overflow is as in StepScaled.
	Unscale(s *tensor.Scope, inv *tensor.Tensor) (overflow *tensor.Tensor)
}

// GradScaler multiplies a loss so that float16 gradients stay within their range, divides the gradients again before
// the update, skips updates whose gradients overflowed, and adapts the factor: an overflow multiplies it by Backoff,
// and Interval updates without one by Growth. It follows PyTorch's GradScaler with two differences: gradients overflow
// when their norm does, and nothing in a step waits for the device, where the state stays.
//
// A GradScaler is used by one step at a time. Make it with [NewGradScaler].
type GradScaler struct {
	first    State                        // before the first step, and the options
	state    []*tensor.Tensor             // scale, tracker, skipped, skipped in a row: float32, one element each
	arrived  func() []float64             // the state before a recent update; gives nil until that is on the host
	step     *tensor.Scope                // the step that the fields below belong to
	unscaled map[Optimizer]*tensor.Tensor // whether the gradients that Unscale divided overflowed
	stepped  bool
}

// Options are the settings of a scaler; Scale is the factor.
type Options struct {
	Scale    float64 `json:"scale"`
	Growth   float64 `json:"growth_factor"`
	Backoff  float64 `json:"backoff_factor"`
	Interval int     `json:"growth_interval"`
	Min      float64 `json:"min_scale"`
	MaxSkips int     `json:"max_skips"`
	Off      bool    `json:"off"` // Enabled(false)
}

// Option changes a [GradScaler]. The zero Option changes nothing.
type Option struct{ set func(*Options) }

// InitScale is the first factor; 65536 by default.
func InitScale(v float64) Option { return Option{func(o *Options) { o.Scale = v }} }

// Growth sets by what the factor grows, and after how many updates without overflow; 2 and 2000 by default.
func Growth(factor float64, interval int) Option {
	return Option{func(o *Options) { o.Growth, o.Interval = factor, interval }}
}

// Backoff is what an overflow multiplies the factor with; 0.5 by default.
func Backoff(factor float64) Option { return Option{func(o *Options) { o.Backoff = factor }} }

// MinScale is the smallest factor; 2^-16 by default.
func MinScale(v float64) Option { return Option{func(o *Options) { o.Min = v }} }

// MaxSkips is how many updates in a row may be skipped; 50 by default. One more is an error.
func MaxSkips(n int) Option { return Option{func(o *Options) { o.MaxSkips = n }} }

// Enabled(false) makes a scaler that does nothing: Scale is the loss itself and Step is that of the optimizers.
// Programs that train in several types differ in nothing else.
func Enabled(on bool) Option { return Option{func(o *Options) { o.Off = !on }} }

// NewGradScaler makes a scaler. It panics with a [tensor.Error] if an option is out of range.
func NewGradScaler(opts ...Option) *GradScaler {
	o := Options{Scale: 65536, Growth: 2, Backoff: 0.5, Interval: 2000, Min: 1. / 65536, MaxSkips: 50}
	for _, option := range opts {
		if option.set != nil {
			option.set(&o)
		}
	}
	if err := o.check(); err != nil {
		engine.Fail(tensor.ErrValue, "grad_scaler", "%v", err)
	}
	return &GradScaler{first: State{Options: o}}
}

// given fails for a scaler that NewGradScaler has not made.
func (g *GradScaler) given() {
	if g == nil || g.first.Growth == 0 {
		engine.Fail(tensor.ErrValue, "grad_scaler", "the scaler is nil; amp.NewGradScaler makes one")
	}
}

// checkOptimizer fails for an optimizer that is nil, or that cannot be told from others.
func checkOptimizer(opt Optimizer) {
	engine.Given("grad_scaler", "an optimizer", opt)
	if !reflect.TypeOf(opt).Comparable() {
		engine.Fail(tensor.ErrValue, "grad_scaler", "the optimizer is a %T, which cannot be compared; give a pointer",
			opt)
	}
}

func (o *Options) check() error {
	switch {
	case !(o.Min > 0 && o.Min >= smallest):
		return fmt.Errorf("the smallest scale %v is below %v, the smallest normal float32", o.Min, smallest)
	case !(float32(o.Scale) >= float32(o.Min) && o.Scale <= math.MaxFloat32): // both as the device has them
		return fmt.Errorf("the scale %v is outside [%v, %v]", o.Scale, o.Min, math.MaxFloat32)
	case !(o.Growth > 1 && o.Growth <= math.MaxFloat32):
		return fmt.Errorf("the growth factor %v must be above 1", o.Growth)
	case !(o.Backoff > 0 && o.Backoff < 1):
		return fmt.Errorf("the backoff factor %v must be between 0 and 1", o.Backoff)
	case o.Interval < 1 || o.Interval > 1<<24: // float32 counts that far
		return fmt.Errorf("the growth interval %d must be between 1 and %d", o.Interval, 1<<24)
	case o.MaxSkips < 1:
		return fmt.Errorf("%d skipped updates in a row; at least 1 must be allowed", o.MaxSkips)
	}
	return nil
}

// smallest is the smallest normal float32: the reciprocal of a scale that is not below it is finite.
const smallest = 1. / (1 << 63) / (1 << 63)

// overflowBound is the smallest float64 that rounds to infinity in float32.
const overflowBound = 0x1p128 - 0x1p103

// update computes the next state. bad is how many optimizers had an overflow. The new scale is a float64 product, as in
// PyTorch, which rounds to the float32 state; the scale grows only if the product is below top, which is overflowBound:
// else the state would be infinite.
var update = tensor.MustPointwise("grad_scaler", `
	count = tracker + 1
	due = interval <= count
	up = scale*growth
	where(0 < bad, max(scale*backoff, floor), where(due && up < top, up, scale))
	where(0 < bad || due, 0, count)
	where(0 < bad, skipped + 1, skipped)
	where(0 < bad, streak + 1, 0)`,
	[]string{"scale", "tracker", "skipped", "streak", "bad"}, "growth", "backoff", "interval", "floor", "top")

// prepare makes the state, on the device of the first step.
func (g *GradScaler) prepare(s *tensor.Scope) {
	if g.state != nil {
		return
	}
	var state []*tensor.Tensor
	for i, v := range g.first.values() {
		name := "grad_scaler." + []string{"scale", "tracker", "skipped", "skipped_in_row"}[i]
		t, err := engine.NewState(s.Device(), name, tensor.Float32)
		if err != nil {
			panic(err)
		}
		t.Assign(tensor.Of(v))
		state = append(state, t)
	}
	g.state = state
}

// Scale is the loss, or anything that Backward starts from, times the factor.
func (g *GradScaler) Scale(loss *tensor.Tensor) *tensor.Tensor {
	g.given()
	if g.first.Off {
		return loss
	}
	s := loss.Scope()
	if s == nil {
		engine.Fail(tensor.ErrStep, "grad_scaler", "%v belongs to no step; scale the loss inside the step that made it",
			loss)
	}
	s.With(func() {
		g.begin(s)
		if g.stepped {
			engine.Fail(ErrStepped, "grad_scaler", "Scale after Step in one step: the factor has changed")
		}
		g.prepare(s)
		loss = loss.Mul(s.In(g.state[0]))
	})
	return loss
}

// begin clears what belongs to an earlier step.
func (g *GradScaler) begin(s *tensor.Scope) {
	if g.step != s {
		left := g.halfway()
		g.step, g.stepped, g.unscaled = s, false, map[Optimizer]*tensor.Tensor{}
		if left {
			engine.Fail(ErrUnscaled, "grad_scaler",
				"an earlier step called Unscale and not Step: the gradients it left are divided, "+
					"those that come are not; call Unscale in the step that updates, and ClearGrads to go on from here")
		}
	}
}

// halfway tells whether there are gradients that Unscale has divided and no Step has taken.
func (g *GradScaler) halfway() bool {
	return len(g.unscaled) > 0 && !g.stepped && !engine.Failed(g.step)
}

// ready fails if the gradients of the step cannot be divided now.
func (g *GradScaler) ready(s *tensor.Scope, call string) {
	if g.state == nil {
		engine.Fail(ErrNotScaled, "grad_scaler", "%s before Scale; Backward must start from scaler.Scale(loss)", call)
	}
	g.begin(s)
	if g.stepped {
		engine.Fail(ErrStepped, "grad_scaler",
			"%s after Step in one step; give Step all optimizers at once, so that the factor is updated once", call)
	}
}

// Unscale divides the gradients of an optimizer by the factor, for code that reads or changes them before Step. Call it
// in the step that updates, once for each optimizer, after the last Backward.
func (g *GradScaler) Unscale(s *tensor.Scope, opt Optimizer) {
	g.given()
	checkOptimizer(opt)
	if g.first.Off {
		return
	}
	g.plain(s, func() []*tensor.Tensor {
		g.ready(s, "Unscale")
		if g.unscaled[opt] != nil {
			engine.Fail(ErrUnscaled, "grad_scaler",
				"Unscale twice for one optimizer in one step; its gradients would be divided twice")
		}
		overflow := opt.Unscale(s, g.inverse(s))
		engine.Given("grad_scaler", "the overflow that Unscale of the optimizer returned", overflow)
		g.unscaled[opt] = overflow
		return []*tensor.Tensor{overflow}
	})
}

// Step lets every optimizer whose gradients did not overflow update its parameters, and then updates the factor. Call
// it once in a step, after the last Backward. When more than MaxSkips updates in a row were skipped, a later call fails
// with [ErrOverflow]: on the CPU the next one, elsewhere the first one after the state has reached the host.
func (g *GradScaler) Step(s *tensor.Scope, opts ...Optimizer) (err error) {
	g.given()
	defer func() {
		if err != nil {
			engine.Abort(s, err) // others have stepped
		}
	}()
	if len(opts) == 0 {
		engine.Fail(tensor.ErrValue, "grad_scaler", "Step needs an optimizer")
	}
	for i, opt := range opts {
		checkOptimizer(opt)
		if slices.Contains(opts[:i], opt) {
			engine.Fail(tensor.ErrValue, "grad_scaler", "Step is given optimizer %d twice", i)
		}
	}
	if g.first.Off {
		for _, opt := range opts {
			if err = opt.Step(s); err != nil {
				return err
			}
		}
		return nil
	}
	g.plain(s, func() []*tensor.Tensor {
		g.ready(s, "Step")
		for opt := range g.unscaled {
			if !slices.Contains(opts, opt) {
				engine.Fail(ErrUnscaled, "grad_scaler",
					"Step without an optimizer that Unscale was called for; its gradients would meet others that are "+
						"not divided")
			}
		}
		g.checkSkips(s)
		inv := g.inverse(s)
		var bad *tensor.Tensor
		for _, opt := range opts {
			factor := inv
			if overflow := g.unscaled[opt]; overflow != nil {
				// 1, or infinite after an overflow, even if the gradients are finite now
				one := s.Full(1, tensor.Float32)
				factor = one.Div(one.Sub(overflow))
			}
			var overflow *tensor.Tensor
			if overflow, err = opt.StepScaled(s, factor); err != nil {
				return nil
			}
			if bad == nil {
				bad = overflow
			} else {
				bad = bad.Add(overflow)
			}
		}
		constants := []float64{g.first.Growth, g.first.Backoff, float64(g.first.Interval), g.first.Min, overflowBound}
		old := []*tensor.Tensor{s.In(g.state[0]).To(tensor.Float64)}
		engine.Update(s, update, 0, 1, g.state, append(append(old, g.state[1:]...), bad), constants)
		g.stepped = true
		return nil
	})
	return err
}

// plain runs f in a region of its own, not recorded and without autocast.
func (g *GradScaler) plain(s *tensor.Scope, f func() []*tensor.Tensor) {
	s.Region("grad_scaler", func() (keep []*tensor.Tensor) {
		s.With(func() { keep = f() }, tensor.NoGrad(), Autocast(tensor.Float32))
		return keep
	})
}

// inverse is 1/scale, rounded once.
func (g *GradScaler) inverse(s *tensor.Scope) *tensor.Tensor { return s.In(g.state[0]).Reciprocal() }

// checkSkips fails if too many updates in a row were skipped, by the last state that reached the host, and asks for the
// present one. A request that has not been answered is left alone: a new one would discard it.
func (g *GradScaler) checkSkips(s *tensor.Scope) {
	if g.arrived != nil && !g.check() {
		return
	}
	var now []*tensor.Tensor
	for _, t := range g.state {
		now = append(now, s.In(t))
	}
	g.arrived = tensor.Stack(0, now...).Fetch()
	g.check() // on the CPU it is there at once
}

// check is false if the state that was asked for has not reached the host.
func (g *GradScaler) check() bool {
	now := g.arrived()
	if now != nil && now[3] > float64(g.first.MaxSkips) {
		engine.Fail(ErrOverflow, "grad_scaler",
			"%v updates in a row were skipped, at last with the scale %v: the gradients are not finite "+
				"whatever the scale; find the first operation whose result is not, or allow more by amp.MaxSkips",
			now[3], now[0])
	}
	return now != nil
}

// State is all of a scaler, to be saved with a model.
type State struct {
	Options
	Tracker      int `json:"growth_tracker"` // updates since the scale changed
	Skipped      int `json:"skipped"`        // updates in all
	SkippedInRow int `json:"skipped_in_row"` // up to now
}

// State waits for the device and reads the state. Between Unscale and Step it fails.
func (g *GradScaler) State() State {
	g.given()
	if g.halfway() {
		engine.Fail(ErrUnscaled, "grad_scaler", "State between Unscale and Step; save after the step")
	}
	st := g.first
	if g.state == nil {
		st.Scale = float64(float32(st.Scale)) // as the device will have it
	} else {
		st.Scale, st.Tracker = g.state[0].Item(), int(g.state[1].Item())
		st.Skipped, st.SkippedInRow = int(g.state[2].Item()), int(g.state[3].Item())
	}
	return st
}

// Restore sets the state that State returned. It fails, and changes nothing, if the state is not valid.
func (g *GradScaler) Restore(st State) error {
	g.given()
	err := st.check()
	if err == nil && min(st.Tracker, st.Skipped, st.SkippedInRow) < 0 {
		err = fmt.Errorf("a count is negative: %d, %d, %d", st.Tracker, st.Skipped, st.SkippedInRow)
	}
	if n := max(st.Tracker, st.Skipped, st.SkippedInRow); err == nil && n > 1<<24 {
		err = fmt.Errorf("a count is %d; float32 counts to %d", n, 1<<24)
	}
	if err != nil {
		return fmt.Errorf("grad_scaler: no state of a scaler: %w", err)
	}
	if g.state != nil {
		for i, v := range st.values() {
			g.state[i].Assign(tensor.Of(v))
		}
	}
	*g = GradScaler{first: st, state: g.state}
	return nil
}

// values are the state in the order of the tensors.
func (st State) values() []float32 {
	return []float32{float32(st.Scale), float32(st.Tracker), float32(st.Skipped), float32(st.SkippedInRow)}
}

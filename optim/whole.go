package optim

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// Whole is what an update of one parameter by whole tensors has to go on: tensors of the step, float32 or float64.
type Whole struct {
	P     *tensor.Tensor   // the parameter
	G     *tensor.Tensor   // its gradient, scaled and clipped
	State []*tensor.Tensor // in the order of Rule.State, zero at first; nil for what this parameter does not have

	rule     Rule
	scalars  []float64
	counters []*tensor.Tensor
}

// Number is the value of one of the rule's Numbers, or of "lr". It fails if there is none.
func (w Whole) Number(name string) float64 {
	i := slices.Index(scalars(w.rule), name)
	if i < 0 || i >= len(w.scalars) {
		engine.Fail(tensor.ErrValue, "optim", "the rule %q has no number %q", w.rule.Name, name)
	}
	return w.scalars[i]
}

// Counter is the new value of one of the rule's Counters, of rank 0. It fails if there is none.
func (w Whole) Counter(name string) *tensor.Tensor {
	i := slices.Index(names(w.rule.Counters), name)
	if i < 0 || i >= len(w.counters) {
		engine.Fail(tensor.ErrValue, "optim", "the rule %q has no counter %q", w.rule.Name, name)
	}
	return w.counters[i].To(w.P.DType())
}

// shapeOf is the shape of a state of p, nil if there is none.
func (r Rule) shapeOf(state string, p *tensor.Tensor) []int {
	shape := append([]int{}, p.Shape()...)
	if r.Shape == nil {
		return shape
	}
	return r.Shape(state, shape)
}

// prepareWhole allocates the state of a rule with Whole.
func (o *Optimizer) prepareWhole(dev *tensor.Device) error {
	for _, p := range o.params {
		a, _, _ := o.arenaOf(p)
		if a.whole == nil {
			a.whole = map[*tensor.Tensor][]*tensor.Tensor{}
		}
		for _, name := range o.rule.State[len(a.whole[p]):] {
			var t *tensor.Tensor
			if shape := o.rule.shapeOf(name, p); shape != nil {
				var err error
				if t, err = engine.NewState(dev, o.rule.Name+"."+name, wide(p.DType()), shape...); err != nil {
					return err
				}
			}
			a.whole[p] = append(a.whole[p], t)
		}
	}
	return nil
}

// updateWhole updates the parameters of runs one by one; nothing is written before the step commits.
func (o *Optimizer) updateWhole(s *tensor.Scope, runs [][]run, counters []*tensor.Tensor, scale, skip *tensor.Tensor) {
	for i, a := range o.arenas {
		grads, _ := engine.Grads(s, a.values)
		dt := wide(a.values.DType())
		for _, r := range runs[i] {
			w := Whole{rule: o.rule, scalars: o.groups[r.group].scalars(r.decay), counters: counters}
			for _, p := range a.params[r.first : r.last+1] {
				_, lo, hi := engine.Arena(p)
				w.P = s.In(p).Detach().To(dt)
				w.G = grads.Slice(0, lo, hi).Reshape(p.Shape()...).To(dt).Mul(scale.To(dt))
				o.applyWhole(s, w, p, a.whole[p], skip.EqualScalar(0))
				engine.TakeGrads(s, p)
			}
		}
	}
}

// applyWhole updates p and its state where the update is not skipped.
func (o *Optimizer) applyWhole(s *tensor.Scope, w Whole, p *tensor.Tensor, held []*tensor.Tensor, do *tensor.Tensor) {
	w.State = make([]*tensor.Tensor, len(held))
	for j, t := range held {
		if t != nil {
			w.State[j] = s.In(t).Detach()
		}
	}
	next, state := o.rule.Whole(w)
	if len(state) != len(held) {
		engine.Fail(tensor.ErrValue, o.rule.Name, "Whole returned %d states, the rule has %d", len(state), len(held))
	}
	write := func(to, old, value *tensor.Tensor) {
		engine.Given(o.rule.Name, "a result of Whole", value)
		to.Assign(do.Where(value, old).To(to.DType()))
	}
	write(p, w.P, next)
	for j, t := range held {
		if t != nil {
			write(t, w.State[j], state[j])
		}
	}
}

// LAMB scales the step of Adam for each parameter to the size of the parameter (You et al. 2020):
//
//	m = β1 m + (1-β1) g,  v = β2 v + (1-β2) g²,  u = m/(1-β1^t) / (sqrt(v/(1-β2^t)) + ε) + λ p
//	p = p - lr |p|/|u| u            (lr u where a norm is 0)
//
// Options are [Betas], 0.9 and 0.999 by default, [Eps], 1e-6, and [WeightDecay], 0. It panics with a [tensor.Error] for
// what is out of range.
func LAMB(lr float64, options ...RuleOption) Rule {
	s := settings{}
	r := s.moments("lamb", lr, append([]RuleOption{Eps(1e-6)}, options...))
	r.Whole = func(w Whole) (*tensor.Tensor, []*tensor.Tensor) {
		m := mix(w.State[0], w.Number("beta1"), w.G, w.Number("rest1"))
		v := mix(w.State[1], w.Number("beta2"), w.G.Square(), w.Number("rest2"))
		u := m.Div(w.Counter("c1")).Div(v.Div(w.Counter("c2")).Sqrt().AddScalar(w.Number("eps")))
		u = u.Add(w.P.Scale(w.Number("decay")))
		p, q := norm(w.P), norm(u)
		none := p.EqualScalar(0).Or(q.EqualScalar(0))
		trust := p.Div(q.MaskedFill(none, 1)).MaskedFill(none, 1)
		return w.P.Sub(u.Mul(trust).Scale(w.Number("lr"))), []*tensor.Tensor{m, v}
	}
	return r.checked()
}

var inf = math.Inf(1)

// mix is a x + b y.
func mix(x *tensor.Tensor, a float64, y *tensor.Tensor, b float64) *tensor.Tensor {
	return x.Scale(a).Add(y.Scale(b))
}

// norm is the root of the sum of squares.
func norm(x *tensor.Tensor) *tensor.Tensor { return x.Square().Sum().Sqrt() }

// rms is the root of the mean of squares.
func rms(x *tensor.Tensor) *tensor.Tensor { return x.Square().Mean().Sqrt() }

// Adafactor keeps of the second moments of a matrix the means of rows and columns alone, and makes steps relative to
// the size of the parameter (Shazeer and Stern 2018):
//
//	b = t^δ,  r = (1-b) r + b mean(g², columns),  c = (1-b) c + b mean(g², rows),  v = r c / max(mean(r), ε)
//	u = g/sqrt(max(v, ε²)),  p = p (1 - lr λ) - min(lr, 1/sqrt(t)) max(s, rms(p)) u / max(1, rms(u)/d)
//
// of the last two axes; parameters of one axis have v = (1-b) v + b g². Options are [Beta2Decay] δ, -0.8 by default,
// [Eps] ε, 2^-23, [ScaleEps] s, 1e-3, [UpdateClip] d, 1, and [WeightDecay], 0; the usual lr is 0.01. It panics with a
// [tensor.Error] for what is out of range.
func Adafactor(lr float64, options ...RuleOption) Rule {
	s := settings{eps: 0x1p-23, betaDecay: -0.8, scaleEps: 1e-3, updateClip: 1}
	s.apply("adafactor", options, "Beta2Decay", "Eps", "ScaleEps", "UpdateClip", "WeightDecay")
	if !(s.updateClip > 0) {
		engine.Fail(tensor.ErrValue, "adafactor", "UpdateClip is %v; it must be positive", s.updateClip)
	}
	return Rule{
		Name: "adafactor", LR: lr, State: []string{"r", "c", "v"}, Shape: factored,
		Numbers: []Number{{"beta2_decay", s.betaDecay}, {"eps", s.eps}, {"scale_eps", s.scaleEps},
			{"update_clip", s.updateClip}, {"decay", s.decay}},
		Counters: []Counter{{"t", 0, "t + 1"}, {"b", 0, "pow(t + 1, beta2_decay)"}},
		Whole: func(w Whole) (*tensor.Tensor, []*tensor.Tensor) {
			b := w.Counter("b")
			follow := func(x, y *tensor.Tensor) *tensor.Tensor { return x.Add(y.Sub(x).Mul(b)) }
			square, eps := w.G.Square(), w.Number("eps")
			state := make([]*tensor.Tensor, 3)
			var v *tensor.Tensor
			if w.State[2] != nil {
				v = follow(w.State[2], square)
				state[2] = v
			} else {
				row := follow(w.State[0], square.Mean(-1).Unsqueeze(-1))
				column := follow(w.State[1], square.Mean(-2).Unsqueeze(-2))
				state[0], state[1] = row, column
				v = row.Mul(column).Div(row.Mean(-2).Unsqueeze(-2).Clamp(eps, inf))
			}
			u := w.G.Mul(v.Clamp(eps*eps, inf).Rsqrt())
			rate := w.Counter("t").Rsqrt().Clamp(0, w.Number("lr"))
			alpha := rms(w.P).Clamp(w.Number("scale_eps"), inf).Mul(rate)
			u = u.Mul(alpha.Div(rms(u).Scale(1/w.Number("update_clip")).Clamp(1, inf)))
			return w.P.Scale(1 - w.Number("lr")*w.Number("decay")).Sub(u), state
		},
		limits: []limit{atLeast0("LR", lr), atLeast0("-Beta2Decay", -s.betaDecay), atLeast0("Eps", s.eps),
			atLeast0("ScaleEps", s.scaleEps), atLeast0("UpdateClip", s.updateClip), atLeast0("WeightDecay", s.decay)},
	}.checked()
}

// factored is the shape of the states of [Adafactor].
func factored(state string, of []int) []int {
	n := len(of)
	switch {
	case (state == "v") != (n < 2):
		return nil
	case state == "r":
		of[n-1] = 1
	case state == "c":
		of[n-2] = 1
	}
	return of
}

// Muon makes the momentum of a matrix nearly orthogonal, by five steps of Newton and Schulz (Jordan et al. 2024):
//
//	b = μ b + (1-μ) g,  x = μ b + (1-μ) g,  x = x/|x|,  5 times x = 3.4445 x + (-4.775 x xᵀ + 2.0315 (x xᵀ)²) x
//	p = p (1 - lr λ) - lr sqrt(max(1, rows/columns)) x
//
// It is for weights of hidden layers; axes from the second on are one. Parameters of one axis are refused: give them,
// and embeddings and heads, to [AdamW] in an optimizer of its own. Options are [Momentum] μ, 0.95 by default, [Eps],
// the least |x|, 1e-7, and [WeightDecay], 0.1. It panics with a [tensor.Error] for what is out of range.
func Muon(lr float64, options ...RuleOption) Rule {
	s := settings{momentum: 0.95, eps: 1e-7, decay: 0.1}
	s.apply("muon", options, "Momentum", "Eps", "WeightDecay")
	return Rule{
		Name: "muon", LR: lr, State: []string{"b"},
		Numbers: []Number{{"momentum", s.momentum}, {"rest", 1 - s.momentum}, {"eps", s.eps}, {"decay", s.decay}},
		Whole: func(w Whole) (*tensor.Tensor, []*tensor.Tensor) {
			if w.P.Rank() < 2 {
				engine.Fail(tensor.ErrShape, "muon", "the parameter %v has %d axes, a matrix has two; give it to "+
					"another optimizer", w.P, w.P.Rank())
			}
			b := mix(w.State[0], w.Number("momentum"), w.G, w.Number("rest"))
			x := mix(b, w.Number("momentum"), w.G, w.Number("rest")).Flatten(1, -1)
			size := 1.0
			if rows, columns := x.Dim(0), x.Dim(1); rows > columns {
				size = math.Sqrt(float64(rows) / float64(columns))
				x = orthogonal(x.T(), w.Number("eps")).T()
			} else {
				x = orthogonal(x, w.Number("eps"))
			}
			lr := w.Number("lr")
			return mix(w.P, 1-lr*w.Number("decay"), x.Reshape(w.P.Shape()...), -lr*size), []*tensor.Tensor{b}
		},
		limits: []limit{atLeast0("LR", lr), share("Momentum", s.momentum), atLeast0("Eps", s.eps),
			atLeast0("WeightDecay", s.decay)},
	}.checked()
}

// orthogonal is x with singular values near 1; it has no more rows than columns.
func orthogonal(x *tensor.Tensor, eps float64) *tensor.Tensor {
	x = x.Div(norm(x).Clamp(eps, inf))
	for range 5 {
		a := x.MatMul(x.T())
		x = x.Scale(3.4445).Add(mix(a, -4.775, a.MatMul(a), 2.0315).MatMul(x))
	}
	return x
}

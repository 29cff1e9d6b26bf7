package optim

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/weft-ml/weft/tensor"
)

// State is what an optimizer has beside the parameters: all that its next steps depend on but for the learning rate,
// which is its schedule's, and the rule's hyperparameters. It does not depend on the order of the parameters.
type State struct {
	Rule string // the rule's name

	// Tensors are the moments, of the shape of their parameter, by names such as "m.blocks.0.attn.qkv.weight", and the
	// rule's counters, float64 of one element, by names such as "c1". There are none before the first update.
	Tensors map[string]*tensor.Tensor

	// Grads are the gradients that steps have committed and no update has taken, by the parameter's name.
	Grads map[string]*tensor.Tensor
}

// State is the optimizer's state. Its tensors are no copies: Tensors change with the next update, Grads are valid until
// the next step commits. It fails with a [tensor.Error] if two parameters have one name.
func (o *Optimizer) State() State {
	o.given()
	o.checkNames()
	st := State{o.rule.Name, map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}}
	if o.begun {
		for _, e := range o.entries() {
			st.Tensors[e.name] = e.state()
		}
	}
	for _, p := range o.params {
		if g := p.Grad(); g != nil {
			st.Grads[p.Name()] = g
		}
	}
	return st
}

// Restore makes st, which another optimizer with the same rule for parameters of the same names had, the optimizer's
// state, in the place of what it has. That is written when the function of the step has returned nil; a step that fails
// changes nothing. It fails with an error of kind [tensor.ErrValue] that lists what does not fit: another rule,
// names that are missing or that the optimizer does not know, other shapes or types. Tensors of st may be host data or
// on any device; those of this optimizer's own State, which go on changing, are no state to go back to.
//
// Where parameters are in other arenas, [Clip] sums its norm in another order: the next updates agree up to rounding.
// The parameters are not part of it, nor are the random numbers of steps, which follow from the number of the step.
func (o *Optimizer) Restore(s *tensor.Scope, st State) error {
	o.givenIn(s)
	o.checkNames()
	if wrong := o.misfits(st); wrong != nil {
		const most = 10
		more := ""
		if len(wrong) > most {
			more = fmt.Sprintf("; and %d more", len(wrong)-most)
		}
		err := engine.Try(func() {
			engine.Fail(tensor.ErrValue, o.rule.Name, "the state does not fit to the optimizer: %s%s",
				strings.Join(wrong[:min(most, len(wrong))], "; "), more)
		})
		engine.Abort(s, err)
		return err
	}
	if err := o.prepare(s.Device(), o.clip > 0); err != nil {
		engine.Abort(s, err)
		return err
	}
	s.With(func() { o.restore(s, st) }, tensor.NoGrad())
	engine.OnCommit(s, func() { o.begun = len(st.Tensors) > 0 })
	return nil
}

// restore writes a state that fits.
func (o *Optimizer) restore(s *tensor.Scope, st State) {
	for _, e := range o.entries() {
		v := st.Tensors[e.name]
		if v == nil { // before the first update
			v = tensor.Full(e.first, e.dtype, e.shape...)
		}
		e.state().Assign(s.In(v.Detach()).To(s.Device()))
	}
	for _, p := range o.params {
		engine.SetGrad(s, p, st.Grads[p.Name()])
	}
}

// An entry is a piece of the state.
type entry struct {
	name  string
	dtype tensor.DType
	shape []int
	first float64 // its value before the first update
	state func() *tensor.Tensor
}

// entries are all of the state, sorted by name. Until prepare has run it cannot be read.
func (o *Optimizer) entries() (all []entry) {
	for i, c := range o.rule.Counters {
		all = append(all, entry{c.Name, tensor.Float64, nil, c.First, func() *tensor.Tensor { return o.counters[i] }})
	}
	for _, p := range o.params {
		a, lo, hi := o.arenaOf(p)
		for j, name := range o.rule.State {
			if o.rule.Whole != nil {
				if shape := o.rule.shapeOf(name, p); shape != nil {
					all = append(all, entry{name + "." + p.Name(), wide(p.DType()), shape, 0,
						func() *tensor.Tensor { return a.whole[p][j] }})
				}
				continue
			}
			all = append(all, entry{name + "." + p.Name(), p.DType(), p.Shape(), 0, func() *tensor.Tensor {
				return a.state[j].Slice(0, lo, hi).Reshape(p.Shape()...)
			}})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return all
}

// checkNames fails if two parameters have one name.
func (o *Optimizer) checkNames() {
	seen := map[string]*tensor.Tensor{}
	for _, p := range o.params {
		if q := seen[p.Name()]; q != nil {
			engine.Fail(tensor.ErrValue, o.rule.Name, "two parameters are called %s, so their state cannot be told "+
				"apart by name: %v and %v; place models that one optimizer updates by one nn.Init", p.Name(), q, p)
		}
		seen[p.Name()] = p
	}
}

// misfits lists why st cannot be the optimizer's state.
func (o *Optimizer) misfits(st State) (wrong []string) {
	if st.Rule != o.rule.Name {
		return []string{fmt.Sprintf("it is of the rule %q, want %q", st.Rule, o.rule.Name)}
	}
	tensors, grads := map[string]entry{}, map[string]entry{}
	for _, e := range o.entries() {
		tensors[e.name] = e
		if len(st.Tensors) > 0 && st.Tensors[e.name] == nil {
			wrong = append(wrong, e.name+" is missing")
		}
	}
	for _, p := range o.params {
		grads[p.Name()] = entry{dtype: p.DType(), shape: p.Shape()}
	}
	check := func(what string, have map[string]*tensor.Tensor, want map[string]entry) {
		for _, name := range slices.Sorted(maps.Keys(have)) {
			t := have[name]
			e, known := want[name]
			switch {
			case !known:
				wrong = append(wrong, fmt.Sprintf("%s%s is not the optimizer's", what, name))
			case t == nil: // missing
			case t.DType() != e.dtype || !slices.Equal(t.Shape(), e.shape):
				wrong = append(wrong, fmt.Sprintf("%s%s is %v%v, want %v%v", what, name, t.DType(), t.Shape(), e.dtype,
					e.shape))
			}
		}
	}
	check("", st.Tensors, tensors)
	check("the gradient of ", st.Grads, grads)
	return wrong
}

// Hash is the SHA-256 of all parameters of the optimizer and of its moments and counters, in hexadecimal: of their
// names, shapes and values, each sorted by name. Runs with the same seed have the same hash, on any number of threads
// and any vector unit.
func (o *Optimizer) Hash() string {
	o.given()
	return Hash(func(yield func(string, *tensor.Tensor) bool) {
		for _, p := range o.Parameters() {
			if !yield(p.Name(), p) {
				return
			}
		}
		if !o.begun {
			return
		}
		for _, e := range o.entries() {
			if !yield(e.name, e.state()) {
				return
			}
		}
	})
}

// Hash is the SHA-256 of names, shapes and values in the order given, in hexadecimal. [Optimizer.Hash] is that of its
// parameters and then of its state, so that what was saved of it has the same hash.
func Hash(tensors iter.Seq2[string, *tensor.Tensor]) string {
	engine.Given("hash", "tensors", tensors)
	h := sha256.New()
	for name, t := range tensors {
		fmt.Fprintf(h, "%s %v\n", name, t.Shape())
		binary.Write(h, binary.LittleEndian, tensor.ToSlice[float64](t)) // exact for every floating type
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Parameters are the parameters that the optimizer updates, sorted by name.
func (o *Optimizer) Parameters() []*tensor.Tensor {
	o.given()
	params := slices.Clone(o.params)
	slices.SortStableFunc(params, func(a, b *tensor.Tensor) int { return cmp.Compare(a.Name(), b.Name()) })
	return params
}

// StateBytes is the size of State().Tensors in bytes once there has been an update.
func (o *Optimizer) StateBytes() (bytes int64) {
	o.given()
	for _, e := range o.entries() {
		n := int64(e.dtype.Size())
		for _, d := range e.shape {
			n *= int64(d)
		}
		bytes += n
	}
	return bytes
}

package optim

import (
	"iter"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// EMA is the exponential moving average of the parameters of a model: after every update avg = avg + (1-decay)*(p-avg).
// It starts from the values that p has when the average is made, as torch.optim.swa_utils.AveragedModel with
// get_ema_multi_avg_fn(decay) does with its first update. An EMA is a model itself, with the names of the one it
// follows, whose states it has without averaging: nn.CopyTo(copy, ema) and checkpoint.SaveModel take it as their
// source. Make one with [NewEMA].
type EMA struct {
	model  any
	decay  float64
	arenas []average
	avg    map[*tensor.Tensor]*tensor.Tensor // of a parameter
}

// average follows parameters of an arena, which may have others, too: of other parts of a larger model.
type average struct {
	of, values *tensor.Tensor
	spans      [][2]int // elements of the parameters, of neighbours in one
}

// update runs an operation over the elements of the parameters, as engine.Update does.
func (a *average) update(s *tensor.Scope, op *tensor.Op, dst *tensor.Tensor, in []*tensor.Tensor, floats ...float64) {
	for _, span := range a.spans {
		engine.Update(s, op, span[0], span[1], []*tensor.Tensor{dst}, in, floats)
	}
}

// spansOf are the elements of those parameters that are followed.
func spansOf(params []*tensor.Tensor, followed map[*tensor.Tensor]bool) (spans [][2]int) {
	for i, p := range params {
		_, lo, hi := engine.Arena(p)
		switch {
		case !followed[p]:
		case i > 0 && followed[params[i-1]]:
			spans[len(spans)-1][1] = hi
		default:
			spans = append(spans, [2]int{lo, hi})
		}
	}
	return spans
}

// NewEMA makes the average of the parameters of a model that nn.Init has placed on dev. The decay is in [0, 1). Halves
// are averaged in float32. It panics with a [tensor.Error] if the decay is out of range or there are no parameters; the
// error is of kind [tensor.ErrMemory].
func NewEMA(dev *tensor.Device, model any, decay float64) (*EMA, error) {
	if !(0 <= decay && decay < 1) {
		engine.Fail(tensor.ErrValue, "ema", "decay is %v, outside [0, 1)", decay)
	}
	parameters := engine.Parameters(model)
	if len(parameters) == 0 {
		engine.Fail(tensor.ErrValue, "ema", "the model has no parameters")
	}
	followed := map[*tensor.Tensor]bool{}
	for _, p := range parameters {
		followed[p] = true
	}
	e := &EMA{model: model, decay: decay, avg: map[*tensor.Tensor]*tensor.Tensor{}}
	for _, p := range parameters {
		a, _, _ := engine.Arena(p)
		if slices.ContainsFunc(e.arenas, func(x average) bool { return x.of == a }) {
			continue
		}
		params := engine.Params(a)
		made, err := engine.PlaceLike(dev, wide(a.DType()), params) // with the same offsets: an update is one pass
		if err == nil {
			err = engine.AssignAll(made, params)
		}
		if err != nil {
			return nil, err
		}
		for i, q := range params {
			e.avg[q] = made[i]
		}
		values, _, _ := engine.Arena(made[0])
		e.arenas = append(e.arenas, average{a, values, spansOf(params, followed)})
	}
	return e, nil
}

// follow moves an average on. Operands: the average, the parameter; weight is 1-decay.
var follow = tensor.MustPointwise("ema", "avg + weight*(p-avg)", []string{"avg", "p"}, "weight")

// Step averages the values that the parameters have after the updates of the step so far: call it after the Step of the
// optimizer. The averages are written when the step commits.
func (e *EMA) Step(s *tensor.Scope) {
	e.given()
	for _, a := range e.arenas {
		a.update(s, follow, a.values, []*tensor.Tensor{a.values, a.of}, 1-e.decay)
	}
}

// Children are the averages and the states of the model by name.
func (e *EMA) Children() iter.Seq2[string, any] {
	e.given()
	return func(yield func(string, any) bool) {
		var names []string
		var tensors []*tensor.Tensor
		engine.Walk(e.model, func(name string, t *tensor.Tensor) {
			if avg := e.avg[t]; avg != nil {
				t = avg
			}
			names, tensors = append(names, name), append(tensors, t)
		})
		for i, name := range names {
			if !yield(name, tensors[i]) {
				return
			}
		}
	}
}

// given fails for an average that NewEMA has not made.
func (e *EMA) given() {
	if e == nil || e.avg == nil {
		engine.Fail(tensor.ErrValue, "ema", "the average is nil; optim.NewEMA makes one")
	}
}

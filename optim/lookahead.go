package optim

import (
	"iter"

	"github.com/weft-ml/weft/tensor"
)

// Lookahead lets any optimizer explore and follows it slowly (Zhang et al. 2019): after every k updates
//
//	slow = slow + α (p - slow),  p = slow
//
// It is a model itself, of the slow weights, with the names of the one it follows, so that a checkpoint saves it as
// one. Make one with [NewLookahead].
type Lookahead struct {
	slow  *EMA
	every int
}

// NewLookahead makes slow weights for the parameters of a model that nn.Init has placed on dev, from the values that
// they have. The paper's choice is k = 5 and α = 0.5, which is in (0, 1]. It panics with a [tensor.Error] for what is
// out of range; the error is of kind [tensor.ErrMemory].
func NewLookahead(dev *tensor.Device, model any, k int, α float64) (*Lookahead, error) {
	if k < 1 || !(0 < α && α <= 1) {
		engine.Fail(tensor.ErrValue, "lookahead", "k is %d and alpha %v, want k >= 1 and alpha in (0, 1]", k, α)
	}
	slow, err := NewEMA(dev, model, 1-α)
	if err != nil {
		return nil, err
	}
	return &Lookahead{slow, k}, nil
}

// back is what a parameter becomes of its slow weight.
var back = tensor.MustPointwise("lookahead", "slow", []string{"slow"})

// Step is called after the Step of the optimizer, with the number of the update, counted from 0 as for schedules. The
// weights are written when the step commits.
func (l *Lookahead) Step(s *tensor.Scope, update int) {
	l.given()
	if (update+1)%l.every != 0 {
		return
	}
	l.slow.Step(s)
	for _, a := range l.slow.arenas {
		a.update(s, back, a.of, []*tensor.Tensor{a.values})
	}
}

// Children are the slow weights and the states of the model by name.
func (l *Lookahead) Children() iter.Seq2[string, any] {
	l.given()
	return l.slow.Children()
}

// given fails for what NewLookahead has not made.
func (l *Lookahead) given() {
	if l == nil || l.slow == nil {
		engine.Fail(tensor.ErrValue, "lookahead", "it is nil; optim.NewLookahead makes one")
	}
}

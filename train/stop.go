package train

import (
	"math"
)

// EarlyStopping tells when a value that should fall, such as the loss on data that is not trained with, has stopped
// falling. Its fields are all that it remembers.
//
//	stop := train.EarlyStopping{Patience: 5}
//	for epoch := range epochs {
//		...
//		if stop.Better(loss) {
//			err = nn.CopyTo(best, model)
//		}
//		if stop.Done() {
//			break
//		}
//	}
type EarlyStopping struct {
	Patience int     // Done says true after this many values in a row that were no better
	MinDelta float64 // how much lower than the best one a better value is, at least

	Best  float64 // the lowest value, if Count is not 0
	Count int     // values so far
	Since int     // values since the best one
}

// Better takes the next value and tells whether it is the best one so far, as the first one is. NaN and +Inf are never
// better. Negate what should rise, such as accuracy.
func (e *EarlyStopping) Better(value float64) bool {
	best := e.given().Best - e.MinDelta
	if e.Count == e.Since {
		best = math.Inf(1) // there was no number yet
	}
	e.Count++
	e.Since++
	if !(value < best) {
		return false
	}
	e.Best, e.Since = value, 0
	return true
}

// Done tells whether it is time to stop.
func (e *EarlyStopping) Done() bool { return e.given().Count > 0 && e.Since >= e.Patience }

// given is e; it fails for nil.
func (e *EarlyStopping) given() *EarlyStopping {
	engine.Given("early_stopping", "the receiver", e)
	return e
}

package autograd

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// Accumulate takes the gradient of a batch in n parts, one after the other, so that only one part's values are in
// memory at a time. f computes part i and returns the sum, not the mean, of its losses; total is the number of terms of
// all parts together, such as the tokens that count. Dividing by it, and not by the terms of each part, gives the
// gradient of the mean over the whole batch also where the parts are of different sizes. What is to happen to a loss
// before Backward, such as a loss scaler's Scale, is given by through. What f makes, its result apart, is for the tape
// alone: Backward frees it, or writes over it, as soon as it can. The result is the mean loss, off the tape.
func Accumulate(s *tensor.Scope, n int, total float64, f func(i int) *tensor.Tensor,
	through ...func(*tensor.Tensor) *tensor.Tensor) *tensor.Tensor {
	engine.Given("accumulate", "the function", f)
	for _, g := range through {
		engine.Given("accumulate", "a function that the loss goes through", g)
	}
	if n < 1 || !(total > 0 && total <= math.MaxFloat64) {
		engine.Fail(tensor.ErrValue, "accumulate", "%d parts of %v terms in all; both must be positive and finite",
			n, total)
	}
	var mean *tensor.Tensor
	for i := range n {
		s.Region("", func() []*tensor.Tensor {
			loss := s.Region("", func() []*tensor.Tensor {
				return []*tensor.Tensor{f(i).Scale(1 / total)}
			})[0]
			sum := loss.Detach()
			if mean != nil {
				sum = mean.Add(sum)
			}
			mean = sum
			for _, g := range through {
				loss = g(loss)
			}
			Backward(loss)
			return []*tensor.Tensor{mean}
		})
	}
	return mean
}

package amp

import "github.com/weft-ml/weft/tensor"

// NonFinite lists, by name, those of the parameters whose gradient in this step holds a NaN or an infinity, in the order given:
// why a loss scaler skips updates. It is called between Backward and Step, and waits for the device, once; tensor.Anomaly names
// the operation that made the first such number.
func NonFinite(s *tensor.Scope, params []*tensor.Tensor) (names []string) {
	var with []*tensor.Tensor // a gradient
	var sums []*tensor.Tensor // of its squares times 0, which is NaN for what is not finite
	s.With(func() {
		zero := s.Full(0, tensor.Float32)
		for _, p := range params {
			if !s.HasGrad(p) {
				continue
			}
			a, lo, hi := p.Arena()
			grads, _ := s.Grads(a)
			with = append(with, p)
			sums = append(sums, grads.Slice(0, lo, hi).SumSquares(zero).To(tensor.Float32))
		}
	}, tensor.NoGrad, Autocast(tensor.Float32))
	if len(sums) == 0 {
		return nil
	}
	for i, sum := range tensor.ToSlice[float32](tensor.Stack(0, sums...)) {
		if sum != 0 {
			names = append(names, with[i].Name())
		}
	}
	return names
}

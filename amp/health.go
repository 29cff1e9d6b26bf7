package amp

import "github.com/weft-ml/weft/tensor"

// NonFinite lists the names of the parameters whose gradient in this step contains a NaN or an infinity, in the order
// given: they are why a loss scaler skips updates. Call it between Backward and Step; it waits once for the device.
// tensor.Anomaly names the operation that made the first such element.
func NonFinite(s *tensor.Scope, params []*tensor.Tensor) (names []string) {
	var checked []*tensor.Tensor // parameters that have a gradient
	var sums []*tensor.Tensor    // of its squares times 0: NaN if an element is not finite
	s.With(func() {
		zero := s.Full(0, tensor.Float32)
		for _, p := range params {
			if !engine.HasGrad(s, p) {
				continue
			}
			a, lo, hi := engine.Arena(p)
			grads, _ := engine.Grads(s, a)
			checked = append(checked, p)
			sums = append(sums, grads.Slice(0, lo, hi).SumSquares(zero).To(tensor.Float32))
		}
	}, tensor.NoGrad(), Autocast(tensor.Float32))
	if len(sums) == 0 {
		return nil
	}
	for i, sum := range tensor.ToSlice[float32](tensor.Stack(0, sums...)) {
		if sum != 0 {
			names = append(names, checked[i].Name())
		}
	}
	return names
}

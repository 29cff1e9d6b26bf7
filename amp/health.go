package amp

import "github.com/weft-ml/weft/tensor"

// NonFinite lists, by name, those of the parameters whose gradient in this step holds a NaN or an infinity, in the order given:
// why a loss scaler skips updates. It is called between Backward and Step, and waits for the device; tensor.Anomaly names the
// operation that made the first such number.
func NonFinite(s *tensor.Scope, params []*tensor.Tensor) (names []string) {
	s.With(func() {
		for _, p := range params {
			if !s.HasGrad(p) {
				continue
			}
			a, lo, hi := p.Arena()
			grads, _ := s.Grads(a)
			if grads.Slice(0, lo, hi).IsFinite().All().Item() == 0 {
				names = append(names, p.Name())
			}
		}
	}, tensor.NoGrad, Autocast(tensor.Float32))
	return names
}

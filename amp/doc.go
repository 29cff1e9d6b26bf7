// Package amp is mixed precision: training in float16 or bfloat16 with the quality of float32.
//
// [Autocast] chooses the type of each operation, a [GradScaler] keeps small float16 gradients from vanishing:
//
//	scaler := amp.NewGradScaler()
//	err := dev.Step(func(s *tensor.Scope) error {
//		loss := nn.CrossEntropy(model.Forward(s.In(x)), s.In(y))
//		autograd.Backward(scaler.Scale(loss))
//		return scaler.Step(s, opt) // skips the update if a gradient overflowed
//	}, amp.Autocast(tensor.Float16))
//
// bfloat16 has the range of float32 and needs no scaler. The method is that of Micikevicius et al., "Mixed Precision
// Training" (2018); docs/MIXED-PRECISION.md has all rules.
//
// In processing order: autocast.go chooses types, scaler.go scales losses, health.go finds what overflowed.
package amp

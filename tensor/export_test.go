package tensor

// BackwardOf runs the derivative of the operation that made y, as the last backward pass does, on any gradient of y.
func BackwardOf(y, g *Tensor) []*Tensor { return y.node.backward([]*Tensor{g}, true) }

// InBackward runs f as within a backward pass that is not recorded.
func InBackward(s *Scope, f func()) { (&backward{scope: s}).differentiate(false, f) }

// GiveUp makes a call that uses s in several calls, of which the last one meets a call of another goroutine.
func GiveUp(s *Scope) error {
	defer s.state.Store(0)
	return try(func() { s.alone(func() { s.state.Store(inUse) }) })
}

package tensor

import (
	"math"
	"sync/atomic"
)

// Scalar is a float64 of the host that changes between steps, such as a learning rate. Operations read it when they
// run. It is safe for many goroutines.
type Scalar struct{ bits atomic.Uint64 }

// NewScalar makes a Scalar.
func NewScalar(v float64) *Scalar {
	s := &Scalar{}
	s.Set(v)
	return s
}

// Set changes the value.
func (s *Scalar) Set(v float64) {
	given("set", "the scalar", s)
	s.bits.Store(math.Float64bits(v))
}

// Value is the current value.
func (s *Scalar) Value() float64 {
	given("value", "the scalar", s)
	return math.Float64frombits(s.bits.Load())
}

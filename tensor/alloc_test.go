package tensor_test

import (
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// An operation makes few Go allocations, in evaluation and in training steps.
func TestOperationAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates itself")
	}
	dev := open(t)
	w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(1), 8))
	x := tensor.Randn(tensor.Seed(2), 8)
	for _, c := range []struct {
		name    string
		run     func(func(*tensor.Scope) error, ...tensor.Option) error
		operand *tensor.Tensor
		limit   float64
	}{{"eval", dev.Eval, x, 1}, {"recorded", dev.Step, w, 2}} {
		var n float64
		for range 2 { // the second step finds its memory in the pool
			if err := c.run(func(s *tensor.Scope) error {
				y := s.In(c.operand)
				n = testing.AllocsPerRun(500, func() { y.Mul(y) })
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %v allocations", c.name, n)
		if n > c.limit {
			t.Errorf("%s: an operation makes %v allocations, want at most %v", c.name, n, c.limit)
		}
	}
}

func BenchmarkOperation(b *testing.B) {
	dev := open(b)
	w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(1), 8))
	for _, c := range []struct {
		name string
		run  func(func(*tensor.Scope) error, ...tensor.Option) error
	}{{"eval", dev.Eval}, {"recorded", dev.Step}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.run(func(s *tensor.Scope) error {
					y := s.In(w)
					for range 1000 {
						y.Mul(y)
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/operation")
		})
	}
}

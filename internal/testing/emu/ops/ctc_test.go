//go:build emu && cuda && cgo && linux

package ops

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// TestCTC: losses and gradients against the CPU: repetitions, empty targets, no steps, impossible targets, more rows
// than a launch has, any layout.
func TestCTC(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for dt, bound := range map[tensor.DType]float64{tensor.Float64: 0x1p-44, tensor.Float32: 0x1p-21,
		tensor.Float16: 0x1p-8, tensor.BFloat16: 0x1p-6} {
		for _, c := range []struct {
			steps, rows, classes, length int
			repeated                     bool
		}{{1, 1, 2, 1, false}, {9, 5, 4, 3, true}, {30, 70, 6, 7, true}, {300, 2, 20, 140, false}} {
			ids := make([]int64, c.rows*c.length)
			for i := range ids {
				if ids[i] = int64(1 + i*7%(c.classes-1)); c.repeated && i%3 == 0 {
					ids[i] = 1
				}
			}
			inputs, targets := make([]int, c.rows), make([]int, c.rows)
			for n := range c.rows {
				inputs[n], targets[n] = c.steps-n%(c.steps+1)%7, c.length-n%(c.length+1)
				if inputs[n] = max(inputs[n], 0); n == 3 {
					inputs[n], targets[n] = 0, 0
				}
			}
			in := []*tensor.Tensor{tensor.Randn(tensor.Seed(1), c.rows, c.steps, c.classes).LogSoftmax(-1).To(dt),
				tensor.FromSlice(ids, c.rows, c.length), tensor.Uniform(tensor.Seed(2), 0, 1, c.rows).To(dt)}
			what := fmt.Sprint("ctc of ", c, " in ", dt)
			alike(t, cpu, gpu, what, bound, in, func(x []*tensor.Tensor) []*tensor.Tensor {
				v := autograd.Watch(x[0].Scope(), x[0])
				y := v.Transpose(0, 1).CTC(x[1], inputs, targets, 0)
				g := y.IsFinite().Where(x[2], tensor.Of(0.0).To(dt)) // as zero_infinity does
				return withGradients(y, g, v)
			})
		}
	}
	x := tensor.Randn(tensor.Seed(1), 4, 2, 3).LogSoftmax(-1)
	for _, dev := range []*tensor.Device{cpu, gpu} {
		err := dev.Step(func(s *tensor.Scope) error {
			y := s.In(x).CTC(tensor.FromSlice([]int64{1, 2, 3, 1}, 2, 2), []int{4, 4}, []int{2, 1}, 0)
			tensor.ToSlice[float32](y)
			return nil
		})
		if !errors.Is(err, tensor.ErrIndex) {
			t.Errorf("%s: error %v of a class outside", dev.Name(), err)
		}
	}
}

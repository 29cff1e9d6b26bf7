//go:build emu && cuda && cgo && linux

package ops

import (
	"fmt"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// Views of state are written on the device as on the CPU, and printed.
func TestAssignView(t *testing.T) {
	views := map[string]func(x *tensor.Tensor) *tensor.Tensor{
		"rows":       func(x *tensor.Tensor) *tensor.Tensor { return x.Slice(0, 1, 3) },
		"columns":    func(x *tensor.Tensor) *tensor.Tensor { return x.Slice(1, 1, 20, 3) },
		"transposed": (*tensor.Tensor).T,
		"element":    func(x *tensor.Tensor) *tensor.Tensor { return x.Index(tensor.At(1), tensor.At(2)) },
		"none":       func(x *tensor.Tensor) *tensor.Tensor { return x.Slice(0, 1, 1) },
	}
	for name, view := range views {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.BFloat16, tensor.Int64, tensor.Uint8} {
			printed := func(device string) string {
				dev := open(t, device)
				w, err := engine.NewState(dev, "w", dt, 30, 40)
				if err != nil {
					t.Fatal(err)
				}
				v := tensor.Arange(tensor.Int64, 1, float64(1+view(w).Len()), 1).Reshape(view(w).Shape()...).To(dt)
				err = dev.Step(func(s *tensor.Scope) error {
					w.Assign(s.Full(7, dt))
					view(w).Assign(s.In(v))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(w, w.Slice(0, 0, 4))
			}
			if got, want := printed("cuda"), printed("cpu"); got != want {
				t.Errorf("%s of %v:\n%s\nwant\n%s", name, dt, got, want)
			}
		}
	}
}

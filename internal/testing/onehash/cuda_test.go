//go:build cuda && cgo && linux

package onehash

import (
	"errors"
	"testing"

	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// useEmulator, set with the build tag emu, makes the emulator the GPU where there is no other.
var useEmulator func(t *testing.T)

// TestOneHashCUDA: the first steps on a GPU, or with the build tag emu on the emulator, end with the CPU's hash.
func TestOneHashCUDA(t *testing.T) {
	if useEmulator != nil {
		useEmulator(t)
	}
	if dev, err := tensor.Open("cuda"); errors.Is(err, tensor.ErrDevice) && useEmulator == nil {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	} else {
		defer dev.Close()
	}
	for _, c := range []struct {
		name  string
		begin maker
		steps int
	}{
		{"mlp", mlp, 12},
		{"clipped mlp", func(dev *tensor.Device) (*Training, error) { return MLP(dev, optim.Clip(0.5)) }, 5},
		{"gpt", gpt(tensor.Float32, steps), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := hash("cpu", c.begin, c.steps)
			if err != nil {
				t.Fatal(err)
			}
			got, err := hash("cuda", c.begin, c.steps)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("after %d steps the hash is %s, on the CPU %s", c.steps, got, want)
			}
		})
	}
}

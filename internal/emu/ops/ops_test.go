//go:build emu && cuda && cgo && linux

package ops

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/weft-ml/weft/internal/emu"
	"github.com/weft-ml/weft/tensor"
)

// TestMain chooses the emulator as the driver: its plain build, or the checked one if WEFT_EMU_BUILD is check.
func TestMain(m *testing.M) {
	flavour, suffix := emu.Plain, ""
	if os.Getenv("WEFT_EMU_BUILD") == "check" {
		flavour, suffix = emu.Checked, "_check"
	}
	driver, err := emu.Build(flavour)
	if errors.Is(err, emu.ErrNoCompiler) {
		fmt.Println("SKIPPED emu:", err)
		os.Exit(0)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Setenv("WEFT_CUDA_DRIVER", driver)
	os.Setenv("WEFT_NVRTC", filepath.Join(filepath.Dir(driver), "libnvrtc_emu"+suffix+".so"))
	os.Exit(m.Run())
}

func open(t *testing.T, name string) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open(name, tensor.Seed(7))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// values are the results of a computation, as the bits of their elements; NaNs count as one.
type values [][]uint64

// run computes f on a device, with operands made from host data.
func run(dev *tensor.Device, in []*tensor.Tensor, f func(x []*tensor.Tensor) []*tensor.Tensor) (v values, err error) {
	err = dev.Step(func(s *tensor.Scope) error {
		var x []*tensor.Tensor
		for _, t := range in {
			x = append(x, s.In(t))
		}
		for _, y := range f(x) {
			v = append(v, bits(y))
		}
		return nil
	})
	return v, err
}

func bits(y *tensor.Tensor) (v []uint64) {
	switch y.DType() {
	case tensor.Float32:
		for _, x := range tensor.ToSlice[float32](y) {
			if x != x {
				x = float32(math.NaN())
			}
			v = append(v, uint64(math.Float32bits(x)))
		}
	case tensor.Int64:
		for _, x := range tensor.ToSlice[int64](y) {
			v = append(v, uint64(x))
		}
	case tensor.Bool:
		for _, x := range tensor.ToSlice[bool](y) {
			if x {
				v = append(v, 1)
			} else {
				v = append(v, 0)
			}
		}
	default:
		panic(fmt.Sprint("results of type ", y.DType()))
	}
	return v
}

// same fails unless both devices give the same bits.
func same(t *testing.T, cpu, gpu *tensor.Device, what string, in []*tensor.Tensor, f func(x []*tensor.Tensor) []*tensor.Tensor) {
	t.Helper()
	want, err := run(cpu, in, f)
	if err != nil {
		t.Errorf("%s on the CPU: %v", what, err)
		return
	}
	got, err := run(gpu, in, f)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	for k := range want {
		if len(got[k]) != len(want[k]) {
			t.Errorf("%s: result %d has %d elements, want %d", what, k, len(got[k]), len(want[k]))
			continue
		}
		for i, w := range want[k] {
			if got[k][i] != w {
				t.Errorf("%s: element %d of result %d is %#x (%v), want %#x (%v)", what, i, k,
					got[k][i], math.Float32frombits(uint32(got[k][i])), w, math.Float32frombits(uint32(w)))
				break
			}
		}
	}
}

func one(y *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{y} }

func TestAddSum(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, n := range []int{0, 1, 3, 4, 63, 64, 65, 1000, 16384, 16385, 50001} {
		in := []*tensor.Tensor{tensor.Uniform(1, -2, 2, n), tensor.Uniform(2, -2, 2, n)}
		same(t, cpu, gpu, fmt.Sprint("x + y and its sum, n = ", n), in, func(x []*tensor.Tensor) []*tensor.Tensor {
			z := x[0].Add(x[1])
			return []*tensor.Tensor{z, z.Sum()}
		})
	}
}

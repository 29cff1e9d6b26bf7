package amp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func open(t testing.TB) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	must(t, err)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// long skips what is slow under the race detector and runs on one goroutine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("thousands of steps")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError demands an error of the library, of one kind, that has the parts in its text.
func wantError(t testing.TB, err, kind error, parts ...string) {
	t.Helper()
	var typed *tensor.Error
	if !errors.Is(err, kind) || !errors.As(err, &typed) {
		t.Fatalf("error %v is not of kind %v", err, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

func values(x *tensor.Tensor) []float64 { return tensor.ToSlice[float64](x) }

// row is float32 host data of one axis.
func row(v ...float32) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }

// param is a float32 parameter of one axis.
func param(name string, v ...float32) *tensor.Tensor { return nn.ParameterOf(name, row(v...)) }

package nn_test

import (
	"testing"

	"github.com/weft-ml/weft/tensor"
)

func open(t testing.TB) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

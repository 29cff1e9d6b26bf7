package tensor_test

import (
	"reflect"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/tensor"
)

// A size where an element type or a seed is meant does not compile: Zeros(2, 3) was float16[3], Randn(2, 3) float32[3].
// No untyped constant converts to a struct.
func TestNumbersAreNeitherTypesNorSeeds(t *testing.T) {
	for _, v := range []any{tensor.Float32, tensor.Seed(1)} {
		if k := reflect.TypeOf(v).Kind(); k != reflect.Struct {
			t.Errorf("%T is of kind %v, to which constants convert", v, k)
		}
	}
	for _, f := range []any{tensor.Zeros, tensor.Randn, tensor.Uniform} {
		if k := reflect.TypeOf(f).In(0).Kind(); k != reflect.Struct {
			t.Errorf("the first argument of %T is of kind %v", f, k)
		}
	}
	var zero tensor.DType
	if zero != tensor.Float32 {
		t.Errorf("the zero element type is %v", zero)
	}
}

// A seed is the same for a device and for host data made with it: the same numbers each time.
func TestSeed(t *testing.T) {
	a, b, c := tensor.Randn(tensor.Seed(2), 3), tensor.Randn(tensor.Seed(2), 3), tensor.Randn(tensor.Seed(3), 3)
	x, y, z := tensor.ToSlice[float32](a), tensor.ToSlice[float32](b), tensor.ToSlice[float32](c)
	if !reflect.DeepEqual(x, y) || reflect.DeepEqual(x, z) {
		t.Errorf("%v, %v, %v", x, y, z)
	}
}

// A program without GPUs says how to build it with them.
func TestOpenWithoutGPUs(t *testing.T) {
	for _, kind := range kernels.Drivers() {
		if kind == "cuda" {
			t.Skip("this build has GPUs")
		}
	}
	_, err := tensor.Open("cuda:1")
	wantError(t, err, tensor.ErrDevice, "cuda", "-tags cuda", "cuda-env -w")
}

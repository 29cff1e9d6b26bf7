package data

import (
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// values checks a tensor's shape and element type and returns its elements.
func values[T tensor.Elem](t *testing.T, x *tensor.Tensor, shape ...int) []T {
	t.Helper()
	if got := x.Shape(); !slices.Equal(got, shape) {
		t.Fatalf("shape %v, want %v", got, shape)
	}
	return tensor.ToSlice[T](x)
}

// wantError checks that err is not nil and that its text contains every part.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") && !strings.Contains(err.Error(), "loader:") {
		t.Errorf("error %q has more than one line", err)
	}
}

// counting is a dataset whose example i is the input float32 i and the target int64 10*i.
func counting(n int) *Arrays[float32, int64] {
	x, y := make([]float32, n), make([]int64, n)
	for i := range n {
		x[i], y[i] = float32(i), int64(10*i)
	}
	d, err := NewArrays(x, nil, y, nil)
	if err != nil {
		panic(err)
	}
	return d
}

// memory is the elements of a batch's tensor, not a copy.
func memory[T tensor.Elem](x *tensor.Tensor) []T { return seam.Elems[T](engine.Bytes(x)) }

// compressed tells whether a file begins as one that is compressed.
func compressed(file string) bool {
	return strings.HasPrefix(file, compressions[0].magic) || strings.HasPrefix(file, zstdMagic)
}

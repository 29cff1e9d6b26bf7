package tensor_test

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// threads runs f with one, two and seven threads and compares the bits of what it returns.
func threads(t *testing.T, name string, f func() []*tensor.Tensor) {
	t.Helper()
	defer setThreads(runtime.GOMAXPROCS(0))
	var want [][]float32
	for _, n := range []int{1, 2, 7} {
		setThreads(n)
		for i, y := range f() {
			got := tensor.ToSlice[float32](y)
			if n == 1 {
				want = append(want, got)
			} else if j := differentBits(got, want[i]); j >= 0 {
				t.Fatalf("%s, result %d: element %d is %v with %d threads, %v with one",
					name, i, j, got[j], n, want[i][j])
			}
		}
	}
}

// setThreads sets GOMAXPROCS while Go does not sweep: it loses cleanups that are queued at processors which it takes
// away, and with them the memory of tensors.
func setThreads(n int) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	runtime.GOMAXPROCS(n)
}

// differentBits is the index of the first element in which a and b differ, -1 if there is none; NaNs are equal.
func differentBits(a, b []float32) int {
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			return i
		}
	}
	return -1
}

func TestMatMulValues(t *testing.T) {
	// Every pair of ranks against multiplication and sum. Small integers are exact in all three types.
	shapes := [][]int{{3}, {2, 3}, {4, 2, 3}, {1, 2, 3}, {5, 1, 2, 3}}
	others := [][]int{{3}, {3, 2}, {4, 3, 2}, {1, 3, 1}, {5, 1, 3, 4}}
	for _, sa := range shapes {
		for _, sb := range others {
			for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16} {
				a, b := counting(sa).To(dt), counting(sb).To(dt)
				got := tensor.ToSlice[float64](a.MatMul(b))
				x, y := a.To(tensor.Float64), b.To(tensor.Float64)
				axis := -2
				if len(sb) == 1 {
					axis = -1
				} else {
					x = x.Unsqueeze(-1)
				}
				if len(sb) > 1 && len(sa) > 1 {
					y = y.Unsqueeze(-3)
				}
				want := tensor.ToSlice[float64](x.Mul(y).Sum(axis))
				if !slices.Equal(got, want) {
					t.Errorf("%v %v @ %v: %v, want %v", dt, sa, sb, got, want)
				}
			}
		}
	}
}

// counting is float64 host data of the small integers -3, ..., 4 in turn.
func counting(shape []int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i%8 - 3)
	}
	return tensor.FromSlice(v, n).Reshape(shape...)
}

// The bits do not depend on layouts, batches and threads.
func TestMatMulBits(t *testing.T) {
	a, b := tensor.Randn(tensor.Seed(1), 6, 33, 300), tensor.Randn(tensor.Seed(2), 300, 37)
	want := tensor.ToSlice[float32](a.MatMul(b))
	variants := map[string]func() *tensor.Tensor{
		"a transposed": func() *tensor.Tensor { return a.T().Clone().T().MatMul(b) },
		"b transposed": func() *tensor.Tensor { return a.MatMul(b.T().Clone().T()) },
		"batch outermost in memory last": func() *tensor.Tensor {
			return a.Permute(1, 2, 0).Clone().Permute(2, 0, 1).MatMul(b)
		},
		"b expanded": func() *tensor.Tensor { return a.MatMul(b.Expand(6, 300, 37)) },
		"b cloned":   func() *tensor.Tensor { return a.MatMul(b.Expand(6, 300, 37).Clone()) },
		"split batch": func() *tensor.Tensor {
			return a.Reshape(2, 3, 33, 300).MatMul(b.Expand(3, 300, 37)).Reshape(6, 33, 37)
		},
		"row by row": func() *tensor.Tensor { return a.Reshape(6*33, 1, 300).MatMul(b).Reshape(6, 33, 37) },
	}
	for name, f := range variants {
		if i := differentBits(tensor.ToSlice[float32](f()), want); i >= 0 {
			t.Errorf("%s: element %d differs", name, i)
		}
	}
	threads(t, "matmul", func() []*tensor.Tensor {
		return []*tensor.Tensor{a.MatMul(b), a.MatMul(b.Expand(6, 300, 37).Clone())}
	})
}

func TestMatMulErrors(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	wantMisuse(t, func() { z(8, 512, 768).MatMul(z(3072, 768)) }, tensor.ErrShape, "op_matmul_test.go:",
		"matmul: inner sizes differ: a [8 512 768] has 768 on axis 2, b [3072 768] has 3072 on axis 0; "+
			"b transposed would fit")
	wantMisuse(t, func() { z(4, 3).MatMul(z(4, 2)) }, tensor.ErrShape,
		"a [4 3] has 3 on axis 1, b [4 2] has 4 on axis 0; a transposed would fit")
	wantMisuse(t, func() { z(3).MatMul(z(4)) }, tensor.ErrShape, "a [3] has 3 on axis 0, b [4] has 4 on axis 0")
	wantMisuse(t, func() { z(2, 2, 3).MatMul(z(3, 3, 4)) }, tensor.ErrShape,
		"leading axes do not broadcast: a [2 2 3] has 2 on axis 0, b [3 3 4] has 3 on axis 0")
	wantMisuse(t, func() { z().MatMul(z(3)) }, tensor.ErrShape, "a float32[] has 0 axes, at least 1 are needed")
	wantMisuse(t, func() { z(3).MatMul(z(3).To(tensor.Float64)) }, tensor.ErrDType, "a is float32[3], b is float64[3]")
	wantMisuse(t, func() { z(3).To(tensor.Int64).MatMul(z(3).To(tensor.Int64)) }, tensor.ErrDType,
		"a int64[3] must hold floating numbers")
	wantMisuse(t, func() { z(3).MatMul(nil) }, tensor.ErrStep, "nil")
}

func ExampleTensor_MatMul() {
	a := tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	b := tensor.FromSlice([]float32{1, 10}, 2)
	fmt.Println(tensor.ToSlice[float32](a.MatMul(b)))
	// Output: [21 43]
}

package tensor

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

// Arange makes host data with the elements start, start+step, ... below stop, or above it if step is negative. Element
// i is start + i*step, computed in float64.
func Arange(dt DType, start, stop, step float64) *Tensor {
	n := math.Ceil((stop - start) / step)
	if !(math.Abs(n) <= kernels.MaxLen) { // true for NaN, too
		fail(ErrValue, "arange", "from %g to %g by %g is no range", start, stop, step)
	}
	count := max(int(n), 0)
	switch exact := math.Abs(start)+math.Abs(stop) < 1<<62; {
	case dt == Float32:
		return arange[float32](count, start, step)
	case dt == Int64 && exact:
		return arange[int64](count, start, step)
	}
	return arange[float64](count, start, step).To(dt)
}

func arange[T float32 | float64 | int64](n int, start, step float64) *Tensor {
	v := makeHost[T]("arange", n)
	for i := range v {
		v[i] = T(start + float64(float64(i)*step))
	}
	return FromSlice(v, n)
}

// Linspace makes host data of n elements at equal distances from start to stop, both included; one element is start.
func Linspace(dt DType, start, stop float64, n int) *Tensor {
	checkShape("linspace", []int{n})
	if !(math.Abs(stop-start) <= math.MaxFloat64) {
		fail(ErrValue, "linspace", "from %g to %g is no range", start, stop)
	}
	v := makeHost[float64]("linspace", n)
	step := (stop - start) / float64(max(n-1, 1))
	for i := range v {
		if v[i] = start + float64(float64(i)*step); 2*i >= n && n > 1 {
			v[i] = stop - float64(float64(n-1-i)*step) // exact at both ends
		}
	}
	return FromSlice(v, n).To(dt)
}

// Eye makes host data [n n] with ones on the diagonal and zeros elsewhere.
func Eye(dt DType, n int) *Tensor {
	v := makeHost[float64]("eye", sizeOf("eye", []int{n, n}))
	for i := range n {
		v[i*n+i] = 1
	}
	return FromSlice(v, n, n).To(dt)
}

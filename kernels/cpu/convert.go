package cpu

import (
	"encoding/binary"
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// The rules of conversion. A value is rounded once, to the nearest value of the other type, ties to even. From floating
// point to integer the fraction is dropped, values out of range become the nearest integer in range, and NaN becomes 0.
// From integer to integer the low bits stay. Bool is 0 or 1; every value other than 0, NaN included, is true.

// register is a type that programs compute in.
type register interface{ float32 | float64 | int64 }

// load converts len(dst) elements of type d to registers. Programs are compiled for registers that hold their operands:
// no float64 is loaded into float32, and no floating-point type into int64.
func load[T register](dst []T, src []byte, d kernels.DType) {
	switch d {
	case kernels.Float32:
		convert(dst, view[float32](src))
	case kernels.Float64:
		convert(dst, view[float64](src))
	case kernels.Float16:
		widen(dst, view[uint16](src), vec.FromFloat16)
	case kernels.BFloat16:
		widen(dst, view[uint16](src), vec.FromBFloat16)
	case kernels.Int64:
		convert(dst, view[int64](src))
	case kernels.Int32:
		convert(dst, view[int32](src))
	case kernels.Uint8:
		if dst, ok := any(dst).([]float32); ok {
			vec.FromUint8(dst, src[:len(dst)])
			return
		}
		convert(dst, src)
	case kernels.Bool:
		loadBools(dst, src[:len(dst)])
	}
}

// loadBools is load of bools.
func loadBools[T register](dst []T, src []byte) {
	wide, vector := any(dst).([]float32)
	if !vector {
		for i, b := range src {
			dst[i] = T(fromBool[uint8](b != 0))
		}
		return
	}
	var truth [256]uint8
	for len(src) > 0 {
		n, i := min(len(src), len(truth)), 0
		for ; i+8 <= n; i += 8 { // the sum has the highest bit of each byte whose other bits are not all 0
			const low = 0x7f7f7f7f7f7f7f7f
			v := binary.LittleEndian.Uint64(src[i:])
			binary.LittleEndian.PutUint64(truth[i:], (v|(v&low+low))>>7&0x0101010101010101)
		}
		for ; i < n; i++ {
			truth[i] = fromBool[uint8](src[i] != 0)
		}
		vec.FromUint8(wide[:n], truth[:n])
		wide, src = wide[n:], src[n:]
	}
}

// convert converts between types by Go's rules, which are the rules above but for floating point to integer.
func convert[D, S float32 | float64 | int64 | int32 | uint8](dst []D, src []S) {
	if same, ok := any(src).([]D); ok {
		copy(dst, same)
		return
	}
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = D(src[i])
	}
}

// Fractions sets dst to levels/brightest, each rounded once. Both have the same length.
func Fractions(dst []float32, levels []uint8, brightest float32) {
	var by [256]float32
	for i := range by {
		by[i] = brightest
	}
	divide := vec.Instr("div")
	for len(dst) > 0 {
		n := min(len(dst), len(by))
		vec.FromUint8(dst[:n], levels[:n])
		divide(dst[:n], dst[:n], by[:], nil)
		dst, levels = dst[n:], levels[n:]
	}
}

func each[D, S any](dst []D, src []S, f func(S) D) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = f(src[i])
	}
}

// widen converts float16 or bfloat16 through float32, which holds their values exactly.
func widen[T register](dst []T, src []uint16, f func(dst []float32, src []uint16)) {
	if dst, ok := any(dst).([]float32); ok {
		f(dst, src[:len(dst)])
		return
	}
	wide := borrow(chunk)
	for len(dst) > 0 {
		piece := (*wide)[:min(chunk, len(dst))]
		f(piece, src[:len(piece)])
		convert(dst[:len(piece)], piece)
		dst, src = dst[len(piece):], src[len(piece):]
	}
	giveBack(wide)
}

// store converts registers to len(src) elements of type d.
func store[T register](dst []byte, src []T, d kernels.DType) {
	n := len(src)
	switch d {
	case kernels.Float32:
		convert(view[float32](dst)[:n], src)
	case kernels.Float64:
		convert(view[float64](dst)[:n], src)
	case kernels.Float16:
		narrow(view[uint16](dst)[:n], src, vec.ToFloat16, vec.Float16)
	case kernels.BFloat16:
		narrow(view[uint16](dst)[:n], src, vec.ToBFloat16, vec.BFloat16)
	case kernels.Int64:
		storeInteger(view[int64](dst)[:n], src, math.MinInt64, math.MaxInt64)
	case kernels.Int32:
		storeInteger(view[int32](dst)[:n], src, math.MinInt32, math.MaxInt32)
	case kernels.Uint8:
		storeInteger(dst[:n], src, 0, math.MaxUint8)
	case kernels.Bool:
		dst = dst[:n]
		if src, ok := any(src).([]float32); ok {
			for i, bits := range view[uint32](src) { // all but the sign, as a comparison of floats takes longer
				dst[i] = fromBool[uint8](bits<<1 != 0)
			}
			return
		}
		for i, x := range src {
			dst[i] = fromBool[uint8](x != 0)
		}
	}
}

// narrow converts to float16 or bfloat16: float32 by all, other types one by one, through float32 rounded to odd.
func narrow[T register](dst []uint16, src []T, all func(dst []uint16, src []float32), one func(float32) uint16) {
	switch src := any(src).(type) {
	case []float32:
		all(dst, src)
	case []float64:
		each(dst, src, func(x float64) uint16 { return one(kernels.OddFloat32(x)) })
	case []int64:
		each(dst, src, func(x int64) uint16 { return one(kernels.OddFloat32(oddFloat64(x))) })
	}
}

// storeInteger converts to an integer type with the range [low, high].
func storeInteger[I int64 | int32 | uint8, T register](dst []I, src []T, low, high I) {
	switch src := any(src).(type) {
	case []float32:
		each(dst, src, func(x float32) I { return kernels.Saturate(x, low, high) })
	case []float64:
		each(dst, src, func(x float64) I { return kernels.Saturate(x, low, high) })
	case []int64:
		convert(dst, src)
	}
}

// oddFloat64 rounds an integer to odd: see [kernels.OddFloat32].
func oddFloat64(x int64) float64 {
	f := float64(x)
	if f < 1<<63 && int64(f) == x {
		return f
	}
	u := math.Float64bits(f)
	if (x > 0) == (f >= 1<<63 || int64(f) > x) {
		u--
	}
	return math.Float64frombits(u | 1)
}

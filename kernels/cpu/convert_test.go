package cpu

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

var identity = expr.Must("x", []string{"x"}, nil)

// cast converts all elements of a.
func cast(t testing.TB, a kernels.Arg, d kernels.DType) kernels.Arg {
	out := newTensor(d, a.Shape...)
	mustRun(t, launch(identity, []kernels.Arg{a}, out))
	return out
}

// value is an element as an exact number; NaN and the infinities come as float64.
func value(a kernels.Arg, i int) (exact *big.Float, special float64) {
	switch a.DType {
	case kernels.Int64:
		return new(big.Float).SetInt64(Slice[int64](a)[i]), 0
	case kernels.Float32:
		special = float64(Slice[float32](a)[i])
	case kernels.Float64:
		special = Slice[float64](a)[i]
	case kernels.Float16:
		special = float64(float16.Frombits(Slice[uint16](a)[i]).Float32())
	case kernels.BFloat16:
		special = float64(math.Float32frombits(uint32(Slice[uint16](a)[i]) << 16))
	case kernels.Int32:
		special = float64(Slice[int32](a)[i])
	default:
		special = float64(a.Buf.(*Mem).data[i])
	}
	if math.IsNaN(special) || math.IsInf(special, 0) {
		return nil, special
	}
	return new(big.Float).SetPrec(200).SetFloat64(special), special
}

// precision is the number of bits of a floating type's significand, and least the exponent of its smallest number.
var precision = map[kernels.DType]struct {
	bits, least int
	largest     float64
}{
	kernels.Float16: {11, -24, 65504}, kernels.BFloat16: {8, -133, 0x1.fep127},
	kernels.Float32: {24, -149, math.MaxFloat32}, kernels.Float64: {53, -1074, math.MaxFloat64},
}

// rounded is an exact number in a floating type.
func rounded(x *big.Float, d kernels.DType) float64 {
	p := precision[d]
	if x.Sign() == 0 {
		f, _ := x.Float64()
		return f
	}
	ulp := max(x.MantExp(nil)-p.bits, p.least)
	scaled := new(big.Float).SetPrec(300).SetMantExp(x, -ulp)
	down, _ := scaled.Int(nil)
	rest := new(big.Float).SetPrec(300).Sub(scaled, new(big.Float).SetInt(down))
	half := rest.Abs(rest).Cmp(big.NewFloat(0.5))
	if half > 0 || half == 0 && down.Bit(0) == 1 {
		down.Add(down, big.NewInt(int64(x.Sign())))
	}
	f, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(down), ulp).Float64()
	switch {
	case math.Abs(f) > p.largest:
		return math.Inf(x.Sign())
	case f == 0:
		return math.Copysign(0, float64(x.Sign()))
	}
	return f
}

var ranges = map[kernels.DType][2]int64{
	kernels.Int64: {math.MinInt64, math.MaxInt64}, kernels.Int32: {math.MinInt32, math.MaxInt32},
	kernels.Uint8: {0, 255},
}

// converted is the rule of conversion, by exact arithmetic.
func converted(from, to kernels.DType, x *big.Float, special float64) (float64, int64) {
	switch {
	case to == kernels.Bool:
		if x != nil && x.Sign() == 0 {
			return 0, 0
		}
		return 1, 1
	case to.IsFloat():
		if x == nil {
			return special, 0
		}
		return rounded(x, to), 0
	case x == nil && special != special:
		return 0, 0
	case x == nil:
		return 0, ranges[to][map[bool]int{special > 0: 1}[true]]
	}
	whole, _ := x.Int(nil)
	if !from.IsFloat() { // the low bits
		low := new(big.Int).And(whole, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		switch to {
		case kernels.Int32:
			return 0, int64(int32(low))
		case kernels.Uint8:
			return 0, int64(uint8(low))
		}
		return 0, int64(low)
	}
	ends := ranges[to]
	if whole.Cmp(big.NewInt(ends[0])) < 0 {
		return 0, ends[0]
	}
	if whole.Cmp(big.NewInt(ends[1])) > 0 {
		return 0, ends[1]
	}
	return 0, whole.Int64()
}

// samples are numbers of a type, its corners and ties of all narrower types among them.
func samples(d kernels.DType) kernels.Arg {
	if d == kernels.Int64 {
		var v []int64
		for e := range 63 {
			for _, low := range []int64{-1, 0, 1} {
				for _, top := range []int64{1, 3, 255, 257, 511, 2049, 4095} {
					v = append(v, top<<e+low, -(top<<e + low))
				}
				if e > 8 {
					v = append(v, 1<<62+1<<e+low)
				}
			}
		}
		v = append(v, math.MaxInt64, math.MinInt64)
		a := newTensor(d, len(v))
		copy(Slice[int64](a), v)
		return a
	}
	var v []float64
	for e := -160; e <= 130; e++ {
		for _, top := range []float64{1, 1.5, 1 + 1.0/256, 1 + 3.0/256, 1 + 1.0/2048, 1 + 3.0/2048,
			1 + 1.0/2048 + 0x1p-30, 1 + 1.0/256 + 0x1p-50, 2 - 0x1p-52, 1 + 1.0/256 - 0x1p-50} {
			x := math.Ldexp(top, e)
			v = append(v, x, -x)
		}
	}
	for i := range 600 {
		v = append(v, float64(i-300), float64(i-300)/2, float64(i)*218.35+0.5)
	}
	v = append(v, 0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 65504, 65519, 65520, 65519.999,
		math.MaxFloat32, math.MaxFloat64,
		math.MaxInt64, math.MinInt64, 1<<31-1, 1<<31, -1<<31, -1<<31-1, 5e-324, 2.98e-8, 2.99e-8, 5.96e-8)
	return with(newTensor(d, len(v)), v...)
}

// Every pair of element types, against exact arithmetic.
func TestCasts(t *testing.T) {
	for _, from := range kernels.DTypes() {
		a := samples(from)
		for _, to := range kernels.DTypes() {
			out := cast(t, a, to)
			bad := 0
			for i := range a.Len() {
				x, special := value(a, i)
				wantFloat, wantInt := converted(from, to, x, special)
				got, gotFloat := value(out, i)
				ok := false
				if to.IsFloat() {
					ok = same(gotFloat, wantFloat)
				} else {
					n, accuracy := got.Int64()
					ok = accuracy == big.Exact && n == wantInt
				}
				if !ok && bad < 5 {
					bad++
					t.Errorf("%v to %v: %v (%v) becomes %v (%v), want %v or %d", from, to, x, special, got, gotFloat,
						wantFloat, wantInt)
				}
			}
		}
	}
}

// All half-precision patterns, to float32 and float64 and back.
func TestHalfPatterns(t *testing.T) {
	for _, half := range []kernels.DType{kernels.Float16, kernels.BFloat16} {
		a := newTensor(half, 1<<16)
		for i := range Slice[uint16](a) {
			Slice[uint16](a)[i] = uint16(i)
		}
		for _, wide := range []kernels.DType{kernels.Float32, kernels.Float64} {
			w := cast(t, a, wide)
			narrow := cast(t, w, half)
			back := Slice[uint16](narrow)
			for i := range back {
				_, want := value(a, i)
				_, got := value(w, i)
				if !same(got, want) {
					t.Fatalf("%v %#04x as %v is %v, want %v", half, i, wide, got, want)
				}
				if want == want && back[i] != uint16(i) {
					t.Fatalf("%v %#04x through %v is %#04x", half, i, wide, back[i])
				}
				if _, again := value(narrow, i); want != want && again == again {
					t.Fatalf("%v NaN %#04x through %v is %v", half, i, wide, again)
				}
			}
		}
	}
}

// A copy keeps every bit, a signalling NaN's too.
func TestCopiesAreExact(t *testing.T) {
	for _, d := range []kernels.DType{kernels.Float16, kernels.Float32} {
		short := random(rand.New(rand.NewPCG(1, 2)), newTensor(d, 9, 4, 30, 3)) // rows of few columns
		short.Shape, short.Strides = []int{30, 4, 9, 3}, []int{3, 90, 360, 1}
		if n := firstDifferent(elements(cast(t, short, d)), elements(short)); n >= 0 {
			t.Fatalf("%v: element %d changed", d, n)
		}
		a := layouts["transposed"](d, []int{40, 50})
		for i := range a.Buf.(*Mem).data {
			a.Buf.(*Mem).data[i] = byte(i*37 + i/255)
		}
		out := cast(t, a, d)
		size := d.Size()
		for r := range 40 {
			for c := range 50 {
				from, to := (c*40+r)*size, (r*50+c)*size
				if string(a.Buf.(*Mem).data[from:from+size]) != string(out.Buf.(*Mem).data[to:to+size]) {
					t.Fatalf("%v: element [%d %d] changed", d, r, c)
				}
			}
		}
	}
}

// Bools load as 0 and 1 whatever byte is true, at any length, and numbers store as whether they are not 0.
func TestBools(t *testing.T) {
	for n := range 300 {
		bools, want := make([]byte, n), make([]byte, n)
		for i := range bools {
			if bools[i] = byte(i * i % 257); bools[i] != 0 {
				want[i] = 1
			}
		}
		single, double, whole := make([]float32, n), make([]float64, n), make([]int64, n)
		load(single, bools, kernels.Bool)
		load(double, bools, kernels.Bool)
		load(whole, bools, kernels.Bool)
		for i, w := range want {
			if single[i] != float32(w) || double[i] != float64(w) || whole[i] != int64(w) {
				t.Fatalf("byte %d of %d, %#x, is %v, %v, %v", i, n, bools[i], single[i], double[i], whole[i])
			}
		}
	}
	nan, least := float32(math.NaN()), math.SmallestNonzeroFloat32
	numbers := []float32{0, float32(math.Copysign(0, -1)), 1, -1, nan, float32(math.Inf(1)), float32(least),
		-float32(least)}
	got := make([]byte, len(numbers))
	store(got, numbers, kernels.Bool)
	if want := []byte{0, 0, 1, 1, 1, 1, 1, 1}; !bytes.Equal(got, want) {
		t.Errorf("%v are %v, want %v", numbers, got, want)
	}
}

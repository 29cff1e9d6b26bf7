package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// patterns are the bits of float32 numbers on and beside the ties of both half types, at
// all exponents, NaNs with all kinds of payloads, and others.
func patterns() []float32 {
	var x []float32
	add := func(u uint32) { x = append(x, math.Float32frombits(u)) }
	for upper := range uint32(1 << 16) {
		for _, lower := range []uint32{0, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff} {
			add(upper<<16 | lower)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1 << 18 {
		add(r.Uint32())
		add(0x33000000 + r.Uint32N(0x06000000)) // the subnormal halves
	}
	return x
}

// TestNarrow holds the kernels to Float16 and BFloat16, NaNs included.
func TestNarrow(t *testing.T) {
	x := patterns()
	tiers(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			all func(dst []uint16, src []float32)
			one func(x float32) uint16
		}{"Float16": {ToFloat16, Float16}, "BFloat16": {ToBFloat16, BFloat16}} {
			got := make([]uint16, len(x))
			c.all(got, x)
			for i, v := range x {
				if want := c.one(v); got[i] != want {
					t.Fatalf("%s(%#x) = %#x, want %#x", name, math.Float32bits(v), got[i], want)
				}
			}
		}
	})
}

// TestWiden converts all patterns of both half types, NaNs included.
func TestWiden(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	half, brain := make([]float32, len(all)), make([]float32, len(all))
	for i, h := range all {
		half[i], brain[i] = halfValue(h), math.Float32frombits(uint32(h)<<16)
	}
	tiers(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			f    func(dst []float32, src []uint16)
			want []float32
		}{"FromFloat16": {FromFloat16, half}, "FromBFloat16": {FromBFloat16, brain}} {
			got := make([]float32, len(all))
			c.f(got, all)
			for i := range got {
				if g, w := math.Float32bits(got[i]), math.Float32bits(c.want[i]); g != w {
					t.Fatalf("%s(%#x) = %#x, want %#x", name, i, g, w)
				}
			}
		}
	})
}

// TestFromUint8 converts vectors of all lengths, with all bytes, between guards.
func TestFromUint8(t *testing.T) {
	all := make([]uint8, 300)
	for i := range all {
		all[i] = uint8(i)
	}
	tiers(t, func(t *testing.T) {
		for n := range len(all) {
			for _, src := range [][]uint8{all[:n], all[len(all)-n:]} {
				wide, got := guarded(make([]float32, n), 65)
				FromUint8(got, src)
				for i, x := range src {
					if got[i] != float32(x) {
						t.Fatalf("n=%d: %d becomes %v", n, x, got[i])
					}
				}
				if !intact(wide, 65, n) {
					t.Fatalf("n=%d: wrote outside the destination", n)
				}
			}
		}
	})
}

// halfValue is the value of a half-precision number by its definition.
func halfValue(h uint16) float32 {
	sign, exp, frac := uint32(h>>15), int(h>>10&31), h&0x3ff
	switch {
	case exp == 31 && frac != 0:
		return math.Float32frombits(sign<<31 | 0x7fc00000 | uint32(frac)<<13)
	case exp == 31:
		return math.Float32frombits(sign<<31 | 0x7f800000)
	}
	v := math.Ldexp(float64(frac), -24)
	if exp > 0 {
		v = math.Ldexp(float64(frac)+1024, exp-25)
	}
	return math.Float32frombits(sign<<31 | math.Float32bits(float32(v)))
}

// TestConversionLengths converts vectors of all lengths between guards.
func TestConversionLengths(t *testing.T) {
	tiers(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for n := range 300 {
			x := operand(r, n)
			all := make([]uint16, n+7)
			for i := range all {
				all[i] = guard & 0xffff
			}
			h := all[3 : 3+n]
			ToBFloat16(h, x)
			wide, back := guarded(make([]float32, n), 65)
			FromBFloat16(back, h)
			for i, v := range x {
				if want := BFloat16(v); h[i] != want || math.Float32bits(back[i]) != uint32(want)<<16 {
					t.Fatalf("n=%d: %v becomes %#x and %v, want %#x", n, v, h[i], back[i], want)
				}
			}
			ToFloat16(h, x)
			FromFloat16(back, h)
			for i, v := range x {
				if want := Float16(v); h[i] != want || !same(back[i], halfValue(want)) {
					t.Fatalf("n=%d: %v becomes %#x and %v, want %#x", n, v, h[i], back[i], want)
				}
			}
			for i, v := range all {
				if (i < 3 || i >= 3+n) && v != guard&0xffff {
					t.Fatalf("n=%d: wrote outside the destination", n)
				}
			}
			if !intact(wide, 65, n) {
				t.Fatalf("n=%d: wrote outside the destination", n)
			}
		}
	})
}

func BenchmarkConvert(b *testing.B) {
	x, h := make([]float32, 1024), make([]uint16, 1024)
	for i := range x {
		x[i] = float32(i-500) / 7
	}
	for name, f := range map[string]func(){
		"FromFloat16": func() { FromFloat16(x, h) }, "ToFloat16": func() { ToFloat16(h, x) },
		"FromBFloat16": func() { FromBFloat16(x, h) }, "ToBFloat16": func() { ToBFloat16(h, x) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/elem")
		})
	}
}

package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// tiers runs f once for every tier the processor has.
func tiers(t *testing.T, f func(t *testing.T)) {
	for tier := Portable; tier < numTiers; tier++ {
		if !Supported(tier) {
			t.Logf("%v: not on this processor", tier)
			continue
		}
		t.Run(tier.String(), func(t *testing.T) {
			defer SetTier(SetTier(tier))
			f(t)
		})
	}
}

// special are the values where algorithms go wrong first.
var special = func() []float32 {
	v := []float32{
		0, 1, 2, 3, 0.5, 0.25, 1e-10, 1e-38, 1e-40, math.SmallestNonzeroFloat32, math.MaxFloat32, 0x1p-126, 0x1p-127,
		1 << 23, 1<<23 + 1, 1 << 24, 1 << 31, 1 << 32, 65504, 65519, 65520, 48000, 48001, 1e10, 87.3, 88.7, 88.8, 103.9,
		104,
		1.5, 2.5, 0x1.fffffep-1, 0x1.000002p0, 0x1p-14, 0x1p-24, 0x1p-25, 9, 10, 3.92, 3.93, 10.1, math.Pi, math.Pi / 2,
		127, 128, 149, 150,
	}
	for _, x := range v {
		v = append(v, -x)
	}
	inf := float32(math.Inf(1))
	return append(v, inf, -inf, float32(math.NaN()), math.Float32frombits(0xffc00001))
}()

// operand returns n values: special ones, values of all magnitudes and values near 1.
func operand(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch r.IntN(4) {
		case 0:
			x[i] = special[r.IntN(len(special))]
		case 1:
			x[i] = math.Float32frombits(r.Uint32())
		case 2:
			x[i] = float32(r.NormFloat64())
		default:
			x[i] = float32(r.NormFloat64() * 20)
		}
	}
	return x
}

// same reports whether x and y are the same bits or two NaNs.
func same(x, y float32) bool {
	return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
}

// guard is a value that no kernel may overwrite.
const guard = 0x7fb0dead

// guarded returns a copy of x between guard zones, starting at an odd offset.
func guarded(x []float32, offset int) (all, part []float32) {
	all = make([]float32, offset+len(x)+70)
	for i := range all {
		all[i] = math.Float32frombits(guard)
	}
	part = all[offset : offset+len(x) : offset+len(x)]
	copy(part, x)
	return all, part
}

// intact reports whether the zones around part of all still hold the guard.
func intact(all []float32, offset, n int) bool {
	for i, x := range all {
		if (i < offset || i >= offset+n) && math.Float32bits(x) != guard {
			return false
		}
	}
	return true
}

func TestInstr(t *testing.T) {
	tiers(t, func(t *testing.T) {
		for i := range lane.Instrs {
			in := &lane.Instrs[i]
			t.Run(in.Name, func(t *testing.T) { testInstr(t, in) })
		}
	})
}

func testInstr(t *testing.T, in *lane.Instr) {
	k := Instr(in.Name)
	if k == nil {
		t.Fatal("no kernel")
	}
	r := rand.New(rand.NewPCG(1, 2))
	p := in.Program()
	for n := range 131 {
		x := [3][]float32{operand(r, n), operand(r, n), operand(r, n)}
		want := make([]float32, n)
		for i := range want {
			want[i] = in.Eval(p, x[0][i], x[1][i], x[2][i])
		}
		offset := 64 + n%4
		// The destination is apart, or the first, second or third operand.
		for place := range in.Args + 1 {
			var all, ops [3][]float32
			for i := range in.Args {
				all[i], ops[i] = guarded(x[i], offset+i)
			}
			dstAll, dst := guarded(want, offset)
			clear(dst)
			dstOffset := offset
			if place > 0 {
				dstAll, dst, dstOffset = all[place-1], ops[place-1], offset+place-1
			}
			k(dst, ops[0], ops[1], ops[2])
			for i := range dst {
				if !same(dst[i], want[i]) {
					t.Fatalf("n=%d place=%d: %s(%v, %v, %v) = %v (%#x), want %v (%#x)", n, place, in.Name, x[0][i],
						x[1][i], x[2][i],
						dst[i], math.Float32bits(dst[i]), want[i], math.Float32bits(want[i]))
				}
			}
			if !intact(dstAll, dstOffset, n) {
				t.Fatalf("n=%d place=%d: wrote outside the destination", n, place)
			}
			for i := range in.Args {
				if i != place-1 && (!intact(all[i], offset+i, n) || !equal(ops[i], x[i])) {
					t.Fatalf("n=%d place=%d: wrote to operand %d", n, place, i)
				}
			}
		}
	}
}

func equal(x, y []float32) bool {
	for i := range x {
		if !same(x[i], y[i]) {
			return false
		}
	}
	return true
}

// Kernels with non-temporal stores give what the others do, and write nothing else.
func TestInstrNonTemporal(t *testing.T) {
	tiers(t, func(t *testing.T) {
		if current < AVX2 && InstrNonTemporal("add") != nil {
			t.Error("a kernel with non-temporal stores, where there is no such instruction")
		}
		r := rand.New(rand.NewPCG(3, 4))
		for name := range instrsNonTemporal {
			k := InstrNonTemporal(name)
			if k == nil {
				continue
			}
			for _, n := range []int{0, 1, 5, 16, 31, 32, 64, 77, 128, 130, 1000} {
				a, b, c := operand(r, n), operand(r, n), operand(r, n)
				want := make([]float32, n)
				Instr(name)(want, a, b, c)
				all := aligned(make([]float32, n+64))
				for i := range all {
					all[i] = math.Float32frombits(guard)
				}
				got := all[:n:n]
				k(got, a, b, c)
				if !intact(all, 0, n) {
					t.Fatalf("%s, %d elements: wrote outside the destination", name, n)
				}
				for i := range want {
					if !same(got[i], want[i]) {
						t.Fatalf("%s, element %d of %d: %v, want %v", name, i, n, got[i], want[i])
					}
				}
			}
		}
	})
}

func TestFill(t *testing.T) {
	tiers(t, func(t *testing.T) {
		for n := range 131 {
			all, dst := guarded(make([]float32, n), 65)
			Fill(dst, 1.5)
			for _, x := range dst {
				if x != 1.5 {
					t.Fatalf("n=%d: %v", n, dst)
				}
			}
			if !intact(all, 65, n) {
				t.Fatalf("n=%d: wrote outside the destination", n)
			}
		}
	})
}

func TestUnknownInstr(t *testing.T) {
	if Instr("nonesuch") != nil {
		t.Error("a kernel for an unknown instruction")
	}
}

// BenchmarkInstr measures each instruction on a chunk of the size that expressions
// use, in the first cache, and on a long vector.
func BenchmarkInstr(b *testing.B) {
	for i := range lane.Instrs {
		in := &lane.Instrs[i]
		for _, n := range []int{1024, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", in.Name, n), func(b *testing.B) {
				x := [4][]float32{}
				r := rand.New(rand.NewPCG(1, 2))
				for i := range x {
					x[i] = make([]float32, n)
					for j := range x[i] {
						x[i][j] = 0.1 + r.Float32()*0.8
					}
				}
				k := Instr(in.Name)
				b.SetBytes(int64(4 * n * (in.Args + 1)))
				for b.Loop() {
					k(x[3], x[0], x[1], x[2])
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/elem")
			})
		}
	}
}

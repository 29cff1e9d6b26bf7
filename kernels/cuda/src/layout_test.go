package src

import (
	"math/bits"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestDivisor compares quotients by multiplication with division, at and around multiples.
func TestDivisor(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		d := uint32(i + 1)
		if i > 5000 {
			d = 1 + r.Uint32N(1<<31-1)
		}
		multiplier, shift := divisor(d)
		for k := range 20 {
			n := r.Uint32N(1 << 31)
			if k > 2 {
				n = n / d * d
				n += uint32(k%3) - 1
			}
			if n >= 1<<31 {
				continue
			}
			high, _ := bits.Mul32(n, multiplier)
			if got := uint32((uint64(high) + uint64(n)) >> shift); got != n/d {
				t.Fatalf("%d/%d = %d, want %d", n, d, got, n/d)
			}
		}
	}
}

func TestCollapse(t *testing.T) {
	for _, c := range []struct {
		shape, a, b        []int
		want, wantA, wantB []int
	}{
		{[]int{2, 3, 4}, []int{12, 4, 1}, []int{12, 4, 1}, []int{24}, []int{1}, []int{1}},
		{[]int{2, 3, 4}, []int{12, 4, 1}, []int{0, 0, 1}, []int{6, 4}, []int{4, 1}, []int{0, 1}},
		{[]int{2, 1, 4}, []int{4, 9, 1}, []int{1, 9, 2}, []int{2, 4}, []int{4, 1}, []int{1, 2}},
		{[]int{1, 1}, []int{7, 7}, []int{7, 7}, []int{1}, []int{0}, []int{0}},
		{nil, nil, nil, []int{1}, []int{0}, []int{0}},
	} {
		got, steps := Collapse(c.shape, c.a, c.b)
		if !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(steps, [][]int{c.wantA, c.wantB}) {
			t.Errorf("Collapse(%v, %v, %v) = %v, %v", c.shape, c.a, c.b, got, steps)
		}
	}
}

func TestFits32(t *testing.T) {
	if !Fits32([]int{1 << 15, 1 << 15}, []int{1 << 15, 1}) || Fits32([]int{1 << 16, 1 << 16}, []int{0, 1}) || Fits32([]int{2, 2}, []int{1 << 31, 1}) {
		t.Error("wrong limit")
	}
}

func TestShapeSizes(t *testing.T) {
	// As the compiler lays out Shape32<2> and Shape64<2>.
	if n := len(AppendShape32(nil, []int{2, 3}, []int{3, 1}, []int{1, 2})); n != 4+8*12+2*8*4 {
		t.Errorf("Shape32 has %d bytes", n)
	}
	if n := len(AppendShape64(nil, []int{2, 3}, []int{3, 1}, []int{1, 2})); n != 8+8*8+2*8*8 {
		t.Errorf("Shape64 has %d bytes", n)
	}
}

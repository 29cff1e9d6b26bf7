package kernels

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fitting := 0
	for range 100_000 {
		shape := make([]int, r.IntN(11))
		product, want := big.NewInt(1), len(shape) <= MaxDims
		for i := range shape {
			shape[i] = 1<<r.IntN(1+60/len(shape)) - r.IntN(2)
			switch r.IntN(50) {
			case 0:
				shape[i] = -shape[i]
			case 1:
				shape[i] = []int{math.MaxInt, math.MinInt, MaxLen, MaxLen + 1}[r.IntN(4)]
			}
			product.Mul(product, big.NewInt(int64(max(shape[i], 1))))
			want = want && shape[i] >= 0
		}
		want = want && product.Cmp(big.NewInt(MaxLen)) <= 0
		if got := Fits(shape); got != want {
			t.Fatalf("%v: %v, want %v", shape, got, want)
		}
		if want {
			fitting++
		}
	}
	if fitting < 20_000 || fitting > 80_000 {
		t.Errorf("%d of 100000 shapes fit", fitting)
	}
}

package data

import (
	"math"
	"slices"
	"testing"
)

// order lists a whole permutation.
func order(p *permutation) []int {
	out := make([]int, p.n)
	for i := range out {
		out[i] = p.at(i)
	}
	return out
}

func TestPermutationIsOneToOne(t *testing.T) {
	sizes := []int{1437, 1438, 4095, 4096, 4097, 60000}
	for n := range 300 {
		sizes = append(sizes, n+1)
	}
	for _, n := range sizes {
		for seed := range uint64(3) {
			got := order(newPermutation(forShuffle, seed, 7, n))
			slices.Sort(got)
			for i, v := range got {
				if i != v {
					t.Fatalf("n=%d seed=%d: sorted order has %d at place %d", n, seed, v, i)
				}
			}
		}
	}
}

func TestPermutationHugeDomain(t *testing.T) {
	for _, n := range []int{1 << 40, 1<<62 + 1, math.MaxInt} {
		p := newPermutation(forShuffle, 1, 0, n)
		seen := map[int]bool{}
		for i := range 10000 {
			v := p.at(i * (n / 10000))
			if v < 0 || v >= n || seen[v] {
				t.Fatalf("place %d: %d is outside [0, %d) or was seen before", i, v, n)
			}
			seen[v] = true
		}
	}
}

// The order is part of what users rely on: same seed, same batches, in every release.
func TestPermutationIsFrozen(t *testing.T) {
	got := order(newPermutation(forShuffle, 42, 3, 12))
	want := []int{5, 3, 6, 0, 4, 9, 2, 8, 1, 11, 7, 10}
	if !slices.Equal(got, want) {
		t.Errorf("order of seed 42, epoch 3 is %v, want %v", got, want)
	}
}

// chiSquare is the statistic of counts against equal expectation.
func chiSquare(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	want := float64(total) / float64(len(counts))
	sum := 0.0
	for _, c := range counts {
		d := float64(c) - want
		sum += d * d / want
	}
	return sum
}

func TestPermutationIsUniform(t *testing.T) {
	// All 120 orders of 5 numbers: 119 degrees of freedom, so mean 119 and deviation 15.4.
	counts := map[[5]int]int{}
	for seed := range uint64(6000) {
		counts[[5]int(order(newPermutation(forShuffle, seed, 0, 5)))]++
	}
	all := make([]int, 0, 120)
	for _, c := range counts {
		all = append(all, c)
	}
	if x := chiSquare(all); len(all) != 120 || x > 119+5*15.4 {
		t.Errorf("%d of 120 orders of 5 numbers occur, chi-square %.0f, want about 119", len(all), x)
	}
	// Which number comes to which place, and which follows which, for 40 numbers over many epochs.
	const n = 40
	place, next := make([]int, n*n), make([]int, n*n)
	for epoch := range uint64(5000) {
		o := order(newPermutation(forShuffle, 1, epoch, n))
		for i, v := range o {
			place[i*n+v]++
			if i > 0 {
				next[o[i-1]*n+v]++
			}
		}
	}
	// Rows and columns of place have fixed sums: 39*39 degrees of freedom, deviation 55.
	if x := chiSquare(place); x > 1521+5*55 {
		t.Errorf("chi-square of places %.0f, want about 1521", x)
	}
	pairs := make([]int, 0, n*(n-1))
	for a := range n {
		for b := range n {
			if a != b {
				pairs = append(pairs, next[a*n+b])
			}
		}
	}
	if x := chiSquare(pairs); x > 1560+5*56 {
		t.Errorf("chi-square of neighbours %.0f, want about 1560", x)
	}
	t.Logf("places %.0f, neighbours %.0f, orders %.0f", chiSquare(place), chiSquare(pairs), chiSquare(all))
}

func BenchmarkPermutation(b *testing.B) {
	p := newPermutation(forShuffle, 1, 0, 60000)
	for i := range b.N {
		p.at(i % 60000)
	}
}

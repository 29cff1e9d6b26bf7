package data

import "github.com/weft-ml/weft/internal/philox"

// permutation is a random order of the integers 0 to n-1 that is computed, not stored: at(i) costs the
// same for any i, so an iteration can begin anywhere, and an epoch of any size needs no memory.
//
// It is a Feistel network on pairs (l, r) in Z_a x Z_b with a*b >= n: each round adds a pseudo-random
// function of one half to the other, which can be undone and so is one-to-one. Results of n or more
// are fed in again until one is below n (cycle walking), which is one-to-one on 0 to n-1.
// Source: J. Black, P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
type permutation struct {
	n, a, b uint64
	keys    [feistelRounds]uint64
}

const (
	feistelRounds  = 12
	feistelMinSide = 16 // least a and b: with smaller ones few orders could be reached
)

// newPermutation makes the order of n integers that belongs to (seed, index) for one use.
func newPermutation(u use, seed, index uint64, n int) *permutation {
	p := &permutation{n: uint64(n)}
	p.a = feistelMinSide
	for p.a < 1<<32 && p.a*p.a < p.n {
		p.a = 2 * p.a
	}
	p.b = max((p.n+p.a-1)/p.a, feistelMinSide)
	words := source(u, seed, index)
	for i := range p.keys {
		p.keys[i] = words.Uint64(uint64(i))
	}
	return p
}

// at is element i of the order, for 0 <= i < n.
func (p *permutation) at(i int) int {
	one := [1]int{}
	p.elements(i, one[:])
	return one[0]
}

// permutationLanes is how many elements are computed side by side: each is one long chain of multiplications.
const permutationLanes = 8

// elements sets to to the elements from first on, for 0 <= first <= n-len(to).
func (p *permutation) elements(first int, to []int) {
	var l, r [permutationLanes]uint64
	for len(to) > 0 {
		n := min(len(to), permutationLanes)
		for j := range n {
			l[j], r[j] = uint64(first+j)/p.b, uint64(first+j)%p.b
		}
		p.rounds(l[:n], r[:n])
		for j := range n {
			for l[j]*p.b+r[j] >= p.n {
				p.rounds(l[j:j+1], r[j:j+1])
			}
			to[j] = int(l[j]*p.b + r[j])
		}
		first, to = first+n, to[n:]
	}
}

// rounds maps each (l, r) by the network.
func (p *permutation) rounds(l, r []uint64) {
	r = r[:len(l)]
	for k := 0; k < feistelRounds; k += 2 {
		left, right := p.keys[k], p.keys[k+1]
		for j := range l {
			l[j] = addMod(l[j], philox.Below(mix(left+r[j]), p.a), p.a)
			r[j] = addMod(r[j], philox.Below(mix(right+l[j]), p.b), p.b)
		}
	}
}

// consecutive is a permutation whose elements are asked for in order, mostly. It is for one goroutine.
type consecutive struct {
	*permutation
	first    int // of elements; negative before the first
	computed [permutationLanes]int
}

func (c *consecutive) at(i int) int {
	if c.first < 0 || i < c.first || i >= c.first+permutationLanes {
		c.first = i - i%permutationLanes
		c.elements(c.first, c.computed[:min(permutationLanes, int(c.n)-c.first)])
	}
	return c.computed[i-c.first]
}

// find is the position of v in the order, the inverse of at: the rounds in reverse.
func (p *permutation) find(v int) int {
	x := uint64(v)
	for {
		l, r := x/p.b, x%p.b
		for k := feistelRounds - 2; k >= 0; k -= 2 {
			r = addMod(r, p.b-philox.Below(mix(p.keys[k+1]+l), p.b), p.b)
			l = addMod(l, p.a-philox.Below(mix(p.keys[k]+r), p.a), p.a)
		}
		if x = l*p.b + r; x < p.n {
			return int(x)
		}
	}
}

// addMod is (x + y) mod m for x below m and y up to m.
func addMod(x, y, m uint64) uint64 {
	if x += y; x >= m {
		x -= m
	}
	return x
}

// mix scrambles a word one-to-one so that every input bit changes every output bit with probability
// one half. Source: D. Stafford's variant 13 of the MurmurHash3 finalizer, as in SplitMix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

package philox

import "math/bits"

// Source is a random stream: an endless list of blocks of four words, numbered from 0.
//
// Block i is Philox of the 128-bit counter with the 64-bit number Counter+i in words 0 and 1 (the low half first),
// Stream in word 2 and 0 in word 3, under the 64-bit Key. So each key has 2^32 streams of 2^64 blocks; after n blocks
// are used, the rest of the stream starts at Counter+n.
type Source struct {
	Key, Counter uint64
	Stream       uint32
}

// Block is block i of the stream.
func (s Source) Block(i uint64) [4]uint32 {
	c := s.Counter + i
	return cipher([4]uint32{uint32(c), uint32(c >> 32), s.Stream, 0}, [2]uint32{uint32(s.Key), uint32(s.Key >> 32)})
}

// Uint64 is number i of the stream read as 64-bit numbers: two in each block.
func (s Source) Uint64(i uint64) uint64 {
	w := s.Block(i / 2)
	k := i % 2 * 2
	return uint64(w[k]) | uint64(w[k+1])<<32
}

// Multipliers of the rounds, and the increments of the key (the golden ratio and sqrt(3)-1).
const (
	multiplier0 = 0xD2511F53
	multiplier1 = 0xCD9E8D57
	weyl0       = 0x9E3779B9
	weyl1       = 0xBB67AE85
	rounds      = 10
)

// cipher is Philox 4x32-10.
func cipher(c [4]uint32, k [2]uint32) [4]uint32 {
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	k0, k1 := k[0], k[1]
	for range rounds {
		c0, c1, c2, c3 = round(c0, c1, c2, c3, k0, k1)
		k0, k1 = k0+weyl0, k1+weyl1
	}
	return [4]uint32{c0, c1, c2, c3}
}

// round multiplies two words, and mixes the high halves of the products with the other two words and the key.
func round(c0, c1, c2, c3, k0, k1 uint32) (uint32, uint32, uint32, uint32) {
	p0 := uint64(c0) * multiplier0
	p1 := uint64(c2) * multiplier1
	return uint32(p1>>32) ^ c1 ^ k0, uint32(p1), uint32(p0>>32) ^ c3 ^ k1, uint32(p0)
}

// pair is blocks i and i+1: their rounds are independent, so that a processor overlaps them.
func (s Source) pair(i uint64) (a0, a1, a2, a3, b0, b1, b2, b3 uint32) {
	c, d := s.Counter+i, s.Counter+i+1
	a0, a1, a2, a3 = uint32(c), uint32(c>>32), s.Stream, 0
	b0, b1, b2, b3 = uint32(d), uint32(d>>32), s.Stream, 0
	k0, k1 := uint32(s.Key), uint32(s.Key>>32)
	for range rounds / 2 { // by two, after which the words are in their registers again
		a0, a1, a2, a3 = round(a0, a1, a2, a3, k0, k1)
		b0, b1, b2, b3 = round(b0, b1, b2, b3, k0, k1)
		k0, k1 = k0+weyl0, k1+weyl1
		a0, a1, a2, a3 = round(a0, a1, a2, a3, k0, k1)
		b0, b1, b2, b3 = round(b0, b1, b2, b3, k0, k1)
		k0, k1 = k0+weyl0, k1+weyl1
	}
	return a0, a1, a2, a3, b0, b1, b2, b3
}

// Derive makes the key of a stream with a name, such as that of a parameter: the names of a seed are independent, so
// that adding one changes no other. The name is hashed by FNV-1a, and the hash encrypted under the seed.
func Derive(seed uint64, name string) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(name) {
		hash = (hash ^ uint64(name[i])) * 1099511628211
	}
	return derive(seed, hash, 1)
}

// DeriveN makes the key of stream n of a seed, such as that of a step. It encrypts other counters than Derive.
func DeriveN(seed, n uint64) uint64 { return derive(seed, n, 2) }

// derive encrypts n under the seed; kind separates the uses.
func derive(seed, n uint64, kind uint32) uint64 {
	w := cipher([4]uint32{uint32(n), uint32(n >> 32), 0, kind}, [2]uint32{uint32(seed), uint32(seed >> 32)})
	return uint64(w[0]) | uint64(w[1])<<32
}

// Uniform sets dst to the numbers first, first+1, ... of the stream as uniform numbers in [0, 1): the upper 24 bits of
// a word, four in each block, so that they are the same as float32 and as float64.
func Uniform[T float32 | float64](dst []T, s Source, first uint64) {
	for len(dst) > 0 {
		if first%4 == 0 && len(dst) >= 8 {
			a0, a1, a2, a3, b0, b1, b2, b3 := s.pair(first / 4)
			*(*[8]T)(dst) = [8]T{
				uniform[T](a0), uniform[T](a1), uniform[T](a2), uniform[T](a3),
				uniform[T](b0), uniform[T](b1), uniform[T](b2), uniform[T](b3),
			}
			dst, first = dst[8:], first+8
			continue
		}
		w, skip := s.Block(first/4), int(first%4)
		n := min(4-skip, len(dst))
		for k := range n {
			dst[k] = uniform[T](w[skip+k])
		}
		dst, first = dst[n:], first+uint64(n)
	}
}

func uniform[T float32 | float64](w uint32) T { return T(w>>8) * (1.0 / (1 << 24)) }

// Below maps a random word to an integer from 0 to n-1: the upper half of the product word*n. Its bias, at most n/2^64,
// is far below what any sample shows.
func Below(word, n uint64) uint64 {
	high, _ := bits.Mul64(word, n)
	return high
}

package lower

import "github.com/weft-ml/weft/kernels/expr/lane"

// Multipliers of the rounds of Philox, and the increments of its key.
const (
	philoxM0, philoxM1 = 0xD2511F53, 0xCD9E8D57
	philoxW0, philoxW1 = 0x9E3779B9, 0xBB67AE85
	philoxRounds       = 10
)

// Philox encrypts the counter c under the key k by Philox 4x32-10 (Salmon, Moraes,
// Dror and Shaw 2011). Package internal/philox defines the same function.
func Philox(b *lane.Builder, c [4]lane.Value, k [2]lane.Value) [4]lane.Value {
	m0, m1 := b.Bits(philoxM0), b.Bits(philoxM1)
	for r := range uint32(philoxRounds) {
		k0, k1 := b.IAdd(k[0], b.Bits(r*philoxW0)), b.IAdd(k[1], b.Bits(r*philoxW1))
		c = [4]lane.Value{
			b.Xor(b.Xor(b.IMulHi(c[2], m1), c[1]), k0), b.IMul(c[2], m1),
			b.Xor(b.Xor(b.IMulHi(c[0], m0), c[3]), k1), b.IMul(c[0], m0),
		}
	}
	return c
}

// A Stream is a stream of random blocks whose five words a program has at hand: the
// number of its first block, the number of the stream, and the key.
type Stream struct {
	CounterLo, CounterHi, Number, KeyLo, KeyHi lane.Value
}

// Block is the four words of block i of the stream.
func (s Stream) Block(b *lane.Builder, i lane.Value) [4]lane.Value {
	lo := b.IAdd(s.CounterLo, i)
	carry := b.Select(ULT(b, lo, i), b.Bits(1), b.Bits(0))
	return Philox(b, [4]lane.Value{lo, b.IAdd(s.CounterHi, carry), s.Number, b.Bits(0)},
		[2]lane.Value{s.KeyLo, s.KeyHi})
}

// ULT is the mask of x < y on uint32.
func ULT(b *lane.Builder, x, y lane.Value) lane.Value {
	return b.ILT(b.Xor(x, b.Bits(1<<31)), b.Xor(y, b.Bits(1<<31)))
}

// Unit is the upper 24 bits of a word as a number in [0, 1).
func Unit(b *lane.Builder, word lane.Value) lane.Value {
	return b.Mul(b.Float(b.Shr(word, 8)), b.Const(0x1p-24))
}

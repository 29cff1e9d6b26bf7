package lower_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/internal/tools/lower"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// TestPhilox compares the blocks of a stream with those of package philox.
func TestPhilox(t *testing.T) {
	b := lane.NewBuilder()
	s := lower.Stream{CounterLo: b.Uniform(0), CounterHi: b.Uniform(1), Number: b.Uniform(2), KeyLo: b.Uniform(3),
		KeyHi: b.Uniform(4)}
	w := s.Block(b, b.Index())
	p := b.Program(w[0], w[1], w[2], w[3], lower.Unit(b, w[0]))
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		want := philox.Source{Key: r.Uint64(), Counter: r.Uint64(), Stream: r.Uint32()}
		index := r.Uint32()
		switch r.IntN(3) {
		case 0: // the carry
			want.Counter = math.MaxUint32 - uint64(index) + r.Uint64N(2)
		case 1:
			want.Counter = math.MaxUint64 - uint64(index) + r.Uint64N(2)
		}
		var words []float32
		for _, u := range []uint32{uint32(want.Counter), uint32(want.Counter >> 32), want.Stream, uint32(want.Key),
			uint32(want.Key >> 32)} {
			words = append(words, math.Float32frombits(u))
		}
		got := p.EvalAt(index, nil, words, nil)
		block := want.Block(uint64(index))
		for k, word := range block {
			if math.Float32bits(got[k]) != word {
				t.Fatalf("%+v: word %d of block %d is %#x, want %#x", want, k, index, math.Float32bits(got[k]), word)
			}
		}
		if unit := float32(block[0]>>8) / (1 << 24); got[4] != unit {
			t.Fatalf("the number of %#x is %v, want %v", block[0], got[4], unit)
		}
	}
}

package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/internal/philox"
)

// TestUniform holds the kernels to package philox: any part of a stream, at counters whose
// halves overflow.
func TestUniform(t *testing.T) {
	tiers(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for n := range 201 {
			for skip := range uint64(5) {
				for _, counter := range []uint64{0, r.Uint64(), 1<<32 - 1 - r.Uint64N(40),
					math.MaxUint64 - r.Uint64N(40)} {
					s := philox.Source{Key: r.Uint64(), Counter: counter, Stream: r.Uint32()}
					testUniform(t, s, skip, n)
					testUniform(t, s, r.Uint64N(100), n)
					testUniform(t, s, 1<<34-skip, n)
				}
			}
		}
		for _, n := range []int{1023, 1024, 4096 + 77} {
			testUniform(t, philox.Source{Key: r.Uint64(), Counter: 1<<32 - 100}, 3, n)
		}
	})
}

func testUniform(t *testing.T, s philox.Source, first uint64, n int) {
	t.Helper()
	want := make([]float32, n)
	philox.Uniform(want, s, first)
	all, got := guarded(make([]float32, n), 64+n%4)
	Uniform(got, s, first)
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%+v: number %d of %d from %d on is %v, want %v", s, i, n, first, got[i], want[i])
		}
	}
	if !intact(all, 64+n%4, n) {
		t.Fatalf("n=%d: wrote outside the destination", n)
	}
}

func BenchmarkUniform(b *testing.B) {
	x := make([]float32, 1024)
	for b.Loop() {
		Uniform(x, philox.Source{Key: 1}, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/elem")
}

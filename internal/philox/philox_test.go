package philox

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// The known answers of Random123.
func TestKnownAnswers(t *testing.T) {
	f, err := os.Open("../../testdata/goldens/philox4x32.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tested := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var n int
		var c, want [4]uint32
		var k [2]uint32
		if _, err := fmt.Sscanf(lines.Text(), "%d %x %x %x %x %x %x %x %x %x %x", &n,
			&c[0], &c[1], &c[2], &c[3], &k[0], &k[1], &want[0], &want[1], &want[2], &want[3]); err != nil {
			if !strings.HasPrefix(lines.Text(), "#") {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			continue
		}
		if n != rounds {
			continue
		}
		tested++
		if got := cipher(c, k); got != want {
			t.Errorf("cipher(%x, %x) = %x, want %x", c, k, got, want)
		}
	}
	if tested < 3 {
		t.Fatalf("%d known answers", tested)
	}
}

func TestBlockCountsInTheFirstTwoWords(t *testing.T) {
	s := Source{Key: 0x299f31d0a4093822, Counter: 0x85a308d3243f6a88 - 5, Stream: 0x13198a2e}
	got := s.Block(5)
	want := cipher([4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0}, [2]uint32{0xa4093822, 0x299f31d0})
	if got != want {
		t.Errorf("block 5 is %x, want %x", got, want)
	}
	if a, b := s.Uint64(10), s.Uint64(11); a != uint64(got[0])|uint64(got[1])<<32 ||
		b != uint64(got[2])|uint64(got[3])<<32 {
		t.Errorf("numbers 10 and 11 are %x and %x, block 5 is %x", a, b, got)
	}
}

// Any range of a stream has the same numbers, wherever it starts and ends.
func TestRangesAgree(t *testing.T) {
	s := Source{Key: 1, Counter: math.MaxUint64 - 3, Stream: 2} // the counter wraps
	for name, draw := range map[string]func([]float32, Source, uint64){"uniform": Uniform[float32],
		"normal": Normal[float32]} {
		all := make([]float32, 100)
		draw(all, s, 0)
		for first := range 20 {
			for n := range 20 {
				got := make([]float32, n)
				draw(got, s, uint64(first))
				if !slices.Equal(got, all[first:first+n]) {
					t.Fatalf("%s: numbers %d to %d are %v, in the whole %v",
						name, first, first+n, got, all[first:first+n])
				}
			}
		}
	}
}

func TestUniform(t *testing.T) {
	s := Source{Key: 42}
	x := make([]float32, 1<<20)
	y := make([]float64, len(x))
	Uniform(x, s, 0)
	Uniform(y, s, 0)
	var sum, squares float64
	var count [16]int
	for i, v := range x {
		if v < 0 || v >= 1 || float64(v) != y[i] {
			t.Fatalf("number %d is %v as float32, %v as float64", i, v, y[i])
		}
		sum += y[i]
		squares += y[i] * y[i]
		count[int(v*16)]++
	}
	n := float64(len(x))
	// Standard errors: sqrt(1/12/n) = 2.8e-4 of the mean, 2.9e-4 of the second moment, 250 of a count.
	if mean := sum / n; math.Abs(mean-0.5) > 1.2e-3 {
		t.Errorf("mean %v", mean)
	}
	if m := squares / n; math.Abs(m-1.0/3) > 1.2e-3 {
		t.Errorf("second moment %v", m)
	}
	for i, c := range count {
		if math.Abs(float64(c)-n/16) > 1000 {
			t.Errorf("%d numbers in bin %d of 16", c, i)
		}
	}
}

func TestNormal(t *testing.T) {
	x := make([]float64, 1<<20)
	Normal(x, Source{Key: 7, Stream: 1}, 0)
	var moment [5]float64
	inside := 0
	for _, v := range x {
		p := 1.0
		for k := range moment {
			moment[k] += p / float64(len(x))
			p *= v
		}
		if math.Abs(v) < 1 {
			inside++
		}
	}
	for k, want := range []float64{1, 0, 1, 0, 3} { // standard errors at most 0.01
		if math.Abs(moment[k]-want) > 0.04 {
			t.Errorf("moment %d is %v, want %v", k, moment[k], want)
		}
	}
	if share := float64(inside) / float64(len(x)); math.Abs(share-math.Erf(math.Sqrt(0.5))) > 2e-3 {
		t.Errorf("%v lie within one standard deviation", share)
	}
}

// The elementary functions against the standard library.
func TestLogAndTurn(t *testing.T) {
	for i := range uint32(1 << 16) {
		b := i<<16 + i
		u := (float64(b) + 0.5) / (1 << 32)
		if got, want := log(u), math.Log(u); math.Abs(got-want) > 4e-16*math.Abs(want)+1e-19 {
			t.Fatalf("log(%v) = %v, want %v", u, got, want)
		}
		sin, cos := turn(b)
		wantSin, wantCos := math.Sincos(float64(b) / (1 << 32) * 2 * math.Pi)
		if math.Abs(sin-wantSin) > 2e-15 || math.Abs(cos-wantCos) > 2e-15 {
			t.Fatalf("turn(%#x) = %v, %v, want %v, %v", b, sin, cos, wantSin, wantCos)
		}
	}
}

// The bits of normal numbers, which all platforms share.
func TestNormalBits(t *testing.T) {
	x := make([]float64, 1<<12)
	Normal(x, Source{Key: 1}, 0)
	hash := uint64(0)
	for _, v := range x {
		hash = hash*31 + math.Float64bits(v)
	}
	if hash != 0xc9c1ada4a27ad0e9 {
		t.Errorf("hash %#x", hash)
	}
}

func TestDerive(t *testing.T) {
	seen := map[uint64]string{}
	for seed := range uint64(10) {
		for n := range uint64(100) {
			for name, key := range map[string]uint64{
				fmt.Sprintf("%d by name %d", seed, n):   Derive(seed, fmt.Sprint(n)),
				fmt.Sprintf("%d by number %d", seed, n): DeriveN(seed, n),
			} {
				if old := seen[key]; old != "" {
					t.Errorf("%s and %s have the same key", old, name)
				}
				seen[key] = name
			}
		}
	}
	if a, b := Derive(42, "blocks.0.attn.q.weight"), Derive(42, "blocks.0.attn.q.weight"); a != b {
		t.Error("a name has two keys")
	}
}

func ExampleUniform() {
	mask := make([]float32, 4)
	Uniform(mask, Source{Key: Derive(42, "dropout")}, 0)
	fmt.Println(mask)
	// Output: [0.5478015 0.35963959 0.9284879 0.06420797]
}

func BenchmarkUniform(b *testing.B) {
	x := make([]float32, 1024)
	b.SetBytes(4 * 1024)
	for b.Loop() {
		Uniform(x, Source{}, 0)
	}
}

func BenchmarkNormal(b *testing.B) {
	x := make([]float32, 1024)
	b.SetBytes(4 * 1024)
	for b.Loop() {
		Normal(x, Source{}, 0)
	}
}

package golden

import (
	"math/bits"
	"os"
	"strings"
	"testing"
)

// philox is Philox 4x32 word by word, after Salmon and others, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011).
func philox(rounds int, c [4]uint32, k [2]uint32) [4]uint32 {
	for range rounds {
		hi0, lo0 := bits.Mul32(0xD2511F53, c[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ k[0], lo1, hi0 ^ c[3] ^ k[1], lo0}
		k[0] += 0x9E3779B9
		k[1] += 0xBB67AE85
	}
	return c
}

func TestPhilox(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/goldens/philox4x32.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := ParsePhilox(string(text))
	if err != nil {
		t.Fatal(err)
	}
	ten := 0
	for _, p := range rows {
		if p.Rounds == 10 {
			ten++
		}
		if got := philox(p.Rounds, p.Counter, p.Key); got != p.Want {
			t.Errorf("%+v: got %x", p, got)
		}
	}
	if ten != 3 {
		t.Errorf("%d answers of ten rounds, want 3", ten)
	}
}

func TestBadPhilox(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"# nothing\n", "no known answers"},
		{"10 0 0 0 0 0 0 1 2 3\n", "line 1 has 10 fields"},
		{"\n10 0 0 0 0 0 0 1 2 3 xyz\n", "line 2"},
		{"10 0 0 0 0 0 0 1 2 3 123456789\n", "line 1"},
	} {
		if _, err := ParsePhilox(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.want)
		}
	}
}

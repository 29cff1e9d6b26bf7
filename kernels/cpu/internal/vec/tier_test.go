package vec

import (
	"fmt"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	if got, err := choose("portable"); got != Portable || err != nil {
		t.Errorf("portable chooses %v, %v", got, err)
	}
	best, err := choose("")
	if err != nil {
		t.Error(err)
	}
	for tier := best + 1; tier < numTiers; tier++ {
		if Supported(tier) {
			t.Errorf("chose %v where %v is supported", best, tier)
		}
	}
	got, err := choose("sse")
	if got != best || fmt.Sprint(err) != "WEFT_CPU=sse: want portable, neon, avx2 or avx512" {
		t.Errorf("sse chooses %v, %v", got, err)
	}
}

func TestRequireNamesWhatIsMissing(t *testing.T) {
	for tier := Portable; tier < numTiers; tier++ {
		lacks, err := missing(tier), require(tier)
		if (err != nil) != (len(lacks) > 0) {
			t.Errorf("%v: error %v, missing %v", tier, err, lacks)
		}
		if err != nil && !strings.HasSuffix(err.Error(), "it lacks "+strings.Join(lacks, ", ")) {
			t.Errorf("%v: error %v does not name %v", tier, err, lacks)
		}
	}
}

func TestTierNames(t *testing.T) {
	if s := fmt.Sprint(Portable, NEON, AVX2, AVX512, Tier(9)); s != "portable neon avx2 avx512 Tier(9)" {
		t.Error(s)
	}
}

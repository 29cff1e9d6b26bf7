package vec

import (
	"fmt"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	if got := choose("portable"); got != Portable {
		t.Errorf("portable chooses %v", got)
	}
	best := choose("")
	for tier := best + 1; tier < numTiers; tier++ {
		if Supported(tier) {
			t.Errorf("chose %v where %v is supported", best, tier)
		}
	}
	defer func() {
		if s := fmt.Sprint(recover()); s != "weft: WEFT_CPU=sse: want portable, avx2 or avx512" {
			t.Errorf("panic %q", s)
		}
	}()
	choose("sse")
}

func TestRequireNamesWhatIsMissing(t *testing.T) {
	for tier := Portable; tier < numTiers; tier++ {
		lacks := missing(tier)
		func() {
			defer func() {
				r := recover()
				if (r != nil) != (len(lacks) > 0) {
					t.Errorf("%v: panic %v, missing %v", tier, r, lacks)
				}
				if r != nil && !strings.HasSuffix(fmt.Sprint(r), "it lacks "+strings.Join(lacks, ", ")) {
					t.Errorf("%v: panic %v does not name %v", tier, r, lacks)
				}
			}()
			require(tier)
		}()
	}
}

func TestTierNames(t *testing.T) {
	if s := fmt.Sprint(Portable, AVX2, AVX512, Tier(9)); s != "portable avx2 avx512 Tier(9)" {
		t.Error(s)
	}
}

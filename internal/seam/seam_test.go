package seam_test

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/internal/seam"
)

func TestElems(t *testing.T) {
	memory := []byte{1, 0, 0, 0, 0, 1, 0, 0, 9} // a part of an element is left out
	if got := seam.Elems[int32](memory); !slices.Equal(got, []int32{1, 256}) {
		t.Errorf("%v", got)
	}
	if got := seam.Elems[float64](nil); len(got) != 0 {
		t.Errorf("%v of no memory", got)
	}
}

// TestCastClass: every class has a name, and what is none says so.
func TestCastClass(t *testing.T) {
	seen := map[string]bool{}
	for c := seam.CastKeep; c <= seam.CastParts; c++ {
		seen[c.String()] = true
	}
	if len(seen) != int(seam.CastParts)+1 || (seam.CastParts+1).String() != "CastClass(6)" {
		t.Errorf("%v, %v", seen, seam.CastParts+1)
	}
}

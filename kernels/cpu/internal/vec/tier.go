package vec

import (
	"fmt"
	"os"
	"strings"
)

// Tier is the instruction set the kernels use.
type Tier int

// The tiers, slowest first. All of them compute the same bits.
const (
	Portable Tier = iota // plain Go
	NEON                 // 128-bit vectors of arm64
	AVX2                 // 256-bit vectors with FMA and F16C
	AVX512               // 512-bit vectors with F, DQ, BW and VL
	numTiers
)

// String returns the name by which WEFT_CPU selects the tier.
func (t Tier) String() string {
	switch t {
	case Portable:
		return "portable"
	case NEON:
		return "neon"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return fmt.Sprintf("Tier(%d)", int(t))
}

// current is the tier in use. It changes only in tests, between kernel calls.
var current, choiceError = choose(os.Getenv("WEFT_CPU"))

// ChoiceError tells why the tier that WEFT_CPU names is not in use, but the best one; nil if it is.
func ChoiceError() error { return choiceError }

// Current returns the tier in use: the best one the processor has, or the one
// that the environment variable WEFT_CPU names (portable, neon, avx2 or avx512).
func Current() Tier { return current }

// SetTier switches to tier t and returns the tier that was in use, so that a test can restore it. It panics if the
// processor lacks t. No kernel may run at the same time.
func SetTier(t Tier) (old Tier) {
	if err := require(t); err != nil {
		panic("vec: " + err.Error())
	}
	old, current = current, t
	return old
}

// Supported reports whether the processor can run tier t.
func Supported(t Tier) bool { return len(missing(t)) == 0 }

// choose returns the tier named by the value of WEFT_CPU, or the best supported one if the name is empty or there is an
// error.
func choose(name string) (Tier, error) {
	best := AVX512
	for !Supported(best) {
		best--
	}
	if name == "" {
		return best, nil
	}
	for t := Portable; t < numTiers; t++ {
		if t.String() != name {
			continue
		}
		if err := require(t); err != nil {
			return best, err
		}
		return t, nil
	}
	return best, fmt.Errorf("WEFT_CPU=%s: want portable, neon, avx2 or avx512", name)
}

// require is an error that names what is missing if the processor lacks tier t.
func require(t Tier) error {
	if m := missing(t); len(m) > 0 {
		return fmt.Errorf("this processor cannot run the %v kernels: it lacks %s", t, strings.Join(m, ", "))
	}
	return nil
}

//go:build !amd64

package vec

import (
	"unsafe"

	"github.com/weft-ml/weft/internal/philox"
)

// missing lists the processor features that tier t needs and this machine lacks.
func missing(t Tier) []string {
	if t == Portable {
		return nil
	}
	return []string{"an amd64 processor"}
}

// The vector tiers do not exist here, and SetTier refuses them.

func uniformBlocks(dst *float32, s philox.Source, first uint64, n int) { panic("vec: no vectors") }

func (c conversion) run(dst, src unsafe.Pointer, n int) { panic("vec: no vectors") }

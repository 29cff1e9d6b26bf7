//go:build !amd64 && !arm64

package vec

import (
	"unsafe"

	"github.com/weft-ml/weft/internal/philox"
)

// missing lists the processor features that tier t needs and this machine lacks.
func missing(t Tier) []string {
	switch t {
	case Portable:
		return nil
	case NEON:
		return []string{"an arm64 processor"}
	}
	return []string{"an amd64 processor"}
}

// The vector tiers do not exist here, and SetTier refuses them.

func uniformBlocks(dst *float32, s philox.Source, first uint64, n int) { panic("vec: no vectors") }

func (c conversion) run(dst, src unsafe.Pointer, n int) { panic("vec: no vectors") }

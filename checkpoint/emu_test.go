//go:build emu && cuda && cgo && linux

package checkpoint

import (
	"os"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
)

// TestMain has all tests use an emulated GPU.
func TestMain(m *testing.M) {
	emu.UseOrExit(emu.Plain)
	backend = "cuda"
	os.Exit(m.Run())
}

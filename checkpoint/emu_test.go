//go:build emu && cuda && cgo && linux

package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
)

// TestMain has all tests use an emulated GPU.
func TestMain(m *testing.M) {
	if err := emu.Use(emu.Plain); errors.Is(err, emu.ErrNoCompiler) {
		fmt.Println("SKIPPED emu:", err)
		os.Exit(0)
	} else if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	backend = "cuda"
	os.Exit(m.Run())
}

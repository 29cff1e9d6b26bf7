//go:build emu && cuda && cgo && linux

package onehash

import (
	"errors"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
)

func init() {
	useEmulator = func(t *testing.T) {
		if err := emu.Use(emu.Plain); errors.Is(err, emu.ErrNoCompiler) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

//go:build emu && cuda && cgo && linux

package main

import (
	"errors"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
)

// All checks of the doctor pass on the emulated GPU.
func TestDoctorCUDA(t *testing.T) {
	if err := emu.Use(emu.Plain); errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	stdout, _, code := weft(t, nil, "doctor", "-device", "cuda")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	says(t, stdout, "cuda\n  memory    ok", "64 MiB there and back", "kernel    ok",
		"gelu of 1000000 elements, equal to the CPU's",
		"matmul    ok", "300x700 by 700x500, equal to the CPU's", "training  ok", "in 100 steps, equal to the CPU's")
	t.Log("\n" + stdout)
}

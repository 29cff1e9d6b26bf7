//go:build emu && cuda && cgo && linux

package main

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
)

func onEmulator(t *testing.T) {
	t.Helper()
	if err := emu.Use(emu.Plain); errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// All checks of the doctor pass on the emulated GPU.
func TestDoctorCUDA(t *testing.T) {
	onEmulator(t)
	stdout, _, code := weft(t, nil, "doctor", "-device", "cuda")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	says(t, stdout, "cuda\n  memory    ok", "64 MiB there and back", "kernel    ok",
		"gelu of 1000000 elements, equal to the CPU's",
		"matmul    ok", "300x700 by 700x500, equal to the CPU's", "training  ok", "in 100 steps, equal to the CPU's")
	t.Log("\n" + stdout)
}

// All figures of the probe are measured on the emulated GPU, and are one line of JSON.
func TestProbeCUDA(t *testing.T) {
	onEmulator(t)
	stdout, stderr, code := weft(t, nil, "probe", "-small")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var figures map[string]any
	if err := json.Unmarshal([]byte(stdout), &figures); err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	var missing []string
	for _, name := range []string{"latency of a load, ns", "loads, GB/s", "mma of f16, TFLOP/s",
		"mma of bf16 alone, ns", "fma, TFLOP/s", "launch, us", "modules, us", "allocation, us",
		"copies to pinned memory, us", "gpu", "seconds"} {
		if figures[name] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 || slices.Contains([]byte(stdout[:len(stdout)-1]), '\n') || figures["left out"] != nil {
		t.Errorf("missing: %q\n%s", missing, stdout)
	}
	t.Log(stdout)
}

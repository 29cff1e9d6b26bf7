//go:build emu && cuda && cgo && linux

package main

import (
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu/survey"
)

func TestMain(m *testing.M) { survey.Main(m, main) }

// Every operation of the program has a kernel.
func TestHolesCUDA(t *testing.T) {
	for _, amp := range []string{"", "-amp bf16 ", "-amp fp16 -accumulate 2 "} {
		survey.Holes(t, amp+"-steps 2 -layers 2 -width 32 -heads 2 -context 16 -batch 2 -dropout 0.1 "+
			"-sample 5 -data main.go")
	}
}

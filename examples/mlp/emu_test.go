//go:build emu && cuda && cgo && linux

package main

import (
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu/survey"
)

func TestMain(m *testing.M) { survey.Main(m, main) }

// Every operation of the program has a kernel.
func TestHolesCUDA(t *testing.T) {
	for _, amp := range []string{"", "-amp bf16 ", "-amp fp16 "} {
		survey.Holes(t, amp+"-epochs 1")
	}
}

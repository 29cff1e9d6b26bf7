//go:build emu && cuda && cgo && linux

package main

import (
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu/survey"
)

func TestMain(m *testing.M) { survey.Main(m, main) }

// Every operation of the program has a kernel.
func TestHolesCUDA(t *testing.T) { survey.Holes(t, "-steps 1 -sample 2") }

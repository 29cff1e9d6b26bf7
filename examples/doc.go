// Package examples holds whole training programs, mlp and chargpt, and internal/run, which they share. The test
// in curves_test.go replays their loss curves: float32 training gives the same bits everywhere, so the curves are
// compared to the last digit. half_test.go compares precisions, emu_test.go the emulated GPU with the CPU.
package examples

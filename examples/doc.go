// Package examples holds whole programs: mlp and chargpt, with internal/run, which they share, train models, server
// answers requests while it trains. The test in curves_test.go replays loss curves: float32 training gives the same
// bits everywhere, so the curves are compared to the last digit. half_test.go compares precisions, emu_test.go the
// emulated GPU with the CPU.
package examples

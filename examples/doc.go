// Package examples holds whole training programs, one in each folder, and the test that replays their loss
// curves: float32 training gives the same bits everywhere, so the curves are compared to the last digit.
package examples

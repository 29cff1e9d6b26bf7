// Package null is a device that computes nothing. It checks every launch against its row and accounts for
// memory and launches, so that a whole training run can be planned, and its memory known, on any machine:
//
//	dev, err := tensor.Open("null")
//
// All values read from it are zero.
package null

// Package null is a device that computes nothing. It checks the operands of every op call and counts memory, so that a
// whole training run can be planned, and its memory known, on any machine:
//
//	dev, err := tensor.Open("null")
//
// All values read from it are zero. "null:1" and so on are devices with memory of their own; train.Fit uses these.
package null

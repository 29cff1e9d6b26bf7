// Package faults holds the tests of what a failed step leaves, nothing, and of goroutines that share a step:
// docs/RELIABILITY.md. device_test.go is a device that fails where it is told to, trainings_test.go what is trained on
// it.
package faults

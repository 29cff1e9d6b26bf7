//go:build cuda && cgo && linux

package cuda

// Plans is for tests that need package tensor, which imports this one.
var Plans = plans

//go:build amd64 || arm64

package caller

import "unsafe"

// framePointer is the frame pointer of its caller; nil ends the chain.
func framePointer() unsafe.Pointer

// Goroutine tells the goroutines that run at one time apart; 0 where it cannot.
func Goroutine() uintptr

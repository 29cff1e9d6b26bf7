//go:build !amd64 && !arm64

package caller

import "unsafe"

func framePointer() unsafe.Pointer { return nil }

// Goroutine tells the goroutines that run at one time apart; 0 where it cannot.
func Goroutine() uintptr { return 0 }

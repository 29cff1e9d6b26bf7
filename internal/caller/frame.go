//go:build amd64 || arm64

package caller

import "unsafe"

// framePointer is the frame pointer of its caller; nil ends the chain.
func framePointer() unsafe.Pointer

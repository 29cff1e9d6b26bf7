//go:build cuda && cgo && linux

package cuda

import "strings"

// emulated stands for the kernels inside the emulator's library (internal/testing/emu), which it gives for the word "emu". They
// serve where this build has no image with a kernel.
var emulated = &image{family: "emu", target: "the emulator", code: func() ([]byte, error) { return []byte("emu"), nil }}

// emulated tells whether the device is the emulator of internal/testing/emu.
func (g *GPU) emulated() bool { return strings.HasPrefix(g.Name, "Weft emulator") }

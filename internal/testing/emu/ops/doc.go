// Package ops tests the operations of package tensor on the emulated GPU: their bits are those of the CPU. It has no
// other contents. The tests have the build tags cuda and emu.
package ops

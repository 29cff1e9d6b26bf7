// Package train tests whole training on the emulated GPU: what a step asks of the driver, and what follows from failures.
// It has no other contents. The tests have the build tags cuda and emu.
package train

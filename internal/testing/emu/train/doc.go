// Package train tests whole training on the emulated GPU: how often a step calls the driver, and how failures are
// handled. It has no other contents. The tests have the build tags cuda and emu.
package train

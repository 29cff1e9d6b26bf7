// Package traffic tests how much memory the kernels of operations move on the emulated GPU, in 32-byte sectors for each
// request of a warp. It has no other contents. The tests have the build tags cuda and emu.
package traffic

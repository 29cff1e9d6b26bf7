// Package emu drives the emulator of CUDA kernels in tests.
//
// The emulator itself is C++, in the folder src: a library that exports the functions of the CUDA driver and runs
// the kernels of kernels/cuda/src on the CPU, compiled by g++, or has none. README.md describes it. This package builds
// the library and calls it as any program calls the driver, so that the same tests can run on a GPU:
//
//	lib, err := emu.Build(emu.Checked)
//	d, err := emu.Open(lib)
//	p, err := d.Alloc(4 * n)
//	err = d.Launch(f, [3]uint32{blocks, 1, 1}, [3]uint32{256, 1, 1}, 0, 0, p, int32(n))
//
// It is compiled with -tags emu on Linux with cgo, and only tests use it. build.go builds the libraries, driver.go
// calls them. The folders exact, survey, ops, train, traffic and mutants have what tests share, and the tests.
package emu

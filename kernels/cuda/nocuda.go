//go:build !(cuda && cgo && linux)

package cuda

import (
	"runtime"

	"github.com/weft-ml/weft/kernels"
)

// Built tells whether this program can use GPUs.
const Built = false

// Devices lists the GPUs. The error, of kind [kernels.ErrDevice], says why there is none and what to do about it.
func Devices() ([]GPU, Driver, error) {
	if runtime.GOOS != "linux" {
		return nil, Driver{}, kernels.Errorf(kernels.ErrDevice, "open", "NVIDIA GPUs are used on Linux only, not on %s",
			runtime.GOOS)
	}
	return nil, Driver{}, kernels.Errorf(kernels.ErrDevice, "open",
		"this program was built without CUDA; to build it with CUDA (and a C compiler), "+
			"in Weft's repository: scripts/cuda-env go build -tags cuda ./...; "+
			"in a module of your own: go run github.com/weft-ml/weft/cmd/weft cuda-env -w, once, "+
			"and then go build -tags cuda")
}

// Kernels says which kernels of this build fit the GPU.
func (g *GPU) Kernels() string { return "none in this build" }

// NeedsPTX tells whether the driver must compile kernels of this build for the GPU.
func (g *GPU) NeedsPTX() bool { return false }

// Compilers describes NVRTC and the driver's own compiler, which this build does not look for.
func Compilers() (nvrtc, ptx Compiler) { return }

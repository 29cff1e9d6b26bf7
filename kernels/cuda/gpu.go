package cuda

import (
	"fmt"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// Kinds of [kernels.Error] that tell more than [kernels.ErrDevice]; errors.Is finds that in them too.
var (
	// ErrFault: a kernel failed on the device. All data there are lost, and the GPU cannot be used by this process any
	// more.
	ErrFault = fmt.Errorf("%w: a kernel failed", kernels.ErrDevice)
	// ErrLost: the GPU itself failed, or the driver gave it up. The same holds, and a new process may fail too.
	ErrLost = fmt.Errorf("%w: lost", kernels.ErrDevice)
	// ErrNoCompiler: a kernel must be compiled on this machine, and what would do that is missing or too old.
	ErrNoCompiler = fmt.Errorf("%w: no compiler", kernels.ErrDevice)
)

// GPU is one GPU as the driver describes it.
type GPU struct{ driver.GPU }

// Oldest compute capability that Weft has kernels for.
const oldestMajor, oldestMinor = 8, 0

// The version of CUDA that the kernels are compiled by, which driver 550 was the first to support.
const oldestCUDA = 12040

// Check tells why Weft cannot use the GPU; nil if it can.
func (g *GPU) Check() error {
	if g.Major < oldestMajor || g.Major == oldestMajor && g.Minor < oldestMinor {
		return kernels.Errorf(kernels.ErrDevice, "open",
			"cuda:%d, %s, has compute capability %s (%s); Weft needs %d.%d (Ampere) or newer",
			g.Ordinal, g.Name, g.Capability(), g.Generation(), oldestMajor, oldestMinor)
	}
	return nil
}

// Compiler describes a library that compiles kernels on this machine.
type Compiler struct {
	Library, Version string
	Missing          error // why it cannot be used, of kind [ErrNoCompiler], and the way out; nil if it can
}

// Driver is the driver library.
type Driver struct{ driver.Library }

// Check tells what an old driver lacks, and the way out; nil if it is new enough.
func (d Driver) Check() error {
	if d.Version > 0 && d.Version < oldestCUDA {
		return kernels.Errorf(kernels.ErrDevice, "open",
			"%v is older than CUDA %d.%d of driver 550, for which kernels are compiled; "+
				"install NVIDIA driver 550 or newer (a container takes the host's)",
			d, oldestCUDA/1000, oldestCUDA%1000/10)
	}
	return nil
}

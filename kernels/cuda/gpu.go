package cuda

import (
	"fmt"
	"slices"

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

// Versions of CUDA. Machine code of compilers of CUDA 12 runs on every driver from 525 on; PTX needs a driver that is
// as new as the compiler.
const (
	oldestCUDA    = 12000
	oldestCUDAPTX = 12040
)

// Check tells why Weft cannot use the GPU; nil if it can.
func (g *GPU) Check() error {
	if g.Major == 0 {
		return kernels.Errorf(kernels.ErrDevice, "open",
			"the driver does not tell the compute capability of cuda:%d, %s", g.Ordinal, g.Name)
	}
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

// Check tells what an old driver lacks for some GPUs, and the way out; nil if it is new enough.
func (d Driver) Check(gpus []GPU) error {
	ptx := slices.ContainsFunc(gpus, func(g GPU) bool { return g.NeedsPTX() })
	const way = "install NVIDIA driver %d or newer (a container takes the host's)"
	switch {
	case d.Version <= 0: // it does not say
	case d.Version < oldestCUDA:
		return kernels.Errorf(kernels.ErrDevice, "open",
			"%v is older than CUDA 12.0 of driver 525, whose machine code kernels are; "+way, d, 525)
	case d.Version < oldestCUDAPTX && ptx:
		return kernels.Errorf(kernels.ErrDevice, "open",
			"%v is older than CUDA 12.4 of driver 550, whose PTX kernels are for GPUs as new as these; "+way, d, 550)
	}
	return nil
}

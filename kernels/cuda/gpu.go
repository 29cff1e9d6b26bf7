package cuda

import (
	"fmt"

	"github.com/weft-ml/weft/kernels"
)

// Kinds of [kernels.Error] that tell more than [kernels.ErrDevice]; errors.Is finds that in them too.
var (
	// ErrFault: a kernel failed on the device. All data there are lost, and the GPU cannot be used by this process any more.
	ErrFault = fmt.Errorf("%w: a kernel failed", kernels.ErrDevice)
	// ErrLost: the GPU itself failed, or the driver gave it up. The same holds, and a new process may fail too.
	ErrLost = fmt.Errorf("%w: lost", kernels.ErrDevice)
	// ErrNoCompiler: a kernel must be compiled on this machine, and what would do that is missing or too old.
	ErrNoCompiler = fmt.Errorf("%w: no compiler", kernels.ErrDevice)
)

// GPU describes one GPU as the driver sees it.
type GPU struct {
	Ordinal        int
	Name           string // such as "NVIDIA H200"
	Major, Minor   int    // compute capability
	Memory         int    // bytes
	SMs            int    // streaming multiprocessors
	ClockMHz       int    // highest clock of the SMs
	MemoryClockMHz int
	MemoryBusBits  int
	Peers          []int // ordinals of the GPUs whose memory it can reach directly
}

// Oldest compute capability that Weft has kernels for.
const oldestMajor, oldestMinor = 8, 0

// Capability is the compute capability, such as "9.0".
func (g *GPU) Capability() string { return fmt.Sprintf("%d.%d", g.Major, g.Minor) }

// Generation is NVIDIA's name for GPUs of this compute capability.
func (g *GPU) Generation() string {
	switch {
	case g.Major == 12 || g.Major == 10 || g.Major == 11:
		return "Blackwell"
	case g.Major == 9:
		return "Hopper"
	case g.Major == 8 && g.Minor == 9:
		return "Ada Lovelace"
	case g.Major == 8:
		return "Ampere"
	case g.Major == 7 && g.Minor == 5:
		return "Turing"
	case g.Major == 7:
		return "Volta"
	case g.Major == 6:
		return "Pascal"
	case g.Major == 5:
		return "Maxwell"
	}
	return "unknown generation"
}

// Check tells why Weft cannot use the GPU; nil if it can.
func (g *GPU) Check() error {
	if g.Major < oldestMajor || g.Major == oldestMajor && g.Minor < oldestMinor {
		return kernels.Errorf(kernels.ErrDevice, "open", "cuda:%d, %s, has compute capability %s (%s); Weft needs %d.%d (Ampere) or newer",
			g.Ordinal, g.Name, g.Capability(), g.Generation(), oldestMajor, oldestMinor)
	}
	return nil
}

// Driver describes the driver library.
type Driver struct {
	Library string // what was loaded
	Version int    // of CUDA that it supports: 1000*major + 10*minor
}

// String is the library and the version: "libcuda.so.1, CUDA 13.0".
func (d Driver) String() string {
	return fmt.Sprintf("%s, CUDA %d.%d", d.Library, d.Version/1000, d.Version%1000/10)
}

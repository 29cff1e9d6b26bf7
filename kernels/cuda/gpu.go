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
	PCI            string // address, such as "0000:65:00.0"
	Peers          []int  // ordinals of the GPUs whose memory it can reach directly
	Links          []Link // to each of Peers
}

// Link is what the driver says of the way to another GPU's memory.
type Link struct {
	Known   bool // it says something
	Rank    int  // of its speed among the links of the machine, 0 the fastest
	Atomics bool // work across it, too: over NVLink they do, over PCIe they do not
}

// String is "rank 0, atomics as over NVLink".
func (l Link) String() string {
	switch {
	case !l.Known:
		return "the driver does not describe the link"
	case l.Atomics:
		return fmt.Sprintf("rank %d, atomics as over NVLink", l.Rank)
	}
	return fmt.Sprintf("rank %d, no atomics, as over PCIe", l.Rank)
}

// Oldest compute capability that Weft has kernels for.
const oldestMajor, oldestMinor = 8, 0

// The version of CUDA that the kernels are compiled by, which driver 550 was the first to support.
const oldestCUDA = 12040

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

// Compiler describes a library that compiles kernels on this machine.
type Compiler struct {
	Library, Version string
	Missing          error // why it cannot be used, of kind [ErrNoCompiler], and the way out; nil if it can
}

// Driver describes the driver library.
type Driver struct {
	Library string // what was loaded
	Version int    // of CUDA that it supports: 1000*major + 10*minor
}

// Check tells what an old driver lacks, and the way out; nil if it is new enough.
func (d Driver) Check() error {
	if d.Version > 0 && d.Version < oldestCUDA {
		return kernels.Errorf(kernels.ErrDevice, "open",
			"%v is older than CUDA %d.%d of driver 550, for which kernels are compiled; install NVIDIA driver 550 or newer (a container takes the host's)",
			d, oldestCUDA/1000, oldestCUDA%1000/10)
	}
	return nil
}

// String is the library and the version: "libcuda.so.1, CUDA 13.0".
func (d Driver) String() string {
	return fmt.Sprintf("%s, CUDA %d.%d", d.Library, d.Version/1000, d.Version%1000/10)
}

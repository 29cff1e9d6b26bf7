package driver

import (
	"cmp"
	"fmt"
	"strconv"
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

// Capability is the compute capability, such as "9.0".
func (g *GPU) Capability() string { return fmt.Sprintf("%d.%d", g.Major, g.Minor) }

// LargeShared tells whether a block can have 163 KB of shared memory and more. Of other GPUs it is 99 KB.
func (g *GPU) LargeShared() bool { return g.Minor == 0 && g.Major <= 10 }

// WGMMA tells whether the GPU has wgmma, which compute capability 9.0 alone has.
func (g *GPU) WGMMA() bool { return g.Major == 9 && g.Minor == 0 }

// generations are NVIDIA's names, by the compute capability or its major number.
var generations = map[string]string{"5": "Maxwell", "6": "Pascal", "7": "Volta", "7.5": "Turing", "8": "Ampere",
	"8.9": "Ada Lovelace", "9": "Hopper", "10": "Blackwell", "11": "Blackwell", "12": "Blackwell"}

// Generation is NVIDIA's name for GPUs of this compute capability.
func (g *GPU) Generation() string {
	return cmp.Or(generations[g.Capability()], generations[strconv.Itoa(g.Major)], "unknown generation")
}

// Library describes the driver library.
type Library struct {
	Path    string // what was loaded
	Version int    // of CUDA that it supports: 1000*major + 10*minor
}

// String is the library and the version: "libcuda.so.1, CUDA 13.0".
func (d Library) String() string {
	return fmt.Sprintf("%s, CUDA %d.%d", d.Path, d.Version/1000, d.Version%1000/10)
}

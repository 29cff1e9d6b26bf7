//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

import (
	"fmt"

	"gorgonia.org/cu"
)

// Devices lists the GPUs.
func Devices() ([]GPU, error) {
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("the NVIDIA driver does not count its GPUs: %v", resultOf(err))
	}
	if n == 0 {
		return nil, fmt.Errorf("the NVIDIA driver is there, but %s", initFailure(C.CUDA_ERROR_NO_DEVICE, ""))
	}
	all := make([]GPU, n)
	for i := range all {
		all[i] = queryGPU(i, n)
	}
	return all, nil
}

// queryGPU reads the description of one of n GPUs. What the driver does not tell is 0.
func queryGPU(ordinal, n int) GPU {
	g := GPU{Ordinal: ordinal, Name: "a GPU that the driver does not describe"}
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return g
	}
	if name, err := dev.Name(); err == nil {
		g.Name = name
	}
	if memory, err := dev.TotalMem(); err == nil {
		g.Memory = int(memory)
	}
	var domain, bus, slot int
	for _, a := range []struct {
		to        *int
		attribute cu.DeviceAttribute
	}{
		{&g.Major, cu.ComputeCapabilityMajor}, {&g.Minor, cu.ComputeCapabilityMinor}, {&g.SMs, cu.MultiprocessorCount},
		{&g.ClockMHz, cu.ClockRate}, {&g.MemoryClockMHz, cu.MemoryClockRate},
		{&g.MemoryBusBits, cu.GlobalMemoryBusWidth},
		{&domain, cu.PciDomainID}, {&bus, cu.PciBusID}, {&slot, cu.PciDeviceID},
	} {
		if value, err := dev.Attribute(a.attribute); err == nil {
			*a.to = value
		}
	}
	g.ClockMHz, g.MemoryClockMHz = g.ClockMHz/1000, g.MemoryClockMHz/1000
	g.PCI = fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, slot)
	for peer := range n {
		other, err := cu.GetDevice(peer)
		if err != nil || peer == ordinal {
			continue
		}
		if can, err := dev.CanAccessPeer(other); err == nil && can != 0 {
			rank, err := dev.P2PAttribute(cu.PerformanceRank, other)
			atomics, err2 := dev.P2PAttribute(cu.P2PNativeAomicSupported, other)
			g.Peers = append(g.Peers, peer)
			g.Links = append(g.Links, Link{err == nil && err2 == nil, rank, atomics != 0})
		}
	}
	return g
}

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
		if all[i], err = queryGPU(i, n); err != nil {
			return nil, fmt.Errorf("the NVIDIA driver does not describe cuda:%d: %v", i, resultOf(err))
		}
	}
	return all, nil
}

// queryGPU reads the description of one of n GPUs.
func queryGPU(ordinal, n int) (g GPU, err error) {
	g.Ordinal = ordinal
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return g, err
	}
	if g.Name, err = dev.Name(); err != nil {
		return g, err
	}
	memory, err := dev.TotalMem()
	if err != nil {
		return g, err
	}
	g.Memory = int(memory)
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
		if *a.to, err = dev.Attribute(a.attribute); err != nil {
			return g, err
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
	return g, nil
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pcie tells how the device at an address of the PCI bus is connected, as far as the folder sys of the Linux kernel does.
func pcie(sys, address string) string {
	link := func(which string) string {
		read := func(name string) string {
			b, _ := os.ReadFile(filepath.Join(sys, address, which+"_link_"+name))
			return strings.TrimSpace(string(b))
		}
		speed, _, _ := strings.Cut(read("speed"), " ") // "16.0 GT/s PCIe"
		rate, _ := strconv.ParseFloat(speed, 64)
		generation := slices.Index([]float64{2.5, 5, 8, 16, 32, 64}, rate) + 1
		if generation == 0 {
			return ""
		}
		return fmt.Sprintf("%d.0 x%s", generation, read("width"))
	}
	now, most := link("current"), link("max")
	switch {
	case now == "":
		return "PCIe, of which the system says nothing"
	case most == "" || now == most:
		return "PCIe " + now
	}
	return "PCIe " + now + " now, " + most + " at most; a GPU that rests slows its link, a narrow slot stays narrow"
}

var driverRelease = regexp.MustCompile(`\b[0-9]{3,}\.[0-9]+(\.[0-9]+)?\b`)

// releaseOf finds the driver's release in the text of /proc/driver/nvidia/version: "550.54.15".
func releaseOf(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return driverRelease.FindString(first)
}

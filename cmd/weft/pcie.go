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

// pcieLink describes the PCIe link of the device at an address of the PCI bus, by what Linux says in the folder sys.
func pcieLink(sys, address string) string {
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
	now, best := link("current"), link("max")
	switch {
	case now == "":
		return "PCIe, link unknown"
	case best == "" || now == best:
		return "PCIe " + now
	}
	return "PCIe " + now + " now, " + best +
		" at most; an idle GPU lowers the speed, a slot with few lanes limits the width"
}

var releasePattern = regexp.MustCompile(`\b[0-9]{3,}\.[0-9]+(\.[0-9]+)?\b`)

// driverRelease finds the driver's release in the text of /proc/driver/nvidia/version: "550.54.15".
func driverRelease(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return releasePattern.FindString(first)
}

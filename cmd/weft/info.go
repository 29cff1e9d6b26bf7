package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	xcpu "golang.org/x/sys/cpu"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/cuda"
)

// info prints what the machine has.
func info(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("info", flag.ContinueOnError)
	if err := parse(f, args, stderr); err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "Weft\t%s, %s, %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	c := processor()
	fmt.Fprintf(w, "CPU\t%s\n", c.model)
	fmt.Fprintf(w, "\tcores\t%s\n", c.cores)
	if c.caches != "" {
		fmt.Fprintf(w, "\tcaches\t%s\n", c.caches)
	}
	used := cpu.Tier()
	if _, err := kernels.Open("cpu"); err != nil { // WEFT_CPU names another tier
		used = "none: " + err.Error()
	}
	fmt.Fprintf(w, "\tkernels\t%s; in use: %s (WEFT_CPU chooses)\n", strings.Join(tiers(), ", "), used)
	w.Flush()
	writeGPUs(stdout)
	return nil
}

// version is that of the module, as the go command recorded it.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown version"
	}
	for _, m := range append(b.Deps, &b.Main) {
		if m.Path == "github.com/weft-ml/weft" && m.Version != "" {
			return m.Version
		}
	}
	return "development version"
}

// cpuInfo describes the processor by what the system says of it.
type cpuInfo struct{ model, cores, caches string }

// tiers lists the tiers of CPU kernels that the processor can run, the fastest first.
func tiers() (names []string) {
	x := xcpu.X86
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL && x.HasBMI2 {
		names = append(names, "avx512")
	}
	if x.HasAVX2 && x.HasFMA && x.HasF16C {
		names = append(names, "avx2")
	}
	if runtime.GOARCH == "arm64" {
		names = append(names, "neon")
	}
	return append(names, "portable")
}

// writeGPUs describes the driver, the compilers and the GPUs, or says why there are none.
func writeGPUs(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	defer w.Flush()
	gpus, driver, err := cuda.Devices()
	if driver.Path != "" {
		fmt.Fprintf(w, "driver\t%v", driver)
		if text, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
			fmt.Fprintf(w, "; kernel module %s", driverRelease(string(text)))
		}
		fmt.Fprintln(w)
	}
	if err != nil {
		fmt.Fprintf(w, "GPU\tnone: %s\n", reason(err))
		return
	}
	if err := driver.Check(gpus); err != nil {
		fmt.Fprintf(w, "\tTOO OLD: %s\n", reason(err))
	}
	nvrtc, ptx := cuda.Compilers()
	fmt.Fprintf(w, "NVRTC\t%s\n\tneeded only for your own expressions\n", compiler(nvrtc))
	fmt.Fprintf(w, "PTX\t%s\n\tneeded for GPUs for which there are no kernels in machine code\n", compiler(ptx))
	w.Flush() // the columns below have widths of their own
	for i := range gpus {
		g := &gpus[i]
		fmt.Fprintf(w, "cuda:%d\t%s, %s, compute capability %s\n", i, g.Name, g.Generation(), g.Capability())
		fmt.Fprintf(w, "\tmemory\t%.1f GiB, %d bits at %d MHz\n",
			float64(g.Memory)/(1<<30), g.MemoryBusBits, g.MemoryClockMHz)
		fmt.Fprintf(w, "\tprocessors\t%d SMs at up to %d MHz\n", g.SMs, g.ClockMHz)
		fmt.Fprintf(w, "\tbus\t%s, %s\n", g.PCI, pcieLink("/sys/bus/pci/devices", g.PCI))
		for k, peer := range g.Peers {
			fmt.Fprintf(w, "\treaches\tthe memory of cuda:%d (%v)\n", peer, g.Links[k])
		}
		fmt.Fprintf(w, "\tkernels\t%s\n", g.Kernels())
		if err := g.Check(); err != nil {
			fmt.Fprintf(w, "\tNOT USABLE\t%s\n", reason(err))
		} else if g.NeedsPTX() && ptx.Missing != nil {
			fmt.Fprintf(w, "\tNOT USABLE\tthe driver must compile kernels for it, and its %v\n", ptx.Missing)
		}
		w.Flush()
	}
}

// compiler is where a compiler is, or how to get it.
func compiler(c cuda.Compiler) string {
	var e *kernels.Error
	switch {
	case errors.As(c.Missing, &e):
		return "MISSING: " + e.Msg
	case c.Version != "":
		return c.Library + ", version " + c.Version
	}
	return c.Library
}

// reason is the message of an error from opening a device.
func reason(err error) string { return strings.TrimPrefix(err.Error(), "open: ") }

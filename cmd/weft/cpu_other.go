//go:build !linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// processor describes the processor by what Go says of it; Windows names it in the environment.
func processor() cpuInfo {
	return cpuInfo{
		model: strings.TrimSpace(runtime.GOARCH + " " + os.Getenv("PROCESSOR_IDENTIFIER")),
		cores: fmt.Sprintf("%d hardware threads; Weft uses %d (GOMAXPROCS)", runtime.NumCPU(), runtime.GOMAXPROCS(0)),
	}
}

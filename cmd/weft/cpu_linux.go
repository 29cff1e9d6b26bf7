package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// processor describes the processor by what Linux says of it.
func processor() cpuInfo {
	const sys = "/sys/devices/system/cpu"
	text, _ := os.ReadFile("/proc/cpuinfo")
	return cpuInfo{model: modelName(string(text)),
		cores: coreCount(sys, runtime.NumCPU(), runtime.GOMAXPROCS(0)), caches: cacheSizes(sys)}
}

// modelName finds name and microarchitecture in the text of /proc/cpuinfo, "Some CPU (Zen 3)". On arm64 the text has
// only the numbers of the core.
func modelName(text string) string {
	first, _, _ := strings.Cut(text, "\n\n")
	fields := map[string]string{}
	for line := range strings.Lines(first) {
		key, value, _ := strings.Cut(line, ":")
		fields[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	number := func(key string) int {
		n, _ := strconv.Atoi(fields[key])
		return n
	}
	switch {
	case fields["cpu family"] != "":
		return fmt.Sprintf("%s (%s)", fields["model name"],
			generation(fields["vendor_id"], number("cpu family"), number("model"), number("stepping")))
	case fields["CPU part"] != "":
		return runtime.GOARCH + " " + armCore(fields["CPU implementer"], fields["CPU part"])
	}
	return runtime.GOARCH
}

// coreCount counts cores and hardware threads by the files of the folder sys: threads that share a core list each
// other.
func coreCount(sys string, threads, used int) string {
	lists, _ := filepath.Glob(filepath.Join(sys, "cpu[0-9]*", "topology", "thread_siblings_list"))
	cores := map[string]bool{}
	for _, list := range lists {
		if b, err := os.ReadFile(list); err == nil {
			cores[string(b)] = true
		}
	}
	if len(cores) == 0 {
		return fmt.Sprintf("%d hardware threads; Weft uses %d (GOMAXPROCS)", threads, used)
	}
	return fmt.Sprintf("%d, with %d hardware threads, of which %d are for this process; Weft uses %d (GOMAXPROCS)",
		len(cores), len(lists), threads, used)
}

// cacheSizes lists the caches of the first processor.
func cacheSizes(sys string) string {
	dirs, _ := filepath.Glob(filepath.Join(sys, "cpu0", "cache", "index*"))
	slices.Sort(dirs)
	var all []string
	for _, dir := range dirs {
		read := func(name string) string {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			return strings.TrimSpace(string(b))
		}
		name := "L" + read("level")
		switch read("type") {
		case "Data":
			name += "d"
		case "Instruction":
			name += "i"
		}
		if size := read("size"); size != "" {
			all = append(all, name+" "+strings.Replace(size, "K", " KiB", 1))
		}
	}
	return strings.Join(all, ", ")
}

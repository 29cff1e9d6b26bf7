package tensor

import (
	"os"
	"strconv"
	"strings"

	"github.com/weft-ml/weft/kernels"
)

// memoryLimit is a limit of a device's memory: in bytes, or as a fraction of all it has; 0: none.
type memoryLimit struct {
	bytes    int
	fraction float64
	text     string // instead of both, such as "20GiB"
	what     string // the flag or variable that it is from
}

// MemoryLimit bounds the memory taken from the device: an int is a number of bytes, a float64 a fraction of all memory
// that the device has, from 0 to 1. When the limit is reached, cached memory is given back first; then allocations fail
// with [ErrMemory]. Memory is taken as it is needed, never at once. The limit holds for all users of the device, until
// the last one closes it. Without the option, and with 0, Open takes that of the environment variable
// WEFT_MEMORY_LIMIT, such as "0.5", "20GiB" or "cuda:0=0.9,cpu=4GB", or else sets none: there is the device's own; that
// of the CPU is what the process may have, see [cpu.Room]. Open refuses a negative limit, a fraction that is none, and
// more than a GPU has ([ErrValue]).
func MemoryLimit[N int | float64](n N) OpenOption {
	var l memoryLimit
	switch n := any(n).(type) {
	case int:
		l.bytes = n
	case float64:
		l.fraction = n
	}
	return openOption(func(c *openConfig) { c.limit = l })
}

// limitFor is the limit in bytes that applies to a device: l, or that of the environment; 0: none.
func limitFor(name string, b kernels.Backend, l memoryLimit) (bytes int, err error) {
	err = try(func() {
		const variable = "WEFT_MEMORY_LIMIT"
		if l.bytes == 0 && l.fraction == 0 && l.text == "" {
			l.what, l.text = variable, os.Getenv(variable)
		}
		if l.text != "" {
			l = limitFromText(l.what, name, l.text)
		}
		bytes = l.of(b)
	})
	return bytes, err
}

// limitFromText reads a limit: "0.5", "20GiB", and with devices "cuda:0=0.5,cpu=4GB". what names it in errors.
func limitFromText(what, device, text string) (l memoryLimit) {
	for entry := range strings.SplitSeq(text, ",") {
		name, value, named := strings.Cut(strings.TrimSpace(entry), "=")
		if !named {
			value = name
		}
		n := len(strings.TrimRight(value, "KMGTiB"))
		factor, known := memoryUnits[value[n:]]
		x, err := strconv.ParseFloat(value[:n], 64)
		if !known || err != nil || x-x != 0 { // NaN and Inf are none
			fail(ErrValue, "open", "%s is %q; it is a fraction such as 0.5, or a size such as 20GiB or 500MB", what,
				text)
		}
		if named && name != device {
			continue
		}
		if factor == 1 && (x < 1 || strings.Contains(value, ".")) {
			l = memoryLimit{fraction: x}
		} else {
			l = memoryLimit{bytes: int(min(x*factor, 1<<60))}
		}
	}
	return l
}

var memoryUnits = map[string]float64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "K": 1 << 10,
	"M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

// of is the limit in bytes on a device.
func (l memoryLimit) of(b kernels.Backend) int {
	if l.bytes < 0 {
		fail(ErrValue, "open", "the memory limit is %d bytes; it must be positive, or 0 for the device's own", l.bytes)
	}
	if !(0 <= l.fraction && l.fraction <= 1) {
		fail(ErrValue, "open", "the memory limit is %v of the device's memory; a fraction is from 0 to 1, and a "+
			"number of bytes an int", l.fraction)
	}
	s, ok := b.(kernels.Sizer)
	switch {
	case l.fraction > 0 && !ok:
		fail(ErrValue, "open", "the memory limit is %v of the memory of %s, which does not say how much it has",
			l.fraction, b.Name())
	case l.fraction > 0:
		return max(int(l.fraction*float64(s.Memory())), 1)
	case ok && b.Name() != "cpu" && l.bytes > s.Memory():
		fail(ErrValue, "open", "the memory limit is %d bytes, and %s has %d", l.bytes, b.Name(), s.Memory())
	}
	return l.bytes
}

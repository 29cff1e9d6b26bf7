package cpu

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// The system knows of the wish for huge pages in large memory: smaps shows the flag hg.
func TestHugePages(t *testing.T) {
	m := mustMem(8 << 20)
	at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))) + 4<<20
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil || !strings.Contains(string(smaps), "VmFlags:") {
		t.Skipf("no flags in /proc/self/smaps: %v", err)
	}
	var from, to uint64
	for line := range strings.Lines(string(smaps)) {
		var a, b uint64
		if _, err := fmt.Sscanf(line, "%x-%x ", &a, &b); err == nil {
			from, to = a, b
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && from <= at && at < to {
			if !strings.Contains(flags, " hg") {
				t.Errorf("flags%s", flags)
			}
			return
		}
	}
	t.Errorf("no mapping of %#x", at)
}

package pool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weft-ml/weft/kernels"
)

// outOfMemory counts and describes a failed request.
func (p *Pool) outOfMemory(n, released int, cause error) error {
	p.mu.Lock()
	p.stats.OOMs++
	s := p.stats
	p.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s requested; %s live, of which %d blocks in steps and %s kept, %s cached, %s reserved",
		inBytes(n), inBytes(s.Allocated), s.Blocks, inBytes(s.Kept), inBytes(s.Inactive), inBytes(s.Reserved))
	if s.Limit > 0 {
		fmt.Fprintf(&text, ", limit %s", inBytes(s.Limit))
	} else {
		text.WriteString(", no limit")
	}
	if released > 0 {
		fmt.Fprintf(&text, "; %s of cache given back did not help", inBytes(released))
	}
	if cause != nil && !errors.Is(cause, errLimit) {
		fmt.Fprintf(&text, "; the device says: %v", cause)
	}
	return kernels.Errorf(kernels.ErrMemory, "alloc", "%s", text.String())
}

// inBytes formats a number of bytes: "1.50 GiB (1610612736 bytes)".
func inBytes(n int) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d bytes", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v /= 1024
		u++
	}
	return fmt.Sprintf("%.2f %ciB (%d bytes)", v, units[u], n)
}

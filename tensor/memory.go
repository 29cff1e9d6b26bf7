package tensor

import (
	"fmt"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/kernels"
)

// Stats.Memory has all numbers of a device's memory; these are short forms of the most used, under PyTorch's names.

// MemoryAllocated is the bytes in blocks that tensors have.
func (d *Device) MemoryAllocated() int { return d.memory("memory_allocated").Allocated }

// MemoryReserved is the bytes taken from the device: those that tensors have and those that the pool keeps for the next
// ones.
func (d *Device) MemoryReserved() int { return d.memory("memory_reserved").Reserved }

// PeakMemory is the largest [Device.MemoryAllocated] since the device was opened or ResetPeak was called.
func (d *Device) PeakMemory() int { return d.memory("peak_memory").Peak.Allocated }

// ResetPeak makes the present sizes the largest ones, of all categories.
func (d *Device) ResetPeak() { d.given("reset_peak").shared.pool.ResetPeak() }

// EmptyCache gives memory that no tensor has back to the device and, on the CPU, to the system; it returns how many
// bytes that was. Memory of the host that is pinned for what is offloaded goes back, too. Programs of one training need
// it never: the pool does so before an allocation fails.
func (d *Device) EmptyCache() (freed int) {
	freed = d.given("empty_cache").shared.pool.Trim()
	d.shared.unpin()
	if d.inHostMemory() {
		debug.FreeOSMemory()
	}
	return freed
}

func (d *Device) memory(op string) kernels.MemoryStats { return d.given(op).shared.pool.Stats() }

// MemorySummary is the numbers of Stats().Memory as a table.
func (d *Device) MemorySummary() string {
	m := d.memory("memory_summary")
	var text strings.Builder
	fmt.Fprintf(&text, "memory of %s", d.Name())
	if m.Limit > 0 {
		fmt.Fprintf(&text, ", limit %s", pool.Bytes(m.Limit))
	}
	text.WriteByte('\n')
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, now, peak, total int) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", name, pool.Bytes(now), pool.Bytes(peak), pool.Bytes(total))
	}
	fmt.Fprintln(w, "\tnow\tpeak\ttotal\t")
	row("requested", m.Requested, m.Peak.Requested, m.Total.Requested)
	row("allocated", m.Allocated, m.Peak.Allocated, m.Total.Allocated)
	for c := range kernels.MemoryCategory(kernels.MemoryCategories) {
		row("  "+c.String(), m.Categories[c].Allocated, m.Categories[c].Peak, m.Categories[c].Total)
	}
	row("active", m.Active, m.Peak.Active, m.Total.Active)
	row("inactive", m.Inactive, m.Peak.Inactive, m.Total.Inactive)
	row("reserved", m.Reserved, m.Peak.Reserved, m.Total.Reserved)
	w.Flush()
	fmt.Fprintf(&text, "%d allocations, %d served by the pool; %d calls of the driver, %d retries, %d out of memory; "+
		"fragmentation %.1f %%\n", m.Allocs, m.Hits, m.DriverCalls(), m.Retries, m.OOMs, 100*m.Fragmentation())
	return text.String()
}

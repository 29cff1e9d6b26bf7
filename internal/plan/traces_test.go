package plan_test

import (
	"testing"

	"github.com/weft-ml/weft/internal/plan"
	"github.com/weft-ml/weft/internal/testing/memtrace"
)

// TestTraces: with fixed places, the traces that allocators are compared on reserve at most 1.03 of what is live, and
// less than the models of PyTorch's. The short form has those of few requests.
func TestTraces(t *testing.T) {
	for _, tr := range memtrace.All() {
		t.Run(tr.Name, func(t *testing.T) {
			blocks := tr.Blocks()
			if n := len(blocks); testing.Short() && n > 6000 {
				t.Skip(n, "requests")
			}
			torch, expandable := memtrace.PyTorch{}, memtrace.PyTorch{Expandable: true}
			tr.Run(torch.Alloc)
			tr.Run(expandable.Alloc)
			_, size := plan.Pack(blocks)
			ratio := float64(size) / float64(plan.Live(blocks))
			t.Logf("reserved over live: %.3f", ratio)
			if ratio > 1.03 || size > min(torch.Reserved, expandable.Reserved) {
				t.Errorf("reserved over live is %.3f; %d bytes, PyTorch %d and %d", ratio, size, torch.Reserved,
					expandable.Reserved)
			}
		})
	}
}

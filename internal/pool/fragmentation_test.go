package pool

import (
	"testing"

	"github.com/weft-ml/weft/internal/testing/memtrace"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// On traces of training and inference, what is reserved is at most 1.10 times what is live, and less than both models
// of PyTorch's allocator reserve. Without virtual memory it is at most 1.21, and less than the model without it.
func TestFragmentation(t *testing.T) {
	for _, tr := range memtrace.All() {
		t.Run(tr.Name, func(t *testing.T) {
			p := New(newVirtual(0), 0)
			live, ops := tr.Run(allocator(t, p))
			if _, ok := any(cpu.Backend{}).(kernels.Reserver); ok && cpu.Free() > 2*live {
				host := New(cpu.Backend{}, 0)
				tr.Run(allocator(t, host))
				if got, want := host.Stats().Peak.Reserved, p.Stats().Peak.Reserved; got != want {
					t.Errorf("the CPU reserves %d bytes, a GPU %d", got, want)
				}
			}
			plain := New(newDevice(0), 0)
			tr.Run(allocator(t, plain))
			torch, expandable := memtrace.PyTorch{}, memtrace.PyTorch{Expandable: true}
			tr.Run(torch.Alloc)
			tr.Run(expandable.Alloc)
			ratio := func(reserved int) float64 { return float64(reserved) / float64(live) }
			weft := p.Stats().Peak.Reserved
			t.Logf("%d allocations, %d MiB live; reserved over live: %.3f, without virtual memory %.3f; "+
				"models of PyTorch's: %.3f, expandable %.3f", ops, live>>20, ratio(weft),
				ratio(plain.Stats().Peak.Reserved), ratio(torch.Reserved), ratio(expandable.Reserved))
			if p := plain.Stats().Peak.Reserved; ratio(p) > 1.21 || p > torch.Reserved {
				t.Errorf("without virtual memory reserved over live is %.3f", ratio(p))
			}
			if ratio(weft) > 1.10 || weft > min(torch.Reserved, expandable.Reserved) {
				t.Errorf("reserved over live is %.3f", ratio(weft))
			}
		})
	}
}

// allocator is p for a trace.
func allocator(t testing.TB, p *Pool) func(n int) (free func()) {
	return func(n int) func() {
		b := mustAlloc(t, p, n)
		return func() { p.Free(b) }
	}
}

package bench

import (
	"fmt"
	"testing"

	"github.com/weft-ml/weft/internal/plan"
	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/internal/testing/memtrace"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/null"
)

// BenchmarkPool is the cost of an allocation and its return that the pool serves, and on each trace that of a pair and
// what is reserved over what is live: for the pool with virtual memory and without, for two models of PyTorch's
// allocator and for an offline plan of the whole trace.
func BenchmarkPool(b *testing.B) {
	for _, size := range []int{1000, 100_000, 10_000_000} {
		b.Run(fmt.Sprintf("hot/bytes=%d", size), func(b *testing.B) {
			p := pool.New(&null.Backend{}, 0)
			held, err := p.Alloc(size, pool.Owner{})
			must(err)
			defer p.Free(held)
			b.ReportAllocs()
			for b.Loop() {
				x, err := p.Alloc(size, pool.Owner{})
				must(err)
				p.Free(x)
			}
		})
	}
	for _, tr := range memtrace.All() {
		b.Run(tr.Name, func(b *testing.B) {
			var live, ops int
			var virtual, plain *pool.Pool
			for b.Loop() {
				virtual = pool.New(&null.Backend{}, 0)
				live, ops = tr.Run(on(virtual))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*ops), "ns/pair")
			plain = pool.New(struct{ kernels.Backend }{&null.Backend{}}, 0)
			tr.Run(on(plain))
			torch, expandable := memtrace.PyTorch{}, memtrace.PyTorch{Expandable: true}
			tr.Run(torch.Alloc)
			tr.Run(expandable.Alloc)
			for name, reserved := range map[string]int{"weft": virtual.Stats().Peak.Reserved, "torch": torch.Reserved,
				"weft-plain": plain.Stats().Peak.Reserved, "torch-expandable": expandable.Reserved} {
				b.ReportMetric(float64(reserved)/float64(live), name)
			}
			_, planned := plan.Pack(tr.Blocks())
			b.ReportMetric(float64(planned)/float64(live), "plan")
		})
	}
}

// on is a pool for a trace.
func on(p *pool.Pool) func(n int) (free func()) {
	return func(n int) func() {
		b, err := p.Alloc(n, pool.Owner{})
		must(err)
		return func() { p.Free(b) }
	}
}

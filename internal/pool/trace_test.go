package pool

import (
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

var operations = flag.Int("operations", 3000, "of each random trace")

// TestTrace runs random traces against devices that fill up now and then, with the invariants checked after every
// operation, content that nobody else writes, and nothing left at the end.
func TestTrace(t *testing.T) {
	for _, c := range []struct {
		name         string
		limit, total int
		virtual      bool
		page         int
		real         bool
	}{
		{"endless", 0, 0, false, 0, true}, {"limit", 900 << 10, 0, false, 0, true},
		{"device", 0, 40 << 20, false, 0, false}, {"both", 36 << 20, 40 << 20, false, 0, false},
		{"virtual", 0, 0, true, 0, false}, {"virtual full", 0, 40 << 20, true, 0, false},
		{"virtual limit", 40 << 20, 0, true, 0, false}, {"pages", 0, 0, true, 64 << 10, false},
		{"pages full", 0, 40 << 20, true, 16 << 10, false}, {"pages limit", 20 << 20, 0, true, 64 << 10, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := *operations
			if c.real {
				steps = min(steps, 1000) // it is poisoned
			}
			d := newVirtual(c.total)
			d.real, d.page = c.real, c.page
			var src Source = d.device
			if c.virtual {
				src = d
			}
			p := New(src, c.limit)
			p.SetPoison(c.real)
			r := &trace{p: p, d: d.device, rng: rand.New(rand.NewPCG(1, 2)), mayFail: c.total+c.limit > 0}
			for range steps {
				r.step(t)
				check(t, p, d.used)
				if s := p.Stats(); c.limit > 0 && s.Reserved > c.limit {
					t.Fatalf("%d bytes over the limit", s.Reserved-c.limit)
				}
			}
			s := p.Stats()
			if s.Hits == 0 || r.mayFail != (s.OOMs > 0 && s.Retries >= s.OOMs) {
				t.Errorf("the trace did not reach what it is for: %+v", s)
			}
			for _, b := range append(r.live, r.kept...) {
				p.Free(b)
			}
			for _, e := range d.events {
				e.done = true
			}
			p.Trim()
			if got := p.Stats(); got.MemorySizes != (kernels.MemorySizes{}) || got.Blocks != 0 || got.Kept != 0 {
				t.Errorf("after everything was freed: %+v", got)
			}
			if check(t, p, 0); d.used != 0 {
				t.Errorf("%d bytes leaked", d.used)
			}
		})
	}
}

// trace is what a random trace has in hand.
type trace struct {
	p          *Pool
	d          *device
	rng        *rand.Rand
	mayFail    bool
	live, kept []*Block
}

func (r *trace) pick(list *[]*Block) *Block {
	i := r.rng.IntN(len(*list))
	b := (*list)[i]
	(*list)[i] = (*list)[len(*list)-1]
	*list = (*list)[:len(*list)-1]
	return b
}

// mostLive bounds the blocks of a trace, all of which are looked at after each operation.
const mostLive = 400

// step is one random operation.
func (r *trace) step(t *testing.T) {
	p := r.p
	switch dice := r.rng.IntN(1000); {
	case dice < 500 && len(r.live) < mostLive:
		most := 22.0 // what exists is filled and looked at again and again
		if r.d.real {
			most = 17
		}
		n := int(math.Exp2(r.rng.Float64()*most)) - 1
		o := Owner{Use: kernels.MemoryCategory(r.rng.IntN(kernels.MemoryCategories))}
		b, err := p.AllocOn(kernels.Stream(r.rng.IntN(12)/10), n, o)
		if err != nil {
			if !errors.Is(err, kernels.ErrMemory) || !r.mayFail {
				t.Fatal(err)
			}
			return
		}
		if b.Size() != n || b.Buf.Bytes() != b.cap || b.cap < n || b.cap > roundUp(max(n, 1)+guardBytes, granule) {
			t.Fatalf("asked for %d, got %+v", n, b)
		}
		if v, ok := b.Buf.(viewer); ok {
			if Overwritten(v.Data()) != 0 {
				t.Fatal("memory was handed out without poison")
			}
			clear(v.Data()[:n])
		}
		r.live = append(r.live, b)
	case dice < 920:
		if len(r.live) > 0 {
			p.Free(r.pick(&r.live))
		}
	case dice < 940:
		if len(r.live) > 0 {
			b := r.pick(&r.live)
			p.Keep(b, "")
			r.kept = append(r.kept, b)
		}
	case dice < 970:
		if len(r.kept) > 0 {
			p.Free(r.pick(&r.kept))
		}
	case dice < 980:
		if len(r.live) > 0 {
			p.UsedOn(r.live[r.rng.IntN(len(r.live))], 1)
		}
	case dice < 997:
		for _, e := range r.d.events {
			e.done = true
		}
		r.d.events = nil
	default:
		p.Trim()
	}
}

// TestParallel is for the race detector and for the counters under contention.
func TestParallel(t *testing.T) {
	d := newDevice(40 << 20)
	d.real = true
	p := New(d, 30<<20)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(g)))
			var live []*Block
			for i := range 2000 {
				if b, err := p.Alloc(rng.IntN(100_000)<<(5*rng.IntN(2)), Owner{}); err == nil {
					b.Buf.(seen).data[0] = byte(g) // the race detector sees a block given out twice
					live = append(live, b)
				}
				if len(live) > 0 && (i%3 > 0 || len(live) > 10) {
					b := live[0]
					live = live[1:]
					if i%5 == 0 {
						p.Keep(b, "")
					}
					p.Free(b)
				}
				if i%500 == 0 {
					p.Trim()
					p.SetLimit((20 + 10*(g%2)) << 20)
					p.Stats()
				}
			}
			for _, b := range live {
				p.Free(b)
			}
		})
	}
	wg.Wait()
	p.Trim()
	check(t, p, d.inUse())
	if s := p.Stats(); s.Reserved != 0 || s.Blocks != 0 || s.Allocs != s.Frees || s.SourceAllocs != s.SourceFrees {
		t.Errorf("after everything was freed: %+v", s)
	}
}

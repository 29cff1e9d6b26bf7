package pool

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-ml/weft/kernels"
)

// device is a source with a fixed amount of memory that checks what it is told.
type device struct {
	mu    sync.Mutex
	total int // 0: endless
	used  int
	bufs  map[*buffer]bool
}

type buffer struct {
	data []byte
	n    int
}

func (b *buffer) Bytes() int   { return b.n }
func (b *buffer) Data() []byte { return b.data }

// realBytes is how much of a buffer really has memory.
const realBytes = 16 << 10

func newDevice(total int) *device { return &device{total: total, bufs: map[*buffer]bool{}} }

func (d *device) Alloc(n int) (kernels.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n <= 0 || n%granule != 0 {
		panic(fmt.Sprint("device asked for ", n, " bytes"))
	}
	if d.total > 0 && n > d.total-d.used {
		return nil, fmt.Errorf("card is full")
	}
	b := &buffer{n: n, data: make([]byte, min(n, realBytes))}
	d.used += n
	d.bufs[b] = true
	return b, nil
}

func (d *device) Free(b kernels.Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.bufs[b.(*buffer)] {
		panic("free of a buffer that is not there")
	}
	delete(d.bufs, b.(*buffer))
	d.used -= b.Bytes()
}

func (d *device) inUse() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

func mustAlloc(t testing.TB, p *Pool, n int) *Block {
	t.Helper()
	b, err := p.Alloc(n, kernels.Activations)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkStats checks the invariants of a pool that is not in use at the moment.
func checkStats(t testing.TB, p *Pool, d *device) {
	t.Helper()
	s := p.Stats()
	for _, z := range []kernels.MemorySizes{s.MemorySizes, s.Peak} {
		if z.Requested < 0 || z.Requested > z.Allocated || z.Allocated > z.Active || z.Active > z.Reserved {
			t.Fatalf("not 0 <= requested <= allocated <= active <= reserved: %+v", s)
		}
	}
	if s.Reserved > s.Peak.Reserved || s.Active > s.Peak.Active || s.Allocated > s.Peak.Allocated ||
		s.Requested > s.Peak.Requested {
		t.Fatalf("a size exceeds its peak: %+v", s)
	}
	if s.Reserved != s.Active+s.Inactive || s.Kept < 0 || s.Kept > s.Allocated {
		t.Fatalf("reserved is not active and inactive, or more is kept than allocated: %+v", s)
	}
	sums := 0
	for _, c := range s.Categories {
		sums += c.Allocated
	}
	if sums != s.Allocated {
		t.Fatalf("%d bytes in all categories, %d allocated", sums, s.Allocated)
	}
	if s.Reserved != d.inUse() {
		t.Fatalf("reserved %d, the device counts %d", s.Reserved, d.inUse())
	}
	sum := 0
	for class, b := range p.free {
		for ; b != nil; b = b.next {
			if b.class != class || b.state != cached {
				t.Fatalf("block %+v in the list of class %d", b, class)
			}
			sum += b.cap
		}
	}
	if sum != s.Inactive {
		t.Fatalf("%d bytes in the lists, %d bytes cached by the counters", sum, s.Inactive)
	}
}

func TestClasses(t *testing.T) {
	prevClass, prevSize := -1, 0
	for n := 1; n < maxBytes; {
		class, size := classOf(n)
		if class != prevClass+1 {
			t.Fatalf("size %d has class %d after class %d", n, class, prevClass)
		}
		if c, s := classOf(size); c != class || s != size {
			t.Fatalf("a request of %d bytes, the size of class %d, gets class %d of %d bytes", size, class, c, s)
		}
		// n is one more than the class before holds: the most wasteful request of this one.
		if n != prevSize+1 || size < n || size-n >= max(granule, (n+7)/8) || size%granule != 0 {
			t.Fatalf("request %d gets a block of %d bytes", n, size)
		}
		prevClass, prevSize = class, size
		n = size + 1
	}
	if prevClass != numClasses-1 || prevSize != maxBytes {
		t.Fatalf("the last class is %d of %d bytes, want %d of %d", prevClass, prevSize, numClasses-1, maxBytes)
	}
	if c, s := classOf(0); c != 0 || s != granule {
		t.Errorf("zero bytes: class %d of %d bytes", c, s)
	}
}

func TestReuse(t *testing.T) {
	d := newDevice(0)
	p := New(d, 0)
	a := mustAlloc(t, p, 1000)
	buf := a.Buf
	p.Free(a)
	if b := mustAlloc(t, p, 600); b.Buf != buf || b.Size() != 600 || b.cap != 1024 {
		t.Errorf("600 bytes after 1000 were freed: %+v", b)
	}
	p.Free(mustAlloc(t, p, 3500))
	if b := mustAlloc(t, p, 1025); b.cap != 3584 || b.Size() != 1025 {
		t.Errorf("1025 bytes while 3584 are cached: %+v", b)
	}
	if b := mustAlloc(t, p, 0); b.Size() != 0 || b.Buf.Bytes() != granule {
		t.Errorf("zero bytes: %+v", b)
	}
	want := kernels.MemoryStats{
		MemorySizes: kernels.MemorySizes{Requested: 1625, Allocated: 5120, Active: 5120, Reserved: 5120},
		Peak:        kernels.MemorySizes{Requested: 4100, Allocated: 5120, Active: 5120, Reserved: 5120, Inactive: 3584},
		Total:       kernels.MemorySizes{Requested: 6125, Allocated: 9728, Active: 9728, Reserved: 5120},
		Blocks:      3, Allocs: 5, Frees: 2, Hits: 2, SourceAllocs: 3,
	}
	want.Categories[kernels.Activations] = kernels.CategorySizes{Allocated: 5120, Peak: 5120, Total: 9728}
	if got := p.Stats(); got != want {
		t.Errorf("stats\n got %+v\nwant %+v", got, want)
	}
	checkStats(t, p, d)
}

// TestTrace runs random traces against a device that fills up now and then, with the invariants
// checked after every operation and nothing left at the end.
func TestTrace(t *testing.T) {
	for _, c := range []struct {
		name         string
		limit, total int
	}{
		{"endless", 0, 0}, {"limit", 60 << 20, 0}, {"device", 0, 60 << 20}, {"both", 50 << 20, 60 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			d := newDevice(c.total)
			p := New(d, c.limit)
			p.SetPoison(true)
			var live, kept []*Block
			pick := func(list *[]*Block) *Block {
				i := rng.IntN(len(*list))
				b := (*list)[i]
				(*list)[i] = (*list)[len(*list)-1]
				*list = (*list)[:len(*list)-1]
				return b
			}
			for range 5000 {
				switch r := rng.IntN(100); {
				case r < 52:
					n := int(math.Exp2(rng.Float64()*23)) - 1
					if b, err := p.Alloc(n, kernels.Activations); err == nil {
						if b.Size() != n || b.Buf.Bytes() != b.cap || b.cap < n ||
							b.cap > n+guardBytes+max((n+guardBytes)*5/8, 5*granule) {
							t.Fatalf("asked for %d, got %+v", n, b)
						}
						for _, x := range b.Buf.(*buffer).data {
							if x != poisonByte {
								t.Fatal("memory was handed out without poison")
							}
						}
						clear(b.Buf.(*buffer).data)
						live = append(live, b)
					} else if !errors.Is(err, kernels.ErrMemory) || c.total+c.limit == 0 {
						t.Fatal(err)
					}
				case r < 92:
					if len(live) > 0 {
						p.Free(pick(&live))
					}
				case r < 96:
					if len(live) > 0 {
						b := pick(&live)
						p.Keep(b)
						kept = append(kept, b)
					}
				case r < 99:
					if len(kept) > 0 {
						p.Free(pick(&kept))
					}
				default:
					p.Trim()
				}
				checkStats(t, p, d)
				if s := p.Stats(); c.limit > 0 && s.Reserved > c.limit {
					t.Fatalf("%d bytes over the limit", s.Reserved-c.limit)
				}
			}
			s := p.Stats()
			if s.Hits == 0 || (c.total+c.limit > 0) != (s.OOMs > 0 && s.Retries > s.OOMs) {
				t.Errorf("the trace did not reach what it is for: %+v", s)
			}
			for _, b := range append(live, kept...) {
				p.Free(b)
			}
			p.Trim()
			if got := p.Stats(); got.MemorySizes != (kernels.MemorySizes{}) || got.Blocks != 0 || got.Limit != c.limit {
				t.Errorf("after everything was freed: %+v", got)
			}
			if d.inUse() != 0 {
				t.Errorf("%d bytes leaked", d.inUse())
			}
		})
	}
}

// TestParallel is for the race detector and for the counters under contention.
func TestParallel(t *testing.T) {
	d := newDevice(8 << 20)
	p := New(d, 6<<20)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(g)))
			var live []*Block
			for i := range 3000 {
				if b, err := p.Alloc(rng.IntN(100_000), kernels.Activations); err == nil {
					b.Buf.(*buffer).data[0] = byte(g) // the race detector sees a block given out twice
					live = append(live, b)
				}
				if len(live) > 0 && (i%3 > 0 || len(live) > 20) {
					b := live[0]
					live = live[1:]
					if i%5 == 0 {
						p.Keep(b)
					}
					p.Free(b)
				}
				if i%500 == 0 {
					p.Trim()
					p.SetLimit((5 + g%2) << 20)
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
	checkStats(t, p, d)
	if s := p.Stats(); s.Reserved != 0 || s.Blocks != 0 || s.Allocs != s.Frees || s.SourceAllocs != s.SourceFrees {
		t.Errorf("after everything was freed: %+v", s)
	}
}

func TestOutOfMemory(t *testing.T) {
	d := newDevice(0)
	p := New(d, 3<<20)
	a := mustAlloc(t, p, 1<<20)
	b := mustAlloc(t, p, 3<<18)
	c := mustAlloc(t, p, 1<<19)
	p.Keep(b)
	p.Free(c)
	before := p.Stats()
	_, err := p.Alloc(1_500_000, kernels.Activations)
	want := "alloc: 1.43 MiB (1500000 bytes) requested; 1.75 MiB (1835008 bytes) live, " +
		"of which 1 blocks in steps and 768.00 KiB (786432 bytes) kept, 0 bytes cached, 1.75 MiB (1835008 bytes) reserved, " +
		"limit 3.00 MiB (3145728 bytes); 512.00 KiB (524288 bytes) of cache given back did not help"
	var e *kernels.Error
	if !errors.As(err, &e) || e.Kind != kernels.ErrMemory || err.Error() != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
	after := p.Stats()
	if after.Active != before.Active || after.Requested != before.Requested || after.OOMs != 1 || after.Retries != 1 {
		t.Errorf("the failed request changed the counters: %+v, before %+v", after, before)
	}
	p.Free(a)
	p.Free(mustAlloc(t, p, 1_500_000)) // works again as soon as memory is free
	p.Free(b)
	checkStats(t, p, d)

	full := New(newDevice(1<<20), 0)
	if _, err := full.Alloc(2<<20, kernels.Activations); err == nil ||
		!strings.HasSuffix(err.Error(), "no limit; the device says: card is full") {
		t.Errorf("full device: %v", err)
	}
	if _, err := full.Alloc(1<<62+1, kernels.Activations); !errors.Is(err, kernels.ErrMemory) {
		t.Errorf("absurd size: %v", err)
	}
	if _, err := full.Alloc(-1, kernels.Activations); !errors.Is(err, kernels.ErrValue) {
		t.Errorf("negative size: %v", err)
	}
}

// TestPressure checks what happens before out of memory: the largest cached blocks go first and no
// more than needed, rounding is given up, and the reclaim hook may free blocks.
func TestPressure(t *testing.T) {
	d := newDevice(0)
	p := New(d, 1<<20)
	small, large := mustAlloc(t, p, 1<<18), mustAlloc(t, p, 1<<19)
	p.Free(small)
	p.Free(large)
	p.Free(mustAlloc(t, p, 3<<18))
	if s := p.Stats(); s.Reserved != 1<<20 || s.SourceFrees != 1 || s.Retries != 1 {
		t.Errorf("the large block alone had to go: %+v", s)
	}
	p.Trim()

	p.SetLimit(1_000_000)
	b := mustAlloc(t, p, 999_000) // its class has 1 MiB
	if b.cap > 1_000_000 || b.cap < b.Size() {
		t.Errorf("request of the size of the limit: block of %d bytes", b.cap)
	}

	// One block must be freed for the limit; then the device turns out to have less memory than the limit.
	card := New(newDevice(900<<10), 1280<<10)
	one, two := mustAlloc(t, card, 512<<10), mustAlloc(t, card, 384<<10)
	card.Free(one)
	card.Free(two)
	card.Free(mustAlloc(t, card, 640<<10))

	calls := 0
	p.SetReclaim(func() { calls++; p.Free(b) })
	p.Free(mustAlloc(t, p, 500_000))
	if calls != 1 {
		t.Errorf("reclaim was called %d times", calls)
	}
	checkStats(t, p, d)
}

func TestSetLimit(t *testing.T) {
	d := newDevice(0)
	p := New(d, 0)
	a, b := mustAlloc(t, p, 1<<20), mustAlloc(t, p, 1<<20)
	p.Free(a)
	p.SetLimit(1 << 19)
	if s := p.Stats(); s.Reserved != 1<<20 {
		t.Errorf("cached blocks over the limit stay: %+v", s)
	}
	p.Free(b)
	if s := p.Stats(); s.Reserved != 0 {
		t.Errorf("a freed block over the limit stays: %+v", s)
	}
	p.SetLimit(0)
	p.Free(mustAlloc(t, p, 1<<20))
	if freed := p.Trim(); freed != 1<<20 || d.inUse() != 0 {
		t.Errorf("Trim freed %d, %d left", freed, d.inUse())
	}
}

// TestRecall holds that Try makes no room, and that Alloc and Trim recall blocks, Alloc when nothing else has helped.
func TestRecall(t *testing.T) {
	d := newDevice(0)
	p := New(d, 4<<20)
	reclaims, recalls := 0, 0
	lent, err := p.Try(1<<20, kernels.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	p.SetReclaim(func() { reclaims++ })
	p.SetRecall(func() {
		if recalls++; lent != nil {
			p.Free(lent)
			lent = nil
		}
	})
	live := mustAlloc(t, p, 1<<20)
	p.Free(mustAlloc(t, p, 2<<20))
	b, err := p.Try(3<<20, kernels.Workspace)
	if b != nil || err == nil || p.Stats().Reserved != 4<<20 || reclaims+recalls > 0 {
		t.Errorf("Try: block %v, error %v, %d bytes, %d calls", b, err, p.Stats().Reserved, reclaims+recalls)
	}
	if b, err := p.Try(2<<20, kernels.Workspace); err != nil {
		t.Errorf("Try of what is cached: %v", err)
	} else {
		p.Free(b)
	}
	two := mustAlloc(t, p, 1<<20) // the cache given back is enough
	if recalls != 0 || reclaims != 1 || p.Stats().OOMs != 0 {
		t.Errorf("%d recalls, %d reclaims, stats %+v", recalls, reclaims, p.Stats())
	}
	three := mustAlloc(t, p, 2<<20)
	if recalls != 1 || lent != nil {
		t.Errorf("%d recalls", recalls)
	}
	if _, err := p.Alloc(1<<20, kernels.Activations); !errors.Is(err, kernels.ErrMemory) || recalls != 2 {
		t.Errorf("error %v, %d recalls", err, recalls)
	}
	for _, b := range []*Block{live, two} {
		p.Free(b)
	}
	lent = three
	if freed := p.Trim(); freed != 4<<20 || recalls != 3 || d.inUse() != 0 {
		t.Errorf("Trim freed %d bytes, %d recalls", freed, recalls)
	}
	checkStats(t, p, d)
}

// TestKeep lets the Go collector free a kept block.
func TestKeep(t *testing.T) {
	d := newDevice(0)
	p := New(d, 0)
	type handle struct{ b *Block }
	h := &handle{mustAlloc(t, p, 4096)}
	p.Keep(h.b)
	if s := p.Stats(); s.Allocated != 4096 || s.Requested != 4096 || s.Blocks != 0 || s.Kept != 4096 {
		t.Errorf("kept block: %+v", s)
	}
	runtime.AddCleanup(h, p.Free, h.b)
	for range 200 {
		runtime.GC()
		if s := p.Stats(); s.Inactive == 4096 && s.Kept == 0 {
			checkStats(t, p, d)
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("the collector did not free the block: %+v", p.Stats())
}

// TestMisuse plants the mistakes of a wrong reference count.
func TestMisuse(t *testing.T) {
	d := newDevice(0)
	p := New(d, 0)
	live := mustAlloc(t, p, 10)
	freed := mustAlloc(t, p, 10)
	p.Free(freed)
	kept := mustAlloc(t, p, 2000)
	p.Keep(kept)
	for _, c := range []struct {
		f    func()
		want string
	}{
		{func() { p.Free(freed) }, "pool: free of a block of 512 bytes that is free"},
		{func() { p.Keep(freed) }, "pool: keep of a block of 512 bytes that is free"},
		{func() { p.Keep(kept) }, "pool: keep of a block of 2048 bytes that is kept"},
		{func() { New(d, 0).Free(live) }, "pool: free of a block of another pool"},
		{func() { p.Free(nil) }, "pool: free of a block of another pool"},
		{func() { p.Keep(nil) }, "pool: keep of a block of another pool"},
	} {
		func() {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("panic %v, want %s", got, c.want)
				}
			}()
			c.f()
		}()
	}
	checkStats(t, p, d)
}

// While one goroutine waits for memory to be reclaimed, others use the pool.
func TestGoroutinesBesideReclaim(t *testing.T) {
	p := New(newDevice(0), 4096)
	waiting, end := make(chan bool), make(chan bool)
	p.SetReclaim(func() { waiting <- true; <-end })
	b := mustAlloc(t, p, 2048)
	failed := make(chan error)
	go func() {
		_, err := p.Alloc(4096, kernels.Activations)
		failed <- err
	}()
	<-waiting
	p.Free(b)
	p.Trim()
	p.SetLimit(8192)
	mustAlloc(t, p, 512)
	end <- true
	if err := <-failed; err != nil {
		t.Errorf("there was room at last: %v", err)
	}
}

func TestPoison(t *testing.T) {
	p := New(newDevice(0), 0)
	early := mustAlloc(t, p, 100)
	p.Free(early) // cached without poison
	p.SetPoison(true)
	b := mustAlloc(t, p, 100)
	data := b.Buf.(*buffer).data
	if data[7] != poisonByte {
		t.Error("a block cached before SetPoison was handed out without poison")
	}
	data[7] = 1
	p.Free(b)
	if data[7] != poisonByte {
		t.Error("Free left the memory as it was")
	}
	p.SetPoison(false)
	b = mustAlloc(t, p, 100)
	data[7] = 3
	p.Free(b) // without poison: not watched
	p.SetPoison(true)
	p.Free(mustAlloc(t, p, 100))
	data[7] = 2 // a late write
	defer func() {
		const want = "pool: byte 7 of a freed block of 512 bytes was written after it was freed"
		if got := fmt.Sprint(recover()); got != want {
			t.Errorf("a write after Free: %v", got)
		}
	}()
	p.Alloc(100, kernels.Activations)
}

// Behind each poisoned block is a guard band; in device memory the source fills both.
func TestGuard(t *testing.T) {
	p := New(newDevice(0), 0)
	if from, to := mustAlloc(t, p, 512).Guard(); from != to {
		t.Errorf("a guard band from %d to %d without poison", from, to)
	}
	p.SetPoison(true)
	for range 2 { // from the source and from the cache
		b := mustAlloc(t, p, 512)
		from, to := b.Guard()
		if from != 512 || to != 512+guardBytes {
			t.Fatalf("the guard band is from %d to %d", from, to)
		}
		data := b.Buf.(*buffer).data
		clear(data[:from])
		if n := Overwritten(data[from:to]); n != 0 {
			t.Errorf("%d bytes are overwritten", n)
		}
		data[from], data[to-1] = 0, 1
		if n := Overwritten(data[from:to]); n != 2 {
			t.Errorf("%d bytes are overwritten, want 2", n)
		}
		p.Free(b)
	}

	far := &remote{filled: map[kernels.Buffer]int{}}
	p = New(far, 0)
	p.SetPoison(true)
	b := mustAlloc(t, p, 100)
	p.Free(b)
	if from, to := mustAlloc(t, p, 100).Guard(); far.filled[b.Buf] != 3 || from != 100 || to != 356 {
		t.Errorf("filled %d times, want 3: fresh, freed and handed out again; the guard band is from %d to %d",
			far.filled[b.Buf], from, to)
	}
}

// remote is memory that the host does not see.
type remote struct{ filled map[kernels.Buffer]int }

type hidden struct{ n int }

func (h *hidden) Bytes() int                        { return h.n }
func (*remote) Alloc(n int) (kernels.Buffer, error) { return &hidden{n}, nil }
func (*remote) Free(kernels.Buffer)                 {}
func (r *remote) Fill(b kernels.Buffer, value byte) {
	if value == poisonByte {
		r.filled[b]++
	}
}

// TestSteadyState runs training steps of varying batch sizes: after the sizes have been seen once
// no memory is requested from the source or allocated by Go, and little is reserved beyond what is used.
func TestSteadyState(t *testing.T) {
	d := newDevice(0)
	p := New(d, 0)
	var blocks [24]*Block
	step := func(batch int) {
		for layer := range blocks {
			blocks[layer] = mustAlloc(t, p, 4*batch*(256+100*(layer%4)))
		}
		for layer := range blocks {
			p.Free(blocks[len(blocks)-1-layer])
		}
	}
	for batch := 120; batch <= 128; batch++ {
		step(batch)
	}
	before := p.Stats()
	i := 0
	if n := testing.AllocsPerRun(1000, func() { step(120 + i%9); i++ }); n > 0 {
		t.Errorf("%v Go allocations a step", n)
	}
	s := p.Stats()
	if s.SourceAllocs != before.SourceAllocs || s.Hits-before.Hits != s.Allocs-before.Allocs {
		t.Errorf("memory was requested from the source in the steady state: %+v", s)
	}
	if f := s.Fragmentation(); f > 0.3 {
		t.Errorf("fragmentation %.2f", f)
	}
	checkStats(t, p, d)
}

// BenchmarkHit is a request served by the cache and its return.
func BenchmarkHit(b *testing.B) {
	p := New(newDevice(0), 0)
	b.ReportAllocs()
	for b.Loop() {
		x, _ := p.Alloc(100_000, kernels.Activations)
		p.Free(x)
	}
}

// BenchmarkHitParallel is the same with every processor at one pool.
func BenchmarkHitParallel(b *testing.B) {
	p := New(newDevice(0), 0)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			x, _ := p.Alloc(100_000, kernels.Activations)
			p.Free(x)
		}
	})
}

// BenchmarkMiss is a request served by the source, whose own cost is a map entry, and its return.
func BenchmarkMiss(b *testing.B) {
	p := New(newDevice(0), 0)
	for b.Loop() {
		x, _ := p.Alloc(1<<20, kernels.Activations)
		p.Free(x)
		p.Trim()
	}
}

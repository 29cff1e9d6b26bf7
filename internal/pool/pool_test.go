package pool

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// device is a source with a fixed amount of memory that checks what it is told.
type device struct {
	mu      sync.Mutex
	total   int // 0: endless
	used    int
	bufs    map[*buffer]bool
	real    bool // memory exists
	calls   int
	events  []*event // that Record has made
	failing error    // of all requests
}

// buffer is memory of a device, or a slice of it.
type buffer struct {
	data  []byte // nil if it does not exist
	n     int
	whole *buffer
	at    int
}

func (b *buffer) Bytes() int { return b.n }

func (b *buffer) Slice(old kernels.Buffer, off, n int) kernels.Buffer {
	if off < 0 || n < 0 || off+n > b.n {
		panic(fmt.Sprintf("bytes %d to %d of %d", off, off+n, b.n))
	}
	s, _ := old.(*buffer)
	if s == nil {
		s = &buffer{}
	}
	*s = buffer{n: n, whole: b, at: off}
	if b.data != nil {
		s.data = b.data[off : off+n : off+n]
	}
	return s
}

// seen is a buffer whose content the host sees.
type seen struct{ *buffer }

func (s seen) Data() []byte { return s.data }

func (s seen) Slice(old kernels.Buffer, off, n int) kernels.Buffer {
	o, _ := old.(seen)
	return seen{s.buffer.Slice(o.buffer, off, n).(*buffer)}
}

func newDevice(total int) *device { return &device{total: total, bufs: map[*buffer]bool{}} }

func (d *device) Alloc(n int) (kernels.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if n <= 0 || n%granule != 0 {
		panic(fmt.Sprint("device asked for ", n, " bytes"))
	}
	if d.failing != nil {
		return nil, d.failing
	}
	if d.total > 0 && n > d.total-d.used {
		return nil, fmt.Errorf("card is full")
	}
	b := &buffer{n: n}
	d.used += n
	d.bufs[b] = true
	if d.real {
		b.data = make([]byte, n)
		return seen{b}, nil
	}
	return b, nil
}

func (d *device) Free(b kernels.Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if s, ok := b.(seen); ok {
		b = s.buffer
	}
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

// event is one that tests make happen.
type event struct {
	stream kernels.Stream
	done   bool
	err    error
}

func (e *event) Done() (bool, error) { return e.done, e.err }

func (d *device) Record(s kernels.Stream) kernels.Event {
	e := &event{stream: s}
	d.events = append(d.events, e)
	return e
}

// virtual is a device with virtual memory. It refuses to map number failAt from now on.
type virtual struct {
	*device
	failAt  int
	page    int    // of which each can be unmapped; 0: what was mapped at once is
	refused func() // called where the card is full
}

// addresses is one of its ranges.
type addresses struct {
	*virtual
	mapped map[int]int
}

func newVirtual(total int) *virtual { return &virtual{device: newDevice(total)} }

func (v *virtual) Reserve() (kernels.Range, error) { return &addresses{v, map[int]int{}}, nil }
func (v *addresses) Buffer() kernels.Buffer        { return &buffer{n: 1 << 40} }
func (v *addresses) Granularity() int              { return cmp.Or(v.page, unit) }
func (v *addresses) Divisible() bool               { return v.page > 0 }

func (v *addresses) Map(off, n int) error {
	v.calls++
	if unit := v.Granularity(); off%unit != 0 || n%unit != 0 || n <= 0 || n > maxHandle {
		panic(fmt.Sprint("mapping ", n, " bytes at ", off))
	}
	for at, m := range v.mapped {
		if off < at+m && at < off+n {
			panic("mapped twice")
		}
	}
	if v.failAt--; v.failAt == 0 || v.total > 0 && n > v.total-v.used {
		if v.refused != nil {
			v.refused()
		}
		return kernels.Errorf(kernels.ErrMemory, "alloc", "card is full")
	}
	v.used += n
	for ; v.page > 0 && n > v.page; off, n = off+v.page, n-v.page {
		v.mapped[off] = v.page
	}
	v.mapped[off] = n
	return nil
}

func (v *addresses) Unmap(off, n int) error {
	v.calls++
	for ; v.page > 0 && n > v.page && v.mapped[off] == v.page; off, n = off+v.page, n-v.page {
		delete(v.mapped, off)
		v.used -= v.page
	}
	if v.mapped[off] != n {
		panic(fmt.Sprintf("%d bytes at %d are unmapped, %d were mapped", n, off, v.mapped[off]))
	}
	delete(v.mapped, off)
	v.used -= n
	return nil
}

func mustAlloc(t testing.TB, p *Pool, n int) *Block {
	t.Helper()
	b, err := p.Alloc(n, Owner{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// check checks the invariants of a pool that is not in use at the moment, of which the device counts used bytes.
func check(t testing.TB, p *Pool, used int) {
	t.Helper()
	s := p.Stats()
	for _, z := range []kernels.MemorySizes{s.MemorySizes, s.Peak} {
		if z.Requested < 0 || z.Requested > z.Allocated || z.Allocated > z.Active || z.Active > z.Reserved {
			t.Fatalf("not 0 <= requested <= allocated <= active <= reserved: %+v", s)
		}
	}
	if s.Reserved > s.Peak.Reserved || s.Active > s.Peak.Active || s.Allocated > s.Peak.Allocated ||
		s.Requested > s.Peak.Requested || s.Inactive > s.Peak.Inactive {
		t.Fatalf("a size exceeds its peak: %+v", s)
	}
	sum := 0
	for _, c := range s.Categories {
		sum += c.Allocated
	}
	if s.Reserved != s.Active+s.Inactive || s.Kept < 0 || s.Kept > s.Allocated || sum != s.Allocated {
		t.Fatalf("sums are wrong: %+v", s)
	}
	if s.Reserved != used {
		t.Fatalf("reserved %d, the device counts %d", s.Reserved, used)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	inactive, active := 0, 0
	for _, c := range p.caches {
		i, a := c.check(t)
		inactive, active = inactive+i, active+a
	}
	if inactive != s.Inactive || active != s.Active {
		t.Fatalf("blocks have %d inactive and %d active bytes, the counters %+v", inactive, active, s.MemorySizes)
	}
}

// check walks through all blocks of a stream, which lie one behind the other, and all bins and lists, which are sorted.
func (c *cache) check(t testing.TB) (inactive, active int) {
	t.Helper()
	in := map[*Block]int{} // bins and lists
	for _, h := range []*heap{&c.small, &c.large} {
		for bin, b := range h.bins {
			if (b != nil) != (h.inUse[bin/64]>>(bin%64)&1 == 1) {
				t.Fatalf("bin %d is marked wrongly", bin)
			}
			for last := (*Block)(nil); b != nil; last, b = b, b.next {
				if binOf(b.cap) != bin || b.prev != last || b.state != free || last != nil && !last.less(b) {
					t.Fatalf("block %+v in bin %d", b, bin)
				}
				in[b]++
			}
		}
	}
	for _, h := range []*heap{&c.small, &c.large} {
		if h.last != nil && h.last.state == listed {
			in[h.last]++
		}
	}
	for i, b := range c.lists {
		for ; b != nil; b = b.next {
			if b.cap != i*granule || b.state != listed {
				t.Fatalf("block %+v in list %d", b, i)
			}
			in[b]++
		}
	}
	for _, s := range c.segments {
		last := (*Block)(nil)
		for b := s.first; b != nil; last, b = b, b.after {
			if b.seg != s || b.before != last || b.cap <= 0 || last != nil && last.at+last.cap != b.at ||
				last != nil && last.state == b.state && (b.state == free || b.state == unmapped) {
				t.Fatalf("block %+v behind %+v", b, last)
			}
			switch b.state {
			case free, listed:
				if inactive += b.cap; in[b] != 1 {
					t.Fatalf("free block %+v is in %d lists", b, in[b])
				}
				delete(in, b)
			case live, kept, waiting:
				active += b.cap
			}
		}
	}
	if len(in) != 0 {
		t.Fatalf("%d blocks of lists are in no segment", len(in))
	}
	return inactive, active
}

func TestBins(t *testing.T) {
	last := 0
	for size := granule; size <= maxBytes; size += max(granule, size/64/granule*granule) {
		bin := binOf(size)
		if bin < last || bin > last+1 {
			t.Fatalf("%d bytes are in bin %d, less in %d", size, bin, last)
		}
		last = bin
	}
	if last >= numBins {
		t.Errorf("the last bin is %d", last)
	}
}

// Small blocks have a list for each size; large ones are cut from the smallest free block and joined again.
func TestReuse(t *testing.T) {
	d := newDevice(0)
	p := New(d, 0)
	a := mustAlloc(t, p, 1000)
	if d.inUse() != 2<<20 || a.Buf.Bytes() != 1024 || a.Size() != 1000 {
		t.Errorf("the first block, %+v, reserves %d bytes", a, d.inUse())
	}
	buf := a.Buf
	p.Free(a)
	if b := mustAlloc(t, p, 600); b != a || b.Buf != buf || b.Size() != 600 {
		t.Errorf("600 bytes after 1000 were freed: %+v", b)
	}
	if b := mustAlloc(t, p, 0); b.Buf.Bytes() != granule {
		t.Errorf("no bytes: %+v", b)
	}
	x, y, z := mustAlloc(t, p, 8<<20), mustAlloc(t, p, 2<<20), mustAlloc(t, p, 3<<20)
	if s := p.Stats(); s.Reserved != 16<<20 || s.SourceAllocs != 4 {
		t.Errorf("%+v", s)
	}
	calls, third := d.calls, z.seg
	p.Free(x)
	p.Free(z)
	if b := mustAlloc(t, p, 5<<19); b.seg != third {
		t.Errorf("2.5 MiB are not in the segment of 3: %+v", b)
	}
	one, two := mustAlloc(t, p, 5<<20), mustAlloc(t, p, 3<<20)
	p.Free(one)
	p.Free(two)
	if b := mustAlloc(t, p, 8<<20); d.calls != calls || b.Buf.Bytes() != 8<<20 {
		t.Errorf("%d calls of the driver; neighbours were not joined", d.calls-calls)
	}
	p.Free(y)
	check(t, p, d.inUse())
}

func TestOutOfMemory(t *testing.T) {
	d := newDevice(0)
	p := New(d, 4<<20)
	a := mustAlloc(t, p, 1<<20)
	b := mustAlloc(t, p, 3<<18)
	p.Keep(b, "")
	before := p.Stats()
	_, err := p.Alloc(2_500_000, Owner{})
	var e *kernels.Error
	if !errors.As(err, &e) || e.Kind != kernels.ErrMemory {
		t.Fatalf("%v", err)
	}
	after := p.Stats()
	if after.Active != before.Active || after.Requested != before.Requested || after.OOMs != 1 || after.Retries != 1 {
		t.Errorf("the failed request changed the counters: %+v, before %+v", after, before)
	}
	p.Free(a)
	p.Free(mustAlloc(t, p, 1_500_000)) // works again as soon as memory is free
	p.Free(b)
	check(t, p, d.inUse())

	full := New(newDevice(1<<20), 0)
	if _, err := full.Alloc(2<<20, Owner{}); err == nil ||
		!strings.Contains(err.Error(), "the device says: card is full") {
		t.Errorf("full device: %v", err)
	}
	mustAlloc(t, full, 1<<20-1000) // although that is no whole segment
	if _, err := full.Alloc(1<<62+1, Owner{}); !errors.Is(err, kernels.ErrMemory) {
		t.Errorf("absurd size: %v", err)
	}
	if _, err := full.Alloc(-1, Owner{}); !errors.Is(err, kernels.ErrValue) {
		t.Errorf("negative size: %v", err)
	}
	d.failing = kernels.Errorf(kernels.ErrDevice, "alloc", "the device is lost")
	if _, err := p.Alloc(64<<20, Owner{}); p.Stats().Limit > 64<<20 && !errors.Is(err, kernels.ErrDevice) {
		t.Errorf("a lost device: %v", err)
	}
}

// The last resort before out of memory is to collect; before that all that is free is given back.
func TestPressure(t *testing.T) {
	d := newDevice(0)
	p := New(d, 8<<20)
	held := mustAlloc(t, p, 4<<20)
	p.Free(mustAlloc(t, p, 2<<20))
	p.Free(mustAlloc(t, p, 100))
	p.Free(mustAlloc(t, p, 4<<20)) // takes the place of what is free
	if s := p.Stats(); s.Reserved != 8<<20 || s.Retries != 1 || s.OOMs != 0 {
		t.Errorf("%+v", s)
	}
	calls := 0
	p.SetReclaim(func() { calls++; p.Free(held) })
	p.Free(mustAlloc(t, p, 6<<20))
	if calls != 1 {
		t.Errorf("reclaim was called %d times", calls)
	}
	check(t, p, d.inUse())
}

// A limit below what is reserved holds for what is handed out, too.
func TestSetLimit(t *testing.T) {
	d := newDevice(0)
	p := New(d, 0)
	a, b := mustAlloc(t, p, 4<<20), mustAlloc(t, p, 4<<20)
	p.Free(a)
	p.SetLimit(2 << 20)
	if s := p.Stats(); s.Reserved != 4<<20 {
		t.Errorf("free segments over the limit stay: %+v", s)
	}
	p.Free(b)
	if s := p.Stats(); s.Reserved != 0 {
		t.Errorf("a freed block over the limit stays: %+v", s)
	}
	p.SetLimit(0)
	a, b = mustAlloc(t, p, 1<<20), mustAlloc(t, p, 1<<20)
	p.Free(a)
	p.SetLimit(1<<20 + 1<<19)
	if _, err := p.Alloc(1<<20, Owner{}); !errors.Is(err, kernels.ErrMemory) {
		t.Errorf("2 MiB within a limit of 1.5: %v", err)
	}
	mustAlloc(t, p, 1<<19)
	p.SetLimit(0)
	p.Free(b)
	check(t, p, d.inUse())

	p = New(newDevice(0), 1)
	if _, err := p.Alloc(1, Owner{}); !errors.Is(err, kernels.ErrMemory) {
		t.Errorf("a block within a limit of 1 byte: %v", err)
	}
}

// Free segments that are too small for a request go back, and one of their size takes their place.
func TestIdleSegments(t *testing.T) {
	d := newDevice(0)
	p := New(d, 0)
	kept := mustAlloc(t, p, 6<<20)
	for range 2 {
		var all []*Block
		for range 5 {
			all = append(all, mustAlloc(t, p, 4<<20))
		}
		for _, b := range all {
			p.Free(b)
		}
		p.Free(mustAlloc(t, p, 7<<20))
		s := p.Stats()
		if s.Reserved != 26<<20 || s.Peak.Reserved != 26<<20 || s.SourceAllocs != 7 || s.SourceFrees != 5 {
			t.Errorf("%+v", s)
		}
	}
	p.Free(kept)
	check(t, p, d.inUse())
}

// A block is free for its own stream at once, for another one never; if others use it, when they have finished.
func TestStreams(t *testing.T) {
	d := newDevice(0)
	p := New(d, 0)
	on := func(s kernels.Stream, n int) *Block {
		b, err := p.AllocOn(s, n, Owner{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, n := range []int{1000, 2 << 20} {
		a := on(1, n)
		p.Free(a)
		if b := on(2, n); b == a || b.seg == a.seg {
			t.Errorf("%d bytes freed on stream 1 were given to stream 2", n)
		}
		b := on(1, n)
		if b != a {
			t.Errorf("%d bytes freed on stream 1 were not given to it", n)
		}
		p.UsedOn(b, 1) // its own
		p.UsedOn(b, 7)
		p.UsedOn(b, 7)
		p.UsedOn(b, 8)
		active, allocated, size, events := p.Stats().Active, p.Stats().Allocated, b.cap, len(d.events)
		p.Free(b)
		if s := p.Stats(); s.Active != active || s.Allocated != allocated-size || len(d.events) != events+2 {
			t.Errorf("freed, not finished: %+v, %d events", s, len(d.events)-events)
		}
		d.events[events].done = true
		c := on(1, n)
		if c == b {
			t.Error("a block is handed out although stream 8 has not finished")
		}
		d.events[events+1].done = true
		e := on(1, 3<<20) // asks for events before it takes more
		if s := p.Stats(); s.Active != active+c.cap+e.cap-size {
			t.Errorf("finished: %+v", s)
		}
		check(t, p, d.inUse())
	}
}

// Between Freeze(true) and Freeze(false) the source is left alone.
func TestFreeze(t *testing.T) {
	d := newVirtual(0)
	p := New(d, 0)
	p.Free(mustAlloc(t, p, 4<<20))
	b := mustAlloc(t, p, 3<<20)
	p.UsedOn(b, 3)
	p.Free(b)
	calls := d.calls
	p.Freeze(true)
	p.Free(mustAlloc(t, p, 1<<20))
	_, err := p.Alloc(4<<20, Owner{})
	if !errors.Is(err, kernels.ErrMemory) || !strings.Contains(err.Error(), "captured") {
		t.Errorf("%v", err)
	}
	if freed := p.Trim(); freed != 0 || d.calls != calls {
		t.Errorf("%d bytes are given back, %d calls", freed, d.calls-calls)
	}
	p.Freeze(false)
	d.events[0].done = true
	p.Free(mustAlloc(t, p, 4<<20))
	if p.Trim(); d.used != 0 {
		t.Errorf("%d bytes stay", d.used)
	}
}

// In virtual memory, what is free at the end serves a larger block together with what is mapped behind it; whole
// handles are unmapped, wherever they lie; a mapping that fails half-way is undone.
func TestVirtual(t *testing.T) {
	d := newVirtual(0)
	p := New(d, 0)
	a := mustAlloc(t, p, 3<<20)
	b := mustAlloc(t, p, 6<<20) // 1 MiB of it is there
	if s := p.Stats(); s.Reserved != 10<<20 || s.SourceAllocs != 2 || b.at != a.at+a.cap {
		t.Errorf("%+v", s)
	}
	c, e := mustAlloc(t, p, 8<<20), mustAlloc(t, p, 600<<20)
	check(t, p, d.used)
	p.Free(c)
	p.Free(b)
	before := d.used
	if freed := p.Trim(); freed != 6<<20 || d.used != before-freed {
		t.Errorf("%d bytes in the middle are given back, want those of the second handle", freed)
	}
	check(t, p, d.used)
	p.Free(mustAlloc(t, p, 14<<20)) // into the hole
	if d.used != before {
		t.Errorf("%d bytes, %d before", d.used, before)
	}
	d.failAt = 3
	p.Free(mustAlloc(t, p, 800<<20)) // the second time it works, where the first one left no trace
	check(t, p, d.used)
	d.total = d.used
	if _, err := p.Alloc(900<<20, Owner{}); !errors.Is(err, kernels.ErrMemory) {
		t.Errorf("more than there is: %v", err)
	}
	check(t, p, d.used)
	for _, b := range []*Block{a, e} {
		p.Free(b)
	}
	if p.Trim(); d.used != 0 {
		t.Errorf("%d bytes stay mapped", d.used)
	}
	check(t, p, 0)
}

// A block that is freed while the device refuses more serves the request, and none is lost.
func TestFreedMeanwhile(t *testing.T) {
	d := newVirtual(16 << 20)
	p := New(d, 0)
	a, b := mustAlloc(t, p, 8<<20), mustAlloc(t, p, 8<<20)
	d.refused = func() { d.refused = nil; p.Free(a) }
	p.Free(mustAlloc(t, p, 6<<20))
	p.Free(b)
	if s := p.Stats(); s.Blocks != 0 || s.Allocated != 0 {
		t.Errorf("%+v", s)
	}
	check(t, p, d.used)
}

// Of divisible ranges all that is free is given back but parts of pages, and serves elsewhere: where a limit is reached
// what is live is all that is reserved.
func TestDivisible(t *testing.T) {
	d := newVirtual(0)
	d.page = 4 << 10
	p := New(d, 64<<20)
	var all []*Block
	for range 63 {
		all = append(all, mustAlloc(t, p, 1<<20))
	}
	for i := 0; i < len(all); i += 2 {
		p.Free(all[i])
	}
	check(t, p, d.used)
	b := mustAlloc(t, p, 32<<20) // no two free blocks are neighbours
	if s := p.Stats(); s.Reserved > 64<<20 || s.Inactive > 1<<20 {
		t.Errorf("%+v", s)
	}
	check(t, p, d.used)
	p.Free(all[1])
	odd := mustAlloc(t, p, 5<<10)
	p.Free(b)
	if p.Trim(); d.used != 30<<20+8<<10 {
		t.Errorf("%d bytes stay mapped", d.used)
	}
	check(t, p, d.used)
	for i := 3; i < len(all); i += 2 {
		p.Free(all[i])
	}
	p.Free(odd)
	if p.Trim(); d.used != 0 {
		t.Errorf("%d bytes stay mapped", d.used)
	}
	check(t, p, 0)
}

// TestHugePages: where a page that was given back is the end of what is mapped, a segment grows to a multiple of its
// unit again, else huge pages would not cover it.
func TestHugePages(t *testing.T) {
	d := newVirtual(0)
	d.page = 4 << 10
	p := New(d, 0)
	mustAlloc(t, p, 1<<30+3<<20)
	p.Free(mustAlloc(t, p, 2<<20))
	if p.Trim(); d.used != 1<<30+3<<20 {
		t.Fatalf("%d bytes are mapped", d.used)
	}
	for _, n := range []int{1 << 20, 3 << 20} {
		mustAlloc(t, p, n)
		if d.used%unit != 0 {
			t.Errorf("a segment ends at %d bytes, no multiple of %d", d.used, unit)
		}
	}
	check(t, p, d.used)
}

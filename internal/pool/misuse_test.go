package pool

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weft-ml/weft/kernels"
)

// TestKeep lets the Go collector free a kept block.
func TestKeep(t *testing.T) {
	d := newDevice(0)
	p := New(d, 0)
	type handle struct{ b *Block }
	h := &handle{mustAlloc(t, p, 4096)}
	p.Keep(h.b, "")
	if s := p.Stats(); s.Allocated != 4096 || s.Requested != 4096 || s.Blocks != 0 || s.Kept != 4096 {
		t.Errorf("kept block: %+v", s)
	}
	runtime.AddCleanup(h, p.Free, h.b)
	for range 200 {
		runtime.GC()
		if s := p.Stats(); s.Active == 0 && s.Kept == 0 {
			check(t, p, d.inUse())
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
	alive := mustAlloc(t, p, 10)
	freed := mustAlloc(t, p, 12)
	p.Free(freed)
	held := mustAlloc(t, p, 2000)
	p.Keep(held, "")
	late := mustAlloc(t, p, 700)
	p.UsedOn(late, 3)
	p.Free(late)
	for _, c := range []struct {
		f    func()
		want string
	}{
		{func() { p.Free(freed) }, "pool: free of a block of 12 bytes that is free"},
		{func() { p.Keep(freed, "") }, "pool: keep of a block of 12 bytes that is free"},
		{func() { p.Keep(held, "") }, "pool: keep of a block of 2000 bytes that is kept"},
		{func() { p.Free(late) }, "pool: free of a block of 700 bytes that is waiting for a stream"},
		{func() { New(d, 0).Free(alive) }, "pool: free of a block of another pool"},
		{func() { p.Free(nil) }, "pool: free of a block of another pool"},
		{func() { p.Keep(nil, "") }, "pool: keep of a block of another pool"},
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
	check(t, p, d.inUse())
}

// While one goroutine waits for memory to be reclaimed, others use the pool.
func TestGoroutinesBesideReclaim(t *testing.T) {
	p := New(newDevice(0), 4<<20)
	waiting, end := make(chan bool), make(chan bool)
	p.SetReclaim(func() { waiting <- true; <-end })
	b := mustAlloc(t, p, 2<<20)
	failed := make(chan error)
	go func() {
		_, err := p.Alloc(4<<20, Owner{})
		failed <- err
	}()
	<-waiting
	p.Free(b)
	p.Trim()
	p.SetLimit(8 << 20)
	mustAlloc(t, p, 1<<20)
	end <- true
	if err := <-failed; err != nil {
		t.Errorf("there was room at last: %v", err)
	}
}

// real is a pool of memory that exists.
func real() *Pool {
	d := newDevice(0)
	d.real = true
	return New(d, 0)
}

func TestPoison(t *testing.T) {
	for _, n := range []int{100, 200_000} {
		p := real()
		early := mustAlloc(t, p, n)
		p.Free(early) // cached without poison
		p.SetPoison(true)
		b := mustAlloc(t, p, n)
		data := b.Buf.(seen).data
		if data[7] != poisonByte {
			t.Error("a block cached before SetPoison was handed out without poison")
		}
		data[7] = 1
		p.Free(b)
		if data[7] != poisonByte {
			t.Error("Free left the memory as it was")
		}
		p.SetPoison(false)
		b = mustAlloc(t, p, n)
		b.Buf.(seen).data[7] = 3
		p.Free(b) // without poison: not watched
		p.SetPoison(true)
		p.Free(mustAlloc(t, p, n))
		p.Trim() // joins it with others, but in a segment of its own nothing else is
		b = mustAlloc(t, p, n)
		data = b.Buf.(seen).data
		p.Free(b)
		data[7] = 2 // a late write
		func() {
			defer func() {
				want := fmt.Sprintf("pool: byte 7 of a freed block of %d bytes was written after it was freed",
					roundUp(n+guardBytes, granule))
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("a write after Free: %v", got)
				}
			}()
			p.Alloc(n, Owner{})
		}()
	}
}

// Behind each poisoned block is a guard band; in device memory the source fills both.
func TestGuard(t *testing.T) {
	p := real()
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
		data := b.Buf.(seen).data
		clear(data[:from])
		if n := Overwritten(data[from:to]); n != 0 {
			t.Errorf("%d bytes are overwritten", n)
		}
		data[from], data[to-1] = 0, 1
		if n := Overwritten(data[from:to]); n != 2 {
			t.Errorf("%d bytes are overwritten, want 2", n)
		}
		data[from], data[to-1] = poisonByte, poisonByte
		p.Free(b)
	}
	first, second := mustAlloc(t, p, 1000), mustAlloc(t, p, 1000)
	p.Free(second)
	if second = mustAlloc(t, p, 1000); second.at != first.at+first.cap {
		t.Fatalf("blocks at %d and %d", first.at, second.at)
	}
	whole := second.seg.buf.(seen).data
	whole[second.at-1] = 1 // before a block
	func() {
		defer func() {
			if got := fmt.Sprint(recover()); got != "pool: 1 bytes behind the 1000 of a block were written" {
				t.Errorf("a write before the second block: %v", got)
			}
		}()
		p.Free(first)
	}()

	far := &remote{filled: map[int]int{}}
	p = New(far, 0)
	p.SetPoison(true)
	b := mustAlloc(t, p, 100)
	p.Free(b)
	if from, to := mustAlloc(t, p, 100).Guard(); far.filled[granule] != 3 || from != 100 || to != 356 {
		t.Errorf("filled %d times, want 3: fresh, freed and handed out again; the guard band is from %d to %d",
			far.filled[granule], from, to)
	}
}

// remote is memory that the host does not see.
type remote struct{ filled map[int]int } // by size

func (*remote) Alloc(n int) (kernels.Buffer, error) { return &buffer{n: n}, nil }
func (*remote) Free(kernels.Buffer)                 {}
func (r *remote) Fill(b kernels.Buffer, value byte) {
	if value == poisonByte {
		r.filled[b.Bytes()]++
	}
}

// TestSteadyState runs training steps of varying batch sizes: after the sizes have been seen once no memory is
// requested from the source or allocated by Go.
func TestSteadyState(t *testing.T) {
	d := newVirtual(0)
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
	step(128)
	calls, before := d.calls, p.Stats()
	i := 0
	if n := testing.AllocsPerRun(1000, func() { step(120 + i%9); i++ }); n > 0 {
		t.Errorf("%v Go allocations a step", n)
	}
	s := p.Stats()
	if d.calls != calls || s.Hits-before.Hits != s.Allocs-before.Allocs {
		t.Errorf("memory was requested from the source in the steady state: %+v", s)
	}
	if f := s.Fragmentation(); f > 0.4 {
		t.Errorf("fragmentation %.2f", f)
	}
	check(t, p, d.used)
}

// TestRecall holds that Try makes no room, and that Alloc and Trim recall blocks, Alloc when nothing else has helped.
func TestRecall(t *testing.T) {
	d := newDevice(0)
	p := New(d, 8<<20)
	reclaims, recalls := 0, 0
	lent, err := p.Try(2<<20, Owner{})
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
	mustAlloc(t, p, 2<<20)
	p.Free(mustAlloc(t, p, 4<<20))
	b, err := p.Try(6<<20, Owner{})
	if b != nil || !errors.Is(err, kernels.ErrMemory) || p.Stats().Reserved != 8<<20 || reclaims+recalls > 0 {
		t.Errorf("Try: block %v, error %v, %d bytes, %d calls", b, err, p.Stats().Reserved, reclaims+recalls)
	}
	if b, err := p.Try(4<<20, Owner{}); err != nil {
		t.Errorf("Try of what is cached: %v", err)
	} else {
		p.Free(b)
	}
	three := mustAlloc(t, p, 6<<20) // lent, and what is cached
	if recalls != 1 || reclaims != 1 || lent != nil || p.Stats().OOMs != 0 {
		t.Errorf("%d recalls, %d reclaims, stats %+v", recalls, reclaims, p.Stats())
	}
	lent = three
	if freed := p.Trim(); freed != 6<<20 || recalls != 2 || d.inUse() != 2<<20 {
		t.Errorf("Trim freed %d bytes, %d recalls", freed, recalls)
	}
	check(t, p, d.inUse())
}

// Every state has a name, which errors of misuse tell.
func TestStates(t *testing.T) {
	for s := free; s <= unmapped; s++ {
		if s.String() == "" {
			t.Errorf("state %d has no name", s)
		}
	}
}

package pool

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-ml/weft/kernels"
)

// request allocates for one purpose, from a function of its own.
func request(t *testing.T, p *Pool, n int, o Owner) *Block {
	b, err := p.Alloc(n, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestProfile holds what a profile counts: what was there, what is made by which stack, and the moment of the peak.
func TestProfile(t *testing.T) {
	p := New(newDevice(0), 0)
	early := request(t, p, 1000, Owner{Use: kernels.Parameters, Op: "parameters"})
	r := p.StartProfile()
	r.allocated(early) // its request saw the profile, too
	a := request(t, p, 100_000, Owner{Op: "exp", Layer: text("blocks.0")})
	b := request(t, p, 200_000, Owner{Op: "exp", Layer: text("blocks.1")})
	p.Free(a) // the peak was before
	c := request(t, p, 50_000, Owner{Op: "exp", Layer: text("blocks.0")})
	p.Free(early)
	p.Keep(c, "")
	p.Free(c)
	r.Stop()
	late := request(t, p, 1000, Owner{})
	r.allocated(late) // its request saw the profile before it ended
	p.Free(b)         // of a profile that has ended
	p.Free(late)
	want := map[string]Holding{
		"parameters":   {Total: Amount{1, 1024}, Peak: Amount{1, 1024}},
		"exp blocks.0": {Total: Amount{2, 100_352 + 50_176}, Peak: Amount{1, 100_352}},
		"exp blocks.1": {Total: Amount{1, 200_192}, Now: Amount{1, 200_192}, Peak: Amount{1, 200_192}},
	}
	got := map[string]Holding{}
	for _, h := range r.Holdings() {
		key := strings.TrimSpace(h.Op + " " + h.Layer)
		sum := got[key]
		sum.Total.add(h.Total.Blocks, h.Total.Bytes)
		sum.Now.add(h.Now.Blocks, h.Now.Bytes)
		sum.Peak.add(h.Peak.Blocks, h.Peak.Bytes)
		got[key] = sum
		if h.Use == kernels.Parameters {
			if len(h.Stack) > 0 {
				t.Errorf("%v: a stack of what was there before", key)
			}
		} else if f, _ := runtime.CallersFrames(h.Stack).Next(); !strings.HasSuffix(f.Function, "pool.request") {
			t.Errorf("%v: the innermost frame is %v", key, f.Function)
		}
	}
	for key, w := range want {
		if g := got[key]; g.Total != w.Total || g.Now != w.Now || g.Peak != w.Peak {
			t.Errorf("%s: %+v, want %+v", key, g, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}

// TestProfilePeak compares the amounts at the peak with a copy made at each peak.
func TestProfilePeak(t *testing.T) {
	p := New(newDevice(0), 0)
	r := p.StartProfile()
	rng := rand.New(rand.NewPCG(5, 6))
	ops := []string{"a", "b", "c", "d", "e"}
	now, peak, most := map[string]int{}, map[string]int{}, 0
	var live []*Block
	for range 3000 {
		if rng.IntN(100) < 52 {
			b := request(t, p, rng.IntN(1<<20), Owner{Op: ops[rng.IntN(len(ops))]})
			live = append(live, b)
			now[b.owner.Op] += b.cap
		} else if len(live) > 0 {
			i := rng.IntN(len(live))
			now[live[i].owner.Op] -= live[i].cap
			p.Free(live[i])
			live = append(live[:i], live[i+1:]...)
		}
		total := 0
		for _, n := range now {
			total += n
		}
		if total > most {
			most = total
			for op, n := range now {
				peak[op] = n
			}
		}
	}
	got := map[string]int{}
	for _, h := range r.Holdings() {
		got[h.Op] += h.Peak.Bytes
		if h.Now.Bytes < 0 {
			t.Errorf("%s: %d bytes now", h.Op, h.Now.Bytes)
		}
	}
	for _, op := range ops {
		if got[op] != peak[op] {
			t.Errorf("%s: %d bytes at the peak, want %d", op, got[op], peak[op])
		}
	}
	if s := p.Stats(); s.Peak.Allocated != most {
		t.Errorf("peak %d, want %d", s.Peak.Allocated, most)
	}
}

// TestTimeline: a timeline that is full gets coarser and keeps the peak and the order.
func TestTimeline(t *testing.T) {
	l := timeline{start: time.Now(), each: 1}
	rng := rand.New(rand.NewPCG(7, 8))
	now, most := 0, 0
	for i := range 5 * maxMoments {
		n := rng.IntN(1000) - min(now, rng.IntN(1000))
		switch i {
		case 101: // a peak of one moment, the second of those that become one
			n = 1 << 40
		case 102:
			n = -1 << 40
		}
		now += n
		most = max(most, now)
		l.change(kernels.Gradients, n)
	}
	got := 0
	for i, m := range l.moments {
		got = max(got, m.total())
		if i > 0 && m.At < l.moments[i-1].At {
			t.Fatalf("moment %d is before the one before it", i)
		}
	}
	if n := len(l.moments); n > maxMoments || n < maxMoments/2 || l.each != 8 || got != most {
		t.Errorf("%d moments of %d changes, at most %d bytes, want %d", n, l.each, got, most)
	}
}

// TestProfileParallel is for the race detector, and for counts where profiles begin and end beside allocations.
func TestProfileParallel(t *testing.T) {
	p := New(newDevice(0), 0)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				b, err := p.Alloc(100+i, Owner{Op: "op", Layer: text("layer")})
				if err != nil {
					t.Error(err)
					return
				}
				if i%7 == g {
					p.Keep(b, "")
				}
				p.Free(b)
			}
		})
	}
	var last *Profile
	for range 50 {
		last = p.StartProfile()
		last.Holdings()
		last.Moments()
	}
	wg.Wait()
	for _, h := range last.Holdings() {
		if h.Now != (Amount{}) {
			t.Errorf("%+v is left", h)
		}
	}
}

// BenchmarkProfile is a pair with and without a profile.
func BenchmarkProfile(b *testing.B) {
	for _, on := range []bool{false, true} {
		name := map[bool]string{false: "off", true: "on"}[on]
		b.Run(name, func(b *testing.B) {
			p := New(newDevice(0), 0)
			if on {
				p.StartProfile()
			}
			b.ReportAllocs()
			for b.Loop() {
				x, err := p.Alloc(1000, Owner{})
				if err != nil {
					b.Fatal(err)
				}
				p.Free(x)
			}
		})
	}
}

package cpu

import (
	"errors"
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// leave makes the limit of memory such that about n bytes are left, and returns the bytes in use.
func leave(t *testing.T, n int) func() int {
	t.Helper()
	used := func() int {
		use := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(use)
		return int(use[0].Value.Uint64())
	}
	before := memoryLimit
	t.Cleanup(func() { memoryLimit = before; runtime.GC() })
	runtime.GC()
	memoryLimit = func() limit { return limit{unlimited, "all"} }
	most := 1 << 30
	for Room(0) == nil { // find the least limit that leaves anything
		most -= 4 << 20
		memoryLimit = func() limit { return limit{most, "all"} }
	}
	most += n / 15 * 16
	return used
}

// All that is alive counts together, large and small, and what is dropped comes back.
func TestRoom(t *testing.T) {
	const room = 256 << 20
	used := leave(t, room)
	for _, size := range []int{64 << 20, 3 << 20, 1 << 20, 1<<20 - 1, 1 << 12} {
		first := used()
		var blocks []kernels.Buffer
		for {
			b, err := Backend{}.Alloc(size)
			if err != nil {
				if !errors.Is(err, kernels.ErrMemory) {
					t.Fatal(err)
				}
				break
			}
			if blocks = append(blocks, b); len(blocks)*size > 2*room {
				t.Fatalf("%d blocks of %d bytes where %d are left", len(blocks), size, room)
			}
		}
		if n := used() - first; n < room/2 || n > room+room/16 {
			t.Errorf("blocks of %d bytes: %d of %d bytes were granted", size, n, room)
		}
		for i, b := range blocks { // half of them are given back, half are dropped
			if i%2 == 0 {
				Backend{}.Free(b)
			}
		}
		// Smaller ones share spans with those that stay.
		if _, err := (Backend{}).Alloc(room / 4); err != nil && size >= 1<<20 {
			t.Errorf("after blocks of %d bytes were given back: %v", size, err)
		}
		runtime.KeepAlive(blocks)
		blocks = nil
		Collect()
		if _, err := (Backend{}).Alloc(room / 2); err != nil {
			t.Errorf("after blocks of %d bytes were dropped and collected: %v", size, err)
		}
		runtime.GC()
	}
}

// Of requests at one time no more are granted than there is room for.
func TestRoomTogether(t *testing.T) {
	const room, n = 96 << 20, 8
	leave(t, room)
	for range 20 {
		var wg sync.WaitGroup
		var granted [n][]byte
		for i := range n {
			wg.Go(func() { granted[i], _ = Make[byte](room / 3) })
		}
		wg.Wait()
		sum := 0
		for _, b := range granted {
			sum += len(b)
		}
		if sum == 0 || sum > room+room/16 {
			t.Fatalf("%d of %d bytes were granted", sum, room)
		}
		runtime.KeepAlive(granted)
		clear(granted[:])
		runtime.GC()
	}
}

// The kernels' own memory is refused with the error of an op call, unless it is small.
func TestRoomForScratch(t *testing.T) {
	leave(t, 64<<20)
	if got := mustMem(32 << 20); got.Bytes() != 32<<20 {
		t.Errorf("%d bytes", got.Bytes())
	}
	var err error
	func() {
		defer kernels.Catch(&err)
		mustMem(1 << 40)
	}()
	if !errors.Is(err, kernels.ErrMemory) {
		t.Errorf("scratch memory of 1 TiB: %v", err)
	}
	memoryLimit = func() limit { return limit{0, "nothing"} }
	unasked.Store(small)
	if got := mustMem(1000); got.Bytes() != 1000 {
		t.Errorf("%d bytes", got.Bytes())
	}
}

func TestMakeAbsurd(t *testing.T) {
	for _, n := range []int{-1, math.MinInt, math.MaxInt, 1 << 61, kernels.MaxLen, kernels.MaxLen + 1} {
		if v, err := Make[float64](n); v != nil || !errors.Is(err, kernels.ErrMemory) {
			t.Errorf("%d numbers: %v", n, err)
		}
	}
	if v, err := Make[float64](0); v == nil || err != nil {
		t.Errorf("no numbers: %v, %v", v, err)
	}
}

func BenchmarkRoom(b *testing.B) {
	for b.Loop() {
		if err := Room(1); err != nil {
			b.Fatal(err)
		}
	}
}

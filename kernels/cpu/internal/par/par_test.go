package par

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// procs runs f with GOMAXPROCS set to n.
func procs(n int, f func()) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	f()
}

func TestForCoversOnce(t *testing.T) {
	for _, p := range []int{1, 2, 7} {
		procs(p, func() {
			for _, n := range []int{0, 1, 2, 3, 15, 16, 17, 100, 1000, 4099} {
				for _, grain := range []int{0, 1, 3, 64, 5000} {
					for _, align := range []int{1, 4, 16} {
						seen := make([]atomic.Int32, n)
						ForAligned(n, grain, align, func(lo, hi int) {
							if lo%align != 0 || (hi%align != 0 && hi != n) {
								t.Errorf("n %d: range [%d, %d) not aligned to %d", n, lo, hi, align)
							}
							if hi-lo < grain && hi != n {
								t.Errorf("n %d: range [%d, %d) shorter than grain %d", n, lo, hi, grain)
							}
							for i := lo; i < hi; i++ {
								seen[i].Add(1)
							}
						})
						for i := range seen {
							if c := seen[i].Load(); c != 1 {
								t.Fatalf("n %d grain %d align %d: element %d done %d times", n, grain, align, i, c)
							}
						}
					}
				}
			}
		})
	}
}

func TestTilesWorkersDoNotOverlap(t *testing.T) {
	procs(7, func() {
		busy := make([]atomic.Int32, Workers())
		var done atomic.Int64
		Tiles(Workers(), 2000, func(worker, i int) {
			if busy[worker].Add(1) != 1 {
				t.Error("two calls with the same worker at once")
			}
			if i%100 == 0 {
				runtime.Gosched()
			}
			done.Add(1)
			busy[worker].Add(-1)
		})
		if done.Load() != 2000 {
			t.Fatalf("%d tiles done, want 2000", done.Load())
		}
	})
}

func TestHelpersTakePart(t *testing.T) {
	procs(2, func() {
		// Both tiles wait for each other: it ends only when two goroutines work.
		var both sync.WaitGroup
		both.Add(2)
		Tiles(Workers(), 2, func(_, _ int) { both.Done(); both.Wait() })
	})
}

func TestCallerWaitsForSlowHelper(t *testing.T) {
	procs(2, func() {
		for range 3 {
			var started sync.WaitGroup
			started.Add(2)
			var slow atomic.Bool
			Tiles(Workers(), 2, func(worker, _ int) {
				started.Done()
				started.Wait()
				if worker > 0 {
					time.Sleep(20 * watch) // the caller has long stopped polling
					slow.Store(true)
				}
			})
			if !slow.Load() {
				t.Fatal("Tiles returned before its helper was done")
			}
		}
	})
}

func TestNested(t *testing.T) {
	procs(4, func() {
		var sum atomic.Int64
		Tiles(Workers(), 50, func(_, i int) {
			For(100, 1, func(lo, hi int) {
				Tiles(Workers(), 3, func(_, _ int) { sum.Add(int64(hi - lo)) })
			})
		})
		if sum.Load() != 50*100*3 {
			t.Fatalf("sum %d, want %d", sum.Load(), 50*100*3)
		}
	})
}

func TestConcurrentCallers(t *testing.T) {
	procs(4, func() {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 200 {
					var sum atomic.Int64
					For(64, 1, func(lo, hi int) { sum.Add(int64(hi - lo)) })
					if sum.Load() != 64 {
						t.Errorf("sum %d, want 64", sum.Load())
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestPanicComesBack(t *testing.T) {
	want := errors.New("bad tile")
	for _, p := range []int{1, 2, 7} {
		procs(p, func() {
			for bad := range 8 {
				func() {
					defer func() {
						if got := recover(); got != want {
							t.Errorf("recovered %v, want %v", got, want)
						}
					}()
					Tiles(Workers(), 8, func(_, i int) {
						if i == bad {
							panic(want)
						}
					})
					t.Error("no panic")
				}()
			}
			// The state is whole again.
			var n atomic.Int64
			Tiles(Workers(), 8, func(_, _ int) { n.Add(1) })
			if n.Load() != 8 {
				t.Errorf("%d tiles after a panic, want 8", n.Load())
			}
		})
	}
}

func TestPanicStopsTheRest(t *testing.T) {
	procs(2, func() {
		var done atomic.Int64
		func() {
			defer func() { recover() }()
			Tiles(Workers(), 1000, func(_, i int) {
				for i == 0 {
					if done.Load() > 0 { // the other goroutine is at work
						panic("first")
					}
				}
				time.Sleep(100 * time.Microsecond)
				done.Add(1)
			})
		}()
		if n := done.Load(); n > 500 {
			t.Errorf("%d tiles done after the first one panicked", n)
		}
	})
}

func TestIdleHasNoHelpers(t *testing.T) {
	state := func() (working, seeking, open int) {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		return pool.working, pool.seeking, len(pool.open)
	}
	procs(4, func() {
		Tiles(Workers(), 100, func(_, _ int) {})
		for range 1000 {
			if _, seeking, _ := state(); seeking == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if working, seeking, open := state(); working != 0 || seeking != 0 || open != 0 {
			t.Fatalf("working %d, seeking %d, open %d after all is done", working, seeking, open)
		}
	})
}

func TestNoAllocation(t *testing.T) {
	procs(2, func() {
		f := func(_, _ int) {}
		if n := testing.AllocsPerRun(1000, func() { Tiles(Workers(), 16, f) }); n >= 1 {
			t.Errorf("Tiles allocates %v times a call", n)
		}
		if n := testing.AllocsPerRun(1000, func() { For(1600, 100, f) }); n >= 1 {
			t.Errorf("For allocates %v times a call", n)
		}
	})
}

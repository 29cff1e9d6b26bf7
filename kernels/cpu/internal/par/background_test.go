package par

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Every element is done once, with jobs beside it, without, and where helpers are about to sleep.
func TestBackgroundCoversOnce(t *testing.T) {
	for _, p := range []int{1, 2, 4} {
		for _, pause := range []time.Duration{0, watch} {
			procs(p, func() {
				var over atomic.Bool
				var jobs, calls sync.WaitGroup
				jobs.Go(func() {
					for !over.Load() {
						For(100, 10, func(_, _ int) { time.Sleep(pause / 8) })
						time.Sleep(pause)
					}
				})
				for range 3 {
					calls.Go(func() {
						for n := range 24 {
							count := make([]atomic.Int32, n)
							grain := 1 + n%7
							Background(n, grain, func(lo, hi int) {
								if lo%grain != 0 || hi != min(lo+grain, n) {
									t.Errorf("range [%d, %d) of %d, grain %d", lo, hi, n, grain)
								}
								for i := lo; i < hi; i++ {
									count[i].Add(1)
								}
								runtime.Gosched()
							})
							for i := range count {
								if c := count[i].Load(); c != 1 {
									t.Errorf("element %d of %d done %d times", i, n, c)
								}
							}
							time.Sleep(pause * time.Duration(n%5) / 4)
						}
					})
				}
				calls.Wait()
				over.Store(true)
				jobs.Wait()
			})
		}
	}
}

// onHelper tells whether a helper calls it.
func onHelper() bool {
	stack := make([]byte, 4<<10)
	return bytes.Contains(stack[:runtime.Stack(stack, false)], []byte("par.help"))
}

// While a job is open helpers that are awake do the work, however long it takes, and the caller sleeps. Where they are
// asleep the caller does it.
func TestBackgroundBesideJobs(t *testing.T) {
	const n, grain = 4000, 10
	awake := func() int {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		return pool.awake
	}
	procs(2, func() {
		for attempt := 0; ; attempt++ {
			open, release, over := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
			go func() {
				Tiles(2, 2, func(worker, _ int) {
					if worker == 0 { // the caller
						open <- struct{}{}
						<-release
					}
				})
				close(over)
			}()
			select {
			case <-open:
			case <-over: // a helper did both
			}
			for begin := time.Now(); awake() == 0 && time.Since(begin) < time.Second; {
				runtime.Gosched()
			}
			var helped atomic.Int32
			Background(n, grain, func(lo, hi int) {
				if onHelper() {
					helped.Add(int32(hi - lo))
				}
				for begin := time.Now(); time.Since(begin) < 2*watch*grain/n; {
				}
			})
			for begin := time.Now(); awake() > 0 && time.Since(begin) < time.Second; {
				time.Sleep(time.Millisecond)
			}
			done := 0
			if awake() == 0 {
				Background(n, grain, func(lo, hi int) { done += hi - lo })
			}
			close(release)
			<-over
			Tiles(2, 2, func(_, _ int) { time.Sleep(watch / 4) })
			Background(n, grain, func(_, _ int) { // a helper watches, and no job is open
				if onHelper() {
					t.Error("a helper takes work without a job")
				}
			})
			if helped.Load() == n && done == n {
				return
			}
			if attempt == 20 { // else the helper was not there yet, or had the item that waits
				t.Fatalf("helpers did %d of %d, the caller %d", helped.Load(), n, done)
			}
		}
	})
}

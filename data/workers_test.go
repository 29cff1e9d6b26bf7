package data

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a pipeline whose functions wait for random times, with a filter or without.
func slow(seed uint64, filtered bool, options ...BatchOption) *Batched[[]int] {
	s := make(Slice[int], 60)
	for i := range s {
		s[i] = i
	}
	p := Map(From(s), func(_ Sample, x int) (int, error) {
		time.Sleep(time.Duration(rand.New(rand.NewPCG(seed, uint64(x))).IntN(1000)) * time.Microsecond)
		return x, nil
	})
	if filtered {
		p = Filter(p, func(_ Sample, x int) (bool, error) { return x%3 != 1, nil })
	}
	return Batches(p, 4, keep, append(options, Epochs(2))...)
}

// Random delays change no batch, and an iteration at its end has no goroutine left, closed or not: synctest fails if
// there is one.
func TestOrderDelays(t *testing.T) {
	for _, filtered := range []bool{false, true} {
		want, _ := one(t, slow(0, filtered, Workers(0)), nil)
		for seed := range uint64(10) {
			for _, workers := range []int{1, 2, 8} {
				synctest.Test(t, func(t *testing.T) {
					it, err := slow(seed, filtered, Workers(workers), Prefetch(int(7*seed))).Start(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					var got []string
					for b, err := range it.All() {
						if err != nil {
							t.Fatal(err)
						}
						time.Sleep(time.Duration(seed) * 100 * time.Microsecond)
						got = append(got, fmt.Sprint(b))
					}
					if !slices.Equal(got, want) {
						t.Errorf("seed %d, %d workers: %v, want %v", seed, workers, got, want)
					}
					for range it.All() {
						t.Error("a batch after the last one")
					}
				})
			}
		}
	}
}

// Eight workers are eight times as fast where examples wait, and a loop that needs longer than its batches never waits.
func TestWorkersOverlap(t *testing.T) {
	p := Map(From(make(Slice[int], 256)), func(_ Sample, x int) (int, error) {
		time.Sleep(5 * time.Millisecond)
		return x, nil
	})
	for _, filtered := range []bool{false, true} {
		q := p
		if filtered {
			q = Filter(p, func(Sample, int) (bool, error) { return true, nil })
		}
		took := func(workers int, step time.Duration) (d time.Duration) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				it, err := Batches(q, 4, keep, Workers(workers), Prefetch(8)).Start(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer it.Close()
				for _, err := range it.All() {
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(step)
				}
				d = time.Since(start)
			})
			return d
		}
		if one, eight := took(1, 0), took(8, 0); one != 256*5*time.Millisecond || eight != one/8 {
			t.Errorf("filtered %v: one worker takes %v, eight %v", filtered, one, eight)
		}
		if d := took(2, 20*time.Millisecond); d != 20*time.Millisecond+64*20*time.Millisecond {
			t.Errorf("filtered %v: 64 steps of 20 ms take %v with the first batch", filtered, d)
		}
	}
}

// Workers are at most Prefetch batches ahead of the loop.
func TestWorkersDepth(t *testing.T) {
	for _, depth := range []int{0, 1, 5} {
		synctest.Test(t, func(t *testing.T) {
			var made atomic.Int64
			collate := func([]int) (int, error) { return int(made.Add(1)), nil }
			b := Batches(From(make(Slice[int], 100)), 1, collate, Workers(2), Prefetch(depth))
			it, err := b.Start(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer it.Close()
			used := 0
			for range it.All() {
				used++
				synctest.Wait()
				if ahead := int(made.Load()) - used; ahead != min(max(depth, 1), 100-used) {
					t.Fatalf("depth %d: %d batches ahead after %d", depth, ahead, used)
				}
			}
		})
	}
}

// When the context is done, its cause is the next error; functions that wait see it, and all goroutines end.
func TestWorkersCancel(t *testing.T) {
	cause := errors.New("enough")
	for _, workers := range []int{0, 1, 3} {
		for _, filtered := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				p := Map(From(make(Slice[int], 100)), func(s Sample, x int) (int, error) {
					if s.Index == 20 {
						<-s.Context.Done()
						return 0, s.Context.Err()
					}
					return x, nil
				})
				if filtered {
					p = Filter(p, func(Sample, int) (bool, error) { return true, nil })
				}
				it, err := Batches(p, 4, keep, Workers(workers)).Start(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second, func() { cancel(cause) })
				n := 0
				for _, err := range it.All() {
					if err == nil {
						n++
					} else if err != cause {
						t.Errorf("%d workers: %v, want %v", workers, err, cause)
					}
				}
				if n > 5 || workers < 2 && !filtered && n != 5 {
					t.Errorf("%d workers: %d batches before example 20", workers, n)
				}
				it.Close()
				it.Close()
				for _, err := range it.All() {
					if err != cause {
						t.Errorf("closed: %v", err)
					}
				}
			})
		}
	}
}

// 1,000 iterations broken off leave no goroutine, and one that is closed says so.
func TestWorkersBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 1000 {
			it, err := slow(uint64(i), i%2 == 0, Workers(i%5), Prefetch(i%7)).Start(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for range it.All() {
				if n++; n > i%11 {
					break
				}
			}
			it.Close()
			for _, err := range it.All() {
				wantError(t, err, "the iterator is closed")
			}
		}
		l := Loader{Dataset: counting(100), BatchSize: 3, Workers: 3}
		for range l.Batches(t.Context()) {
			break // the sequence closes itself
		}
	})
}

// A panic is the error of its batch with its line, whoever runs the function, and is not tolerated; so is the end of a
// worker's goroutine.
func TestWorkersPanic(t *testing.T) {
	cause := errors.New("cause")
	bad := func(what func()) *Pipeline[int] {
		return Map(From(make(Slice[int], 30)), func(s Sample, x int) (int, error) {
			if s.Index == 14 {
				what()
			}
			return x, nil
		})
	}
	for _, workers := range []int{0, 1, 2, 8} {
		for name, what := range map[string]func(){"line\nbreak": func() { panic("line\nbreak") },
			"cause": func() { panic(cause) }, "index": func() { make([]int, 1)[workers+1]++ },
			"ended": runtime.Goexit} {
			if name == "ended" && workers == 0 {
				continue // ends the loop's own goroutine
			}
			for _, tolerate := range []int{0, 9} {
				got, _, err := collect(t, Batches(bad(what), 5, keep, Workers(workers), Tolerate(tolerate)), nil)
				wantError(t, err, "epoch 0, batch 2: example 14: map func(data.Sample, int) (int, error): panic at ")
				if len(got) != 2 || name == "cause" && !errors.Is(err, cause) {
					t.Errorf("%d workers: %d batches before %v", workers, len(got), err)
				}
				if name != "ended" {
					wantError(t, err, "workers_test.go:")
				}
			}
		}
		collate := func([]int) (int, error) { panic(cause) }
		_, _, err := collect(t, Batches(From(make(Slice[int], 30)), 5, collate, Workers(workers)), nil)
		wantError(t, err, "data: epoch 0, batch 0: panic at workers_test.go:", "cause")
		n := 0
		l := Loader{Dataset: panicking{counting(30)}, BatchSize: 5, Workers: workers}
		for _, err := range l.Batches(t.Context()) {
			if n++; n == 4 {
				wantError(t, err, "data: epoch 0, batch 3: panic at workers_test.go:")
			} else if err != nil {
				t.Errorf("batch %d: %v", n, err)
			}
		}
		if n != 4 {
			t.Errorf("%d workers: the sequence has %d elements", workers, n)
		}
	}
}

// panicking is a dataset with a batch that panics.
type panicking struct{ *Arrays[float32, int64] }

func (p panicking) Batch(indices []int) (Batch, error) {
	if slices.Contains(indices, 17) {
		panic("17")
	}
	return p.Arrays.Batch(indices)
}

// After 10,000 batches of pipelines of every kind no more memory is taken, and no more goroutines are there, than after
// 1,000.
func TestWorkersFlat(t *testing.T) {
	if raceEnabled {
		t.Skip("it measures memory")
	}
	source := make(Slice[int], 300)
	for i := range source {
		source[i] = i
	}
	drawn := func(s Sample, x int) (int, error) { return s.Random.IntN(x + 1), nil }
	changed := Filter(Map(Shuffle(From(source), 1), drawn), func(_ Sample, x int) (bool, error) { return x%3 > 0, nil })
	length := func(x int) int { return x%20 + 1 }
	options := []BatchOption{Epochs(Forever), Workers(2), Prefetch(4)}
	for name, b := range map[string]*Batched[[]int]{
		"plain":    Batches(Shuffle(From(source), 1), 8, keep, options...),
		"filtered": Batches(changed, 8, keep, options...),
		"stream":   Batches(FromStream(lines[int](source)), 8, keep, options...),
		"buckets": BucketByLength(changed, Buckets[int]{Length: length, Bounds: []int{5, 20}, BatchSize: 8},
			func(x []int, _ int) ([]int, error) { return keep(x) }, options...),
	} {
		it, err := b.Start(t.Context(), nil)
		if err != nil {
			t.Fatal(name, err)
		}
		var heap [2]uint64
		var goroutines [2]int
		n := 0
		for _, err := range it.All() {
			if err != nil {
				t.Fatal(name, err)
			}
			if n++; n == 1_000 || n == 10_000 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				heap[n/10_000], goroutines[n/10_000] = m.HeapAlloc, runtime.NumGoroutine()
			}
			if n == 10_000 {
				break
			}
		}
		it.Close()
		if heap[1] > heap[0]+1<<18 || goroutines[1] > goroutines[0]+2 {
			t.Errorf("%s: heap %d, before %d; goroutines %d, before %d", name, heap[1], heap[0], goroutines[1],
				goroutines[0])
		}
	}
}

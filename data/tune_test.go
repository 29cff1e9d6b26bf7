package data

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// load is a pipeline and a loop over it, in virtual time.
type load struct {
	name     string
	example  time.Duration                   // that a function waits
	compute  time.Duration                   // that an example takes of a processor, of two
	step     func(running int) time.Duration // of the loop, beside so many workers
	jitter   bool                            // examples take from 0 to 8 times as long
	filtered bool
}

// period is the time between batches 200 to 680 of the loop.
func (l load) period(t *testing.T, options ...BatchOption) (period time.Duration, r Report) {
	synctest.Test(t, func(t *testing.T) {
		processors := make(chan struct{}, 2)
		p := Map(From(make(Slice[int], 1<<14)), func(s Sample, x int) (int, error) {
			wait := l.example
			if l.jitter {
				wait = time.Duration(8 * float64(wait) * s.Random.Float64() * s.Random.Float64() * s.Random.Float64())
			}
			time.Sleep(wait)
			if l.compute > 0 {
				processors <- struct{}{}
				time.Sleep(l.compute)
				<-processors
			}
			return x, nil
		})
		if l.filtered {
			p = Filter(p, func(Sample, int) (bool, error) { return true, nil })
		}
		it, err := Batches(p, 4, keep, append(options, Epochs(Forever))...).Start(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		n := 0
		var begin time.Time
		for _, err := range it.All() {
			if err != nil {
				t.Fatal(err)
			}
			switch n++; n {
			case 200:
				begin = time.Now()
			case 680: // whole turns of up to 32 workers
				period = time.Since(begin) / 480
				r = it.Report()
				return
			}
			if l.step != nil {
				time.Sleep(l.step(it.Report().Workers))
			}
		}
	})
	return period, r
}

func constant(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// n workers are at least 0.9 n times as fast as one where examples wait, and what Auto has found after 200 batches is
// at least 0.9 times as fast as the best of the settings by hand.
func TestTune(t *testing.T) {
	ms := time.Millisecond
	for _, l := range []load{
		{name: "examples that wait", example: 5 * ms},
		{name: "with a filter", example: 5 * ms, filtered: true},
		{name: "and a step of 9 ms", example: 5 * ms, step: constant(9 * ms)},
		{name: "random times", example: 5 * ms, step: constant(9 * ms), jitter: true},
		{name: "a slow step", example: 5 * ms, step: constant(50 * ms)},
		{name: "two processors", compute: ms},
		{name: "a step of 6 ms, 1 more a worker", example: 5 * ms,
			step: func(workers int) time.Duration { return time.Duration(6+workers) * ms }},
		{name: "a step of 20 ms, 5 more a worker", example: 5 * ms,
			step: func(workers int) time.Duration { return time.Duration(20+5*workers) * ms }},
	} {
		best, at := time.Hour, 0
		var one time.Duration
		for _, workers := range []int{1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32} {
			p, _ := l.period(t, Workers(workers))
			if p < best {
				best, at = p, workers
			}
			if workers == 1 {
				one = p
			} else if l.step == nil && l.compute == 0 && one < time.Duration(0.9*float64(workers)*float64(p)) {
				t.Errorf("%s: %d workers %v a batch, one %v", l.name, workers, p, one)
			}
		}
		tuned, r := l.period(t)
		t.Logf("%s: best by hand %v a batch with %d workers, tuned %v with %d, prefetch %d", l.name, best, at, tuned,
			r.Workers, r.Prefetch)
		if float64(best) < 0.9*float64(tuned) {
			t.Errorf("%s: tuned %v a batch, by hand %v\n%v", l.name, tuned, best, r)
		}
	}
}

// Auto finds again what is best when the loop becomes faster, and takes workers away when it becomes slower.
func TestTuneChange(t *testing.T) {
	step := 40 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		p := Map(From(make(Slice[int], 1<<14)), func(s Sample, x int) (int, error) {
			time.Sleep(5 * time.Millisecond)
			return x, nil
		})
		it, err := Batches(p, 4, keep, Epochs(Forever)).Start(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		var chosen []int
		n := 0
		for range it.All() {
			if n++; n%400 == 0 {
				chosen = append(chosen, it.Report().Workers)
				step = []time.Duration{40, 5, 40}[n/400%3] * time.Millisecond
				if n == 1200 {
					break
				}
			}
			time.Sleep(step)
		}
		t.Logf("workers with steps of 40, 5 and 40 ms: %d", chosen)
		if chosen[0] > 1 || chosen[1] < 4 || chosen[1] > 6 || chosen[2] > 4 {
			t.Errorf("workers with steps of 40, 5 and 40 ms: %d", chosen)
		}
	})
}

// heavy is an example of a size that it says itself.
type heavy struct{ bytes int }

func (h heavy) Bytes() int { return h.bytes }

// Examples that are made and not delivered stay in the budget, for sizes from 1 B to 64 MiB: the next batch of the loop
// apart, and what an example is larger than those before. Order and number are those without a limit.
func TestTuneMemory(t *testing.T) {
	const budget = 256 << 20
	for _, workers := range []int{Auto, 1, 8} {
		for _, size := range []int{1, 1000, 1 << 20, 64 << 20, -1} {
			for _, filtered := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					var most, flight atomic.Int64
					p := Map(From(make(Slice[int], 400)), func(s Sample, _ int) (heavy, error) {
						time.Sleep(time.Millisecond)
						h := heavy{size}
						if size < 0 {
							h.bytes = 1 << s.Random.IntN(27)
						}
						most.Store(max(most.Load(), flight.Add(int64(h.bytes))))
						return h, nil
					})
					if filtered {
						p = Filter(p, func(Sample, heavy) (bool, error) { return true, nil })
					}
					b := Batches(p, 3, keep, Workers(workers), Prefetch(64), MemoryBudget(budget))
					it, err := b.Start(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					defer it.Close()
					n := 0
					for b, err := range it.All() {
						if err != nil {
							t.Fatal(err)
						}
						for _, h := range b {
							n++
							flight.Add(-int64(h.bytes))
						}
						time.Sleep(10 * time.Millisecond)
					}
					largest := int64(size)
					allowed := budget + 3*largest
					if size < 0 {
						largest = 64 << 20
						allowed = budget + (3+8)*largest // 8 workers may meet one of these at once
					}
					r := it.Report()
					if n != 400 || most.Load() > allowed || r.Bytes != 0 || r.Budget != budget {
						t.Errorf("%d workers, examples of %d bytes: %d, at most %d MiB in flight, report %v",
							workers, size, n, most.Load()>>20, r)
					}
					if size == 64<<20 || size == 1 {
						t.Logf("%d workers, examples of %d bytes: at most %d bytes in flight", workers, size,
							most.Load())
					}
				})
			}
		}
	}
}

// The memory of values, with what they lead to.
func TestTuneBytes(t *testing.T) {
	type pair struct {
		a []float32
		b string
	}
	check := func(got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
	}
	i, f, s := 1, make([]float32, 3, 5), pair{make([]float32, 2), "abc"}
	check(measured[int]()(&i), 8)
	check(measured[[]float32]()(&f), 24+20)
	check(measured[pair]()(&s), 40+8+3)
	p := &s
	check(measured[*pair]()(&p), 8+40+8+3)
	var none *pair
	check(measured[*pair]()(&none), 8)
	h := heavy{1 << 20}
	check(measured[heavy]()(&h), 8+1<<20)
	many := slices.Repeat([]string{"abcd"}, 100)
	check(measured[[]string]()(&many), 24+100*(16+4))
	m := map[string]int{"ab": 1, "cd": 2}
	check(measured[map[string]int]()(&m), 8+2*(16+8+2))
	x, err := counting(10).Batch([]int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	check(measured[Batch]()(&x), 40+3*4+3*8)
	var a any = [1]any{"abcdef"}
	check(measured[any]()(&a), 16+16+16+6)
}

// A report names the stage that takes most of the time, and the loop if it never waits.
func TestTuneReport(t *testing.T) {
	for _, step := range []time.Duration{0, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p := Filter(Map(Shuffle(From(make(Slice[int], 500)), 1), func(_ Sample, x int) (int, error) {
				time.Sleep(5 * time.Millisecond)
				return x, nil
			}), func(Sample, int) (bool, error) { time.Sleep(time.Millisecond); return true, nil })
			collate := func(x []int) (int, error) {
				time.Sleep(2 * time.Millisecond)
				return len(x), nil
			}
			it, err := Batches(p, 4, collate, Workers(2), Prefetch(4)).Start(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer it.Close()
			for range it.All() {
				time.Sleep(step)
			}
			got := it.Report()
			t.Logf("%v", got)
			want := "[from data.Slice[int] of 500 0s, map func(data.Sample, int) (int, error) 5ms, " +
				"filter func(data.Sample, int) (bool, error) 1ms, batches of 4 500µs]"
			var stages []string
			for _, s := range got.Stages {
				stages = append(stages, fmt.Sprint(s.Name, " ", s.Example))
			}
			if s := fmt.Sprintf("[%s]", strings.Join(stages, ", ")); s != want {
				t.Errorf("stages %s, want %s", s, want)
			}
			limit := "map func(data.Sample, int) (int, error)"
			if step > 0 {
				limit = "the loop"
			}
			if got.Batches != 125 || got.Limit != limit || got.Workers != 2 || got.Prefetch != 4 {
				t.Errorf("report %v, want limit %s", got, limit)
			}
		})
	}
}

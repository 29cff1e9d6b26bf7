package par

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// work keeps a processor busy for about n nanoseconds.
func work(n int) (sum float64) {
	for range n / 4 {
		sum += sum*0.5 + 1
	}
	return sum
}

var sink float64

// BenchmarkFor runs a kernel of the given length, alone and after a pause in which helpers stop watching.
func BenchmarkFor(b *testing.B) {
	for _, procs := range []int{1, 2} {
		for _, pause := range []time.Duration{0, 5 * time.Microsecond, 200 * time.Microsecond} {
			for _, length := range []int{20_000, 100_000, 1_000_000} {
				b.Run(fmt.Sprintf("procs%d/pause%v/length%dus", procs, pause, length/1000), func(b *testing.B) {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
					f := func(lo, hi int) {
						if s := work(hi - lo); s < 0 {
							sink = s
						}
					}
					best := time.Hour
					var total time.Duration
					for b.Loop() {
						for begin := time.Now(); time.Since(begin) < pause; {
						}
						begin := time.Now()
						For(length, 10_000, f)
						d := time.Since(begin)
						best = min(best, d)
						total += d
					}
					b.ReportMetric(float64(best.Nanoseconds())/1e3, "best-us")
					b.ReportMetric(float64(total.Nanoseconds())/1e3/float64(b.N), "mean-us")
				})
			}
		}
	}
}

package matmul

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

var share = flag.String("share", "",
	"print the share of the multiply-add peak for the cases tier/threads/shape that match this expression")

// A shape is a product that training does; a letter T marks a transposed operand.
type shape struct {
	name         string
	count        int // products in a batch, 1 for a single one
	m, n, k      int
	aCols, bCols bool // A or B is a transposed view
}

var shapes = []shape{
	{"n512", 1, 512, 512, 512, false, false},
	{"n1024", 1, 1024, 1024, 1024, false, false},
	{"n2048", 1, 2048, 2048, 2048, false, false},
	{"gpt qkv", 1, 1024, 384, 128, false, false},
	{"gpt up", 1, 1024, 512, 128, false, false},
	{"gpt down", 1, 1024, 128, 512, false, false},
	{"gpt qkv BT", 1, 1024, 384, 128, false, true},
	{"gpt up BT", 1, 1024, 512, 128, false, true},
	{"gpt down BT", 1, 1024, 128, 512, false, true},
	{"gpt dW AT", 1, 128, 512, 1024, true, false},
	{"gpt dW2 AT", 1, 512, 128, 1024, true, false},
	{"mlp BT", 1, 128, 256, 784, false, true},
	{"mlp dW AT", 1, 256, 784, 128, true, false},
	{"mlp out BT", 1, 128, 10, 128, false, true},
	{"att qk BT", 64, 64, 64, 32, false, true},
	{"att pv", 64, 64, 32, 64, false, false},
	{"att dv AT", 64, 64, 32, 64, true, false},
	{"gemv m1", 1, 1, 1024, 1024, false, false},
	{"gemv n1", 1, 1024, 1, 1024, false, false},
}

// operands returns random operands and a function that computes the product.
func (s shape) operands() (run func()) {
	r := rand.New(rand.NewPCG(1, 1))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	view := func(x []float32, rows, cols int, byCols bool) Matrix {
		if byCols {
			return Matrix{x, 1, rows}
		}
		return Matrix{x, cols, 1}
	}
	a, b, c := random(s.count*s.m*s.k), random(s.count*s.k*s.n), make([]float32, s.count*s.m*s.n)
	if s.count == 1 {
		return func() {
			Float32(s.m, s.n, s.k, view(a, s.m, s.k, s.aCols), view(b, s.k, s.n, s.bCols), c, s.n, nil)
		}
	}
	ai := func(i int) Matrix { return view(a[i*s.m*s.k:], s.m, s.k, s.aCols) }
	bi := func(i int) Matrix { return view(b[i*s.k*s.n:], s.k, s.n, s.bCols) }
	ci := func(i int) ([]float32, int) { return c[i*s.m*s.n:], s.n }
	return func() { Batch(s.count, s.m, s.n, s.k, ai, bi, ci) }
}

func (s shape) flops() float64 {
	return 2 * float64(s.count) * float64(s.m) * float64(s.n) * float64(s.k)
}

func BenchmarkFloat32(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			run := s.operands()
			for b.Loop() {
				run()
			}
			b.ReportMetric(s.flops()*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}

// TestShareOfPeak compares each shape with the peak measured in the same moment. On a machine that others use too,
// the best of many short runs stands for the quiet machine.
func TestShareOfPeak(t *testing.T) {
	if *share == "" {
		t.Skip("run with -share .")
	}
	chosen := regexp.MustCompile(*share)
	for _, tier := range tiers()[1:] {
		force(t, tier)
		for _, procs := range []int{1, 2} {
			old := runtime.GOMAXPROCS(procs)
			for _, s := range shapes {
				name := fmt.Sprintf("%v/%d/%s", tier, procs, s.name)
				if !chosen.MatchString(name) {
					continue
				}
				run := s.operands()
				run()
				best, peak := 0.0, 0.0
				for range 5 {
					peak = max(peak, peakOf(tier, procs))
					for begin := time.Now(); time.Since(begin) < 60*time.Millisecond; {
						t0 := time.Now()
						run()
						best = max(best, s.flops()/float64(time.Since(t0).Nanoseconds()))
					}
				}
				fmt.Printf("%-20s %7.1f GFLOP/s of %6.1f: %.3f  %9.1f us\n", name, best, peak, best/peak,
					s.flops()/best/1e3)
			}
			runtime.GOMAXPROCS(old)
		}
	}
}

// peakOf measures the peak of several cores at once.
func peakOf(tier vec.Tier, cores int) float64 {
	peaks := make([]float64, cores)
	var wg sync.WaitGroup
	for i := range peaks {
		wg.Go(func() { peaks[i] = PeakFMA(tier) })
	}
	wg.Wait()
	sum := 0.0
	for _, p := range peaks {
		sum += p
	}
	return sum
}

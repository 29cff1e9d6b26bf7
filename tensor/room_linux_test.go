package tensor_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/tensor"
)

// With a limit of the address space, in a process of its own, whatever is too much is a typed error, and the process
// lives: calls of absurd sizes, memory taken until there is none, mixtures of sizes by several goroutines.
func TestLimitedMemory(t *testing.T) {
	const asChild = "WEFT_TEST_LIMITED"
	if os.Getenv(asChild) != "" {
		exhaust(t)
		return
	}
	if raceEnabled {
		t.Skip("the race detector takes more address space than any limit leaves")
	}
	limits := []string{"2000000", "3000000"}
	if slices.Contains(kernels.Drivers(), "cuda") { // C and its threads have their share
		limits = []string{"3000000", "4000000"}
	}
	if testing.Short() {
		limits = limits[:1]
	}
	for _, kib := range limits {
		c := exec.Command("sh", "-c", `ulimit -v "$0" && exec "$@"`, kib, os.Args[0], "-test.run=^TestLimitedMemory$",
			"-test.v")
		c.Env = append(os.Environ(), asChild+"=1")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("limit of %s KiB: %v\n%s", kib, err, out[:min(len(out), 3000)])
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "refused") {
				t.Logf("%s KiB: %s", kib, strings.TrimSpace(line))
			}
		}
	}
}

// limited takes memory that may be refused.
type limited struct {
	dev     *tensor.Device
	refused atomic.Int64
}

// take is a block of n bytes of the host or of a step; nil if it is refused.
func (l *limited) take(t *testing.T, n int, ofHost bool) (x *tensor.Tensor) {
	var err error
	if ofHost {
		err = engine.Try(func() { x = tensor.Zeros(tensor.Uint8, n) })
	} else {
		err = l.dev.Step(func(s *tensor.Scope) error { x = s.Full(1, tensor.Uint8, n).Keep(); return nil })
	}
	if err == nil {
		return x
	}
	if l.refused.Add(1); !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("%d bytes: %v", n, err)
	}
	return nil
}

func exhaust(t *testing.T) {
	l := &limited{dev: open(t)}
	for _, c := range sizes {
		if err := engine.Try(c.call); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := engine.Try(func() { huge(0).Chunk(0, 1<<24) }); !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("2^24 tensors, for whose list there is memory: %v", err)
	}
	for _, n := range []int{1 << 28, 1 << 24, 1 << 20, 1 << 15, 1 << 11} {
		for _, ofHost := range []bool{false, true} { // the second needs what the pool has cached
			var all []*tensor.Tensor
			for x := l.take(t, n, ofHost); x != nil; x = l.take(t, n, ofHost) {
				all = append(all, x)
			}
			t.Logf("of the host %v: %d blocks of %d bytes, then refused", ofHost, len(all), n)
			if n < 1<<28 && len(all)*n < 16<<20 {
				t.Errorf("only %d blocks of %d bytes", len(all), n)
			}
			runtime.KeepAlive(all)
		}
	}
	var group sync.WaitGroup
	for g := range uint64(4) {
		group.Go(func() {
			r := rand.New(rand.NewPCG(1, g))
			held := make([]*tensor.Tensor, 30)
			for range 100 {
				n := int(4096 * float64(uint(1)<<r.UintN(16)) * (1 + r.Float64()))
				held[r.IntN(len(held))] = l.take(t, n, r.IntN(2) == 0)
			}
			runtime.KeepAlive(held)
		})
	}
	group.Wait()
	runtime.GC()
	for _, ofHost := range []bool{true, false} {
		if l.take(t, 2<<20, ofHost) == nil {
			t.Error("2 MiB are refused when all else is dropped")
		}
	}
	t.Logf("%d requests refused", l.refused.Load())
}

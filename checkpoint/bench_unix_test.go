//go:build unix

package checkpoint

import (
	"crypto/sha256"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/disk"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

var rounds = flag.Int("rounds", 5, "of each measurement of a benchmark; the median counts")

// report prints a line of a table beside its target.
func report(b *testing.B, what string, value, target float64, atLeast bool) {
	b.Helper()
	relation, verdict := "<=", "ok"
	if atLeast {
		relation = ">="
	}
	if value > target && !atLeast || value < target && atLeast {
		verdict = "MISSED"
	}
	b.Logf("%-64s %8.3f  %s %5.2f  %s", what, value, relation, target, verdict)
}

// seconds is the time that f takes.
func seconds(b *testing.B, f func() error) float64 {
	b.Helper()
	start := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start).Seconds()
}

// processor is the time that the process has used of processors, in all threads.
func processor(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

// A gptRun is the training of examples/chargpt, and its checkpoints.
type gptRun struct {
	step func() error
	save func() error
	ck   *Manager
	st   *State
}

func newGPTRun(b *testing.B, width int) gptRun {
	b.Helper()
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { dev.Close() })
	model := nn.NewGPT(nn.GPTConfig{Vocab: 96, Context: 64, Width: width, Heads: 4, Layers: 4})
	if err := nn.Init(dev, model); err != nil {
		b.Fatal(err)
	}
	opt := optim.New(optim.AdamW(1e-3), model, optim.Clip(1))
	rng, v := rand.New(rand.NewPCG(1, 1)), make([]int64, 16*64)
	for i := range v {
		v[i] = rng.Int64N(96)
	}
	x := tensor.FromSlice(v, 16, 64)
	ck, err := Open(b.TempDir(), Keep(2))
	if err != nil {
		b.Fatal(err)
	}
	st, n := &State{Device: dev, Model: model, Optimizer: opt}, 0
	return gptRun{ck: ck, st: st, save: func() error { n++; return ck.Save(n, st, nil) }, step: func() error {
		return dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), s.In(x)))
			return opt.Step(s)
		})
	}}
}

// BenchmarkSaving trains the GPT of examples/chargpt, and with width 512, in turns 50 steps without a save and 50 after
// one, with its end. It prints what saving costs beside its targets.
func BenchmarkSaving(b *testing.B) {
	for _, c := range []struct {
		name  string
		width int
	}{{"chargpt", 128}, {"width512", 512}} {
		b.Run(c.name, func(b *testing.B) {
			r := newGPTRun(b, c.width)
			steps := func(n int) (all []float64) {
				for range n {
					all = append(all, seconds(b, r.step))
				}
				return all
			}
			steps(5)
			if err := errors.Join(r.save(), r.ck.settle()); err != nil {
				b.Fatal(err)
			}
			size, err := r.st.bytes()
			if err != nil {
				b.Fatal(err)
			}
			from, to := make([]byte, size), make([]byte, size)
			copy(to, from)
			const cycle = 50
			var calls, after, throughput, work []float64
			for range *rounds {
				begin := processor(b)
				plain := steps(cycle)
				used := processor(b) - begin
				copied := seconds(b, func() error { copy(to, from); return nil })
				begin = processor(b)
				call := seconds(b, r.save)
				with := steps(cycle)
				end := seconds(b, r.ck.settle)
				calls = append(calls, (call-copied)/median(plain))
				after = append(after, sum(with[:5])/5/median(plain))
				throughput = append(throughput, sum(plain)/(call+sum(with)+end))
				work = append(work, used/(processor(b)-begin))
			}
			b.Logf("a state of %.1f MB; throughput by processors' time %.3f", float64(size)/1e6, median(work))
			report(b, "the call of Save over a copy, in steps", median(calls), 0.02, false)
			report(b, "a step of the five after it, in median steps", median(after), 1.03, false)
			report(b, "throughput with a save every 50 steps", median(throughput), 0.98, true)
			b.ReportMetric(0, "ns/op")
			if err := r.ck.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// newState is a run whose state is of so many bytes, after a step: 16 parameters, and their moments.
func newState(b *testing.B, size int) *State {
	b.Helper()
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { dev.Close() })
	model := []*tensor.Tensor{}
	for range 16 {
		model = append(model, nn.Parameter(nil, size/16/3/4/1024, 1024))
	}
	if err := nn.Init(dev, model); err != nil {
		b.Fatal(err)
	}
	opt := optim.New(optim.AdamW(1e-3), model)
	if err := dev.Step(func(s *tensor.Scope) error {
		loss := s.In(model[0]).Sum()
		for _, p := range model[1:] {
			loss = loss.Add(s.In(p).Sum())
		}
		autograd.Backward(loss)
		return opt.Step(s)
	}); err != nil {
		b.Fatal(err)
	}
	return &State{Device: dev, Model: model, Optimizer: opt}
}

// BenchmarkGigabyte saves and resumes a state of 1 GB, and compares with the slowest of what must be done alone:
// SHA-256, a write with sync, a read. It also prints the memory that loading allocates in all.
func BenchmarkGigabyte(b *testing.B) {
	const size = 1 << 30
	st := newState(b, size)
	ck, err := Open(filepath.Join(b.TempDir(), "run"), Keep(1), Synchronous())
	if err != nil {
		b.Fatal(err)
	}
	dir, content := b.TempDir(), make([]byte, size)
	for i := range content {
		content[i] = byte(i * i >> 8)
	}
	var saves, resumes, loads []float64
	var beside uint64
	reading := func(read func() error) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		took := seconds(b, read)
		runtime.ReadMemStats(&after)
		beside = max(beside, after.TotalAlloc-before.TotalAlloc)
		return took
	}
	for n := range *rounds {
		path := filepath.Join(dir, "plain")
		hashing := seconds(b, func() error { sha256.Sum256(content); return nil })
		writing := seconds(b, func() error {
			f, err := disk.OS.Create(path)
			if err != nil {
				return err
			}
			_, err = f.Write(content)
			return errors.Join(err, f.Sync(), f.Close())
		})
		read := seconds(b, func() error {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.ReadFull(f, content)
			return err
		})
		if err := os.Remove(path); err != nil {
			b.Fatal(err)
		}
		alone := max(hashing, writing, read)
		saves = append(saves, alone/seconds(b, func() error { return ck.Save(n+1, st, nil) }))
		resumes = append(resumes, alone/reading(func() error { _, err := ck.Resume(st); return err }))
		loads = append(loads, read/3/reading(func() error { // a third of the state
			return Load(st.Model, filepath.Join(ck.folder(n+1), modelFile))
		}))
		b.Logf("alone: SHA-256 %.2f s, write with sync %.2f s, read %.2f s", hashing, writing, read)
	}
	report(b, "synchronous save of 1 GB, of the slowest alone", median(saves), 0.85, true)
	report(b, "load and verify of 1 GB, of the slowest alone", median(resumes), 0.85, true)
	report(b, "memory for loading beside the model, MiB", float64(beside)/(1<<20), 64, false)
	b.Logf("Load of the model's weights has %.2f of the rate of reading alone", median(loads))
	b.ReportMetric(0, "ns/op")
	if err := ck.Close(); err != nil {
		b.Fatal(err)
	}
}

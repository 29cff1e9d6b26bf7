//go:build unix

package checkpoint

import (
	"crypto/sha256"
	"errors"
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

const rounds = 5 // of each measurement; the median counts

// seconds is the time that f takes.
func seconds(b *testing.B, f func() error) float64 {
	b.Helper()
	start := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start).Seconds()
}

// work is the processor's time that f takes, in all threads: other programs change it less than the time.
func work(b *testing.B, f func() error) float64 {
	b.Helper()
	used := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	start := used()
	seconds(b, f)
	return used() - start
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

// A gptRun is the training of examples/chargpt, and its checkpoints.
type gptRun struct {
	step func() error
	save func() error
	ck   *Manager
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
	return gptRun{ck: ck, save: func() error { n++; return ck.Save(n, st, nil) }, step: func() error {
		return dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), s.In(x)))
			return opt.Step(s)
		})
	}}
}

// BenchmarkSaving trains the GPT of examples/chargpt, and with width 512, and reports what saving costs: the call of
// Save without a copy of the state's bytes, and the mean of the five steps after it, in steps without a save; the
// throughput of 50 steps with a save beside 50 without; and the same as work of the processor, with all of the save.
func BenchmarkSaving(b *testing.B) {
	for name, width := range map[string]int{"chargpt": 128, "width512": 512} {
		b.Run(name, func(b *testing.B) {
			r := newGPTRun(b, width)
			for range 5 {
				seconds(b, r.step)
			}
			if err := errors.Join(r.save(), r.ck.settle()); err != nil {
				b.Fatal(err)
			}
			from := slices.Clone(r.ck.buf)
			var calls, after, throughput, fiveWork, allWork []float64
			for range rounds {
				var quiet, five []float64
				for range 10 {
					quiet = append(quiet, seconds(b, r.step))
				}
				plain := median(quiet)
				copied := seconds(b, func() error { copy(r.ck.buf, from); return nil })
				calls = append(calls, (seconds(b, r.save)-copied)/plain)
				for range 5 {
					five = append(five, seconds(b, r.step))
				}
				after = append(after, mean(five)/plain)
				r.ck.settle()
			}
			for range rounds {
				many := func() (err error) {
					for range 50 {
						err = errors.Join(err, r.step())
					}
					return err
				}
				saving := func() error { return errors.Join(r.save(), many(), r.ck.settle()) }
				var with, without float64
				plainWork := work(b, func() error { without = seconds(b, many); return nil })
				saveWork := work(b, func() error { with = seconds(b, saving); return nil })
				throughput = append(throughput, without/with)
				allWork = append(allWork, plainWork/saveWork)
				fiveWork = append(fiveWork, 1+(saveWork-plainWork)/(plainWork/10))
			}
			b.ReportMetric(float64(len(r.ck.buf))/1e6, "MB")
			b.ReportMetric(median(calls), "call/step")
			b.ReportMetric(median(after), "after/step")
			b.ReportMetric(median(throughput), "throughput")
			b.ReportMetric(median(fiveWork), "after-work/step")
			b.ReportMetric(median(allWork), "throughput-by-work")
			b.ReportMetric(0, "ns/op")
			if err := r.ck.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkGigabyte saves and resumes a state of 1 GB, and compares with the slowest of what must be done alone:
// SHA-256, a write with sync, a read. It also reports what memory Resume takes in all beside the state.
func BenchmarkGigabyte(b *testing.B) {
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	const size = 1 << 30
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
	ck, err := Open(filepath.Join(b.TempDir(), "run"), Keep(1), Synchronous())
	if err != nil {
		b.Fatal(err)
	}
	st := &State{Device: dev, Model: model, Optimizer: opt}
	dir, content := b.TempDir(), make([]byte, size)
	for i := range content {
		content[i] = byte(i * i >> 8)
	}
	var saves, loads []float64
	for n := range rounds {
		path := filepath.Join(dir, "plain")
		alone := max(seconds(b, func() error { sha256.Sum256(content); return nil }), seconds(b, func() error {
			f, err := disk.OS.Create(path)
			if err != nil {
				return err
			}
			_, err = f.Write(content)
			return errors.Join(err, f.Sync(), f.Close())
		}), seconds(b, func() error {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.ReadFull(f, content)
			return err
		}))
		if err := os.Remove(path); err != nil {
			b.Fatal(err)
		}
		saves = append(saves, alone/seconds(b, func() error { return ck.Save(n+1, st, nil) }))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		loads = append(loads, alone/seconds(b, func() error { _, err := ck.Resume(st); return err }))
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/1e6, "MB-beside")
	}
	b.ReportMetric(median(saves), "save")
	b.ReportMetric(median(loads), "load")
	b.ReportMetric(0, "ns/op")
	if err := ck.Close(); err != nil {
		b.Fatal(err)
	}
}

package bench

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// begun begins an iteration that never ends, or panics.
func begun[B any](b *data.Batched[B], state []byte) *data.Iterator[B] {
	it, err := b.Start(context.Background(), state)
	must(err)
	return it
}

// take is how long the next n batches take; use gets each.
func take[B any](it *data.Iterator[B], n int, use func(B)) time.Duration {
	begin := time.Now()
	for b, err := range it.All() {
		must(err)
		if use(b); n <= 1 {
			break
		}
		n--
	}
	return time.Since(begin)
}

func nothing[B any](B) {}

// turns runs functions in turn, b.N times and at least 5, and returns the median of each.
func turns(b *testing.B, fs ...func() time.Duration) []time.Duration {
	all := make([][]time.Duration, len(fs))
	for range max(b.N, 5) {
		for i, f := range fs {
			all[i] = append(all[i], f())
		}
	}
	medians := make([]time.Duration, len(fs))
	for i := range all {
		slices.Sort(all[i])
		medians[i] = all[i][len(all[i])/2]
	}
	b.ReportMetric(0, "ns/op")
	return medians
}

// BenchmarkDataSteps trains on batches from a pipeline whose workers tune themselves, beside the same steps on batches
// held in memory, in turn: mlp on Fashion-MNIST, and chargpt on a token shard. Wanted are 0.98 of the throughput, and
// waits of at most 0.01 of the time.
func BenchmarkDataSteps(b *testing.B) {
	dev, err := tensor.Open("cpu")
	must(err)
	defer dev.Close()
	images, _ := fashionImages()
	steps := func(name string, n int, batches func(...data.BatchOption) *data.Batched[data.Batch], model nn.Module) {
		b.Run(name, func(b *testing.B) {
			must(nn.Init(dev, model))
			opt := optim.New(optim.AdamW(1e-3), model)
			step := func(x data.Batch) {
				must(dev.Step(func(s *tensor.Scope) error {
					return train(s, model, opt, images.Scale(s.In(x.X)), x.Y)
				}))
			}
			var held []data.Batch
			lasting := begun(batches(data.Workers(0)), nil)
			take(lasting, n, func(x data.Batch) { held = append(held, x) })
			lasting.Close()
			it := begun(batches(data.Epochs(data.Forever), data.On(dev)), nil)
			defer it.Close()
			take(it, n, step)
			before := it.Report()
			piped := func() time.Duration { return take(it, n, step) }
			took := turns(b, func() time.Duration {
				begin := time.Now()
				for _, x := range held {
					step(x)
				}
				return time.Since(begin)
			}, piped)
			r := it.Report()
			b.ReportMetric(float64(took[0])/float64(took[1]), "of-held")
			b.ReportMetric(float64(r.Waited-before.Waited)/float64(max(b.N, 5)*int(took[1])), "waited")
			b.ReportMetric(float64(r.Workers), "workers")
		})
	}
	order := data.Shuffle(data.From(data.Source[int](indices(images.Len()))), 42)
	steps("mlp", 200, func(options ...data.BatchOption) *data.Batched[data.Batch] {
		return data.Batches(order, 128, images.Bytes().Batch, options...)
	},
		nn.Sequential(nn.NewLinear(784, 256), nn.GELU, nn.NewLinear(256, 128), nn.GELU, nn.NewLinear(128, 10)))
	path := filepath.Join(b.TempDir(), "shard.bin")
	shard := make([]byte, 2<<20)
	for i := 0; i < len(shard); i += 2 {
		binary.LittleEndian.PutUint16(shard[i:], uint16(rand.IntN(vocab)))
	}
	must(os.WriteFile(path, shard, 0o600))
	tokens, err := data.OpenTokens([]string{path}, length)
	must(err)
	defer tokens.Close()
	steps("chargpt", 10, func(options ...data.BatchOption) *data.Batched[data.Batch] {
		return data.Batches(data.Shuffle(data.From(tokens), 42), batch, data.TokenBatch, options...)
	}, nn.NewGPT(nn.GPTConfig{Vocab: vocab, Context: length, Width: width, Heads: heads,
		Layers: layers}))
}

// indices is the source of the numbers below n.
type indices int

func (n indices) Len() int              { return int(n) }
func (n indices) At(i int) (int, error) { return i, nil }

// BenchmarkDataWorkers makes batches of 16 examples that take 1 ms of a processor each, or sleep for 5 ms. speedup is
// that of as many workers as processors, or of 16, beside the loop itself, for each of them; tuned is Auto's throughput
// over its batches 101 to 196, in shares of the best of 1, 2, 4, ... 32 workers. Wanted are 0.9 of both.
func BenchmarkDataWorkers(b *testing.B) {
	work := func(took time.Duration) int { // turns of spin for so long
		n := 1 << 10
		for ; ; n *= 2 {
			begin := time.Now()
			spin(n)
			if t := time.Since(begin); t > took {
				return int(float64(n) * float64(took) / float64(t))
			}
		}
	}
	loops := work(time.Millisecond)
	for _, c := range []struct {
		name    string
		workers int
		f       func()
	}{
		{"cpu", runtime.GOMAXPROCS(0), func() { spin(loops) }},
		{"sleep", 16, func() { time.Sleep(5 * time.Millisecond) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := data.Map(data.From(data.Source[int](indices(1<<20))), func(_ data.Sample, x int) (int, error) {
				c.f()
				return x, nil
			})
			run := func(skip, n int, options ...data.BatchOption) time.Duration {
				it := begun(data.Batches(p, 16, func(x []int) (int, error) { return len(x), nil },
					append(options, data.Epochs(data.Forever))...), nil)
				defer it.Close()
				take(it, skip, nothing)
				return take(it, n, nothing) / time.Duration(n)
			}
			// Workers that sleep end together: whole rounds of a batch each are measured, behind the first one.
			by := func(workers int) time.Duration {
				return run(workers, max(3*workers, 32), data.Workers(workers))
			}
			one, many := run(1, 10, data.Workers(0)), by(c.workers)
			best := many
			for w := 1; w <= 32; w *= 2 {
				best = min(best, by(w))
			}
			tuned := run(100, 96)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(one)/float64(many)/float64(c.workers), "speedup/worker")
			b.ReportMetric(float64(best)/float64(tuned), "tuned-of-best")
		})
	}
}

var spun atomic.Uint64

// spin keeps a processor busy.
func spin(n int) {
	x := uint64(n)
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	spun.Store(x)
}

// BenchmarkDataResume is the time to the first batch after a resume at batch 10^6, beside that of a fresh start: wanted
// is at most 1.5.
func BenchmarkDataResume(b *testing.B) {
	same := func(_ data.Sample, x int) (int, error) { return x, nil }
	p := data.Map(data.Shuffle(data.From(data.Source[int](indices(1<<30))), 42), same)
	batches := data.Batches(p, 128, func(x []int) (int, error) { return x[0], nil }, data.Epochs(data.Forever))
	it := begun(batches, nil)
	take(it, 1, nothing)
	state := it.State()
	it.Close()
	var at map[string]any
	must(json.Unmarshal(state, &at))
	at["batch"], at["position"] = 1_000_000, 128_000_000
	late, err := json.Marshal(at)
	must(err)
	first := func(state []byte) func() time.Duration {
		return func() time.Duration {
			begin := time.Now()
			for range 20 {
				it := begun(batches, state)
				take(it, 1, nothing)
				it.Close()
			}
			return time.Since(begin) / 20
		}
	}
	took := turns(b, first([]byte(nil)), first(late))
	b.ReportMetric(float64(took[1].Nanoseconds()), "ns/resume")
	b.ReportMetric(float64(took[1])/float64(took[0]), "of-fresh")
}

// BenchmarkDataTar reads the samples of a tar file of 64 MiB in order, beside reading the file: wanted is 0.8.
func BenchmarkDataTar(b *testing.B) {
	path := filepath.Join(b.TempDir(), "shard.tar")
	file, err := os.Create(path)
	must(err)
	w := tar.NewWriter(file)
	content := make([]byte, 64<<10)
	for i := range 1024 {
		must(w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%04d.jpg", i), Size: int64(len(content)), Mode: 0o644}))
		_, err := w.Write(content)
		must(err)
	}
	must(w.Close())
	must(file.Close())
	samples, err := data.OpenTar(path)
	must(err)
	defer samples.Close()
	took := turns(b, timed(func() {
		f, err := os.Open(path)
		must(err)
		defer f.Close()
		for { // samples are kept by who asks for them, so memory is new here, too
			if _, err := io.ReadFull(f, make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}), timed(func() {
		for i := range samples.Len() {
			_, err := samples.At(i)
			must(err)
		}
	}))
	b.ReportMetric(float64(took[0])/float64(took[1]), "of-reading")
}

// BenchmarkDataLoader makes shuffled batches of 128 of Fashion-MNIST with two workers, beside PyTorch's DataLoader with
// two, where that is installed, over bytes in memory: batches a second, wanted 3 times as many.
func BenchmarkDataLoader(b *testing.B) {
	images, _ := fashionImages()
	const n = 200
	loader := &data.Loader{Dataset: images, BatchSize: 128, Shuffle: true, Epochs: data.Forever, Workers: 2}
	ours := func() time.Duration {
		began, count := time.Time{}, 0
		for _, err := range loader.Batches(context.Background()) {
			must(err)
			if count++; count == 1 {
				began = time.Now()
			} else if count > n {
				break
			}
		}
		return time.Since(began)
	}
	peer, err := torch("")
	if err != nil || peer.facts.Error != "" || !slices.Contains(peer.facts.Benches, "loader") {
		took := turns(b, ours)
		b.ReportMetric(n/took[0].Seconds(), "batches/s")
		b.Skip("no PyTorch to compare with: ", err)
	}
	took := turns(b, ours, func() time.Duration {
		a, err := peer.ask(map[string]any{"bench": "loader", "batches": n})
		must(err)
		return time.Duration(a.Seconds[0] * float64(time.Second))
	})
	b.ReportMetric(n/took[0].Seconds(), "batches/s")
	b.ReportMetric(float64(took[1])/float64(took[0]), "of-PyTorch")
}

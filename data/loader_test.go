package data

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// inputs lists the inputs of all batches of a loader over counting, and the size of each batch.
func inputs(t *testing.T, l *Loader) (all []float32, sizes []int) {
	t.Helper()
	for batch, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n := batch.X.Shape()[0]
		x, y := values[float32](t, batch.X, n), values[int64](t, batch.Y, n)
		for i := range x {
			if y[i] != int64(10*x[i]) {
				t.Fatalf("input %v comes with target %v", x[i], y[i])
			}
		}
		all, sizes = append(all, x...), append(sizes, n)
	}
	return all, sizes
}

func TestLoaderInOrder(t *testing.T) {
	l := &Loader{Dataset: counting(7), BatchSize: 3}
	all, sizes := inputs(t, l)
	if !slices.Equal(all, []float32{0, 1, 2, 3, 4, 5, 6}) || !slices.Equal(sizes, []int{3, 3, 1}) ||
		l.BatchesPerEpoch() != 3 {
		t.Errorf("inputs %v in batches of %v", all, sizes)
	}
	l.DropLast = true
	all, sizes = inputs(t, l)
	if !slices.Equal(all, []float32{0, 1, 2, 3, 4, 5}) || !slices.Equal(sizes, []int{3, 3}) ||
		l.BatchesPerEpoch() != 2 {
		t.Errorf("with DropLast inputs %v in batches of %v", all, sizes)
	}
	if got := (&Loader{}).BatchesPerEpoch(); got != 0 {
		t.Errorf("a loader of nothing has %d batches", got)
	}
}

func TestLoaderShuffle(t *testing.T) {
	const n = 100
	l := &Loader{Dataset: counting(n), BatchSize: 16, Shuffle: true, Seed: 1, Epochs: 3}
	all, _ := inputs(t, l)
	var epochs [][]float32
	for epoch := range slices.Chunk(all, n) {
		epochs = append(epochs, slices.Clone(epoch))
		slices.Sort(epoch)
		for i, v := range epoch {
			if v != float32(i) {
				t.Fatalf("epoch %d does not hold every example once", len(epochs)-1)
			}
		}
	}
	again, _ := inputs(t, l)
	if !slices.Equal(again[:n], epochs[0]) || !slices.Equal(again[2*n:], epochs[2]) {
		t.Error("the same seed gives another order")
	}
	l.Seed = 2
	other, _ := inputs(t, l)
	for i, epoch := range epochs {
		if slices.IsSorted(epoch) || slices.Equal(epoch, epochs[(i+1)%3]) || slices.Equal(epoch, other[i*n:(i+1)*n]) {
			t.Errorf("epoch %d is sorted, or equal to another epoch or that of another seed", i)
		}
	}
}

func TestLoaderStart(t *testing.T) {
	whole := &Loader{Dataset: counting(10), BatchSize: 4, Shuffle: true, Seed: 5, Epochs: 3}
	all, sizes := inputs(t, whole)
	used := 0
	for start := range 9 {
		rest := *whole
		rest.Start = start
		if got, _ := inputs(t, &rest); !slices.Equal(got, all[used:]) {
			t.Errorf("started at batch %d: %v, want %v", start, got, all[used:])
		}
		used += sizes[start]
	}
	whole.Start = 9
	if got, _ := inputs(t, whole); len(got) != 0 {
		t.Errorf("started at the end: %v", got)
	}
}

func TestLoaderBatch(t *testing.T) {
	l := &Loader{Dataset: counting(10), BatchSize: 4, Shuffle: true, Seed: 5, Epochs: 2}
	for want, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Batch(want.Epoch, want.Index)
		if err != nil {
			t.Fatal(err)
		}
		shape := want.X.Shape()
		if !slices.Equal(values[float32](t, got.X, shape...), values[float32](t, want.X, shape...)) ||
			got.Epoch != want.Epoch || got.Index != want.Index {
			t.Errorf("epoch %d, batch %d differs", want.Epoch, want.Index)
		}
	}
	for _, at := range [][2]int{{-1, 0}, {0, -1}, {0, 3}} {
		_, err := l.Batch(at[0], at[1])
		wantError(t, err, fmt.Sprintf("no batch %d in epoch %d", at[1], at[0]), "has 3 batches")
	}
}

func TestLoaderForever(t *testing.T) {
	seen := 0
	for batch, err := range (&Loader{Dataset: counting(2), BatchSize: 2, Epochs: Forever}).Batches(t.Context()) {
		if err != nil || batch.Epoch != seen || batch.Index != 0 {
			t.Fatalf("batch %d of epoch %d, error %v; want epoch %d", batch.Index, batch.Epoch, err, seen)
		}
		if seen++; seen == 1000 {
			break
		}
	}
}

func TestLoaderRefusesWrongFields(t *testing.T) {
	none := &Arrays[float32, int64]{}
	for _, c := range []struct {
		l    Loader
		says []string
	}{
		{Loader{}, []string{"BatchSize is 0, want at least 1", "no Dataset"}},
		{Loader{Dataset: counting(3), BatchSize: -1, Epochs: -2, Start: -3},
			[]string{"BatchSize is -1", "Epochs is -2", "Start is -3"}},
		{Loader{Dataset: none, BatchSize: 1}, []string{"the dataset has no examples"}},
		{Loader{Dataset: counting(3), BatchSize: 4, DropLast: true},
			[]string{"DropLast leaves nothing: the dataset has 3 examples, a batch 4"}},
	} {
		n := 0
		for batch, err := range c.l.Batches(t.Context()) {
			n++
			wantError(t, err, c.says...)
			if batch.X != nil {
				t.Error("a batch beside an error")
			}
		}
		if n != 1 {
			t.Errorf("%d errors, want 1", n)
		}
		_, err := c.l.Batch(0, 0)
		wantError(t, err, c.says...)
	}
}

// breaking is a dataset that fails at one example.
type breaking struct {
	Dataset
	at  int
	err error
}

func (b breaking) Batch(indices []int) (Batch, error) {
	if slices.Contains(indices, b.at) {
		return Batch{}, b.err
	}
	return b.Dataset.Batch(indices)
}

func TestLoaderErrorAtItsBatch(t *testing.T) {
	broken := errors.New("disk on fire")
	good, bad := 0, 0
	l := &Loader{Dataset: breaking{counting(10), 5, broken}, BatchSize: 2, Epochs: 2}
	for _, err := range l.Batches(t.Context()) {
		if err == nil {
			good++
			continue
		}
		bad++
		if !errors.Is(err, broken) {
			t.Errorf("error %v hides its cause", err)
		}
		wantError(t, err, "epoch 0, batch 2: disk on fire")
	}
	if good != 2 || bad != 1 {
		t.Errorf("%d batches and %d errors, want 2 and 1", good, bad)
	}
}

func TestLoaderStopsOnContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	good, bad := 0, 0
	for _, err := range (&Loader{Dataset: counting(10), BatchSize: 1, Epochs: Forever}).Batches(ctx) {
		if err == nil {
			if good++; good == 3 {
				cancel(why)
			}
			continue
		}
		if bad++; !errors.Is(err, why) {
			t.Errorf("error %v, want the cause", err)
		}
	}
	if good != 3 || bad != 1 {
		t.Errorf("%d batches and %d errors, want 3 and 1", good, bad)
	}
}

func TestLoaderSharesNoMemory(t *testing.T) {
	l := &Loader{Dataset: counting(6), BatchSize: 2, Epochs: 2}
	var held []Batch
	for batch, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		memory[float32](batch.X)[0] = -1 // a user who overwrites a batch harms nobody else
		held = append(held, batch)
	}
	for k, batch := range held {
		if got, want := values[float32](t, batch.X, 2), []float32{-1, float32(2*(k%3) + 1)}; !slices.Equal(got, want) {
			t.Errorf("batch %d is %v, want %v", k, got, want)
		}
	}
}

func TestLoadersAtTheSameTime(t *testing.T) {
	train, _, err := Digits(1)
	if err != nil {
		t.Fatal(err)
	}
	l := &Loader{Dataset: train, BatchSize: 64, Shuffle: true, Seed: 9}
	want := make([][]float32, l.BatchesPerEpoch())
	for k := range want {
		batch, err := l.Batch(0, k)
		if err != nil {
			t.Fatal(err)
		}
		want[k] = values[float32](t, batch.X, batch.X.Shape()...)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for batch, err := range l.Batches(context.Background()) {
				if err != nil || !slices.Equal(memory[float32](batch.X), want[batch.Index]) {
					t.Errorf("batch %d differs, error %v", batch.Index, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestLoaderLeaksNothing(t *testing.T) {
	d, l := counting(64), Loader{BatchSize: 8, Shuffle: true, Epochs: Forever}
	l.Dataset = d
	goroutines := runtime.NumGoroutine()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 1000 {
		n := 0
		for _, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 12 {
				break // in the middle of an epoch
			}
		}
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("heap grew from %d to %d bytes", before, after)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("goroutines grew from %d to %d", goroutines, now)
	}
}

func TestArraysBadInput(t *testing.T) {
	for _, c := range []struct {
		x      []float32
		xShape []int
		y      []int64
		yShape []int
		says   string
	}{
		{nil, nil, nil, nil, "x: 0 values are not a whole number of examples"},
		{make([]float32, 6), []int{4}, make([]int64, 2), nil,
			"x: 6 values are not a whole number of examples of shape [4], 4 values each"},
		{make([]float32, 6), []int{2, 0}, make([]int64, 2), nil, "x: example shape [2 0], want every size at least 1"},
		{make([]float32, 6), []int{-1}, make([]int64, 2), nil, "want every size at least 1"},
		{make([]float32, 6), []int{1 << 62, 8}, make([]int64, 2), nil, "not even one example"},
		{make([]float32, 6), []int{3}, make([]int64, 3), nil, "x holds 2 examples of shape [3], y holds 3 of shape []"},
	} {
		_, err := NewArrays(c.x, c.xShape, c.y, c.yShape)
		wantError(t, err, c.says)
	}
	d := counting(3)
	for _, c := range []struct {
		indices []int
		says    string
	}{
		{nil, "at least one index"},
		{[]int{0, 3}, "index 3 (number 1 of the batch) is outside [0, 3)"},
		{[]int{-1}, "index -1"},
	} {
		_, err := d.Batch(c.indices)
		wantError(t, err, c.says)
	}
}

func TestArraysShapes(t *testing.T) {
	d, err := NewArrays([]float64{1, 2, 3, 4, 5, 6, 7, 8}, []int{2, 2}, []float32{10, 20}, []int{1})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := d.Batch([]int{1, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := values[float64](t, batch.X, 3, 2, 2); !slices.Equal(got, []float64{5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("X is %v", got)
	}
	if got := values[float32](t, batch.Y, 3, 1); !slices.Equal(got, []float32{20, 10, 20}) {
		t.Errorf("Y is %v", got)
	}
}

func BenchmarkFashionMNISTBatch(b *testing.B) {
	pixels, labels := make([]uint8, 60000*784), make([]uint8, 60000)
	d, err := NewImages(pixels, 784, labels, 255, 10)
	if err != nil {
		b.Fatal(err)
	}
	l := &Loader{Dataset: d, BatchSize: 128, Shuffle: true}
	for i := range b.N {
		if _, err := l.Batch(0, i%468); err != nil {
			b.Fatal(err)
		}
	}
}

// A context that is done after the last batch is no error: the loop has seen every batch.
func TestLoaderDoneAtTheEnd(t *testing.T) {
	for _, workers := range []int{0, 2} {
		ctx, cancel := context.WithCancel(t.Context())
		l := Loader{Dataset: counting(10), BatchSize: 5, Workers: workers}
		n := 0
		for _, err := range l.Batches(ctx) {
			if n++; err != nil {
				t.Errorf("%d workers, batch %d: %v", workers, n, err)
			}
			if n == 2 {
				cancel()
			}
		}
		cancel()
	}
}

package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/weft-ml/weft/internal/seam"
	_ "github.com/weft-ml/weft/kernels/null"
	"github.com/weft-ml/weft/tensor"
)

// nested is a batch with tensors in all that may hold them.
type nested struct {
	X     *tensor.Tensor
	Parts []*tensor.Tensor
	Named map[string]*tensor.Tensor
	Inner *struct{ Y, None *tensor.Tensor }
	N     int
	own   *tensor.Tensor
}

func nestedOf(examples []float32) (nested, error) {
	of := func(scale float32) *tensor.Tensor {
		v := slices.Clone(examples)
		for i := range v {
			v[i] *= scale
		}
		return tensor.FromSlice(v, len(v))
	}
	return nested{of(1), []*tensor.Tensor{of(2), of(3)}, map[string]*tensor.Tensor{"a": of(4)},
		&struct{ Y, None *tensor.Tensor }{Y: of(5)}, len(examples), of(6)}, nil
}

// tensors are those of the batch that can be uploaded.
func (b nested) tensors() []*tensor.Tensor {
	return []*tensor.Tensor{b.X, b.Parts[0], b.Parts[1], b.Named["a"], b.Inner.Y}
}

// device is one that the test closes.
func device(t *testing.T, name string) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// On the CPU nothing is copied, and batches last.
func TestSlotsOnCPU(t *testing.T) {
	source := make(Slice[float32], 20)
	for i := range source {
		source[i] = float32(i)
	}
	var made []*tensor.Tensor
	collate := func(x []float32) (nested, error) {
		b, err := nestedOf(x)
		made = append(made, b.tensors()...)
		return b, err
	}
	got, _, err := collect(t, Batches(From(source), 6, collate, Workers(0), On(device(t, "cpu"))), nil)
	if err != nil || len(got) != 4 {
		t.Fatal(len(got), err)
	}
	var all []*tensor.Tensor
	for _, b := range got {
		all = append(all, b.tensors()...)
	}
	if !slices.Equal(all, made) {
		t.Error("the batches are not those that were collated")
	}
}

// rising is a dataset of n examples of so many numbers, which count up.
func rising(t *testing.T, n, size int) *Arrays[float32, int64] {
	x := make([]float32, n*size)
	for i := range x {
		x[i] = float32(i)
	}
	set, err := NewArrays(x, []int{size}, make([]int64, n), nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// On the CPU batches that functions of this package make end with their turn, and later ones have their memory, with
// the values they would have else. What is kept, held by the program or in a cache lasts.
func TestRecycledBatches(t *testing.T) {
	dev := device(t, "cpu")
	set := rising(t, 64, 500)
	sum := func(b Batch) (got float64) {
		if err := dev.Eval(func(s *tensor.Scope) error { got = s.In(b.X).Sum().Item(); return nil }); err != nil {
			t.Fatal(err)
		}
		return got
	}
	refs := []int{0, 0, 63, 5, 1, 17, 62, 5, 2, 34, 61, 5, 3, 51, 60, 5}
	of := func(_ Sample, k int) (Batch, error) { return set.Batch(refs[4*k:][:4]) }
	held := func() (all []Batch) {
		for k := range 4 {
			b, err := of(Sample{}, k)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b)
		}
		return all
	}
	var want []float64
	for _, b := range held() {
		want = append(want, sum(b))
	}
	numbers := Slice[int]{0, 1, 2, 3}
	ordered := FromStream(heldStream[int](numbers))
	all := held()
	own := func(k []int) (Batch, error) { return all[k[0]], nil }
	one := func(b []Batch) (Batch, error) { return b[0], nil }
	options := []BatchOption{Epochs(3), On(dev)}
	for name, c := range map[string]struct {
		batches *Batched[Batch]
		lasts   bool
	}{
		"made":              {Batches(From(Slice[int](refs)), 4, set.Batch, append(options, Workers(0))...), false},
		"by workers":        {Batches(From(Slice[int](refs)), 4, set.Batch, append(options, Workers(2))...), false},
		"held":              {Batches(From(Slice[Batch](held())), 1, one, options...), true},
		"held by streams":   {Batches(FromStream(heldStream[Batch](held())), 1, one, options...), true},
		"held by functions": {Batches(From(numbers), 1, own, options...), true},
		"cached":            {Batches(Cache(Map(From(numbers), of), 4), 1, one, options...), true},
		"cached of streams": {Batches(Cache(Map(ordered, of), 4), 1, one, options...), true},
	} {
		t.Run(name, func(t *testing.T) {
			it, err := c.batches.Start(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer it.Close()
			n, last, kept := 0, Batch{}, (*tensor.Tensor)(nil)
			memory := map[*byte]bool{} // of batches
			for b, err := range it.All() {
				if err != nil {
					t.Fatal(err)
				}
				if got := sum(b); got != want[n%4] {
					t.Errorf("batch %d: the sum is %v, want %v", n, got, want[n%4])
				}
				if n > 0 && n != 6 {
					err := dev.Eval(func(s *tensor.Scope) error { s.In(last.X); return nil })
					if c.lasts != (err == nil) || err != nil && !errors.Is(err, tensor.ErrStep) {
						t.Errorf("an earlier batch: %v", err)
					}
				}
				memory[unsafe.SliceData(engine.Bytes(b.X))] = true
				if last, n = b, n+1; n == 6 {
					kept = b.X.Keep()
				}
			}
			if got := sum(Batch{X: kept}); n != 12 || got != want[1] {
				t.Errorf("%d batches; the sum of what is kept is %v, want %v", n, got, want[1])
			}
			if !c.lasts && !raceEnabled && len(memory) > 8 {
				t.Errorf("12 batches had %d places in memory", len(memory))
			}
		})
	}
}

// Memory that is used again has nothing of its last batch in the padding.
func TestRecycledPadding(t *testing.T) {
	for range 20 {
		s, err := newRows(37, 11)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.x {
			if s.x[i] != 0 || s.positions[i] != 0 || s.segments[i] != 0 || s.y[i] != seam.IgnoreIndex {
				t.Fatalf("element %d is %d, %d, %d, %d", i, s.x[i], s.positions[i], s.segments[i], s.y[i])
			}
			s.x[i], s.y[i], s.positions[i], s.segments[i] = -1, -1, -1, -1
		}
		for _, x := range []*tensor.Tensor{s.X, s.Y, s.Positions, s.Segments} {
			engine.Recycle(x, 0)
		}
	}
}

// heldStream is a stream of what the program has.
type heldStream[T any] []T

func (s heldStream[T]) Open(_ context.Context, _ int, cursor string) (StreamReader[T], error) {
	at, _ := strconv.Atoi(cursor)
	return &heldReader[T]{s, at}, nil
}

type heldReader[T any] struct {
	held []T
	at   int
}

func (r *heldReader[T]) Next() (x T, cursor string, err error) {
	if r.at == len(r.held) {
		return x, "", io.EOF
	}
	r.at++
	return r.held[r.at-1], strconv.Itoa(r.at), nil
}

func (r *heldReader[T]) Close() error { return nil }

// A step that is under way when its batch ends computes with the values it had.
func TestRecycledBesideStep(t *testing.T) {
	dev := device(t, "cpu")
	loader := &Loader{Dataset: rising(t, 8, 8), BatchSize: 1, Device: dev}
	began, over := make(chan struct{}), make(chan struct{})
	var got []float32
	var first Batch
	n := 0
	for b, err := range loader.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			go dev.Eval(func(s *tensor.Scope) error {
				defer close(began)
				x := engine.Bytes(s.In(b.X))
				began <- struct{}{}
				<-over
				got = slices.Clone(seam.Elems[float32](x))
				return nil
			})
			<-began
			first, n = b, 1
			continue
		}
		use := func(s *tensor.Scope) error { s.In(first.X); return nil }
		if err := dev.Eval(use); !errors.Is(err, tensor.ErrStep) {
			t.Errorf("the first batch beside a later one: %v", err)
		}
	}
	close(over)
	<-began
	if !slices.Equal(got, []float32{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("the step has %v", got)
	}
}

// On a device with memory of its own each batch is there until the next one is asked for, for any number of workers,
// with the position and errors of its batch; nothing is left at the end.
func TestSlots(t *testing.T) {
	dev := device(t, "null")
	source := make(Slice[float32], 40)
	for _, workers := range []int{0, 1, 4} {
		before := dev.Stats().Memory.Blocks
		it, err := Batches(From(source), 6, nestedOf, Workers(workers), Epochs(2), On(dev)).Start(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var last []*tensor.Tensor
		n := 0
		for b, err := range it.All() {
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range b.tensors() {
				if x.Device().Name() != "null" || x.Len() != b.N {
					t.Fatalf("tensor %d of a batch of %d is %v on %v", i, b.N, x, x.Device())
				}
			}
			if b.own.Device() != nil || b.Inner.None != nil {
				t.Error("what is not exported, or nil, has changed")
			}
			for _, x := range last {
				err := dev.Eval(func(s *tensor.Scope) error { s.In(x); return nil })
				wantError(t, err, "is of an earlier batch, whose memory the next ones have", "Keep it")
				if !errors.Is(err, tensor.ErrStep) {
					t.Error(err)
				}
			}
			last = b.tensors()
			kept := last[0].Keep()
			defer func() {
				if err := dev.Eval(func(s *tensor.Scope) error { s.In(kept); return nil }); err != nil {
					t.Errorf("what was kept: %v", err)
				}
			}()
			if epoch, k := it.Position(); epoch != n/7 || k != n%7 {
				t.Errorf("batch %d is number %d of epoch %d", n, k, epoch)
			}
			n++
		}
		it.Close()
		if n != 14 {
			t.Errorf("%d batches", n)
		}
		wantError(t, dev.Eval(func(s *tensor.Scope) error { s.In(last[1]); return nil }), "is of an earlier batch")
		if after := dev.Stats().Memory.Blocks; after-before > 14 {
			t.Errorf("%d workers: %d blocks are live, and 14 kept", workers, after-before)
		}
	}
}

// Iterations that are broken off, fail or are cancelled leave no goroutine and no memory of the device.
func TestSlotsEnd(t *testing.T) {
	dev := device(t, "null")
	source := make(Slice[float32], 40)
	goroutines, blocks := runtime.NumGoroutine(), dev.Stats().Memory.Blocks
	failing := func(x []float32) (nested, error) { return nested{}, errors.New("no batch") }
	ending := func(x []float32) (nested, error) { runtime.Goexit(); return nested{}, nil }
	rounds := 1000
	if raceEnabled {
		rounds = 60
	}
	for round := range rounds {
		collate, want := nestedOf, ""
		ctx, cancel := context.WithCancel(t.Context())
		switch round % 4 {
		case 1:
			collate, want = failing, "data: epoch 0, batch 0: "
		case 2:
			collate, want = ending, "ended"
		case 3:
			want = "context canceled"
		}
		it, err := Batches(From(source), 3, collate, Workers(round%3), Prefetch(round%5), On(dev)).Start(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err = range it.All() {
			if n++; err != nil || n > round%7 && want == "" {
				break
			}
			if n == 3 {
				cancel()
			}
		}
		if want == "" && round%7 < 3 && err != nil {
			t.Error(err)
		}
		if want != "" {
			wantError(t, err, want)
		}
		it.Close()
		it.Close()
		cancel()
	}
	for range 100 {
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n, m := runtime.NumGoroutine(), dev.Stats().Memory.Blocks; n > goroutines || m > blocks {
		t.Errorf("%d goroutines, %d blocks; before %d, %d", n, m, goroutines, blocks)
	}
}

// A device that is nil or closed is refused at the start; a Loader takes one, too.
func TestSlotsRefused(t *testing.T) {
	source := make(Slice[float32], 4)
	_, err := Batches(From(source), 2, nestedOf, On(nil)).Start(t.Context(), nil)
	wantError(t, err, "data: batches of 2: On a device that is nil")
	closed, err := tensor.Open("null")
	if err := errors.Join(err, closed.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = Batches(From(source), 2, nestedOf, On(closed)).Start(t.Context(), nil)
	if !errors.Is(err, tensor.ErrDevice) {
		t.Error(err)
	}
	loader := Loader{Dataset: counting(10), BatchSize: 4, Device: closed}
	for _, err = range loader.Batches(t.Context()) {
	}
	if !errors.Is(err, tensor.ErrDevice) {
		t.Error(err)
	}
	loader.Device = device(t, "null")
	n := 0
	for b, err := range loader.Batches(t.Context()) {
		if err != nil || b.X.Device().Name() != "null" || fmt.Sprint(b.Y.Shape()) != fmt.Sprint(b.X.Shape()) {
			t.Error(b, err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d batches", n)
	}
}

// A dataset that ends its goroutine is an error of its batch, also where the batch goes to a device.
func TestLoaderGoexit(t *testing.T) {
	dev := device(t, "null")
	var errs int
	for b, err := range (&Loader{Dataset: exiting{}, BatchSize: 2, Device: dev}).Batches(t.Context()) {
		if err != nil {
			errs++
		} else if b.X == nil {
			t.Fatal("a batch of nothing, and no error")
		}
	}
	if errs != 1 {
		t.Errorf("%d errors, want 1", errs)
	}
}

// exiting calls runtime.Goexit for the third batch.
type exiting struct{}

func (exiting) Len() int { return 8 }

func (exiting) Batch(indices []int) (Batch, error) {
	if indices[0] == 4 {
		runtime.Goexit()
	}
	return Batch{X: tensor.FromSlice([]float32{1, 2}, 2), Y: tensor.FromSlice([]int64{1, 2}, 2)}, nil
}

// What a source or a cache holds stays on the host: batches on a device are pointers, slices and maps of their own.
func TestUploadLeavesSources(t *testing.T) {
	type shared struct{ Scale *tensor.Tensor }
	type item struct {
		Batch *Batch
		Parts []*tensor.Tensor
		Named map[string]*tensor.Tensor
		All   *shared
		Empty *Batch
	}
	dev := device(t, "null")
	ones := func() *tensor.Tensor { return tensor.Ones(tensor.Float32, 2) }
	of := func(all *shared) item {
		return item{&Batch{X: ones(), Y: ones()}, []*tensor.Tensor{ones(), nil}, map[string]*tensor.Tensor{"a": ones()},
			all, nil}
	}
	tensorsOf := func(i item) []*tensor.Tensor {
		return []*tensor.Tensor{i.Batch.X, i.Batch.Y, i.Parts[0], i.Named["a"], i.All.Scale}
	}
	all := &shared{ones()}
	source := Slice[item]{of(all), of(all)}
	fresh := Map(From(Slice[int]{0, 1}), func(Sample, int) (item, error) { return of(all), nil })
	one := func(b []item) (item, error) { return b[0], nil }
	for name, from := range map[string]*Pipeline[item]{
		"held": From(source), "cached": Cache(fresh, 4), "fresh": fresh,
	} {
		it, err := Batches(from, 1, one, Epochs(3), On(dev)).Start(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i, err := range it.All() {
			if n++; err != nil {
				t.Fatal(err)
			}
			for _, x := range tensorsOf(i) {
				if err := dev.Eval(func(s *tensor.Scope) error { s.In(x).Sum(); return nil }); err != nil ||
					x.Device() != dev {
					t.Fatalf("%s: batch %d: %v is on %v: %v", name, n, x, x.Device(), err)
				}
			}
		}
		if it.Close(); n != 6 {
			t.Errorf("%s: %d batches", name, n)
		}
	}
	for _, i := range source {
		for _, x := range tensorsOf(i) {
			if got := tensor.ToSlice[float32](x); x.Device() != nil || got[0] != 1 {
				t.Errorf("%v of the source is on %v", x, x.Device())
			}
		}
	}
}

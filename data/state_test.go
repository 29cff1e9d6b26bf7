package data

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

var _ Resumable = (*Loader)(nil)

// Stopped after each batch, at ends of epochs too, and twice in one epoch, a loader delivers the same batches.
func TestLoaderRestore(t *testing.T) {
	fresh := func() *Loader {
		return &Loader{Dataset: counting(10), BatchSize: 3, Shuffle: true, Seed: 9, Epochs: 3}
	}
	whole, _ := inputs(t, fresh())
	for stop := range 13 {
		for again := range 3 {
			var all []float32
			take := func(l *Loader, n int) []byte {
				for batch, err := range l.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if n == 0 {
						t.Fatal("a batch too many")
					}
					all = append(all, memory[float32](batch.X)...)
					if n--; n == 0 {
						break
					}
				}
				state, err := l.State()
				if err != nil {
					t.Fatal(err)
				}
				return state
			}
			l, left := fresh(), 12
			for _, n := range []int{stop, again} {
				n = min(n, left)
				left -= n
				var state []byte
				if n > 0 {
					state = take(l, n)
				} else {
					state, _ = l.State()
				}
				l = fresh()
				if err := l.Restore(state); err != nil {
					t.Fatal(err)
				}
				if now, _ := l.State(); string(now) != string(state) {
					t.Errorf("restored %s, have %s", state, now)
				}
			}
			take(l, left)
			if !slices.Equal(all, whole) {
				t.Errorf("stopped after %d and %d batches: %v, want %v", stop, again, all, whole)
			}
		}
	}
}

// An error is no batch: a resumed run reads it again.
func TestLoaderStateAfterError(t *testing.T) {
	l := &Loader{Dataset: unreadable{counting(10), 5}, BatchSize: 2}
	for _, err := range l.Batches(t.Context()) {
		if err != nil {
			break
		}
	}
	if state, _ := l.State(); !strings.HasPrefix(string(state), `{"batches":2,`) {
		t.Errorf("state %s", state)
	}
}

// unreadable has an error at one example.
type unreadable struct {
	Dataset
	at int
}

func (f unreadable) Batch(indices []int) (Batch, error) {
	if slices.Contains(indices, f.at) {
		return Batch{}, errors.New("unreadable")
	}
	return f.Dataset.Batch(indices)
}

func TestLoaderRestoreRefuses(t *testing.T) {
	good := `{"batches":2,"examples":10,"batch_size":3,"shuffle":true,"seed":9,"drop_last":false}`
	for _, c := range [][3]string{
		{`"batches":2`, `"batches":-1`, "batches: found -1, want at most 8"},
		{`"batches":2`, `"batches":9`, "batches: found 9, want at most 8"},
		{`"examples":10`, `"examples":11`, "examples: found 11, want 10"},
		{`"batch_size":3`, `"batch_size":4`, "batch size: found 4, want 3"},
		{`true`, `false`, "shuffle: found false, want true"},
		{`"seed":9`, `"seed":8`, "seed: found 8, want 9"},
		{`"drop_last":false`, `"drop_last":true`, "drop last: found true, want false"},
		{`"drop_last":false`, `"worker":1`, "unknown field"},
		{good, good + good, "more than one value"},
		{good, "{}", "examples: found 0"},
		{good, "", "EOF"},
	} {
		l := &Loader{Dataset: counting(10), BatchSize: 3, Shuffle: true, Seed: 9, Epochs: 2, Start: 1}
		err := l.Restore([]byte(strings.Replace(good, c[0], c[1], 1)))
		wantError(t, err, "state of a loader: ", c[2])
		var typed *FormatError
		if !errors.As(err, &typed) || l.Start != 1 {
			t.Errorf("%T %v, Start %d", err, err, l.Start)
		}
	}
	l := &Loader{Dataset: counting(10), BatchSize: 3, Shuffle: true, Seed: 9, Epochs: Forever}
	if err := l.Restore([]byte(strings.Replace(good, "2", "900", 1))); err != nil || l.Start != 900 {
		t.Errorf("%v, Start %d", err, l.Start)
	}
	// What the loader itself had delivered is forgotten.
	for range l.Batches(t.Context()) {
		break
	}
	if err := l.Restore([]byte(good)); err != nil {
		t.Error(err)
	}
	if state, _ := l.State(); string(state) != good {
		t.Errorf("restored %s, have %s", good, state)
	}
	wantError(t, (*Loader)(nil).Restore(nil), "it is nil")
	if _, err := (&Loader{}).State(); err == nil {
		t.Error("a loader of nothing has a state")
	}
}

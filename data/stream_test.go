package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// lines is a slice as a stream, whose cursor is a number.
type lines[T any] []T

func (s lines[T]) Open(_ context.Context, _ int, cursor string) (StreamReader[T], error) {
	at := 0
	if cursor != "" {
		var err error
		if at, err = strconv.Atoi(cursor[1:]); err != nil || cursor[0] != 'c' {
			return nil, fmt.Errorf("cursor %q", cursor)
		}
	}
	return &lineReader[T]{s, at}, nil
}

type lineReader[T any] struct {
	of lines[T]
	at int
}

func (r *lineReader[T]) Next() (x T, cursor string, err error) {
	if r.at == len(r.of) {
		return x, "", io.EOF
	}
	r.at++
	return r.of[r.at-1], fmt.Sprintf("c%d", r.at), nil
}

func (r *lineReader[T]) Close() error { return nil }

// counted is a stream of n numbers that counts what is done with it.
type counted struct {
	n                    int
	next                 func(i int) error // nil, or what happens at number i
	opened, closed, read atomic.Int64
}

func (s *counted) Fingerprint() string { return "v1" }

func (s *counted) Open(ctx context.Context, epoch int, cursor string) (StreamReader[[]int], error) {
	if epoch < 0 || ctx == nil {
		return nil, errors.New("no epoch")
	}
	at := 0
	if cursor != "" {
		at, _ = strconv.Atoi(cursor)
	}
	s.opened.Add(1)
	return &countedReader{s, at}, nil
}

type countedReader struct {
	*counted
	at int
}

func (r *countedReader) Next() ([]int, string, error) {
	if r.at == r.n {
		return nil, "", io.EOF
	}
	r.at++
	r.read.Add(1)
	var err error
	if r.next != nil {
		err = r.next(r.at - 1)
	}
	return []int{r.at - 1}, strconv.Itoa(r.at), err
}

func (r *countedReader) Close() error { r.closed.Add(1); return nil }

// counts are pipelines that read a stream in order, and how many examples they have in an epoch.
func counts(s Stream[[]int]) map[string]*Pipeline[[]int] {
	p := FromStream(s)
	odd := Filter(p, func(_ Sample, x []int) (bool, error) { return x[0]%2 > 0, nil })
	return map[string]*Pipeline[[]int]{
		"stream":     p,
		"take":       Take(odd, 70),
		"skip":       Skip(p, 20),
		"repeat":     Repeat(Take(p, 30), 5),
		"concat":     Concat(odd, From(Slice[[]int]{{1}, {2}}), p),
		"interleave": Interleave([]int{1, 2}, p, Repeat(odd, Forever)),
		"cache":      Cache(p, 40),
		"zip": Map(Zip(odd, Repeat(p, Forever)), func(_ Sample, x Pair[[]int, []int]) ([]int, error) {
			return append(x.First, x.Second...), nil
		}),
	}
}

// Iterations that are broken off leave no goroutine and no open reader, and never hang at any budget.
func TestStreamCloses(t *testing.T) {
	for name, p := range counts(&counted{n: 200}) {
		for _, workers := range []int{0, 1, 3} {
			for stop := range 12 {
				synctest.Test(t, func(t *testing.T) {
					s := &counted{n: 200}
					p = counts(s)[name]
					b := Batches(p, 7, keep, Epochs(2), Workers(workers), Prefetch(stop), MemoryBudget(1+stop*100))
					it, err := b.Start(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					left := stop * 5
					for _, err := range it.All() {
						if err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						if left--; left < 0 {
							break
						}
					}
					synctest.Wait()
					if r := it.Report(); left > 0 && r.Bytes != 0 {
						t.Errorf("%s, %d workers: %d bytes in flight at the end", name, workers, r.Bytes)
					}
					it.Close()
					if s.opened.Load() != s.closed.Load() || s.opened.Load() == 0 {
						t.Errorf("%s, %d workers, stopped after %d: %d readers opened, %d closed", name, workers, stop,
							s.opened.Load(), s.closed.Load())
					}
				})
			}
		}
	}
}

// A resume reads what the batches after it need, not what was before.
func TestResumeStream(t *testing.T) {
	for name := range counts(&counted{n: 1}) {
		s := &counted{n: 4000}
		make := func() *Batched[[][]int] {
			p := counts(s)[name]
			if name == "take" || name == "repeat" {
				p = Take(p, 1000)
			}
			return Batches(p, 2, keep, Workers(0))
		}
		want, states, err := collect(t, make(), nil)
		if err != nil {
			t.Fatal(err)
		}
		at := len(want) - 2
		s.read.Store(0)
		rest, _ := some(t, make(), states[at], 1)
		if rest[0] != fmt.Sprint(want[at]) || s.read.Load() > 16 {
			t.Errorf("%s: %s after %d reads, want %v", name, rest[0], s.read.Load(), want[at])
		}
		if len(states[at]) > 1<<10 {
			t.Errorf("%s: a state of %d bytes", name, len(states[at]))
		}
	}
}

// Faults of a stream come at their batch and name the example; those of examples may be left out.
func TestStreamFaults(t *testing.T) {
	for want, next := range map[string]func(i int) error{
		"example 13: stream *data.counted \"v1\": broken": func(i int) error {
			if i%20 == 13 {
				return errors.New("broken")
			}
			return nil
		},
		"example 13: stream *data.counted \"v1\": panic at stream_test.go:": func(i int) error {
			if i == 13 {
				panic("here")
			}
			return nil
		},
	} {
		for _, workers := range []int{0, 2} {
			p := FromStream(&counted{n: 60, next: next})
			got, states, err := collect(t, Batches(p, 5, keep, Workers(workers)), nil)
			wantError(t, err, "data: epoch 0, batch 2: ", want)
			if len(got) != 2 {
				t.Errorf("%d batches before the error", len(got))
			}
			_, _, again := collect(t, Batches(p, 5, keep), states[2])
			if fmt.Sprint(again) != fmt.Sprint(err) {
				t.Errorf("resumed: %v, want %v", again, err)
			}
			_, _, err = collect(t, Batches(p, 5, keep, Workers(workers), Tolerate(2)), nil)
			if strings.Contains(want, "panic") {
				wantError(t, err, want)
			} else {
				wantError(t, err, "epoch 0, batch 10: example 53")
			}
		}
	}
	quits := FromStream(&counted{n: 60, next: func(i int) error {
		if i == 13 {
			runtime.Goexit()
		}
		return nil
	}})
	_, _, err := collect(t, Batches(quits, 5, keep, Workers(1)), nil)
	wantError(t, err, "a Stream has ended the goroutine")
	for want, s := range map[string]Stream[int]{"the stream has opened no reader": odd{}, "cursor of 257": odd{257}} {
		_, _, err := collect(t, Batches(FromStream(s), 5, keep), nil)
		wantError(t, err, "epoch 0, batch 0: example 0", want)
	}
	_, _, err = collect(t, Batches(Repeat(FromStream(lines[int]{}), Forever), 5, keep), nil)
	wantError(t, err, "what it repeats has no examples")
	draws := 0
	if err := CheckPure(Take(FromStream(lines[int]{1, 2, 3}), 2), 9); err != nil {
		t.Error(err)
	}
	bad := Map(FromStream(lines[int]{1, 2, 3}), func(Sample, int) (int, error) { draws++; return draws, nil })
	wantError(t, CheckPure(Take(bad, 2), 9), "map func", "example 0", "another one the second time")
}

// odd is a stream with nothing right in it.
type odd struct{ cursor int }

func (s odd) Open(context.Context, int, string) (StreamReader[int], error) {
	if s.cursor == 0 {
		return nil, nil
	}
	return s, nil
}

func (s odd) Next() (int, string, error) { return 0, strings.Repeat("x", s.cursor), nil }
func (s odd) Close() error               { return nil }

// Trees of cursors that the stages cannot have made are refused.
func TestStreamRefused(t *testing.T) {
	s := &counted{n: 40}
	p := Zip(Concat(FromStream(s), Take(FromStream(s), 3)), From(make(Slice[int], 50)))
	b := Batches(p, 4, keep)
	_, states, err := collect(t, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := string(states[3])
	const cursor = `"cursor":{"from":[{"from":[{"at":12,"cursor":"12"}]},{"at":12}]}`
	if !strings.Contains(state, cursor) {
		t.Fatalf("%s", state)
	}
	for _, wrong := range []string{`"cursor":null`, `"cursor":{}`, `"cursor":{"from":[{"at":12}]}`,
		`"cursor":{"from":[{"at":2,"from":[{"at":12,"cursor":"12"}]},{"at":12}]}`,
		`"cursor":{"at":-1,"from":[{"from":[{"at":12,"cursor":"12"}]},{"at":12}]}`,
		`"cursor":{"from":[{"from":[{"at":12,"cursor":"` + strings.Repeat("1", 257) + `"}]},{"at":12}]}`,
		`"cursor":{"from":[{"from":[{"at":12,"from":[null]}]},{"at":12}]}`,
		`"cursor":{"from":[{"from":[{"at":12,"cursor":"12"}]},{"at":51}]}`,
		`"cursor":{"from":[{"from":[{"at":12,"cursor":"12"}]},{"at":12,"cursor":"1"}]}`} {
		err := b.Restore([]byte(strings.Replace(state, cursor, wrong, 1)))
		wantError(t, err, "state of a pipeline", "cursor: found")
		if _, ok := errors.AsType[*FormatError](err); !ok {
			t.Errorf("%T", err)
		}
	}
	dense := Batches(From(make(Slice[int], 50)), 4, keep)
	good, _ := dense.State()
	err = dense.Restore([]byte(strings.Replace(string(good), `"stages"`, `"cursor":{},"stages"`, 1)))
	wantError(t, err, "cursor: found")
	if err := b.Restore([]byte(state)); err != nil {
		t.Error(err)
	}
}

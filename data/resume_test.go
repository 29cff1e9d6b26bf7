package data

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// one is the batches of an iteration as a text, and their hash.
func one[B any](t *testing.T, b *Batched[B], state []byte) (list []string, sum string) {
	t.Helper()
	batches, _, err := collect(t, b, state)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range batches {
		list = append(list, fmt.Sprint(x))
	}
	return list, fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(list, "\n"))))[:16]
}

// kinds are pipelines of three epochs with random numbers: one whose positions all have examples, and one with filters.
var kinds = map[string]func(...BatchOption) *Batched[[]uint64]{
	"dense":    func(o ...BatchOption) *Batched[[]uint64] { return drawing(false, o...) },
	"filtered": func(o ...BatchOption) *Batched[[]uint64] { return drawing(true, o...) },
}

// One hash of all batches with any number of workers and any depth.
func TestOrderHash(t *testing.T) {
	for name, kind := range kinds {
		_, want := one(t, kind(Workers(0)), nil)
		t.Logf("%s: hash %s", name, want)
		for _, workers := range []int{0, 1, 2, 8} {
			for _, depth := range []int{0, 1, 2, 3, 16, 64} {
				if _, got := one(t, kind(Workers(workers), Prefetch(depth)), nil); got != want {
					t.Errorf("%s, %d workers, depth %d: hash %s", name, workers, depth, got)
				}
			}
		}
	}
}

// some is the next n batches after a state, and the state after them.
func some[B any](t *testing.T, b *Batched[B], state []byte, n int) (list []string, after []byte) {
	t.Helper()
	it, err := b.Start(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	if n == 0 {
		return nil, it.State()
	}
	for batch, err := range it.All() {
		if err != nil {
			t.Fatal(err)
		}
		if list = append(list, fmt.Sprint(batch)); len(list) == n {
			break
		}
	}
	return list, it.State()
}

// Resumed after any batch, also right after a resume and three times in one epoch, each time with other workers and
// another depth, a run has the batches of the unbroken one.
func TestResume(t *testing.T) {
	for name, kind := range kinds {
		want, hash := one(t, kind(), nil)
		t.Logf("%s: %d batches, hash %s", name, len(want), hash)
		for at := range len(want) + 1 {
			var got []string
			var state []byte
			for part, n := range []int{at, 0, 1, 1, len(want)} {
				var list []string
				list, state = some(t, kind(Workers((at+part)%4), Prefetch((at+3*part)%9)), state, n)
				if got = append(got, list...); len(state) > 4<<10 {
					t.Errorf("a state of %d bytes", len(state))
				}
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Fatalf("%s, broken after %d: %d batches\n%v, want\n%v", name, at, len(got), got, want)
			}
		}
	}
}

// reads counts the examples that are read.
type reads struct {
	Slice[int]
	n *int
}

func (r reads) At(i int) (int, error) { *r.n++; return r.Slice.At(i) }

// The first batch after a resume at batch 1,000,000 reads what the first of all reads.
func TestResumeCost(t *testing.T) {
	s := make(Slice[int], 1000)
	for i := range s {
		s[i] = i
	}
	for _, filtered := range []bool{false, true} {
		n := 0
		p := Repeat(Shuffle(From(reads{s, &n}), 1), Forever)
		if filtered {
			p = Filter(p, func(Sample, int) (bool, error) { return true, nil })
		}
		cost := func(state []byte) (list []string, after string, read int) {
			n = 0
			list, end := some(t, Batches(p, 4, keep, Workers(0)), state, 1)
			return list, string(end), n
		}
		first, state, fresh := cost(nil)
		state = strings.Replace(state, `"batch":1,"position":4,`, `"batch":1000000,"position":4000000,`, 1)
		list, after, late := cost([]byte(state))
		if late != fresh || fresh > 4 || !strings.Contains(after, `"batch":1000001,"position":4000004,`) {
			t.Errorf("filtered %v: fresh %d reads, late %d; %s", filtered, fresh, late, after)
		}
		order := newPermutation(forShuffle, 1, 4000, 1000)
		want := fmt.Sprint([]int{order.at(0), order.at(1), order.at(2), order.at(3)})
		if list[0] != want || list[0] == first[0] {
			t.Errorf("filtered %v: batch 1,000,000 is %v, want %v", filtered, list[0], want)
		}
	}
}

// A checkpoint restores a description instead of giving a state to Start.
func TestResumeRestore(t *testing.T) {
	var _ Resumable = drawing(false)
	want, _ := one(t, drawing(true), nil)
	b := drawing(true)
	_, at := some(t, b, nil, 7)
	state, err := b.State()
	if err != nil || string(state) != string(at) {
		t.Fatalf("%s, %v, want %s", state, err, at)
	}
	other := drawing(true)
	if err := other.Restore(state); err != nil {
		t.Fatal(err)
	}
	if again, err := other.State(); err != nil || string(again) != string(state) {
		t.Errorf("the state restored is %s, %v, want %s", again, err, state)
	}
	if got, _ := one(t, other, nil); strings.Join(got, "\n") != strings.Join(want[7:], "\n") {
		t.Errorf("restored:\n%v, want\n%v", got, want[7:])
	}
}

// printed is a source with a fingerprint.
type printed struct {
	Slice[int]
	print string
}

func (p printed) Fingerprint() string { return p.print }

// States of other data and other descriptions are refused, and the error names the difference.
func TestResumeRefused(t *testing.T) {
	described := func(print string, seed uint64, size int, more ...BatchOption) *Batched[[]int] {
		return Batches(Shuffle(From(printed{make(Slice[int], 40), print}), seed), size, keep, more...)
	}
	b := described("abc\xff", 1, 4, Epochs(2))
	good, err := b.State()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", good)
	if err := described("abc\xff", 1, 4, Epochs(5), Workers(3), Prefetch(9), Tolerate(2)).Restore(good); err != nil {
		t.Error(err)
	}
	edit := func(old, new string) string { return strings.Replace(string(good), old, new, 1) }
	for _, c := range []struct {
		of    *Batched[[]int]
		state string
		want  []string
	}{
		{described("abd\xff", 1, 4), string(good), []string{`stage 0: found from data.printed of 40 "abc`, `"abd`}},
		{described("abc\xff", 2, 4), string(good), []string{"stage 1: found shuffle seed 1, want shuffle seed 2"}},
		{described("abc\xff", 1, 5), string(good), []string{"stage 2: found batches of 4, want batches of 5"}},
		{described("abc\xff", 1, 4, DropLast()), string(good), []string{"want batches of 4, the last dropped"}},
		{b, edit(`,"batches of 4"`, ""), []string{"stage 2: found , want batches of 4"}},
		{b, edit(`"batches of 4"`, `"batches of 4","x"`), []string{"stages: found 4, want 3"}},
		{b, edit(`"epoch":0`, `"epoch":3`), []string{"epoch: found 3, want 0 to 2"}},
		{b, edit(`"position":0`, `"position":41`), []string{"position: found 41, want 0 to 40"}},
		{b, edit(`"position":0`, `"position":-1`), []string{"position: found -1"}},
		{b, edit(`"batch":0`, `"batch":1`), []string{"batch: found 1, want 0 to 0"}},
		{b, edit(`"left_out":0`, `"left_out":-1`), []string{"left out: found -1"}},
		{b, edit(`"epoch"`, `"epok"`), []string{"text", "unknown field"}},
		{b, string(good) + "1", []string{"text", "more than one value"}},
		{b, "", []string{"text", "EOF"}},
	} {
		_, err := c.of.Start(t.Context(), []byte(c.state))
		wantError(t, err, append(c.want, "state of a pipeline")...)
		if _, ok := errors.AsType[*FormatError](err); !ok {
			t.Errorf("%T", err)
		}
		before, _ := c.of.State()
		if err := c.of.Restore([]byte(c.state)); err == nil {
			t.Errorf("%s is restored", c.state)
		}
		if after, _ := c.of.State(); string(after) != string(before) {
			t.Errorf("a state that is refused changes %s to %s", before, after)
		}
	}
	long := From(make(Slice[int], 40))
	for i := range 300 {
		long = Shuffle(long, uint64(i))
	}
	many := Batches(long, 4, keep)
	state, err := many.State()
	if err != nil || len(state) > 4<<10 {
		t.Errorf("a state of %d bytes, %v", len(state), err)
	}
	if err := many.Restore(state); err != nil {
		t.Error(err)
	}
	wantError(t, Batches(Shuffle(long, 1), 4, keep).Restore(state), "302 stages", "303 stages")
}

// damaged has errors at some examples.
type damaged struct{ Slice[int] }

func (d damaged) At(i int) (int, error) {
	if i%10 == 3 {
		return 0, &FormatError{File: "part-1", Offset: int64(100 * i), What: "size", Found: "0", Want: "1",
			Err: io.ErrUnexpectedEOF}
	}
	return d.Slice.At(i)
}

// An error comes at its batch, after all batches before it, and names file, offset and example.
func TestResumeFaults(t *testing.T) {
	s := make(Slice[int], 40)
	for i := range s {
		s[i] = i
	}
	for _, workers := range []int{0, 1, 2, 8} {
		p := Map(From(damaged{s}), func(_ Sample, x int) (int, error) { return x, nil })
		got, states, err := collect(t, Batches(Skip(p, 4), 2, keep, Workers(workers)), nil)
		wantError(t, err, "data: epoch 0, batch 4: example 13: from data.damaged of 40: part-1: byte 1300: size")
		if !errors.Is(err, io.ErrUnexpectedEOF) || fmt.Sprint(got) != "[[4 5] [6 7] [8 9] [10 11]]" {
			t.Errorf("%d workers: %v before %v", workers, got, err)
		}
		// What comes again after a resume is the same.
		_, _, again := collect(t, Batches(Skip(p, 4), 2, keep, Workers(workers)), states[2])
		if fmt.Sprint(again) != fmt.Sprint(err) {
			t.Errorf("resumed: %v, want %v", again, err)
		}
		// 3, 13 and 23 are left out, 33 is one too many: batch 3 would have it.
		tolerant := Batches(p, 10, keep, Workers(workers), Tolerate(3), Epochs(2))
		got, states, err = collect(t, tolerant, nil)
		wantError(t, err, "epoch 0, batch 3: example 33")
		if len(got) != 3 || fmt.Sprint(got[0]) != "[0 1 2 4 5 6 7 8 9 10]" || got[2][9] != 32 {
			t.Errorf("%d workers: %v", workers, got)
		}
		_, _, again = collect(t, Batches(p, 10, keep, Tolerate(3)), states[2])
		if fmt.Sprint(again) != fmt.Sprint(err) {
			t.Errorf("resumed: %v, want %v: those left out before count", again, err)
		}
		it, err := Batches(p, 10, keep, Workers(workers), Tolerate(8), Epochs(2)).Start(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range it.All() {
			if err != nil {
				t.Error(err)
			}
		}
		if it.LeftOut() != 8 {
			t.Errorf("%d left out, want 8", it.LeftOut())
		}
		it.Close()
	}
}

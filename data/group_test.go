package data

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// numbers is a pipeline of n numbers in random order, a third left out if it is filtered.
func numbers(n int, filtered bool) *Pipeline[int] {
	s := make(Slice[int], n)
	for i := range s {
		s[i] = i + 1
	}
	p := Shuffle(From(s), 3)
	if filtered {
		p = Filter(p, func(_ Sample, x int) (bool, error) { return x%3 != 1, nil })
	}
	return p
}

// All ranks together have the batches of one, for any number of ranks, in as many steps and with as many rows each;
// rows that fill are marked. A run goes on with another number of ranks after any batch.
func TestOrderRanks(t *testing.T) {
	negative := FillLast(func(x int) int { return -x })
	for _, filtered := range []bool{false, true} {
		for _, last := range []BatchOption{DropLast(), negative} {
			with := func(rank, ranks, workers int) *Batched[[]int] {
				return Batches(numbers(50, filtered), 8, keep, Rank(rank, ranks), last, Epochs(2), Workers(workers))
			}
			want, _, err := collect(t, with(0, 1, 0), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, hash := one(t, with(0, 1, 0), nil)
			t.Logf("filtered %v: %d batches, hash %s", filtered, len(want), hash)
			marked := 0
			for _, b := range want {
				for i, x := range b {
					if x < 0 {
						marked++
						if x != -b[0] {
							t.Errorf("row %d of %v is no mark of the first", i, b)
						}
					}
				}
			}
			fill := map[bool]int{false: 2 * (8 - 50%8), true: 2 * (8 - 33%8)}[filtered] // of 50 or 33
			if marked != 0 && marked != fill {
				t.Errorf("filtered %v: %d rows are marked, want %d", filtered, marked, fill)
			}
			for at := range len(want) + 1 {
				_, state := some(t, with(1, 2, 1), nil, at)
				for _, ranks := range []int{1, 2, 4, 8} {
					got := make([][]int, len(want)-at)
					for rank := range ranks {
						part, _, err := collect(t, with(rank, ranks, at%3), state)
						if err != nil || len(part) != len(got) {
							t.Fatalf("rank %d of %d: %d batches, want %d, %v", rank, ranks, len(part), len(got), err)
						}
						for i, b := range part {
							if got[i] = append(got[i], b...); len(b) != 8/ranks {
								t.Fatalf("rank %d of %d: %d rows", rank, ranks, len(b))
							}
						}
					}
					if fmt.Sprint(got) != fmt.Sprint(want[at:]) {
						t.Fatalf("%d ranks from batch %d: %v, want %v", ranks, at, got, want[at:])
					}
				}
			}
		}
	}
	p := numbers(50, false)
	for want, o := range map[string][]BatchOption{
		"ranks need DropLast or FillLast": {Rank(0, 2)},
		"multiple of the 3 ranks":         {Rank(0, 3), DropLast()},
		"rank 2 of 2":                     {Rank(2, 2), DropLast()},
		"rank 0 of 0":                     {Rank(0, 0)},
		"dropped or filled":               {negative, DropLast()},
		"FillLast has func(string) string, want func(int) int": {FillLast(func(x string) string { return x })},
	} {
		_, err := Batches(p, 8, keep, o...).Start(t.Context(), nil)
		wantError(t, err, want)
	}
}

// Ranks of a Loader have the rows of its batches; those that fill the last one have no target.
func TestOrderLoaderRanks(t *testing.T) {
	whole := Loader{Dataset: counting(21), BatchSize: 8, Shuffle: true, Seed: 1, Epochs: 2}
	for _, ranks := range []int{1, 2, 4} {
		for k := range 6 {
			want, err := whole.Batch(k/3, k%3)
			if err != nil {
				t.Fatal(err)
			}
			var x []float32
			var y []int64
			filled := 0
			for rank := range ranks {
				l := whole
				l.Rank, l.Ranks = rank, ranks
				b, err := l.Batch(k/3, k%3)
				if err != nil || ranks > 1 && b.X.Dim(0) != 8/ranks {
					t.Fatalf("rank %d of %d: %v, %v", rank, ranks, b.X, err)
				}
				n := b.X.Dim(0) - b.Filled
				for i, v := range tensor.ToSlice[int64](b.Y) {
					if (i >= n) != (v == seam.IgnoreIndex) {
						t.Errorf("rank %d of %d: targets %v, %d filled", rank, ranks, b.Y, b.Filled)
					}
					if i >= n && tensor.ToSlice[float32](b.X)[i] != tensor.ToSlice[float32](want.X)[0] {
						t.Errorf("rank %d of %d: row %d does not repeat the first one", rank, ranks, i)
					}
				}
				x, y = append(x, tensor.ToSlice[float32](b.X)[:n]...), append(y, tensor.ToSlice[int64](b.Y)[:n]...)
				filled += b.Filled
			}
			if ranks > 1 && filled != 8-len(x) || !slices.Equal(x, tensor.ToSlice[float32](want.X)) ||
				!slices.Equal(y, tensor.ToSlice[int64](want.Y)) {
				t.Errorf("%d ranks, batch %d: %v %v, %d filled, want %v", ranks, k, x, y, filled, want)
			}
		}
	}
	wrong := whole
	wrong.Ranks = 3
	_, err := wrong.Batch(0, 0)
	wantError(t, err, "multiple of Ranks")
}

// documents is a pipeline of documents of random lengths up to longest, each with numbers of its own.
func documents(n, longest int) *Pipeline[[]int] {
	s := make(Slice[int], n)
	return Map(Shuffle(From(s), 5), func(s Sample, _ int) ([]int, error) {
		r := rand.New(rand.NewPCG(uint64(s.Index), 7))
		d := make([]int, r.IntN(longest+1))
		for i := range d {
			d[i] = 1000*(s.Index+1) + i
		}
		return d, nil
	})
}

func tokens(x []int) int { return len(x) }

// padded is what a batch of variable length is to the tests.
type padded struct {
	rows   [][]int
	length int
}

func keepPadded(rows [][]int, length int) (padded, error) {
	return padded{slices.Clone(rows), length}, nil
}

// eagerBuckets is the definition of BucketByLength, over all epochs.
func eagerBuckets(t *testing.T, p *Pipeline[[]int], how Buckets[[]int], epochs int) (out []padded) {
	t.Helper()
	all, _, err := collect(t, Batches(p, 1, keep, Epochs(epochs)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for epoch := range slices.Chunk(all, len(all)/epochs) {
		waiting := map[int][][]int{}
		emit := func(k int) {
			b := padded{waiting[k], 0}
			for _, x := range b.rows {
				b.length = max(b.length, len(x))
			}
			if how.PadToBound {
				b.length = how.Bounds[k]
			}
			out, waiting[k] = append(out, b), nil
		}
		for _, x := range epoch {
			k := 0
			for len(how.Bounds) > 0 && how.Bounds[k] < len(x[0]) {
				k++
			}
			longest := len(x[0])
			for _, y := range waiting[k] {
				longest = max(longest, len(y))
			}
			if how.PadToBound {
				longest = how.Bounds[k]
			}
			if how.MaxTokens > 0 && longest*(len(waiting[k])+1) > how.MaxTokens && len(waiting[k]) > 0 {
				emit(k)
			}
			if waiting[k] = append(waiting[k], x[0]); len(waiting[k]) == how.BatchSize {
				emit(k)
			}
		}
		for k := range len(how.Bounds) + 1 {
			if len(waiting[k]) > 0 {
				emit(k)
			}
		}
	}
	return out
}

var bucketings = map[string]Buckets[[]int]{
	"bounds and size":   {Length: tokens, Bounds: []int{5, 10, 20}, BatchSize: 6},
	"tokens":            {Length: tokens, MaxTokens: 64},
	"bounds and tokens": {Length: tokens, Bounds: []int{4, 8, 20}, MaxTokens: 50, PadToBound: true},
	"all of them":       {Length: tokens, Bounds: []int{10, 20}, MaxTokens: 60, BatchSize: 5},
}

// Batches of similar lengths are those of the definition, with any workers, ranks and depth, and after a resume at any
// batch, also three times in an epoch.
func TestOrderLengths(t *testing.T) {
	p := documents(90, 20)
	fill := FillLast(func([]int) []int { return []int{-1} })
	for name, how := range bucketings {
		want := eagerBuckets(t, p, how, 2)
		all := make([]string, len(want))
		for i, b := range want {
			all[i] = fmt.Sprint(b)
			if how.MaxTokens > 0 && b.length*len(b.rows) > how.MaxTokens {
				t.Errorf("%s: a batch of %d x %d", name, len(b.rows), b.length)
			}
		}
		with := func(workers int) *Batched[padded] {
			return BucketByLength(p, how, keepPadded, Epochs(2), Workers(workers), Prefetch(5*workers))
		}
		for _, workers := range []int{0, 1, 2, 8, Auto} {
			if got, hash := one(t, with(max(workers, 0)), nil); !slices.Equal(got, all) {
				t.Fatalf("%s, %d workers: %v, want %v", name, workers, got, all)
			} else if workers == 0 {
				t.Logf("%s: %d batches, hash %s", name, len(got), hash)
			}
		}
		for at := range len(all) + 1 {
			var got []string
			var state []byte
			for i, n := range []int{at, 0, 1, 1, len(all)} {
				var list []string
				list, state = some(t, with((at+i)%3), state, n)
				if got = append(got, list...); len(state) > 4<<10 {
					t.Errorf("a state of %d bytes", len(state))
				}
			}
			if !slices.Equal(got, all) {
				t.Fatalf("%s, resumed after %d: %v, want %v", name, at, got, all)
			}
		}
		for _, ranks := range []int{2, 4} {
			got := make([]padded, len(want))
			for rank := range ranks {
				b, _, err := collect(t, BucketByLength(p, how, keepPadded, Epochs(2), Rank(rank, ranks), fill), nil)
				if err != nil || len(b) != len(want) {
					t.Fatalf("%s, rank %d of %d: %d batches, %v", name, rank, ranks, len(b), err)
				}
				for i := range b {
					if len(b[i].rows)*ranks < len(want[i].rows) || b[i].length != want[i].length || rank > 0 &&
						len(b[i].rows) != len(got[i].rows)/rank {
						t.Fatalf("%s, rank %d of %d: batch %d of %d rows", name, rank, ranks, i, len(b[i].rows))
					}
					got[i] = padded{append(got[i].rows, b[i].rows...), b[i].length}
				}
			}
			for i := range got {
				real := slices.DeleteFunc(got[i].rows, func(x []int) bool { return len(x) == 1 && x[0] == -1 })
				if fmt.Sprint(real) != fmt.Sprint(want[i].rows) {
					t.Fatalf("%s, %d ranks, batch %d: %v, want %v", name, ranks, i, real, want[i].rows)
				}
			}
		}
	}
}

// The batch with the most tokens comes first, the others in their order, after a resume too.
func TestOrderLongestFirst(t *testing.T) {
	p := documents(90, 20)
	for name, how := range bucketings {
		plain := eagerBuckets(t, p, how, 2)
		first, epoch := 0, len(eagerBuckets(t, p, how, 1))
		for i, b := range plain[:epoch] {
			if b.length*len(b.rows) > plain[first].length*len(plain[first].rows) {
				first = i
			}
		}
		var want []string
		for _, b := range slices.Concat(plain[first:first+1], plain[:first], plain[first+1:]) {
			want = append(want, fmt.Sprint(b))
		}
		how.LongestFirst = true
		with := func(workers int) *Batched[padded] {
			return BucketByLength(p, how, keepPadded, Epochs(2), Workers(workers))
		}
		for _, workers := range []int{0, 3} {
			if got, _ := one(t, with(workers), nil); !slices.Equal(got, want) {
				t.Fatalf("%s, longest is %d: %v, want %v", name, first, got, want)
			}
		}
		for at := range len(want) {
			head, state := some(t, with(at%3), nil, at)
			tail, _ := one(t, with(2), state)
			if got := append(head, tail...); !slices.Equal(got, want) {
				t.Fatalf("%s, resumed after %d: %v, want %v", name, at, got, want)
			}
		}
	}
}

// packed is a batch of documents as text, checked against the documents: tokens of each in order, from somewhere, next
// tokens as targets, none for the last one, positions from 0, each segment once, padding behind.
func packed(t *testing.T, s Sequences, rows, length int, seen, lengths map[int]int) {
	t.Helper()
	x, y := values[int64](t, s.X, rows, length), values[int64](t, s.Y, rows, length)
	positions, segments := values[int64](t, s.Positions, rows, length), values[int64](t, s.Segments, rows, length)
	targets := 0
	for i := range x {
		start := i%length == 0 || segments[i] != segments[i-1]
		switch {
		case segments[i] == 0:
			if x[i] != 0 || y[i] != seam.IgnoreIndex || positions[i] != 0 {
				t.Fatalf("padding %d is %d, target %d", i, x[i], y[i])
			}
			continue
		case start:
			before := int64(0)
			if i%length > 0 {
				before = segments[i-1]
			}
			if positions[i] != 0 || segments[i] != before+1 {
				t.Fatalf("segment %d begins at position %d", segments[i], positions[i])
			}
		case positions[i] != positions[i-1]+1 || x[i] != x[i-1]+1:
			t.Fatalf("token %d after %d at position %d", x[i], x[i-1], positions[i])
		}
		document, at := int(x[i]/1000), int(x[i]%1000)
		if seen[document] != at {
			t.Fatalf("document %d goes on at %d, want %d", document, at, seen[document])
		}
		seen[document]++
		want := x[i] + 1
		if at == lengths[document]-1 {
			want = seam.IgnoreIndex
		} else {
			targets++
		}
		if y[i] != want {
			t.Fatalf("the target of %d is %d, want %d", x[i], y[i], want)
		}
	}
	if targets != s.Targets {
		t.Errorf("%d targets, it says %d", targets, s.Targets)
	}
}

// Documents in rows: each token once, in order, with any workers and ranks, and after a resume at any batch.
func TestOrderPack(t *testing.T) {
	for _, c := range []struct {
		rows, length, longest int
		cut                   bool
	}{{4, 16, 16, false}, {4, 16, 100, false}, {4, 16, 40, true}, {8, 7, 3, true}, {4, 64, 9, false}} {
		with := func(rank, ranks, workers int) *Batched[Sequences] {
			return Pack(documents(60, c.longest), c.rows, c.length, c.cut, Epochs(2), Workers(workers),
				Rank(rank, ranks))
		}
		text := func(rank, ranks, workers int, state []byte, n int) (out []Sequences, after []byte) {
			it, err := with(rank, ranks, workers).Start(t.Context(), state)
			if err != nil {
				t.Fatal(err)
			}
			defer it.Close()
			for s, err := range it.All() {
				if err != nil {
					t.Fatal(err)
				}
				if out = append(out, s); len(out) == n {
					break
				}
			}
			if state = it.State(); len(state) > 4<<10 {
				t.Errorf("a state of %d bytes", len(state))
			}
			if n < 0 {
				t.Logf("%+v: padding %.1f %%, %d batches", c, 100*it.Report().Padding, len(out))
			}
			return out, state
		}
		whole, _ := text(0, 1, 0, nil, -1)
		all, _, err := collect(t, Batches(documents(60, c.longest), 60, keep), nil)
		if err != nil {
			t.Fatal(err)
		}
		seen, lengths := map[int]int{}, map[int]int{}
		for _, d := range all[0] {
			if len(d) > 0 {
				lengths[d[0]/1000] = len(d)
			}
		}
		for _, s := range whole {
			packed(t, s, c.rows, c.length, seen, lengths)
			if maps.Equal(seen, lengths) {
				seen = map[int]int{} // the epoch is over
			}
		}
		if len(seen) > 0 {
			t.Errorf("%+v: documents are missing", c)
		}
		for _, workers := range []int{1, 2, 8} {
			got, _ := text(0, 1, workers, nil, len(whole)+1)
			if sequencesText(got) != sequencesText(whole) {
				t.Fatalf("%+v: %d workers have other batches", c, workers)
			}
		}
		for at := 1; at < len(whole); at += 1 + len(whole)/20 {
			head, state := text(0, 1, at%3, nil, at)
			next, state := text(0, 1, 1, state, 1)
			tail, _ := text(0, 1, 2, state, len(whole)+1)
			if sequencesText(slices.Concat(head, next, tail)) != sequencesText(whole) {
				t.Fatalf("%+v: resumed after %d it has other batches", c, at)
			}
		}
		for _, ranks := range []int{2, 4} {
			for rank := range ranks {
				part, _ := text(rank, ranks, 2, nil, len(whole)+1)
				for i, s := range part {
					n := c.rows / ranks * c.length
					want := tensor.ToSlice[int64](whole[i].Y)[rank*n : (rank+1)*n]
					if !slices.Equal(tensor.ToSlice[int64](s.Y), want) {
						t.Fatalf("%+v: rank %d of %d: %v", c, rank, ranks, s.Y)
					}
				}
			}
		}
	}
}

func sequencesText(all []Sequences) string {
	var s strings.Builder
	for _, b := range all {
		fmt.Fprintln(&s, tensor.ToSlice[int64](b.X), tensor.ToSlice[int64](b.Y), tensor.ToSlice[int64](b.Positions),
			tensor.ToSlice[int64](b.Segments), b.Targets)
	}
	return s.String()
}

// Rows of tokens, and what attention may see of them.
func TestSequences(t *testing.T) {
	s, err := NextTokens([][]uint16{{5, 6, 7}, {}, {9}}, 4)
	if err != nil {
		t.Fatal(err)
	}
	const no = seam.IgnoreIndex
	if x := values[int64](t, s.X, 3, 4); !slices.Equal(x, []int64{5, 6, 7, 0, 0, 0, 0, 0, 9, 0, 0, 0}) {
		t.Error(x)
	}
	if y := values[int64](t, s.Y, 3, 4); !slices.Equal(y, []int64{6, 7, no, no, no, no, no, no, no, no, no, no}) {
		t.Error(y)
	}
	if s.Targets != 2 {
		t.Errorf("%d targets, want 2", s.Targets)
	}
	s.Segments = tensor.FromSlice([]int64{1, 1, 2, 0}, 1, 4)
	if m := values[bool](t, s.Mask(), 1, 1, 4, 4); !slices.Equal(m, []bool{true, false, false, false, true, true, false,
		false, false, false, true, false, false, false, false, false}) {
		t.Error(m)
	}
	_, err = NextTokens([][]int{{1, 2}}, 1)
	wantError(t, err, "2 tokens for rows of 1")
	p, err := Pad([][]float32{{1, 2}, {}, {3}}, 3, -1)
	if err != nil || !slices.Equal(values[float32](t, p, 3, 3), []float32{1, 2, -1, -1, -1, -1, 3, -1, -1}) {
		t.Error(p, err)
	}
	_, err = Pad([][]float32{{1, 2}}, 1, 0)
	wantError(t, err, "row 0 has 2 elements")
}

// What is wrong with lengths is told at Start, or at the batch of the example, and is tolerated like other damage.
func TestOrderLengthsRefused(t *testing.T) {
	p := documents(30, 20)
	for want, how := range map[string]Buckets[[]int]{
		"there is no function":        {BatchSize: 1},
		"want one of them":            {Length: tokens},
		"no bounds to pad to":         {Length: tokens, BatchSize: 2, PadToBound: true},
		"bounds must be ascending":    {Length: tokens, BatchSize: 2, Bounds: []int{3, 3}},
		"bound 9 is more than MaxTok": {Length: tokens, MaxTokens: 8, PadToBound: true, Bounds: []int{9}},
	} {
		_, err := BucketByLength(p, how, keepPadded).Start(t.Context(), nil)
		wantError(t, err, want)
	}
	two := Buckets[[]int]{Length: tokens, BatchSize: 2}
	_, err := BucketByLength(p, two, keepPadded, Rank(0, 2)).Start(t.Context(), nil)
	wantError(t, err, "ranks need FillLast")
	two.Bounds = []int{12}
	for _, how := range []Buckets[[]int]{two, {Length: tokens, MaxTokens: 12}} {
		_, _, err = collect(t, BucketByLength(p, how, keepPadded), nil)
		wantError(t, err, "epoch 0, batch ", "12: leave it out with Filter")
		got, _, err := collect(t, BucketByLength(p, how, keepPadded, Tolerate(30)), nil)
		if err != nil || len(got) == 0 {
			t.Error(err)
		}
	}
	bad := func(x []int) int { return -len(x) }
	_, _, err = collect(t, BucketByLength(p, Buckets[[]int]{Length: bad, BatchSize: 2}, keepPadded), nil)
	wantError(t, err, "a length of -")
	panics := func(x []int) int { panic("length") }
	_, _, err = collect(t, BucketByLength(p, Buckets[[]int]{Length: panics, BatchSize: 2}, keepPadded), nil)
	wantError(t, err, "panic at group_test.go:")
	for _, size := range []int{1 << 50, math.MaxInt} {
		for _, workers := range []int{0, 2} {
			b := Batches(numbers(9, workers > 0), size, keep, FillLast(func(x int) int { return x }), Workers(workers))
			_, _, err := collect(t, b, nil)
			wantError(t, err, "epoch 0, batch 0", "bytes requested")
		}
	}
	_, _, err = collect(t, Pack(p, 4, 1<<50, false), nil)
	wantError(t, err, "epoch 0, batch 0")
	for want, b := range map[string]*Batched[Sequences]{
		"want 1 to 1048576 rows":  Pack(p, 0, 4, false),
		"at least one token":      Pack(p, math.MaxInt, 4, false),
		"multiple of the 2 ranks": Pack(p, 3, 4, false, Rank(0, 2)),
		"takes no FillLast":       Pack(p, 2, 4, false, FillLast(func(x []int) []int { return x })),
	} {
		_, err := b.Start(t.Context(), nil)
		wantError(t, err, want)
	}
	how := bucketings["tokens"]
	b := BucketByLength(p, how, keepPadded)
	for _, waiting := range []string{"AQ==", "/////w==", "AAA="} {
		state := fmt.Sprintf(`{"epoch":0,"batch":0,"position":0,"left_out":0,"waiting":%q,"stages":%s`, waiting, "")
		good, _ := b.State()
		state += string(good[strings.Index(string(good), `"stages":`)+len(`"stages":`):])
		_, err := b.Start(t.Context(), []byte(state))
		wantError(t, err, "waiting: found")
	}
}

// TestOrderLastFull: what is dropped at the end of an epoch is a batch with room, no full one, and the longest batch
// comes once.
func TestOrderLastFull(t *testing.T) {
	docs := make(Slice[[]int], 100)
	for i := range docs {
		docs[i] = []int{i, i, i, i, i, i}
	}
	for _, n := range []int{10, 11, 100} {
		for _, cut := range []bool{false, true} {
			got, _ := one(t, Pack(From(docs[:n]), 2, 6, cut, DropLast()), nil)
			if len(got) != n/2 {
				t.Errorf("%d documents, two in a batch, cut %v: %d batches, want %d", n, cut, len(got), n/2)
			}
		}
	}
	how := Buckets[int]{Length: func(x int) int { return x }, Bounds: []int{4, 8}, MaxTokens: 16, PadToBound: true,
		LongestFirst: true}
	keep := func(rows []int, _ int) ([]int, error) { return slices.Clone(rows), nil }
	for _, lengths := range []Slice[int]{{8, 8, 3}, {3, 8, 8}} {
		got, _ := one(t, BucketByLength(From(lengths), how, keep, DropLast()), nil)
		if len(got) != 1 || got[0] != "[8 8]" {
			t.Errorf("%v: batches %v, want [8 8]", lengths, got)
		}
	}
}

// TestOrderStartAgain: without a state an iteration begins at the beginning, and once where Restore says.
func TestOrderStartAgain(t *testing.T) {
	b := Batches(From(Slice[int]{1, 2, 3, 4}), 2, func(x []int) ([]int, error) { return slices.Clone(x), nil })
	_, state := some(t, b, nil, 1)
	for range 2 {
		if got, _ := one(t, b, nil); len(got) != 2 {
			t.Errorf("%d batches, want 2", len(got))
		}
	}
	if err := b.Restore(state); err != nil {
		t.Fatal(err)
	}
	for want := 1; want <= 2; want++ {
		if got, _ := one(t, b, nil); len(got) != want {
			t.Errorf("%d batches, want %d", len(got), want)
		}
	}
}

// unlabelled has batches without targets.
type unlabelled struct{ Dataset }

func (u unlabelled) Batch(indices []int) (Batch, error) {
	b, err := u.Dataset.Batch(indices)
	b.Y = nil
	return b, err
}

// TestOrderLoaderUnlabelled: ranks fill last batches of datasets without targets, too.
func TestOrderLoaderUnlabelled(t *testing.T) {
	b, err := (&Loader{Dataset: unlabelled{counting(3)}, BatchSize: 4, Rank: 1, Ranks: 2}).Batch(0, 0)
	if err != nil || b.Filled != 1 || b.X.Dim(0) != 2 {
		t.Errorf("%v, %v, %d filled", err, b.X, b.Filled)
	}
}

package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// ex is an example of the tests; trail is what was done to it.
type ex struct {
	id    int
	trail uint64
}

// node is a pipeline of the tests as a tree, which two independent functions understand: build makes a [Pipeline] of
// it, eager makes the slice of its examples.
type node struct {
	op   string
	a, b int
	kids []*node
}

func (n *node) String() string {
	s := fmt.Sprintf("%s(%d %d", n.op, n.a, n.b)
	for _, k := range n.kids {
		s += " " + k.String()
	}
	return s + ")"
}

func (n *node) weights() []int { return []int{n.a + 1, n.b + 1}[:len(n.kids)] }

// touched is what the maps of the tests do.
func touched(x ex, index, epoch, salt int) ex {
	x.trail = mix(x.trail + uint64(1000*index+epoch) + uint64(salt)<<32)
	return x
}

func (n *node) build() *Pipeline[ex] {
	var kids []*Pipeline[ex]
	for _, k := range n.kids {
		kids = append(kids, k.build())
	}
	switch n.op {
	case "from", "stream":
		s := make(Slice[ex], n.a)
		for i := range s {
			s[i].id = i + 100*n.b
		}
		if n.op == "stream" {
			return FromStream(lines[ex](s))
		}
		return From(s)
	case "map":
		return Map(kids[0], func(s Sample, x ex) (ex, error) { return touched(x, s.Index, s.Epoch, n.a), nil })
	case "filter":
		return Filter(kids[0], func(_ Sample, x ex) (bool, error) { return x.id%(n.a+2) != n.b, nil })
	case "shuffle":
		return Shuffle(kids[0], uint64(n.a))
	case "blocks":
		return ShuffleBlocks(kids[0], n.a+1, n.b+1, uint64(n.a))
	case "repeat":
		return Repeat(kids[0], n.a%3+1)
	case "take":
		return Take(kids[0], n.a)
	case "skip":
		return Skip(kids[0], n.a)
	case "cache":
		return Cache(kids[0], n.a)
	case "concat":
		return Concat(kids...)
	case "interleave":
		return Interleave(n.weights(), kids...)
	}
	return Map(Zip(kids[0], kids[1]), func(_ Sample, p Pair[ex, ex]) (ex, error) { // "zip"
		return ex{p.First.id, mix(p.First.trail ^ mix(p.Second.trail+uint64(p.Second.id)))}, nil
	})
}

// slot is a position of an eager epoch: an example, its index in its source, and whether a filter has left it out.
type slot struct {
	x     ex
	index int
	gone  bool
}

func (n *node) eager(epoch int) (out []slot) {
	there := func(in []slot) []slot { return slices.DeleteFunc(in, func(s slot) bool { return s.gone }) }
	kid := func(i int) []slot { return n.kids[i].eager(epoch) }
	ordered := func(u use, index uint64, in []slot) (out []slot) {
		p := newPermutation(u, uint64(n.a), index, len(in))
		for i := range in {
			out = append(out, in[p.at(i)])
		}
		return out
	}
	switch n.op {
	case "from", "stream":
		for i := range n.a {
			out = append(out, slot{ex{id: i + 100*n.b}, i, false})
		}
	case "map":
		for _, s := range kid(0) {
			s.x = touched(s.x, s.index, epoch, n.a)
			out = append(out, s)
		}
	case "filter":
		for _, s := range kid(0) {
			s.gone = s.gone || s.x.id%(n.a+2) == n.b
			out = append(out, s)
		}
	case "shuffle":
		return ordered(forShuffle, uint64(epoch), kid(0))
	case "blocks":
		in := kid(0)
		blocks := slices.Collect(slices.Chunk(in, n.a+1))
		p := newPermutation(forBlocks, uint64(n.a), uint64(epoch), len(blocks))
		for first := 0; first < len(blocks); {
			size := min(n.b+1, len(blocks)-first)
			var window []slot
			for k := range size {
				window = append(window, blocks[p.at(first+k)]...)
			}
			out = append(out, ordered(forWindows, mix(uint64(epoch))+uint64(first), window)...)
			first += size
		}
	case "repeat":
		for r := range n.a%3 + 1 {
			out = append(out, n.kids[0].eager(epoch*(n.a%3+1)+r)...)
		}
	case "take":
		in := there(kid(0))
		return in[:min(n.a, len(in))]
	case "skip":
		in := there(kid(0))
		return in[min(n.a, len(in)):]
	case "cache":
		return n.kids[0].eager(0)
	case "concat":
		for i := range n.kids {
			out = append(out, kid(i)...)
		}
	case "interleave":
		var rest [][]slot
		sum := 0
		for i, w := range n.weights() {
			rest = append(rest, there(kid(i)))
			sum += w
		}
		part, _ := spread(n.weights(), sum)
		for i := 0; len(rest[part[i%sum]]) > 0; i++ {
			k := part[i%sum]
			out, rest[k] = append(out, rest[k][0]), rest[k][1:]
		}
	case "zip":
		a, b := there(kid(0)), there(kid(1))
		for i := range min(len(a), len(b)) {
			x, y := a[i].x, b[i].x
			out = append(out, slot{ex{x.id, mix(x.trail ^ mix(y.trail+uint64(y.id)))}, a[i].index, false})
		}
	}
	return out
}

// randomNode is a tree of at most so many levels.
func randomNode(r *rand.Rand, levels int) *node {
	n := &node{a: r.IntN(7), b: r.IntN(5)}
	if levels == 0 {
		if n.op, n.a = "from", r.IntN(30); r.IntN(6) == 0 {
			n.op = "stream"
		}
		return n
	}
	ops := []string{"map", "filter", "shuffle", "blocks", "repeat", "take", "skip", "cache", "concat", "interleave",
		"zip"}
	n.op = ops[r.IntN(len(ops))]
	kids := 1
	switch n.op {
	case "concat", "zip", "interleave":
		kids = 2
	case "take":
		n.a = r.IntN(60)
	case "cache":
		n.a = r.IntN(20)
	}
	for range kids {
		n.kids = append(n.kids, randomNode(r, r.IntN(levels)))
	}
	return n
}

// keep is the collate function of the tests.
func keep[T any](x []T) ([]T, error) { return slices.Clone(x), nil }

// collect is the batches that are left, and the state after each.
func collect[B any](t *testing.T, b *Batched[B], state []byte) (batches []B, states [][]byte, err error) {
	t.Helper()
	it, err := b.Start(t.Context(), state)
	if err != nil {
		return nil, nil, err
	}
	defer it.Close()
	states = append(states, it.State())
	for batch, err := range it.All() {
		if err != nil {
			return batches, states, err
		}
		batches, states = append(batches, batch), append(states, it.State())
	}
	return batches, states, nil
}

// sink is how the tests make batches: of a size, by length, or of packed documents.
type sink struct {
	kind, size, ranks int
	dropLast          bool
}

func randomSink(r *rand.Rand) sink {
	k := sink{kind: r.IntN(4), ranks: 1 << r.IntN(3), dropLast: r.IntN(2) == 0}
	k.size = k.ranks * (r.IntN(3) + 1)
	return k
}

// collect is the batches of a rank that are left as rows, without those that fill, and the state after each.
func (k sink) collect(t *testing.T, p *Pipeline[ex], state []byte, options ...BatchOption) ([][]ex, [][]byte, error) {
	t.Helper()
	fill := FillLast(func(ex) ex { return ex{id: -1} })
	real := func(rows []ex) []ex { return slices.DeleteFunc(rows, func(x ex) bool { return x.id == -1 }) }
	switch k.kind {
	case 0:
		how := Buckets[ex]{Length: func(x ex) int { return x.id % 7 }, Bounds: []int{2, 4, 6}, BatchSize: k.size}
		how.LongestFirst = k.dropLast
		return collect(t, BucketByLength(p, how, func(rows []ex, length int) ([]ex, error) {
			rows = real(slices.Clone(rows))
			for i := range rows {
				rows[i].trail = mix(rows[i].trail + uint64(length))
			}
			return rows, nil
		}, append(options, fill)...), state)
	case 1:
		documents := Map(p, func(_ Sample, x ex) ([]int, error) {
			return slices.Repeat([]int{x.id, int(x.trail % 1000)}, x.id%4), nil
		})
		batches, states, err := collect(t, Pack(documents, k.size, 5, k.dropLast, options...), state)
		out := make([][]ex, len(batches))
		for i, b := range batches {
			x, y := tensor.ToSlice[int64](b.X), tensor.ToSlice[int64](b.Y)
			for at := 0; at < len(x); at += 5 {
				sum := digest([][]int64{x[at : at+5], y[at : at+5]})
				out[i] = append(out[i], ex{trail: binary.LittleEndian.Uint64(sum[:])})
			}
		}
		return out, states, err
	}
	last := fill
	if k.dropLast {
		last = DropLast()
	}
	return collect(t, Batches(p, k.size, func(rows []ex) ([]ex, error) { return real(slices.Clone(rows)), nil },
		append(options, last)...), state)
}

// eager is two epochs of n in batches: those of slices of the examples. An error if an epoch has none.
func (k sink) eager(t *testing.T, n *node) (out [][]ex, err error) {
	for epoch := range 2 {
		var all Slice[ex]
		for _, s := range n.eager(epoch) {
			if !s.gone {
				all = append(all, s.x)
			}
		}
		one := k
		one.ranks = 1
		if k.kind == 0 {
			one.dropLast = k.dropLast && epoch == 0 // the longest first
		}
		batches, _, err := one.collect(t, From(all), nil, Workers(0))
		if err != nil {
			return nil, err
		}
		out = append(out, batches...)
	}
	return out, nil
}

// differs tells where the batches of n are not the eager ones, or those after a resume not the rest, or those of all
// ranks not the whole; "" if nowhere. Descriptions that are refused differ nowhere.
func (n *node) differs(t *testing.T, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	k, p := randomSink(r), n.build()
	if p.err != nil {
		return ""
	}
	want, err := k.eager(t, n)
	if err != nil {
		return ""
	}
	ranks := k.ranks
	for _, workers := range []int{0, 1, 2, 8} {
		one := k
		one.ranks = 1
		got, states, err := one.collect(t, p, nil, Epochs(2), Workers(workers), Prefetch(r.IntN(65)))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Sprintf("%d workers, %+v: %v\n%v, want\n%v", workers, one, err, got, want)
		}
		at := r.IntN(len(states))
		rest := make([][]ex, len(want)-at)
		for rank := range ranks {
			part, _, err := k.collect(t, p, states[at], Epochs(2), Workers(r.IntN(4)), Prefetch(r.IntN(9)),
				Rank(rank, ranks))
			if err != nil || len(part) != len(rest) {
				return fmt.Sprintf("%+v, rank %d, resumed after %d of %d batches with %s: %v %v", k, rank, at,
					len(want), states[at], err, part)
			}
			for i := range part {
				rest[i] = append(rest[i], part[i]...)
			}
		}
		if fmt.Sprint(rest) != fmt.Sprint(want[at:]) {
			return fmt.Sprintf("%+v, resumed after %d of %d batches with %s: %v, want\n%v", k, at, len(want),
				states[at], rest, want[at:])
		}
	}
	return ""
}

// reduced is a smaller tree than n that still differs, as small as single steps make it.
func (n *node) reduced(differs func(*node) bool) *node {
	for _, smaller := range n.smaller() {
		if differs(smaller) {
			return smaller.reduced(differs)
		}
	}
	return n
}

// smaller are trees with one node less, or one number smaller.
func (n *node) smaller() (out []*node) {
	out = append(out, n.kids...)
	if n.op == "stream" {
		out = append(out, &node{op: "from", a: n.a, b: n.b})
	}
	for _, change := range []func(*node){func(m *node) { m.a /= 2 }, func(m *node) { m.a-- }, func(m *node) { m.b-- }} {
		m := *n
		if change(&m); m.a >= 0 && m.b >= 0 && (m.a != n.a || m.b != n.b) {
			out = append(out, &m)
		}
	}
	for i, k := range n.kids {
		for _, s := range k.smaller() {
			m := *n
			m.kids = slices.Clone(n.kids)
			m.kids[i] = s
			out = append(out, &m)
		}
	}
	return out
}

// 500 random pipelines give the batches of the eager definition with any number of workers, and the rest of them when
// resumed at any of them.
func TestOrderRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 0))
	used, most := map[string]int{}, 500
	if testing.Short() {
		most = 150
	}
	for done := 0; done < most; {
		n, seed := randomNode(r, 5), r.Uint64()
		if b := Batches(n.build(), 1, keep); b.err != nil {
			continue
		}
		if _, err := randomSink(rand.New(rand.NewPCG(seed, 1))).eager(t, n); err != nil {
			continue // there is no batch, so nothing to compare
		}
		done++
		for _, name := range n.build().describe() {
			used[strings.Fields(name)[0]]++
		}
		if n.differs(t, seed) != "" {
			n = n.reduced(func(n *node) bool { return n.differs(t, seed) != "" })
			t.Fatalf("seed %d, %v: %s", seed, n, n.differs(t, seed))
		}
	}
	t.Logf("stages of %d pipelines: %v", most, used)
	if len(used) != 12 {
		t.Errorf("%d kinds of stages, want 12", len(used))
	}
}

// The reducer finds the smallest tree with a filter in it.
func TestOrderReducer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	var has func(n *node) bool
	has = func(n *node) bool { return n.op == "filter" || slices.ContainsFunc(n.kids, has) }
	found := 0
	for range 200 {
		if n := randomNode(r, 5); has(n) {
			found++
			if s := n.reduced(has).String(); s != "filter(0 0 from(0 0))" {
				t.Fatalf("%v reduced to %s", n, s)
			}
		}
	}
	if found == 0 {
		t.Error("no tree has a filter")
	}
}

// drawing is a pipeline whose examples are random numbers, of three epochs.
func drawing(filtered bool, options ...BatchOption) *Batched[[]uint64] {
	s := make(Slice[int], 50)
	p := Map(Shuffle(From(s), 7), func(s Sample, _ int) (uint64, error) {
		return s.Random.Uint64() + uint64(s.Random.IntN(5)), nil
	})
	if filtered {
		p = Filter(p, func(s Sample, x uint64) (bool, error) { return s.Random.IntN(3) > 0 && x%5 > 0, nil })
	}
	return Batches(p, 4, keep, append([]BatchOption{Epochs(3)}, options...)...)
}

// Random numbers differ between examples, epochs, stages and operands of Zip; they belong to the example, whose
// position in the order does not matter.
func TestOrderRandomNumbers(t *testing.T) {
	seen := map[uint64]bool{}
	batches, _, err := collect(t, drawing(false), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		for _, x := range b {
			seen[x] = true
		}
	}
	if len(seen) != 150 {
		t.Errorf("%d different numbers of 150 examples", len(seen))
	}
	draw := func(s Sample, x uint64) (uint64, error) { return s.Random.Uint64(), nil }
	first := Map(From(Slice[uint64]{0}), draw)
	second := Map(first, draw)
	zip, _, err := collect(t, Batches(Zip(Zip(first, first), second), 1, keep), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := zip[0][0]
	if a, b, c := x.First.First, x.First.Second, x.Second; a == b || a == c || b == c {
		t.Errorf("three draws of one example: %d %d %d", a, b, c)
	}
	same := Map(first, func(s Sample, x uint64) (bool, error) { return s.Random.Uint64() == x, nil })
	if two, _, err := collect(t, Batches(same, 1, keep), nil); err != nil || two[0][0] {
		t.Errorf("two functions, one after the other, draw the same number: %v, %v", two, err)
	}
	// Read in order, because a filter might leave some out, the stages give the numbers that they give by position.
	drawn := Map(From(make(Slice[uint64], 20)), draw)
	all := Filter(drawn, func(Sample, uint64) (bool, error) { return true, nil })
	as := Map(drawn, func(_ Sample, x uint64) (uint64, error) { return x, nil }) // as many stages
	pairs := func(p *Pipeline[uint64]) *Pipeline[[2]uint64] {
		zip := Zip(p, Interleave([]int{2, 1}, p, Repeat(Take(Skip(p, 3), 9), 3)))
		return Map(zip, func(s Sample, x Pair[uint64, uint64]) ([2]uint64, error) {
			return [2]uint64{x.First, x.Second + s.Random.Uint64()}, nil
		})
	}
	_, want := one(t, Batches(pairs(as), 3, keep, Epochs(2)), nil)
	if _, got := one(t, Batches(pairs(all), 3, keep, Epochs(2)), nil); got != want {
		t.Errorf("hash %s in order, %s by position", got, want)
	}
	index := func(s Sample, x int) ([2]uint64, error) { return [2]uint64{uint64(s.Index), s.Random.Uint64()}, nil }
	source := From(make(Slice[int], 20))
	kinds := []*Pipeline[[2]uint64]{Map(Shuffle(Skip(source, 2), 3), index), Map(Skip(Shuffle(source, 3), 2), index)}
	number := map[uint64]uint64{}
	for _, p := range kinds {
		got, _, err := collect(t, Batches(p, 1, keep), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range got {
			if was, ok := number[b[0][0]]; ok && was != b[0][1] {
				t.Errorf("example %d draws %d and %d", b[0][0], was, b[0][1])
			}
			number[b[0][0]] = b[0][1]
		}
	}
}

// A function behind Repeat draws other numbers each time, through caches and other stages, by position and in order;
// those of the first time are those without Repeat.
func TestOrderRepeatedNumbers(t *testing.T) {
	draw := func(s Sample, _ int) (uint64, error) { return s.Random.Uint64(), nil }
	numbers := func(p *Pipeline[int], epochs int) (all []uint64) {
		got, _, err := collect(t, Batches(Map(p, draw), 7, keep, Epochs(epochs), Workers(2)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Concat(got...)
	}
	source := Shuffle(From(make(Slice[int], 10)), 3)
	first := numbers(Take(source, 10), 2) // with as many stages before the function
	if sum := digest(first); fmt.Sprintf("%x", sum[:6]) != "fccfe372fd95" {
		t.Errorf("the numbers without Repeat have changed: %x", sum[:6])
	}
	if got := numbers(Repeat(source, 3), 1); !slices.Equal(got[:10], first[:10]) {
		t.Errorf("the first time draws %d, without Repeat %d", got[:10], first[:10])
	}
	disk := func(p *Pipeline[int]) *Pipeline[int] {
		return CacheOnDisk(p, DiskCache[int]{Dir: t.TempDir(), Version: "1", MaxBytes: 1 << 20,
			Encode: func(int) ([]byte, error) { return nil, nil }, Decode: func([]byte) (int, error) { return 0, nil }})
	}
	all := func(p *Pipeline[int]) *Pipeline[int] {
		return Filter(p, func(Sample, int) (bool, error) { return true, nil })
	}
	for name, c := range map[string]struct {
		p, inOrder *Pipeline[int]
		n          int
	}{
		"once":  {Repeat(source, 3), Take(Repeat(all(source), 3), 30), 30},
		"twice": {Repeat(Repeat(source, 3), 3), Take(Repeat(Repeat(all(source), 3), 3), 90), 90},
		"for ever": {Take(Repeat(Repeat(source, 2), Forever), 80), Take(Repeat(Repeat(all(source), 2), Forever),
			80), 80},
		"kept":    {Cache(Repeat(source, 3), 30), Cache(Take(Repeat(all(source), 3), 30), 30), 30},
		"on disk": {disk(Repeat(source, 3)), nil, 30},
	} {
		for how, p := range map[string]*Pipeline[int]{"by position": c.p, "again": c.p, "in order": c.inOrder} {
			if p == nil {
				continue
			}
			seen := map[uint64]bool{}
			for _, x := range numbers(p, 2) {
				seen[x] = true
			}
			if len(seen) != 2*c.n {
				t.Errorf("%s, %s: %d different numbers, want %d", name, how, len(seen), 2*c.n)
			}
		}
	}
	// As many stages read in order as by position: the same numbers.
	as := Map(source, func(_ Sample, x int) (int, error) { return x, nil })
	if by, in := numbers(Repeat(as, 3), 2), numbers(Repeat(all(source), 3), 2); !slices.Equal(by, in) {
		t.Errorf("%d by position, %d in order", by, in)
	}
}

// A shuffle is the order of a Loader with the same seed.
func TestOrderLoader(t *testing.T) {
	const n = 23
	s := make(Slice[float32], n)
	for i := range s {
		s[i] = float32(i)
	}
	got, _, err := collect(t, Batches(Shuffle(From(s), 9), 5, keep, Epochs(2)), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := 0
	l := Loader{Dataset: counting(n), BatchSize: 5, Shuffle: true, Seed: 9, Epochs: 2}
	for b, err := range l.Batches(t.Context()) {
		if err != nil || !slices.Equal(values[float32](t, b.X, len(got[k])), got[k]) {
			t.Fatalf("batch %d: %v, want %v, %v", k, got[k], b.X, err)
		}
		k++
	}
	for _, workers := range []int{1, 2, 8} {
		l := Loader{Dataset: counting(n), BatchSize: 5, Shuffle: true, Seed: 9, Epochs: 2, Workers: workers, Start: 3}
		k := 3
		for b, err := range l.Batches(t.Context()) {
			if err != nil || !slices.Equal(values[float32](t, b.X, len(got[k])), got[k]) || b.Epoch*5+b.Index != k {
				t.Fatalf("%d workers, batch %d: %v, want %v, %v", workers, k, b.X, got[k], err)
			}
			if k++; l.state().Batches != k {
				t.Errorf("state after %d batches: %+v", k, l.state())
			}
		}
		if k != 10 {
			t.Errorf("%d workers: %d batches, want 10", workers, k)
		}
	}
}

// Examples of ShuffleBlocks leave their window only with their block, and orders differ between epochs and seeds.
func TestOrderBlocks(t *testing.T) {
	const n, block, window = 103, 5, 3
	s := make(Slice[int], n)
	for i := range s {
		s[i] = i
	}
	orders := map[string]bool{}
	for seed := range uint64(20) {
		got, _, err := collect(t, Batches(ShuffleBlocks(From(s), block, window, seed), n, keep, Epochs(2)), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, epoch := range got {
			orders[fmt.Sprint(epoch)] = true
			sorted := slices.Sorted(slices.Values(epoch))
			if !slices.Equal(sorted, s) {
				t.Fatalf("not each example once: %v", epoch)
			}
			size := map[int]bool{}
			for at := 0; at < n; { // each window has its blocks whole
				in := map[int]int{}
				end := at
				for ; end < n && (len(in) < window || in[epoch[end]/block] > 0); end++ {
					in[epoch[end]/block]++
				}
				size[len(in)] = true
				for k, count := range in {
					if count != min(block, n-k*block) {
						t.Fatalf("window at %d: %d examples of block %d", at, count, k)
					}
				}
				at = end
			}
		}
	}
	if len(orders) != 40 {
		t.Errorf("%d different orders of 40", len(orders))
	}
}

func TestPermutationFind(t *testing.T) {
	for _, n := range []int{1, 2, 15, 16, 17, 255, 1000} {
		for seed := range uint64(5) {
			p := newPermutation(forShuffle, seed, 3, n)
			for i := range n {
				if k := p.find(p.at(i)); k != i {
					t.Fatalf("n %d: find(at(%d)) = %d", n, i, k)
				}
			}
		}
	}
}

// negative is a source of nonsense.
type negative struct{ Slice[int] }

func (negative) Len() int { return -1 }

// What describes no pipeline is an error of Start that names the stage.
func TestOrderRefused(t *testing.T) {
	p := From(make(Slice[int], 10))
	odd := Filter(p, func(_ Sample, x int) (bool, error) { return x%2 > 0, nil })
	endless := Repeat(p, Forever)
	for want, q := range map[string]*Pipeline[int]{
		"a pipeline is nil":               Map[int, int](nil, nil),
		"map func":                        Map[int, int](p, nil),
		"filter func":                     Filter(p, nil),
		"from nil":                        From[int](nil),
		"a source has 0 or more":          From(negative{}),
		"shuffle seed 1: what has no end": Shuffle(endless, 1),
		"windows of 0":                    ShuffleBlocks(p, 1, 0, 1),
		"repeat 0":                        Repeat(p, 0),
		"more than can be counted":        Repeat(p, 1<<62),
		"shuffle seed 4: take 3 gives":    Shuffle(Take(odd, 3), 4),
		"windows of 2, seed 1: stream":    ShuffleBlocks(FromStream(lines[int]{1}), 1, 2, 1),
		"stream <nil>: there is no":       FromStream[int](nil),
		"skip -1":                         Skip(p, -1),
		"interleave [1]: 1 weights for 2": Interleave([]int{1}, p, p),
		"interleave [0 1]":                Interleave([]int{0, 1}, p, p),
		"concat 0: of nothing":            Concat[int](),
		"part 1 has no end":               Concat(p, endless),
		"the pipeline has no examples":    Skip(p, 10),
		"cache: a limit of -1":            Cache(p, -1),
		"it before Repeat":                Cache(endless, 1),
		"what it repeats has no end":      Repeat(endless, 2),
	} {
		_, err := Batches(q, 2, keep[int]).Start(t.Context(), nil)
		wantError(t, err, want)
	}
	for want, o := range map[string][]BatchOption{
		"-2 epochs":       {Epochs(-2)},
		"-2 workers":      {Workers(-2)},
		"prefetch -2":     {Prefetch(-2)},
		"budget of -1":    {MemoryBudget(-1)},
		"tolerate -1":     {Tolerate(-1)},
		"nothing is left": {DropLast()},
	} {
		_, err := Batches(p, 20, keep[int], o...).Start(t.Context(), nil)
		wantError(t, err, want)
	}
	_, err := Batches(p, 0, keep[int]).Start(t.Context(), nil)
	wantError(t, err, "batches of 0")
	_, err = Batches[int, int](p, 1, nil).Start(t.Context(), nil)
	wantError(t, err, "there is no function")
	none := Filter(p, func(Sample, int) (bool, error) { return false, nil })
	_, _, err = collect(t, Batches(none, 2, keep, Epochs(Forever)), nil)
	wantError(t, err, "epoch 0, batch 0", "has no batch")
	var nothing *Batched[int]
	_, err = nothing.Start(t.Context(), nil)
	wantError(t, err, "nil")
}

func TestCheckPure(t *testing.T) {
	p := Shuffle(From(make(Slice[int], 30)), 1)
	draws := Map(p, func(s Sample, _ int) (any, error) {
		return map[string][]float64{"x": {s.Random.Float64()}}, nil
	})
	some := Filter(draws, func(s Sample, _ any) (bool, error) { return s.Random.IntN(2) > 0, nil })
	if err := CheckPure(some, 100); err != nil {
		t.Error(err)
	}
	calls := 0
	bad := Map(draws, func(_ Sample, x any) (*ex, error) { calls++; return &ex{trail: uint64(calls)}, nil })
	last := Map(bad, func(_ Sample, x *ex) (int, error) { return int(x.trail), nil })
	wantError(t, CheckPure(last, 10), "map func(data.Sample, interface {}) (*data.ex, error)",
		"another one the second time")
	fails := Map(p, func(s Sample, _ int) (int, error) { return 0, errors.New("broken") })
	wantError(t, CheckPure(fails, 10), "broken", "map func")
}

// Values that differ anywhere have different digests, equal ones in other memory the same.
func TestCheckPureValues(t *testing.T) {
	type fields struct {
		a any
		b []float32
	}
	seen := map[[32]byte]int{}
	for i, x := range []any{nil, true, false, 1, 2, uint8(1), 1.5, 2.5, float32(1.5), 1i, 2i, "a", "b", []byte("a"),
		[]int{1}, []int{1, 0}, [2]int{1, 0}, []string{"a", "bc"}, []string{"ab", "c"}, map[string]int{"a": 1, "b": 2},
		map[string]int{"a": 2, "b": 1}, fields{1, nil}, fields{2, nil}, fields{1, []float32{1}},
		&fields{1, []float32{2}}, tensor.FromSlice([]int32{1, 2}, 2), tensor.FromSlice([]int32{1, 3}, 2),
		tensor.FromSlice([]int32{1, 2}, 2, 1),
		tensor.FromSlice([]float32{1, 2}, 2), fields{tensor.Of[int32](1), nil}, fields{tensor.Of[int32](2), nil}} {
		sum := digest(x)
		if other, ok := seen[sum]; ok {
			t.Errorf("values %d and %d have one digest", other, i)
		}
		seen[sum] = i
	}
	for range 20 { // the order of a map is random
		x := fields{map[string]int{"a": 1, "b": 2, "c": 3}, []float32{1}}
		if y := (fields{map[string]int{"c": 3, "b": 2, "a": 1}, []float32{1}}); digest(x) != digest(y) {
			t.Fatal("equal values have two digests")
		}
	}
	ring := &fields{}
	ring.a = ring
	digest(ring) // ends
}

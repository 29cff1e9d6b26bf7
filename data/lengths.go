package data

import (
	"fmt"
	"slices"
)

// Buckets says which examples of different lengths become a batch of [BucketByLength].
type Buckets[T any] struct {
	Length func(x T) int // of an example, such as its tokens; needed, and bound as the functions of Map are

	// Bounds are the largest lengths of the buckets, ascending. Batches have examples of one bucket. One that is longer
	// than the last bound is an error of the example: leave it out with Filter, or cut it with Map. Without bounds
	// there is one bucket for all lengths.
	Bounds []int

	BatchSize int // rows of a batch at the most; 0: MaxTokens decides
	MaxTokens int // the most that longest times rows may be; 0: BatchSize decides

	PadToBound   bool // rows are as long as the bound of their bucket, so that there are few shapes
	LongestFirst bool // the batch of epoch 0 with the most tokens comes first; needs one more pass over all examples
}

// BucketByLength makes batches of examples of similar length, in the order in which they become complete; at the end of
// an epoch come the rest, shortest bucket first. collate gets the examples of a batch and the length that all rows of
// the batch are padded to, the same for all ranks; see [NextTokens] and [Pad]. Other options are those of [Batches].
// Those that wait in buckets, less than BatchSize or MaxTokens times rows in each, are part of the state as numbers.
func BucketByLength[T, B any](p *Pipeline[T], how Buckets[T], collate func(examples []T, length int) (B, error),
	options ...BatchOption) *Batched[B] {
	how.Bounds = slices.Clone(how.Bounds)
	b, m := newBatched[T, B](p, fmt.Sprintf("buckets %v of %d, tokens %d", how.Bounds, how.BatchSize, how.MaxTokens),
		options)
	if how.PadToBound {
		b.name += ", padded to bounds"
	}
	if how.LongestFirst {
		b.name += ", longest first"
	}
	b.joins = true
	b.wrong(how.Length == nil || collate == nil, "there is no function")
	b.wrong(how.BatchSize < 0 || how.MaxTokens < 0 || how.BatchSize+how.MaxTokens == 0,
		"BatchSize %d, MaxTokens %d, want one of them, from 1", how.BatchSize, how.MaxTokens)
	b.wrong(how.PadToBound && len(how.Bounds) == 0, "there are no bounds to pad to")
	b.wrong(b.config.ranks > 1 && b.config.fill == nil, "ranks need FillLast")
	for i, bound := range how.Bounds {
		b.wrong(bound < 1 || i > 0 && bound <= how.Bounds[i-1], "bounds must be ascending, from 1")
		b.wrong(how.PadToBound && how.MaxTokens > 0 && bound > how.MaxTokens, "bound %d is more than MaxTokens", bound)
	}
	m.length = how.Length
	m.longestFirst = how.LongestFirst
	m.collateRows(func(rows []T, g group[T]) (B, error) { return collate(rows, g.length) })
	m.group = func() grouping[T] { return &byLength[T]{Buckets: how, buckets: make([][]item[T], len(how.Bounds)+1)} }
	b.run = m.grouped
	return b
}

// byLength is the grouping of [BucketByLength].
type byLength[T any] struct {
	Buckets[T]
	buckets [][]item[T]
	ready   []group[T]
}

func (g *byLength[T]) add(x item[T]) error {
	k, _ := slices.BinarySearch(g.Bounds, x.length)
	switch {
	case x.length < 0:
		return fmt.Errorf("a length of %d", x.length)
	case k == len(g.Bounds) && k > 0:
		return fmt.Errorf("a length of %d is more than the last bound, %d: leave it out with Filter", x.length,
			g.Bounds[k-1])
	case g.MaxTokens > 0 && x.length > g.MaxTokens:
		return fmt.Errorf("a length of %d is more than MaxTokens, %d: leave it out with Filter", x.length, g.MaxTokens)
	}
	if now := g.buckets[k]; len(now) > 0 && g.MaxTokens > 0 {
		if rows := len(now) + 1; max(g.padded(k, now), g.padded(k, []item[T]{x})) > g.MaxTokens/rows {
			g.complete(k, false)
		}
	}
	g.buckets[k] = append(g.buckets[k], x)
	if len(g.buckets[k]) == g.BatchSize {
		g.complete(k, false)
	}
	return nil
}

// padded is the length of rows of bucket k.
func (g *byLength[T]) padded(k int, items []item[T]) (longest int) {
	if g.PadToBound {
		return g.Bounds[k]
	}
	for _, x := range items {
		longest = max(longest, x.length)
	}
	return longest
}

// complete makes bucket k a batch.
func (g *byLength[T]) complete(k int, last bool) {
	out := group[T]{items: g.buckets[k], length: g.padded(k, g.buckets[k]), full: g.BatchSize}
	if g.PadToBound && g.MaxTokens > 0 {
		out.full = g.MaxTokens / g.Bounds[k]
		if g.BatchSize > 0 {
			out.full = min(out.full, g.BatchSize)
		}
	} else if g.MaxTokens > 0 {
		out.full = 0 // rows depend on their lengths
	}
	out.tokens = len(out.items) * out.length
	out.short = last && (out.full == 0 || len(out.items) < out.full)
	g.buckets[k] = nil
	g.ready = append(g.ready, out)
}

func (g *byLength[T]) next() (out group[T], ok bool) {
	if len(g.ready) == 0 {
		return out, false
	}
	out, g.ready = g.ready[0], g.ready[1:]
	return out, true
}

func (g *byLength[T]) last() (group[T], bool) {
	for k, items := range g.buckets {
		if len(items) > 0 {
			g.complete(k, true)
			break
		}
	}
	return g.next()
}

func (g *byLength[T]) waiting() (out []item[T]) {
	for _, items := range g.buckets {
		out = append(out, items...)
	}
	slices.SortFunc(out, func(a, b item[T]) int { return a.position - b.position })
	return out
}

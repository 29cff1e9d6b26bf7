package data

import (
	"math"
	"slices"
	"sync/atomic"
)

// Map applies f to each example. f must be a function of its arguments alone ([CheckPure]) and safe for many
// goroutines; its random numbers come from s.Random. An error of f is one of the example.
func Map[T, U any](p *Pipeline[T], f func(s Sample, x T) (U, error)) *Pipeline[U] {
	from := given(p)
	s := newStage(from.n, []*stage{from}, "map %T", f)
	s.seq = from.seq
	s.wrong(f == nil, "there is no function")
	return finish(s, func(c *call, i int) (y U, err error) {
		x, err := p.at(c, i)
		if err != nil {
			return y, err
		}
		sample := c.sample(s)
		begin := c.clock()
		y, err = f(sample, x)
		c.spent(s, 1, begin)
		return y, err
	})
}

// Filter leaves out the examples for which keep is false. keep is bound as the function of [Map] is. What counts
// examples, that is [Take], [Skip], [Zip] and [Interleave], reads in order behind it, as all does behind a [Stream].
func Filter[T any](p *Pipeline[T], keep func(s Sample, x T) (bool, error)) *Pipeline[T] {
	from := given(p)
	s := newStage(from.n, []*stage{from}, "filter %T", keep)
	s.sparse, s.seq = true, from.seq
	s.wrong(keep == nil, "there is no function")
	return finish(s, func(c *call, i int) (T, error) {
		x, err := p.at(c, i)
		if err != nil {
			return x, err
		}
		sample := c.sample(s)
		begin := c.clock()
		ok, err := keep(sample, x)
		c.spent(s, 1, begin)
		if err == nil && !ok {
			err = errDropped
		}
		return x, err
	})
}

// Shuffle reads the examples in a random order that depends on (seed, epoch): the order of a [Loader] with this Seed.
// The order is computed, so it takes no memory, and any example of it costs the same.
func Shuffle[T any](p *Pipeline[T], seed uint64) *Pipeline[T] {
	from := given(p)
	s := shuffled(from, seed, "shuffle seed %d", seed)
	return finish(s, func(c *call, i int) (T, error) {
		return p.at(c, c.order(s, forShuffle, uint64(c.epoch), s.n).at(i))
	})
}

// shuffled is a stage that reads another in a random order.
func shuffled(from *stage, seed uint64, format string, args ...any) *stage {
	s := newStage(from.n, []*stage{from}, format, args...)
	s.seed = seed
	s.wrong(s.n == Forever, "what has no end has no random order; shuffle before Repeat")
	if from.seq != nil {
		s.wrong(true, "%s gives examples in its order only; shuffle before it", from.seq.stage.name)
	}
	return s
}

// ShuffleBlocks is for files that are slow to read in any order: blocks of so many neighbouring examples come in random
// order, and examples are in random order within windows of so many blocks. Both depend on (seed, epoch).
func ShuffleBlocks[T any](p *Pipeline[T], block, window int, seed uint64) *Pipeline[T] {
	from := given(p)
	s := shuffled(from, seed, "shuffle blocks of %d, windows of %d, seed %d", block, window, seed)
	s.wrong(block < 1 || window < 1, "want at least one example in a block and one block in a window")
	if s.err != nil || s.n == 0 {
		return finish(s, p.read)
	}
	block = min(block, s.n)
	blocks := (s.n-1)/block + 1
	window = min(window, blocks)
	short := s.n - (blocks-1)*block // examples of the last block
	return finish(s, func(c *call, i int) (T, error) {
		order := c.order(s, forBlocks, uint64(c.epoch), blocks)
		last := order.find(blocks - 1) // where the last block comes
		start := func(k int) int {     // of the k-th block in this order
			if k > last {
				return (k-1)*block + short
			}
			return k * block
		}
		which := func(at int) int { // block, counted in this order, that has position at
			if at >= last*block+short {
				return (at-short)/block + 1
			}
			return min(at/block, last)
		}
		first := which(i) / window * window
		lo, hi := start(first), s.n
		if first+window < blocks {
			hi = start(first + window)
		}
		index := mix(uint64(c.epoch)) + uint64(first)
		at := lo + c.order(s, forWindows, index, hi-lo).at(i-lo)
		k := which(at)
		return p.at(c, order.at(k)*block+at-start(k))
	})
}

// Repeat goes through p so many times in one epoch, or without end if times is [Forever]: batches run on over the
// borders. Each time counts as an epoch of p, so that a [Shuffle] before it gives another order, and functions before
// it and behind it draw other random numbers.
func Repeat[T any](p *Pipeline[T], times int) *Pipeline[T] {
	from := given(p)
	s := newStage(Forever, []*stage{from}, "repeat %d", times)
	s.wrong(times < 1 && times != Forever, "want at least 1 time, or Forever")
	s.wrong(from.n == Forever, "what it repeats has no end")
	s.wrong(from.n == 0, "what it repeats has no examples")
	n := from.n
	if from.seq != nil {
		if times != Forever {
			s.n = unknown
		}
		reads := func(at int) ([]*stage, bool) { return s.from, times == Forever || at < times }
		return joined(s, reads, func(o opening, k int) (*Pipeline[T], opening, bool) {
			if o.epoch = k + max(times, 0)*o.epoch; times != Forever && k == times {
				return nil, o, false
			}
			return p, o, true
		})
	}
	if times != Forever && s.err == nil {
		s.wrong(n > math.MaxInt/times, "%d examples are more than can be counted", n)
		s.n = n * times
	}
	return finish(s, func(c *call, i int) (T, error) {
		epoch := c.epoch
		defer func() { c.epoch = epoch }()
		c.epoch = i / n
		if times != Forever {
			c.epoch += epoch * times
		}
		x, err := p.at(c, i%n)
		c.example = c.example.again(s, i/n)
		return x, err
	})
}

// Take is the first n examples, or all if there are fewer.
func Take[T any](p *Pipeline[T], n int) *Pipeline[T] {
	from := given(p)
	s := newStage(from.n, []*stage{from}, "take %d", n)
	s.wrong(n < 0, "want 0 or more")
	if s.n == Forever || n < s.n {
		s.n = n
	}
	if inOrder(from) {
		return takeInOrder(s, p, n)
	}
	return finish(s, p.read)
}

// Skip leaves out the first n examples.
func Skip[T any](p *Pipeline[T], n int) *Pipeline[T] {
	from := given(p)
	s := newStage(from.n, []*stage{from}, "skip %d", n)
	s.wrong(n < 0, "want 0 or more")
	if s.n != Forever && s.n != unknown {
		s.n = max(s.n-max(n, 0), 0)
	}
	if inOrder(from) {
		return skipInOrder(s, p, n)
	}
	return finish(s, func(c *call, i int) (T, error) { return p.at(c, i+n) })
}

// read is p.at for a p that may be nil.
func (p *Pipeline[T]) read(c *call, i int) (T, error) { return p.at(c, i) }

// Concat is the examples of one pipeline after those of another.
func Concat[T any](parts ...*Pipeline[T]) *Pipeline[T] {
	s := newStage(0, stages(parts), "concat %d", len(parts))
	s.wrong(len(parts) == 0, "of nothing")
	ends := make([]int, len(parts)) // positions up to the end of each part
	anyOrder := true
	for i, part := range s.from {
		s.wrong(part.n == Forever, "part %d has no end", i)
		anyOrder = anyOrder && part.seq == nil
		s.wrong(part.n > math.MaxInt-s.n && anyOrder, "there are more examples than can be counted")
		s.n += min(part.n, math.MaxInt-s.n)
		ends[i] = s.n
	}
	if !anyOrder {
		s.n = unknown
		reads := func(at int) ([]*stage, bool) {
			if at >= len(parts) {
				return nil, false
			}
			return s.from[at : at+1], true
		}
		return joined(s, reads, func(o opening, k int) (*Pipeline[T], opening, bool) {
			if k == len(parts) {
				return nil, o, false
			}
			return parts[k], o.enter(k), true
		})
	}
	return finish(s, func(c *call, i int) (T, error) {
		k, _ := slices.BinarySearch(ends, i+1)
		return into(c, parts, k, i-(ends[k]-parts[k].n))
	})
}

// stages are those of pipelines.
func stages[T any](parts []*Pipeline[T]) []*stage {
	var out []*stage
	for _, p := range parts {
		out = append(out, given(p))
	}
	return out
}

// into is example i of part k, whose random numbers differ from those of the other parts.
func into[T any](c *call, parts []*Pipeline[T], k, i int) (T, error) {
	defer c.enter(k)()
	return parts[k].at(c, i)
}

// enter begins the examples of operand k, and returns what ends them.
func (c *call) enter(k int) (leave func()) {
	branch := c.branch
	c.branch = mix(branch + uint64(k) + 1)
	return func() { c.branch = branch }
}

// Pair is an example of [Zip].
type Pair[A, B any] struct {
	First  A
	Second B
}

// Zip pairs the examples at equal positions. It has as many as the shorter of the two. Index and seed of a [Sample]
// behind it are those of the first.
func Zip[A, B any](first *Pipeline[A], second *Pipeline[B]) *Pipeline[Pair[A, B]] {
	s := newStage(given(first).n, []*stage{given(first), given(second)}, "zip")
	if m := s.from[1].n; s.n == Forever || m != Forever && m < s.n {
		s.n = m
	}
	if inOrder(s.from...) {
		return zipInOrder(s, first, second)
	}
	return finish(s, func(c *call, i int) (pair Pair[A, B], err error) {
		leave := c.enter(1)
		pair.Second, err = second.at(c, i)
		leave()
		if err == nil {
			defer c.enter(0)()
			pair.First, err = first.at(c, i)
		}
		return pair, err
	})
}

// mostWeight is the largest sum of the weights of Interleave.
const mostWeight = 1 << 16

// Interleave mixes pipelines: of any w1 + w2 + ... neighbouring examples, beginning at a multiple of this number, w1
// are of the first, w2 of the second and so on, spread evenly, each in its order. It ends before the first example
// that a pipeline does not have. There is one weight for each, from 1; their sum is at most 65536.
func Interleave[T any](weights []int, parts ...*Pipeline[T]) *Pipeline[T] {
	s := newStage(Forever, stages(parts), "interleave %v", weights)
	s.wrong(len(parts) == 0 || len(weights) != len(parts), "%d weights for %d pipelines", len(weights), len(parts))
	sum := 0
	for _, w := range weights {
		s.wrong(w < 1 || w > mostWeight-sum, "weights must be from 1, their sum at most %d", mostWeight)
		sum += min(max(w, 0), mostWeight-sum)
	}
	if s.err != nil {
		return finish[T](s, nil)
	}
	weights = slices.Clone(weights)
	part, before := spread(weights, sum)
	if inOrder(s.from...) {
		for _, f := range s.from {
			if f.n != Forever {
				s.n = unknown
			}
		}
		return interleaveInOrder(s, parts, part)
	}
	for k, f := range s.from {
		if f.n == Forever {
			continue
		}
		r := 0 // the first position in a round where example f.n of part k would be
		for part[r] != k || before[r] != f.n%weights[k] {
			r++
		}
		rounds := f.n / weights[k]
		s.wrong(rounds > math.MaxInt/sum-1, "there are more examples than can be counted")
		if n := rounds*sum + r; s.n == Forever || n < s.n {
			s.n = n
		}
	}
	return finish(s, func(c *call, i int) (T, error) {
		k := part[i%sum]
		return into(c, parts, k, i/sum*weights[k]+before[i%sum])
	})
}

// spread is a round of sum positions: the part of each, and how many positions before it are of the same part. The next
// position goes to the part that is furthest behind its share.
func spread(weights []int, sum int) (part, before []int) {
	used := make([]int, len(weights))
	for r := range sum {
		best, most := 0, math.MinInt
		for k, w := range weights {
			if behind := (r+1)*w - used[k]*sum; used[k] < w && behind > most {
				best, most = k, behind
			}
		}
		part, before = append(part, best), append(before, used[best])
		used[best]++
	}
	return part, before
}

// Cache keeps the examples at the first limit positions in memory once they are made, for all who read the pipeline;
// the others are made each time. What is before it gives the examples of epoch 0 in every epoch. Who reads examples
// must not change them.
func Cache[T any](p *Pipeline[T], limit int) *Pipeline[T] {
	type kept struct {
		x       T
		example origin
		err     error // nil or errDropped
	}
	from := given(p)
	s := newStage(from.n, []*stage{from}, "cache")
	s.wrong(limit < 0, "a limit of %d examples, want 0 or more", limit)
	s.wrong(s.n == Forever, "what has no end is not kept; call it before Repeat")
	if s.err != nil {
		return finish[T](s, nil)
	}
	if from.seq != nil {
		return cacheInOrder(s, p, limit)
	}
	type slots = []atomic.Pointer[kept]
	var memory atomic.Pointer[slots]
	return finish(s, func(c *call, i int) (T, error) {
		all := memory.Load()
		if all == nil {
			made := make(slots, min(limit, s.n))
			memory.CompareAndSwap(nil, &made)
			all = memory.Load()
		}
		if i < len(*all) {
			if k := (*all)[i].Load(); k != nil {
				c.example = k.example
				return k.x, k.err
			}
		}
		epoch, branch := c.epoch, c.branch
		defer func() { c.epoch, c.branch = epoch, branch }()
		c.epoch, c.branch = 0, 0
		x, err := p.at(c, i)
		if i < len(*all) && (err == nil || err == errDropped) {
			(*all)[i].Store(&kept{x, c.example, err})
		}
		return x, err
	})
}

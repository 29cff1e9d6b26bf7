package data

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/weft-ml/weft/internal/philox"
)

// Source is a set of examples that can be read in any order. At must give equal examples for equal i, 0 <= i < Len, and
// both methods are called from many goroutines at once.
//
// A source may have a method Fingerprint() string, cheap, that tells other data apart from these: names, sizes and
// times of files, or a hash. The state of an iteration holds its first 200 characters, and is refused for other data.
type Source[T any] interface {
	Len() int
	At(i int) (T, error)
}

// Slice is a [Source] of what it holds.
type Slice[T any] []T

// Len is the number of examples.
func (s Slice[T]) Len() int { return len(s) }

// At is example i. An i outside [0, Len) is an error.
func (s Slice[T]) At(i int) (x T, err error) {
	if i < 0 || i >= len(s) {
		return x, fmt.Errorf("data: there is no example %d, only [0, %d)", i, len(s))
	}
	return s[i], nil
}

// Sample says which example a function of [Map] or [Filter] is called for. It is valid until the function returns.
type Sample struct {
	Context context.Context // is done when the iteration ends
	Epoch   int             // from 0
	Index   int             // of the example in its source

	// Random is a stream of random numbers of its own for each (seed, epoch, example, function), whichever goroutine
	// calls: the seed is that of the last [Shuffle] or [ShuffleBlocks] before, else 0. Behind [Repeat] it is another
	// one each time the example comes.
	Random *rand.Rand
}

// Pipeline describes examples of type T, epoch by epoch: a [Source] and what [Map], [Shuffle] and the other functions
// do with it. Nothing runs before [Batched.Start]. A pipeline does not change; it may be part of several others.
type Pipeline[T any] struct {
	*stage
	// at is the example at position i of an epoch, 0 <= i < n, or the error errDropped.
	at func(c *call, i int) (T, error)
}

// errDropped is the error of a position whose example a filter has left out.
var errDropped = errors.New("dropped")

// stage is what a pipeline is whatever the type of its examples.
type stage struct {
	name   string   // with all that decides its examples, for the fingerprint
	from   []*stage // what it reads
	n      int      // positions in an epoch; Forever: without end
	sparse bool     // positions may be dropped
	seed   uint64   // of the random numbers
	err    error    // what is wrong with the description
	depth  uint64   // stages on the way to the source, itself included: its number
	probe  func(c *call, i int) (any, error)
	list   func(n int) ([][sha256.Size]byte, error) // digests of the first examples

	// seq gives the examples where they come in their order only: made by this stage, or by one before it, and then
	// this stage has a function for each. n is the most that they may be.
	seq *sequence
}

// unknown is how many positions a stage has if that is seen at the end of an epoch.
const unknown = math.MaxInt

// describe lists the names of all stages, those that are read first.
func (s *stage) describe() (names []string) {
	for _, f := range s.from {
		names = append(names, f.describe()...)
	}
	return append(names, s.name)
}

// newStage is a stage that reads from others, of whom it takes sparse, seed and the first error; a nil one is an error.
func newStage(n int, from []*stage, format string, args ...any) *stage {
	s := &stage{name: fmt.Sprintf(format, args...), from: from, n: n}
	for i, f := range from {
		s.depth = max(s.depth, f.depth)
		s.sparse = s.sparse || f.sparse
		if i == 0 {
			s.seed = f.seed
		}
		if s.err == nil {
			s.err = f.err
		}
	}
	s.depth++
	return s
}

// wrong notes what is wrong with the description, unless something before it is.
func (s *stage) wrong(bad bool, format string, args ...any) {
	if bad && s.err == nil {
		s.err = fmt.Errorf("data: %s: "+format, append([]any{s.name}, args...)...)
	}
}

// finish makes the pipeline of a stage.
func finish[T any](s *stage, at func(c *call, i int) (T, error)) *Pipeline[T] {
	p := &Pipeline[T]{s, at}
	s.probe = func(c *call, i int) (any, error) { return at(c, i) }
	s.list = func(n int) ([][sha256.Size]byte, error) { return listed(p, n) }
	return p
}

// given is the stage of p; that of nil is an error.
func given[T any](p *Pipeline[T]) *stage {
	if p == nil || p.stage == nil {
		return &stage{name: "nil", err: errors.New("data: a pipeline is nil: begin with From")}
	}
	return p.stage
}

// From is the pipeline of a source: its examples in order, the same in each epoch.
func From[T any](source Source[T]) *Pipeline[T] {
	if source == nil {
		s := newStage(0, nil, "from nil")
		s.wrong(true, "there is no source")
		return finish[T](s, nil)
	}
	n := source.Len()
	s := newStage(n, nil, "from %T of %d", source, n)
	s.wrong(n < 0, "a source has 0 or more examples")
	s.fingerprint(source)
	return finish(s, func(c *call, i int) (T, error) {
		c.stage, c.example = s, origin{index: i}
		begin := c.clock()
		x, err := source.At(i)
		c.spent(s, 1, begin)
		return x, err
	})
}

// fingerprint adds that of a source or stream, if it has one, to the stage's name.
func (s *stage) fingerprint(of any) {
	if f, ok := of.(interface{ Fingerprint() string }); ok {
		s.name += fmt.Sprintf(" %.200q", f.Fingerprint()) // as valid UTF-8, for the state
	}
}

// call is what a goroutine needs to make examples.
type call struct {
	ctx     context.Context
	epoch   int
	example origin // of the example made last
	branch  uint64 // which operands of Zip and its like lead to the present stage
	stage   *stage // that called a function of the user's last
	words   words
	random  *rand.Rand // over words
	orders  []cachedOrder
	crew    *crew     // nil for CheckPure
	of      *progress // of the tasks of which this one is number; nil without workers
	number  int64
	place   chan struct{} // of the worker whose place the goroutine has; nil if it is one itself
	made    int           // examples
	given   any           // the present example of the sequence that the stages read
	outside bool          // the goroutine is none of the workers
	timed   bool          // functions are timed for the present example
}

// origin is where an example comes from.
type origin struct {
	index  int    // in its source
	repeat uint64 // which times of the stages Repeat it went through; 0 for the first ones
}

// again is o in times k, from 0, of the stage Repeat s.
func (o origin) again(s *stage, k int) origin {
	if k > 0 {
		o.repeat = mix(o.repeat + mix(uint64(k)) + s.depth)
	}
	return o
}

// clock is the time if functions are timed for this example.
func (c *call) clock() (now time.Time) {
	if c.timed {
		now = time.Now()
	}
	return now
}

// spent counts the time of a function of stage s for so many examples, called after clock.
func (c *call) spent(s *stage, examples int, begin time.Time) {
	if c.timed {
		c.crew.times.add(s, examples, time.Since(begin))
	}
}

// begin begins an example of an epoch. Of each goroutine's examples the first ones are timed, then one in timedOne.
func (c *call) begin(epoch int) {
	c.epoch = epoch
	c.timed = c.made < timedOne || c.made%timedOne == 0
	c.made++
}

// timedOne makes reading the clock cost less than 5 ns an example.
const timedOne = 64

// words is the stream of random numbers of the function that a call runs, as package rand wants it.
type words struct {
	of   *call
	key  philox.Source // is made for the first number
	next uint64
}

// Uint64 is the next number.
func (w *words) Uint64() uint64 {
	if w.next == 0 {
		c := w.of
		w.key = source(forMap, c.stage.seed, uint64(c.epoch))
		w.key.Key = mix(mix(w.key.Key+c.branch)+c.stage.depth) + mix(uint64(c.example.index)) + c.example.repeat
	}
	w.next++
	return w.key.Uint64(w.next - 1)
}

func newCall(ctx context.Context) *call {
	c := &call{ctx: ctx}
	c.words.of = c
	c.random = rand.New(&c.words)
	return c
}

// sample is what a function of stage s is told about the example made last.
func (c *call) sample(s *stage) Sample {
	c.stage = s
	c.words.next = 0
	return Sample{Context: c.ctx, Epoch: c.epoch, Index: c.example.index, Random: c.random}
}

// cachedOrder is a permutation that a stage used last.
type cachedOrder struct {
	stage *stage
	use   use
	index uint64
	order consecutive
}

// order is the permutation of n of (use, seed, index); the last one of each stage and use is kept.
func (c *call) order(s *stage, u use, index uint64, n int) *consecutive {
	var at *cachedOrder
	for i := range c.orders {
		if o := &c.orders[i]; o.stage == s && o.use == u {
			at = o
		}
	}
	if at == nil {
		c.orders = append(c.orders, cachedOrder{stage: s, use: u})
		at = &c.orders[len(c.orders)-1]
	}
	if at.order.permutation == nil || at.index != index || at.order.n != uint64(n) {
		at.index, at.order = index, consecutive{permutation: newPermutation(u, s.seed, index, n), first: -1}
	}
	return &at.order
}

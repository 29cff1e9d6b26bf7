package data

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// Forever as the number of epochs of a [Loader] goes on until the caller stops.
const Forever = -1

// Loader makes batches of a dataset. Fill in the fields and range over [Loader.Batches]. Iterations do not influence
// each other, and may run at the same time if the fields are left alone; [Loader.State] is that of the last one to
// deliver a batch. No batch depends on Workers and Prefetch; with workers, Dataset is read on several goroutines.
type Loader struct {
	Dataset   Dataset // what to read; needed
	BatchSize int     // examples in a batch; needed
	Shuffle   bool    // read the examples of each epoch in a random order
	Seed      uint64  // decides, with the epoch's number, what that order is
	DropLast  bool    // leave out the last batch of an epoch if it is smaller; else Ranks fill it with its first rows
	Epochs    int     // how many times to go through the dataset; 0 means once, see Forever
	Rank      int     // of Ranks: this one has its rows of each batch, see the function Rank and DropLast
	Ranks     int     // processes or devices that train together; 0: one. BatchSize is a multiple of it
	Start     int     // begin at this batch, counted over all epochs: how many an earlier run had used
	Workers   int     // goroutines that make batches, or Auto; 0: the loop over the batches makes them
	Prefetch  int     // batches that workers make ahead of the loop; 0, Auto: see the function Prefetch

	// Device gets the batches, uploaded ahead where it has memory of its own; each is good until the next one. See the
	// function On; nil: host data that lasts.
	Device *tensor.Device

	delivered int64 // batches, counted as Start is, up to the last one that an iteration made; atomic; 0: none
}

// check returns all that is wrong with the fields.
func (l *Loader) check() error {
	if l == nil {
		return errors.New("data: loader: it is nil")
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("data: loader: "+format, args...)) }
	if l.BatchSize < 1 {
		wrong("BatchSize is %d, want at least 1", l.BatchSize)
	}
	if l.Epochs < Forever {
		wrong("Epochs is %d, want 0 or more, or Forever", l.Epochs)
	}
	if l.Start < 0 {
		wrong("Start is %d, want 0 or more", l.Start)
	}
	if l.Workers < Auto || l.Workers > maxWorkers || l.Prefetch < Auto || l.Prefetch > maxAhead {
		wrong("Workers is %d, Prefetch %d, want 0 to %d and 0 to %d, or Auto", l.Workers, l.Prefetch, maxWorkers,
			maxAhead)
	}
	if l.Rank < 0 || l.Ranks < 0 || l.Rank >= l.ranks() || l.BatchSize%l.ranks() != 0 {
		wrong("Rank is %d, Ranks %d: want 0 to Ranks-1, and a BatchSize, %d, that is a multiple of Ranks", l.Rank,
			l.Ranks, l.BatchSize)
	}
	switch {
	case l.Dataset == nil:
		wrong("no Dataset")
	case l.Dataset.Len() < 1:
		wrong("the dataset has no examples")
	case l.DropLast && l.Dataset.Len() < l.BatchSize:
		wrong("DropLast leaves nothing: the dataset has %d examples, a batch %d", l.Dataset.Len(), l.BatchSize)
	}
	return errors.Join(errs...)
}

// BatchesPerEpoch is the number of batches in an epoch: Len/BatchSize, rounded down with DropLast and
// up without. It is 0 if Dataset or BatchSize is missing.
func (l *Loader) BatchesPerEpoch() int {
	if l == nil || l.Dataset == nil || l.BatchSize < 1 {
		return 0
	}
	n := l.Dataset.Len()
	count := n / l.BatchSize
	if !l.DropLast && n%l.BatchSize > 0 {
		count++
	}
	return count
}

// Batches is the sequence of all batches: epoch after epoch, batches 0, 1, ... of each. An error is
// yielded once, instead of the batch it happened at, and ends the sequence: wrong fields at once, an
// error or a panic of the dataset at its batch, and when ctx is done its cause, before the next batch. So
// a loop that ends without an error has seen every batch. Workers end with the loop.
func (l *Loader) Batches(ctx context.Context) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		err := l.check()
		if ctx == nil {
			err = errors.Join(err, errors.New("data: loader: the context is nil"))
		}
		if err != nil {
			yield(Batch{}, err)
			return
		}
		t := l.config().tuner(ctx)
		results, err := deliver(l.Device, l.results(t.crew))
		if err != nil {
			t.crew.Close()
			yield(Batch{}, err)
			return
		}
		defer results.close()
		t.ready = results.ready
		perEpoch := l.BatchesPerEpoch()
		for n := l.Start; !l.over(n / perEpoch); n++ {
			t.asks()
			r, ok := results.Next()
			switch {
			case !ok:
				r.err = context.Cause(t.crew.ctx)
			case isPanic(r.err):
				r.err = r.after.failed(r.err)
			}
			if r.err == nil {
				t.gets(r.bytes)
				atomic.StoreInt64(&l.delivered, int64(n+1))
			}
			if !yield(r.batch, r.err) || r.err != nil {
				return
			}
		}
	}
}

// over tells whether an epoch is behind the last one.
func (l *Loader) over(epoch int) bool { return l.Epochs != Forever && epoch >= max(l.Epochs, 1) }

// ranks is how many there are.
func (l *Loader) ranks() int { return max(l.Ranks, 1) }

// config is what the fields say about goroutines.
func (l *Loader) config() config {
	c := config{workers: l.Workers, prefetch: l.Prefetch, ranks: 1}
	if c.prefetch == 0 {
		c.prefetch = Auto
	}
	return c
}

// results are the batches from Start on.
func (l *Loader) results(w *crew) *ordered[result[Batch]] {
	perEpoch := l.BatchesPerEpoch()
	epoch, k := l.Start/perEpoch, l.Start%perEpoch
	order := l.order(epoch)
	size := measured[Batch]()
	return newOrdered(w, new(progress), func() (func(*call, *result[Batch]), bool) {
		if k == perEpoch {
			epoch, k = epoch+1, 0
			order = l.order(epoch)
		}
		if l.over(epoch) {
			return nil, false
		}
		order, epoch, number := order, epoch, k
		k++
		return func(c *call, r *result[Batch]) {
			r.after = position{Epoch: epoch, Batch: number + 1}
			c.guard(&r.err, func() (err error) {
				memory := c.lease(1)
				defer func() { memory.end(r.bytes) }()
				r.since = engine.Recyclables()
				if r.batch, err = l.batch(order, epoch, number); err == nil {
					r.bytes = size(&r.batch)
					memory.add(r.bytes)
				}
				return err
			})
		}, true
	}, nil)
}

// Batch is batch number k of an epoch, without those before it: the same batch that [Loader.Batches]
// yields there. The fields Epochs and Start do not matter. A k outside [0, BatchesPerEpoch) is an error.
func (l *Loader) Batch(epoch, k int) (Batch, error) {
	if err := l.check(); err != nil {
		return Batch{}, err
	}
	if n := l.BatchesPerEpoch(); epoch < 0 || k < 0 || k >= n {
		return Batch{}, fmt.Errorf("data: loader: no batch %d in epoch %d: an epoch has %d batches", k, epoch, n)
	}
	return l.batch(l.order(epoch), epoch, k)
}

// order is the order of the examples in an epoch: a function that sets indices to those at positions from first on.
func (l *Loader) order(epoch int) func(first int, indices []int) {
	if !l.Shuffle {
		return func(first int, indices []int) {
			for i := range indices {
				indices[i] = first + i
			}
		}
	}
	return newPermutation(forShuffle, l.Seed, uint64(epoch), l.Dataset.Len()).elements
}

// batch reads the rank's part of positions k*BatchSize to (k+1)*BatchSize-1 of an epoch's order. Where these are fewer
// and there are ranks, the first of them fills the rest.
func (l *Loader) batch(order func(first int, indices []int), epoch, k int) (Batch, error) {
	begin := k * l.BatchSize
	n := min(l.BatchSize, l.Dataset.Len()-begin)
	lo, hi := 0, n
	if l.ranks() > 1 {
		lo, hi = part[int]{rank: l.Rank, ranks: l.ranks()}.rows(l.BatchSize, 0)
	}
	indices, err := grown[int](nil, hi-lo)
	if err != nil {
		return Batch{}, fmt.Errorf("data: a batch of %d examples: %w", hi-lo, err)
	}
	indices = indices[:hi-lo]
	order(begin+min(lo, n-1), indices[:max(0, min(n, hi)-lo)])
	for i := max(lo, n); i < hi; i++ {
		order(begin, indices[i-lo:i-lo+1])
	}
	batch, err := l.Dataset.Batch(indices)
	if err != nil {
		return Batch{}, fmt.Errorf("data: epoch %d, batch %d: %w", epoch, k, err)
	}
	batch.Epoch, batch.Index = epoch, k
	if hi > n {
		batch.fill(hi - max(lo, n))
	}
	return batch, nil
}

// fill marks the last rows as filling.
func (b *Batch) fill(rows int) {
	b.Filled = rows
	if b.Y != nil && b.Y.DType() == tensor.Int64 {
		y := seam.Elems[int64](engine.Bytes(b.Y))
		for i := len(y) - rows*(len(y)/b.Y.Dim(0)); i < len(y); i++ {
			y[i] = seam.IgnoreIndex
		}
	}
}

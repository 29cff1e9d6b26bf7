package train

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/weft-ml/weft/tensor"
)

// FitReport says what memory a training takes, and how large a batch fits.
type FitReport struct {
	Batch   int          // what Stats are of
	Stats   tensor.Stats // of the device after the steps; Stats.Memory.Peak, and Categories, have what they took
	Largest int          // the largest batch that fits; 0: none does
}

// Fit finds out, without the card, whether a training fits into its memory, in bytes. It runs steps on the device
// "null", which checks operations and counts memory with the pool of all devices, and computes nothing, so that seconds
// are enough for a large model. begin makes model and optimizer on the device; step trains one step on a batch of so
// many examples, with data of any values. The report has the numbers of two steps; the largest batch is the one above
// which steps fail with [tensor.ErrMemory]. The numbers are those of a card, whose driver takes some more memory of its
// own. The CPU has no copies of host data (category data), and at most 8 MiB of gradients less, since they do not wait
// for each other there.
func Fit(memory, batch int, begin func(dev *tensor.Device) (step func(batch int) error, err error)) (FitReport, error) {
	return fit(memory, batch, begin, engine.Batched())
}

// fitCPU is Fit for the CPU.
func fitCPU(memory, batch int,
	begin func(dev *tensor.Device) (step func(batch int) error, err error)) (FitReport, error) {
	return fit(memory, batch, begin)
}

// fit is Fit on a device that is opened so.
func fit(memory, batch int, begin func(dev *tensor.Device) (step func(batch int) error, err error),
	like ...tensor.OpenOption) (FitReport, error) {
	r := FitReport{Batch: batch}
	name, err := fitDevice(memory, batch, begin)
	if err != nil {
		return r, err
	}
	dev, err := tensor.Open(name, like...)
	if err != nil {
		return r, err
	}
	defer dev.Close()
	limit := func(bytes int) error {
		other, err := tensor.Open(name, tensor.MemoryLimit(bytes)) // the pool is the same
		if err == nil {
			defer other.Close()
		}
		return err
	}
	step, err := began(begin, dev, limit, memory)
	if err != nil {
		return r, err
	}
	peak := func(batch int) (int, error) {
		dev.EmptyCache()
		dev.ResetPeak()
		if err := errors.Join(step(batch), step(batch)); err != nil {
			return 0, err
		}
		return dev.Stats().Memory.Peak.Active, nil
	}
	twice, err := peak(2 * batch)
	if err != nil {
		return r, err
	}
	once, err := peak(batch)
	if err != nil {
		return r, err
	}
	r.Stats = dev.Stats()
	if err := limit(memory); err != nil {
		return r, err
	}
	r.Largest, err = largest(guess(memory, batch, once, twice), func(batch int) (bool, error) {
		_, err := peak(batch)
		if errors.Is(err, tensor.ErrMemory) {
			return false, nil
		}
		return err == nil, err
	})
	return r, err
}

// fitDevice is a null device with memory of its own, if the operands of Fit make sense.
func fitDevice(memory, batch int, begin any) (name string, err error) {
	err = engine.Try(func() {
		engine.Given("fit", "the function", begin)
		if memory <= 0 || batch <= 0 || batch > maxBatch {
			engine.Fail(tensor.ErrValue, "fit", "a batch of %d in %d bytes; both must be positive, the batch at "+
				"most %d", batch, memory, maxBatch)
		}
	})
	return fmt.Sprint("null:", fits.Add(1)), err
}

// FitCheckpoints finds out, as [Fit] does, how few of a model's blocks must be in checkpoints (autograd.Checkpoint) so
// that a training on batches of so many examples fits into memory, in bytes. begin makes the training with every k-th
// block in one, or none if k is 0, as nn.GPTConfig.CheckpointBlocks says; the result is that k. Where k = 1 does not
// suffice either it is an error of kind [tensor.ErrMemory].
func FitCheckpoints(memory, batch, blocks int,
	begin func(dev *tensor.Device, k int) (step func(batch int) error, err error)) (k int, err error) {
	fits := func(k int) error {
		name, err := fitDevice(memory, batch, begin)
		if err != nil {
			return err
		}
		dev, err := tensor.Open(name, tensor.MemoryLimit(memory), engine.Batched())
		if err != nil {
			return err
		}
		defer dev.Close()
		step, err := begin(dev, k)
		if err != nil {
			return err
		}
		if err := engine.Try(func() { engine.Given("fit", "the step that the function returns", step) }); err != nil {
			return err
		}
		return errors.Join(step(batch), step(batch))
	}
	if err := fits(0); !errors.Is(err, tensor.ErrMemory) {
		return 0, err
	}
	if err := fits(1); err != nil {
		return 1, err
	}
	k, none := 1, max(blocks, 1)+1 // fits, does not
	for k < none-1 {
		middle := k + (none-k)/2
		switch err := fits(middle); {
		case err == nil:
			k = middle
		case errors.Is(err, tensor.ErrMemory):
			none = middle
		default:
			return 0, err
		}
	}
	return k, nil
}

// began is the step that begin returns. If there is enough, model and optimizer get their memory within the limit, as
// they will have it: the pool cuts memory finer then. The device has no limit afterwards.
func began(begin func(dev *tensor.Device) (func(batch int) error, error), dev *tensor.Device,
	limit func(bytes int) error, memory int) (step func(batch int) error, err error) {
	if err := limit(memory); err != nil {
		return nil, err
	}
	step, err = begin(dev)
	if errors.Is(err, tensor.ErrMemory) {
		if err := limit(math.MaxInt); err != nil {
			return nil, err
		}
		step, err = begin(dev)
	}
	if err == nil {
		err = engine.Try(func() { engine.Given("fit", "the step that the function returns", step) })
	}
	if err == nil {
		if err = step(1); errors.Is(err, tensor.ErrMemory) {
			err = nil
		}
	}
	return step, errors.Join(err, limit(math.MaxInt))
}

// fits counts calls of Fit.
var fits atomic.Int32

// maxBatch is more than anybody trains with; its data must fit into the memory of the host.
const maxBatch = 1 << 20

// guess is the batch that fits if memory grows linearly.
func guess(memory, batch, once, twice int) int {
	each := float64(twice-once) / float64(batch)
	n := float64(memory-once)/max(each, 1) + float64(batch)
	return int(min(max(n, 1), maxBatch))
}

// largest is the largest n that fits, near a guess.
func largest(guess int, fits func(n int) (bool, error)) (int, error) {
	low, high := 0, math.MaxInt // fits, does not
	for n, step := guess, max(1, guess/64); low < high-1; step *= 2 {
		ok, err := fits(n)
		if err != nil {
			return 0, err
		}
		if ok {
			low = n
		} else {
			high = n
		}
		switch {
		case high == math.MaxInt:
			if n = low + step; n > maxBatch {
				return low, nil
			}
		case low == 0 && n > step:
			n = high - step
		default:
			n = low + (high-low)/2
		}
	}
	return low, nil
}

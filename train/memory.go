package train

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/profile"
	"github.com/weft-ml/weft/tensor"
)

// memory is what -memory-limit, -memory-profile, -memory-timeline, -warn-leaks and -halve-batch ask for.
type memory struct {
	limit, profile, timeline string
	halve, leaks             bool

	most, mostEval int // examples that fit at a time, as far as TrainStep and EvalStep know; 0: any number

	dev   *tensor.Device         // nil before Open
	watch *profile.MemoryProfile // nil without -memory-profile and -memory-timeline
}

func (m *memory) flags(f *flag.FlagSet, halves bool) {
	f.StringVar(&m.limit, "memory-limit", "", "the most memory of the device: 20GiB, 500MB, or 0.5 for half of it")
	f.StringVar(&m.profile, "memory-profile", "", "file for a memory profile, f.pb.gz: go tool pprof -top f.pb.gz")
	f.StringVar(&m.timeline, "memory-timeline", "", "JSON file for memory over time: chrome://tracing, ui.perfetto.dev")
	f.BoolVar(&m.leaks, "warn-leaks", false, "tell which line keeps tensors that pile up on the device")
	if halves {
		f.BoolVar(&m.halve, "halve-batch", false, "where memory does not suffice, go on with half the batch at a time")
	}
}

// opened begins what the flags ask for on the run's device; warn tells the user.
func (m *memory) opened(dev *tensor.Device, warn func(text string)) (err error) {
	if err := errors.Join(writable(m.profile), writable(m.timeline)); err != nil {
		return err
	}
	m.dev = dev
	if m.leaks {
		if err := profile.WarnLeaks(dev, warn); err != nil {
			return err
		}
	}
	if m.profile != "" || m.timeline != "" {
		m.watch, err = profile.Memory(dev)
	}
	return err
}

// writable tells why a file cannot be written, before there is something to write; the path "" is none.
func writable(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}

// write writes profile and timeline, also of a run that has failed.
func (m *memory) write() error {
	if m.watch == nil {
		return nil
	}
	m.watch.Stop()
	return errors.Join(writeFile(m.profile, m.watch.Write), writeFile(m.timeline, m.watch.WriteTimeline))
}

// writeFile writes a file; none if the path is "".
func writeFile(path string, write func(w io.Writer) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// peaks are the largest sizes so far: what tensors had, and what was taken from the device, which a limit is of.
func (m *memory) peaks() (allocated, reserved int) {
	s := m.dev.Stats().Memory
	return s.Peak.Allocated, s.Peak.Reserved
}

// Halve calls step with a batch of n examples. Where that fails for lack of memory ([tensor.ErrMemory]) it calls it
// with half as many, and so on. It returns the number with which step did not fail, to go on with, or the error of
// the last call: of a batch of one, or one of another kind. A step that fails changes nothing, so that step can be one
// [tensor.Device.Step], of a part of the batch or of all of it in parts (autograd.Accumulate).
func Halve(n int, step func(n int) error) (fitting int, err error) {
	if err := engine.Try(func() {
		engine.Given("halve", "the step", step)
		if n < 1 {
			engine.Fail(tensor.ErrValue, "halve", "a batch of %d examples; at least 1 is needed", n)
		}
	}); err != nil {
		return n, err
	}
	for {
		if err = step(n); n == 1 || !errors.Is(err, tensor.ErrMemory) {
			return n, err
		}
		n /= 2
	}
}

// Halve is the function [Halve] with -halve-batch, and tells if a smaller batch is what fits; without the flag it calls
// step once.
func (r *Run) Halve(n int, step func(n int) error) (fitting int, err error) {
	if !r.memory.halve {
		return n, step(n)
	}
	fitting, err = Halve(n, step)
	if err == nil && fitting < n {
		r.Printf("memory does not suffice for %d at a time: going on with %d", n, fitting)
		r.Event("halved", map[string]any{"from": n, "to": fitting})
	}
	return fitting, err
}

// TrainStep runs f as a step ([tensor.Device.Step]) on the run's device, in its mode, on a batch of n examples. With
// -halve-batch f is called again where memory does not suffice: [Run.Backward] then takes the batch in parts of half
// the size, in this step and those that follow. An error of lack of memory is told as [Run.Explain] does.
func (r *Run) TrainStep(n int, f func(s *tensor.Scope) error) error {
	m := &r.memory
	size := n
	if m.most > 0 {
		size = min(n, m.most)
	}
	before := m.most
	fitting, err := r.Halve(size, func(size int) error {
		m.most = size
		return m.dev.Step(f, r.Mode()...)
	})
	if m.most = before; fitting < size {
		m.most = fitting
	}
	return r.Explain(err, n)
}

// EvalStep runs f as an evaluation ([tensor.Device.Eval]) of the examples [lo, hi) of a batch of n: of all of them or,
// with -halve-batch where memory does not suffice, one part after the other.
func (r *Run) EvalStep(n int, f func(s *tensor.Scope, lo, hi int) error) error {
	m := &r.memory
	for lo := 0; lo < n; {
		size := n - lo
		if m.mostEval > 0 {
			size = min(size, m.mostEval)
		}
		fitting, err := r.Halve(size, func(size int) error {
			return m.dev.Eval(func(s *tensor.Scope) error { return f(s, lo, lo+size) })
		})
		if err != nil {
			return r.Explain(err, n)
		}
		if lo += fitting; fitting < size {
			m.mostEval = fitting
		}
	}
	return nil
}

// Backward is autograd.Backward of the mean loss of a batch, given by the function loss of inputs and targets, which
// are host data with examples along their first axis; the result is that loss. In a [Run.TrainStep] that takes the
// batch in parts loss is called for each, and must be a mean over examples. through is what happens to a loss before
// Backward, such as a loss scaler's Scale.
func (r *Run) Backward(s *tensor.Scope, inputs, targets *tensor.Tensor, loss func(x, y *tensor.Tensor) *tensor.Tensor,
	through ...func(*tensor.Tensor) *tensor.Tensor) *tensor.Tensor {
	engine.Given("backward", "the loss", loss)
	x, y := s.In(inputs), s.In(targets)
	n := x.Dim(0)
	if most := r.memory.most; most > 0 && most < n {
		parts := (n + most - 1) / most
		return autograd.Accumulate(s, parts, float64(n), func(i int) *tensor.Tensor {
			lo, hi := i*n/parts, (i+1)*n/parts
			return loss(x.Slice(0, lo, hi), y.Slice(0, lo, hi)).Scale(float64(hi - lo))
		}, through...)
	}
	mean := loss(x, y)
	l := mean
	for _, f := range through {
		l = f(l)
	}
	autograd.Backward(l)
	return mean
}

// A Remedy is what a program offers where memory does not suffice.
type Remedy struct {
	// Flags is what to add to the command line, such as "-checkpoint-blocks 1"; "" stands for the program as it runs.
	Flags string
	// Begin is the training with these, as [Fit] takes it.
	Begin func(dev *tensor.Device) (step func(batch int) error, err error)
}

// Explain adds to an error of lack of memory in a step of batch examples, after a table of the device's memory for
// people, the largest batch that would have fitted: as the program runs, and with remedies, each found by [Fit]. Other
// errors it returns as they are, and so it does if nobody knows how much memory the device has.
func (r *Run) Explain(err error, batch int, remedies ...Remedy) error {
	if !errors.Is(err, tensor.ErrMemory) || r.memory.dev == nil {
		return err
	}
	r.Printf("%s", r.memory.dev.MemorySummary())
	available := r.memory.available()
	if available <= 0 {
		return err
	}
	fitted := Fit
	if r.memory.dev.Name() == "cpu" {
		fitted = fitCPU
	}
	for _, x := range remedies {
		report, failed := fitted(available, 1, x.Begin)
		if failed != nil {
			return errors.Join(err, failed)
		}
		switch with := cmp.Or(x.Flags, "as it is"); {
		case report.Largest == 0:
			err = fmt.Errorf("%w; %s, not even a batch of 1 fits", err, with)
		case report.Largest < batch:
			err = fmt.Errorf("%w; %s, a batch of %d fits, %d does not", err, with, report.Largest, batch)
		default:
			err = fmt.Errorf("%w; %s, %d fits", err, with, batch)
		}
	}
	return err
}

// available is the memory that the device has for the program; 0 if that is not known.
func (m *memory) available() int {
	s := m.dev.Stats().Memory
	if s.Limit > 0 {
		return s.Limit
	}
	if free, known := engine.FreeMemory(m.dev); known {
		return s.Reserved + free
	}
	return 0
}

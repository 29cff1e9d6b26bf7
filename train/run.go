package train

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/tensor"
)

// Options are the defaults of a program's flags. Every program has -device, -threads, -seed, -log, -anomaly, -hash,
// -memory-limit, -memory-profile, -memory-timeline and -warn-leaks; it has -steps or -epochs, whichever of Steps and
// Epochs is not 0, -data if Data is not "", -amp if AMP is true, -workers and -prefetch if Workers is true,
// -checkpoint, -resume and -save-every if Checkpoints is true, and -halve-batch if Halves is true.
// A program declares flags of its own with package flag.
type Options struct {
	Steps, Epochs int
	Seed          uint64
	Data          string       // explains -data
	AMP           bool         // the program's losses go through Run.Scaler
	Workers       bool         // the program makes its batches as Run.Workers and Run.Prefetch say
	Checkpoints   bool         // the program calls Run.Resume and Run.SaveLast
	Halves        bool         // the program's steps go through Run.TrainStep, or Run.Halve
	Check         func() error // reports values of the program's own flags that are not valid; may be nil
}

// Run is one run of a program: the values of its flags, and where its output goes. [Main] makes it.
type Run struct {
	Device        string // -device: "auto", "cpu", ...
	Threads       int    // -threads: of the CPU, 0 for as many as there are; no result depends on it
	Steps, Epochs int    // -steps, -epochs
	Seed          uint64 // -seed
	Data          string // -data: a file or directory, "" for the default
	Workers       int    // -workers: goroutines that make batches; 0: the training loop makes them
	Prefetch      int    // -prefetch: batches that they make ahead; 0: twice as many as workers
	Log           string // -log: "text" or "json"
	Hash          bool   // -hash: end with the hash of all weights
	AMP           string // -amp: "", "bf16" or "fp16"
	Anomaly       bool   // -anomaly: look for the first operation that goes wrong

	progress
	saving    saving
	memory    memory
	loss      float64 // of the last step
	human     *output // text for people
	json      *output // JSON lines; nil with -log text
	metrics   map[string]any
	health    func() map[string]float64 // from Health
	params    []*tensor.Tensor          // from Health
	nonFinite []string                  // those of params whose gradients in this step are not finite
	anomaly   error                     // the first operation of this step whose result is not
	lost      int                       // the step since which no loss is finite, counted from 1; 0 if the last one is
}

// output remembers the first error of a writer.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// Main parses the flags, calls learn and returns the exit code for os.Exit: 0 after success, 1 if learn fails, with the
// error in one line on standard error, if the last losses were not finite or the output was lost, 2 for flags that do
// not parse, 130 after Ctrl-C or SIGTERM. The first such signal ends learn's context, so that it can finish its step
// and test what it has; the second one kills the program. A *[tensor.Error] that learn panics with is an error, too.
func Main(o Options, learn func(ctx context.Context, r *Run) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // back to the default: the next signal kills
	return run(ctx, flag.CommandLine, os.Args[1:], o, os.Stdout, os.Stderr, time.Now, learn)
}

// run is Main with its environment as arguments; it returns the exit code.
func run(ctx context.Context, flags *flag.FlagSet, args []string, o Options, stdout, stderr io.Writer,
	now func() time.Time, learn func(context.Context, *Run) error) int {
	out := &output{Writer: stdout}
	r := &Run{human: out, metrics: map[string]any{}}
	r.flags(flags, o)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2 // the flag set has printed why
	}
	if r.Log == "json" {
		r.json, r.human = out, &output{Writer: stderr}
	}
	r.start(r.human, now)
	err := r.check(flags)
	if err == nil && o.Check != nil {
		err = o.Check()
	}
	if err == nil {
		if r.Threads > 0 {
			runtime.GOMAXPROCS(r.Threads)
		}
		err = r.call(ctx, learn)
		if e := r.memory.write(); err == nil {
			err = e
		}
		if e := r.saving.manager.Close(); err == nil { // waits for a save, unless SaveLast has
			err = e
		}
	}
	interrupted := ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
	if err == nil || interrupted {
		r.finish(interrupted)
		err = nil
		switch {
		case out.err != nil:
			err = fmt.Errorf("output is lost: %w", out.err)
		case r.lost > 0:
			err = fmt.Errorf("the loss is not finite since step %d", r.lost)
		}
	}
	switch {
	case err != nil:
		r.clear()
		fmt.Fprintf(stderr, "error: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	case interrupted:
		return 130
	}
	return 0
}

// call calls learn. A panic with an error of the library, as the values of flags may cause it, is an error, too.
func (r *Run) call(ctx context.Context, learn func(context.Context, *Run) error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *tensor.Error:
			err = p
		default:
			panic(p)
		}
	}()
	return learn(ctx, r)
}

// Open opens the device of -device with the seed of -seed and the limit of -memory-limit. The caller closes it.
func (r *Run) Open() (*tensor.Device, error) {
	dev, err := tensor.Open(r.Device, tensor.Seed(r.Seed), engine.MemoryLimit("-memory-limit", r.memory.limit))
	if err != nil {
		return nil, err
	}
	if err := r.memory.opened(dev, func(text string) { r.Printf("%s", text) }); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	r.Printf("device %v", dev)
	if dev.Name() == "null" {
		r.Printf("it computes nothing: every number below is without meaning")
	}
	return dev, nil
}

// flags declares the shared flags.
func (r *Run) flags(f *flag.FlagSet, o Options) {
	f.StringVar(&r.Device, "device", "auto", "where to compute: auto, cpu, cuda, cuda:1, ...")
	if o.Steps != 0 {
		f.IntVar(&r.Steps, "steps", o.Steps, "training steps")
	}
	if o.Epochs != 0 {
		f.IntVar(&r.Epochs, "epochs", o.Epochs, "passes over the training data")
	}
	f.Uint64Var(&r.Seed, "seed", o.Seed, "decides initial weights and the order of the data")
	if o.Data != "" {
		f.StringVar(&r.Data, "data", "", o.Data)
	}
	if o.AMP {
		f.StringVar(&r.AMP, "amp", "", "mixed precision: bf16, or fp16 with a loss scaler")
	}
	if o.Workers {
		f.IntVar(&r.Workers, "workers", 0, "goroutines that make batches; 0: the training loop makes them")
		f.IntVar(&r.Prefetch, "prefetch", 0, "batches that they make ahead; 0: twice as many as workers")
	}
	if o.Checkpoints {
		r.saving.flags(f)
	}
	r.memory.flags(f, o.Halves)
	f.IntVar(&r.Threads, "threads", 0, "threads of the CPU; 0: as many as there are")
	f.StringVar(&r.Log, "log", "text", "text for people, or json: lines for machines on standard output")
	f.BoolVar(&r.Anomaly, "anomaly", false, "name the first operation whose result is not finite; slow")
	f.BoolVar(&r.Hash, "hash", false, "end with the SHA-256 of all weights and optimizer state")
}

// check reports flag values that are not valid.
func (r *Run) check(flags *flag.FlagSet) error {
	const maxThreads = 1024 // Go ends a program of 10,000 threads of the system
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case given["epochs"] && r.Epochs == 0:
		return errors.New("-epochs is 0, want 1 or more")
	case given["save-every"] && r.saving.dir == "":
		return errors.New("-save-every needs -checkpoint")
	case r.Steps < 0 || r.Epochs < 0 || r.Threads < 0 || r.Workers < 0 || r.Prefetch < 0:
		return fmt.Errorf("-steps, -epochs, -threads, -workers and -prefetch cannot be negative")
	case r.Threads > maxThreads:
		return fmt.Errorf("-threads is %d, at most %d", r.Threads, maxThreads)
	case r.AMP != "" && r.AMP != "bf16" && r.AMP != "fp16":
		return fmt.Errorf("-amp is %q, want bf16 or fp16", r.AMP)
	case r.Log != "text" && r.Log != "json":
		return fmt.Errorf("-log is %q, want text or json", r.Log)
	}
	return r.saving.check()
}

// Mode is how steps run: in the type that -amp chooses, and checked for anomalies if -anomaly is given.
func (r *Run) Mode() []tensor.Option {
	mode := []tensor.Option{amp.Autocast(map[string]tensor.DType{"": tensor.Float32, "bf16": tensor.BFloat16,
		"fp16": tensor.Float16}[r.AMP])}
	if r.Anomaly {
		mode = append(mode, tensor.Anomaly(func(err error) { r.anomaly = err }))
	}
	return mode
}

// Scaler is the loss scaler for -amp fp16; without that flag it does nothing.
func (r *Run) Scaler() *amp.GradScaler { return amp.NewGradScaler(amp.Enabled(r.AMP == "fp16")) }

// Health adds the norm of the gradients to the progress line and to the step's JSON line, and with a loss scaler its
// factor and how many updates it skipped. They are read only when a line is written, since that may wait for the
// device. params are the parameters that Gradients checks.
func (r *Run) Health(scaler *amp.GradScaler, norm func() float64, params []*tensor.Tensor) {
	r.params = params
	r.health = func() map[string]float64 {
		m := map[string]float64{}
		if n := norm(); n != 0 { // it is 0 without clipping and without a scaler
			m["norm"] = n
		}
		if r.AMP == "fp16" {
			st := scaler.State()
			m["scale"], m["skipped"] = st.Scale, float64(st.Skipped)
		}
		return m
	}
}

// Gradients is called in a step between Backward and the update. With a loss scaler, or if -anomaly is given, it
// searches gradients that are not finite; those that it finds are logged with the step.
func (r *Run) Gradients(s *tensor.Scope) {
	if r.AMP == "fp16" || r.Anomaly {
		r.nonFinite = amp.NonFinite(s, r.params)
	}
}

// Printf prints a line for people, above the progress line.
func (r *Run) Printf(format string, args ...any) {
	r.clear()
	fmt.Fprintf(r.human, format+"\n", args...)
}

// Step reports one finished training step: its loss, and how many examples or tokens it used. After [Run.Resume] it
// also saves, if that is due, so all state of the step must have been written.
func (r *Run) Step(loss float64, items int) {
	due := r.step(loss, items)
	r.loss = loss
	switch {
	case !math.IsNaN(loss) && !math.IsInf(loss, 0):
		r.lost = 0
	case r.lost == 0:
		r.lost = r.at
	}
	var health map[string]float64
	if r.health != nil && (due || r.json != nil) {
		health = r.health()
	}
	if due {
		r.print(health)
	}
	fields := map[string]any{"step": r.at, "loss": loss, "rate": r.rate(), "unit": r.unit + "/s"}
	for name, v := range health {
		fields[name] = v
	}
	if n := len(r.nonFinite); n > 0 {
		r.Printf("step %d: %d gradients are not finite, first that of %s", r.at, n, r.nonFinite[0])
		fields["nonfinite"], fields["nonfinite_count"] = r.nonFinite[0], n
	}
	if r.anomaly != nil {
		r.Printf("step %d: not finite: %v", r.at, r.anomaly)
		fields["anomaly"] = r.anomaly.Error()
	}
	r.nonFinite, r.anomaly = nil, nil
	r.Event("step", fields)
	r.save(loss)
}

// Event writes a JSON line {"event":name, ...fields} if the log is JSON, and nothing otherwise.
func (r *Run) Event(name string, fields map[string]any) {
	if r.json != nil {
		fmt.Fprintln(r.json, jsonLine(name, fields))
	}
}

// Metric adds a final result: a line for people, and a field of the last JSON line.
func (r *Run) Metric(name string, value any) {
	r.metrics[name] = value
	if f, ok := value.(float64); ok {
		value = fmt.Sprintf("%.4f", f)
	}
	r.Printf("%s: %v", strings.ReplaceAll(name, "_", " "), value)
}

// finish prints the summary and the last JSON line.
func (r *Run) finish(interrupted bool) {
	seconds, word := r.seconds(), "done"
	if interrupted {
		word = "interrupted"
	}
	r.Printf("%s: %d steps in %.1f s", word, r.at-r.first, seconds)
	last := map[string]any{"steps": r.at, "seconds": seconds, "interrupted": interrupted}
	if r.memory.dev != nil {
		allocated, reserved := r.memory.peaks()
		r.Printf("memory: at most %.1f MiB of tensors, %.1f MiB taken from the device", float64(allocated)/(1<<20),
			float64(reserved)/(1<<20))
		last["peak_allocated"], last["peak_reserved"] = allocated, reserved
	}
	maps.Copy(last, r.metrics)
	r.Event("done", last)
}

package train

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// clock is a time that advances with each reading.
func clock(tick time.Duration) func() time.Time {
	at := time.Unix(0, 0)
	return func() time.Time {
		at = at.Add(tick)
		return at
	}
}

// try runs a program in-process.
func try(ctx context.Context, args string, learn func(context.Context, *Run) error) (code int, stdout, stderr string) {
	return tryWith(ctx, args, Options{Steps: 4, Seed: 42, Data: "text file", AMP: true, Halves: true}, learn)
}

func tryWith(ctx context.Context, args string, o Options, learn func(context.Context, *Run) error) (code int, stdout,
	stderr string) {
	var out, errs bytes.Buffer
	flags := flag.NewFlagSet("program", flag.ContinueOnError)
	flags.SetOutput(&errs)
	code = run(ctx, flags, strings.Fields(args), o, &out, &errs, clock(time.Second), learn)
	return code, out.String(), errs.String()
}

// TestEmptyRuns: what would train nothing, or save nothing, is refused.
func TestEmptyRuns(t *testing.T) {
	for args, want := range map[string]string{
		"-epochs 0":      "error: -epochs is 0, want 1 or more\n",
		"-save-every 1s": "error: -save-every needs -checkpoint\n",
	} {
		code, _, stderr := tryWith(t.Context(), args, Options{Epochs: 2, Checkpoints: true}, training)
		if code != 1 || stderr != want {
			t.Errorf("%s: code %d, %q, want 1, %q", args, code, stderr, want)
		}
	}
}

// training is a program of r.Steps steps whose loss is 1/step.
func training(ctx context.Context, r *Run) error {
	r.Expect(r.Steps, "tokens")
	for i := range r.Steps {
		if ctx.Err() != nil {
			break
		}
		r.Step(1/float64(i+1), 64)
	}
	r.Metric("val_loss", 0.25)
	return nil
}

// lines parses JSON lines.
func lines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(text) {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

func TestFlags(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	code, _, stderr := try(t.Context(), "-threads 3 -device cpu -steps 7 -seed 3 -data x.txt -hash",
		func(_ context.Context, r *Run) error {
			if r.Device != "cpu" || r.Steps != 7 || r.Seed != 3 || r.Data != "x.txt" || !r.Hash || r.Log != "text" ||
				r.Epochs != 0 || runtime.GOMAXPROCS(0) != 3 {
				t.Errorf("flags: %+v", r)
			}
			return nil
		})
	if code != 0 || stderr != "" {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}

// A device that computes nothing says so.
func TestNullDevice(t *testing.T) {
	for device, want := range map[string]bool{"cpu": false, "null": true} {
		code, stdout, _ := try(t.Context(), "-device "+device, func(_ context.Context, r *Run) error {
			dev, err := r.Open()
			if err != nil {
				return err
			}
			return dev.Close()
		})
		if code != 0 || strings.Contains(stdout, "it computes nothing") != want {
			t.Errorf("%s: code %d, stdout %q", device, code, stdout)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for args, c := range map[string]struct {
		code int
		says string
	}{
		"-epochs 3":       {2, "not defined: -epochs"}, // the program counts steps
		"-steps many":     {2, "invalid value"},
		"-steps -1":       {1, "error: -steps, -epochs, -threads, -workers and -prefetch cannot be negative\n"},
		"-threads 100000": {1, "error: -threads is 100000, at most 1024\n"},
		"-threads -1":     {1, "error: -steps, -epochs, -threads, -workers and -prefetch cannot be negative\n"},
		"-log xml":        {1, "error: -log is \"xml\", want text or json\n"},
		"extra":           {1, "error: unexpected argument \"extra\"\n"},
		"-h":              {0, "-device"},
	} {
		code, stdout, stderr := try(t.Context(), args, func(context.Context, *Run) error {
			t.Errorf("%s: training began", args)
			return nil
		})
		if code != c.code || !strings.Contains(stderr, c.says) || stdout != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q; want %d, %q", args, code, stdout, stderr, c.code, c.says)
		}
	}
}

// -data, -amp, -workers and -prefetch are flags of programs that use them.
func TestFlagsOnRequest(t *testing.T) {
	for _, name := range []string{"data", "amp", "workers", "prefetch"} {
		var out bytes.Buffer
		flags := flag.NewFlagSet("program", flag.ContinueOnError)
		flags.SetOutput(&out)
		code := run(t.Context(), flags, []string{"-" + name, "bf16"}, Options{Steps: 1}, &out, &out, time.Now, training)
		if code != 2 || !strings.Contains(out.String(), "not defined: -"+name) {
			t.Errorf("-%s: code %d\n%s", name, code, out.String())
		}
	}
}

func TestPlainText(t *testing.T) {
	code, stdout, stderr := try(t.Context(), "", training)
	if code != 0 || stderr != "" {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	if strings.ContainsAny(stdout, "\r\x1b") {
		t.Errorf("control characters where there is no terminal: %q", stdout)
	}
	for _, part := range []string{"step 1/4  loss 1.0000  ", "tokens/s", "s left\n", "step 4/4  loss 0.5",
		"\nval loss: 0.2500\n", "done: 4 steps in"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("output lacks %q:\n%s", part, stdout)
		}
	}
	if strings.Contains(stdout, "event") {
		t.Errorf("JSON without -log json:\n%s", stdout)
	}
}

func TestPlainLinesAreRare(t *testing.T) {
	var out bytes.Buffer
	flags := flag.NewFlagSet("program", flag.ContinueOnError)
	run(t.Context(), flags, []string{"-steps=1000"}, Options{Steps: 1}, &out, &out, clock(time.Millisecond), training)
	if n := strings.Count(out.String(), "step "); n < 2 || n > 6 {
		t.Errorf("%d progress lines for 1000 steps in a few seconds:\n%s", n, out.String())
	}
}

func TestJSON(t *testing.T) {
	code, stdout, stderr := try(t.Context(), "-log json", training)
	if code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	all := lines(t, stdout)
	if len(all) != 5 {
		t.Fatalf("%d lines:\n%s", len(all), stdout)
	}
	for i, m := range all[:4] {
		if m["event"] != "step" || m["step"] != float64(i+1) || m["loss"] != 1/float64(i+1) || m["unit"] != "tokens/s" {
			t.Errorf("line %d: %v", i, m)
		}
	}
	if m := all[4]; m["event"] != "done" || m["val_loss"] != 0.25 || m["steps"] != 4.0 || m["interrupted"] != false {
		t.Errorf("last line: %v", m)
	}
	if !strings.Contains(stderr, "step 4/4") || !strings.Contains(stderr, "val loss: 0.2500") {
		t.Errorf("no text for people on standard error:\n%s", stderr)
	}
}

func TestJSONOfNonFinite(t *testing.T) {
	_, stdout, _ := try(t.Context(), "-log json", func(_ context.Context, r *Run) error {
		r.Step(math.NaN(), 1)
		r.Metric("loss", math.Inf(1))
		r.Metric("recalls", []float64{1, math.NaN()})
		r.Event("odd", map[string]any{"value": func() {}})
		return nil
	})
	all := lines(t, stdout)
	if len(all) != 3 || all[0]["loss"] != "NaN" || all[1]["event"] != "error" || all[2]["loss"] != "+Inf" ||
		all[2]["recalls"] != "[1 NaN]" {
		t.Errorf("lines: %v", all)
	}
}

func TestErrorIsOneLine(t *testing.T) {
	code, stdout, stderr := try(t.Context(), "-log json", func(context.Context, *Run) error {
		return errors.Join(errors.New("first"), errors.New("second"))
	})
	if code != 1 || stderr != "error: first; second\n" || stdout != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// What is wrong ends with code 1 and one line, not with a trace: a typed error of the library, a loss that stays not
// finite, a disk that is full.
func TestFailures(t *testing.T) {
	steps := func(losses ...float64) func(context.Context, *Run) error {
		return func(_ context.Context, r *Run) error {
			for _, loss := range losses {
				r.Step(loss, 1)
			}
			return nil
		}
	}
	nan := math.NaN()
	for name, c := range map[string]struct {
		learn func(context.Context, *Run) error
		says  string
	}{
		"typed": {func(context.Context, *Run) error { tensor.Zeros(tensor.Float32, -1); return nil },
			"error: run_test.go:"},
		"lost":      {steps(1, nan, math.Inf(1), nan), "error: the loss is not finite since step 2\n"},
		"recovered": {steps(1, nan, 2), ""},
	} {
		code, _, stderr := try(t.Context(), "", c.learn)
		if (code == 1) != (c.says != "") || !strings.HasPrefix(stderr, c.says) || strings.Count(stderr, "\n") > 1 {
			t.Errorf("%s: code %d, stderr %q, want %q", name, code, stderr, c.says)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		return // not on this system
	}
	defer full.Close()
	var stderr bytes.Buffer
	code := run(t.Context(), flag.NewFlagSet("program", flag.ContinueOnError), nil, Options{Steps: 1}, full, &stderr,
		time.Now, steps(1))
	if code != 1 || !strings.HasPrefix(stderr.String(), "error: output is lost: ") {
		t.Errorf("full disk: code %d, stderr %q", code, stderr.String())
	}
}

func TestInterrupt(t *testing.T) {
	why := errors.New("interrupt signal")
	for name, c := range map[string]struct {
		after func(context.Context) error
		code  int
	}{
		"loop left":     {func(context.Context) error { return nil }, 130},
		"context error": {context.Context.Err, 130},
		"cause":         {func(ctx context.Context) error { return fmt.Errorf("loader: %w", context.Cause(ctx)) }, 130},
		"other error":   {func(context.Context) error { return errors.New("disk full") }, 1},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		code, stdout, stderr := try(ctx, "-log json", func(ctx context.Context, r *Run) error {
			r.Step(2, 1)
			cancel(why)
			return c.after(ctx)
		})
		all := lines(t, stdout)
		last := all[len(all)-1]
		if code != c.code {
			t.Errorf("%s: code %d", name, code)
		}
		if c.code == 130 && (last["event"] != "done" || last["interrupted"] != true || last["steps"] != 1.0 ||
			!strings.Contains(stderr, "interrupted: 1 steps")) {
			t.Errorf("%s: last line %v, stderr %q", name, last, stderr)
		}
		if c.code == 1 && (last["event"] == "done" || !strings.Contains(stderr, "error: disk full\n")) {
			t.Errorf("%s: last line %v, stderr %q", name, last, stderr)
		}
	}
}

func TestTerminalLine(t *testing.T) {
	var out bytes.Buffer
	now := clock(time.Second)
	r := &Run{human: &output{Writer: &out}}
	r.start(r.human, now)
	r.tty = true
	r.Expect(3, "examples")
	r.Step(100000, 10)
	long := r.width
	r.Step(0, 10)
	r.Printf("note")
	r.Step(0, 10)
	got := strings.Split(out.String(), "\r")
	if len(got) != 6 || got[0] != "" {
		t.Fatalf("output %q", out.String())
	}
	if !strings.HasPrefix(got[1], "step 1/3  loss 100000.0000") || !strings.HasPrefix(got[2], "step 2/3") ||
		len(got[2]) < long {
		t.Errorf("%q does not cover %q", got[2], got[1])
	}
	if strings.TrimSpace(got[3]) != "" || len(got[3]) < len(strings.TrimSpace(got[2])) || got[4] != "note\n" ||
		!strings.HasPrefix(got[5], "step 3/3") {
		t.Errorf("note is not on a line of its own: %q", got[3:])
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("escape sequences")
	}
}

func TestTerminalIsFound(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var plain, device progress
	plain.start(&output{Writer: file}, time.Now)
	device.start(&output{Writer: null}, time.Now)
	if plain.tty || !device.tty {
		t.Errorf("file is a terminal: %v, character device is one: %v", plain.tty, device.tty)
	}
}

// The values of Health are in both lines of a step, and read once for both.
func TestHealth(t *testing.T) {
	reads := 0
	_, stdout, stderr := try(t.Context(), "-log json -amp fp16", func(ctx context.Context, r *Run) error {
		r.Health(r.Scaler(), func() float64 { reads++; return 0.125 }, nil)
		return training(ctx, r)
	})
	for _, line := range lines(t, stdout)[:4] {
		if line["norm"] != 0.125 || line["scale"] != 65536. || line["skipped"] != 0. {
			t.Errorf("step %v", line)
		}
	}
	if !strings.Contains(stderr, "norm 0.125  scale 6.554e+04  skipped 0") || reads != 4 {
		t.Errorf("%d reads; %s", reads, stderr)
	}
}

// Both logs report an overflow with the first parameter whose gradient is not finite, and with -anomaly the first
// operation. It is planted in the input of step 2, which is too large for float16.
func TestOverflow(t *testing.T) {
	learn := func(_ context.Context, r *Run) error {
		dev, err := tensor.Open("cpu", tensor.Seed(1))
		if err != nil {
			return err
		}
		defer dev.Close()
		model := nn.Sequential(nn.NewLinear(2, 3), nn.Tanh, nn.NewLinear(3, 1))
		if err := nn.Init(dev, model); err != nil {
			return err
		}
		opt, scaler := optim.New(optim.SGD(1e-3), model), r.Scaler()
		r.Health(scaler, opt.GradNorm, nn.Parameters(model))
		for k := range 3 {
			x := tensor.FromSlice([]float32{1, -1}, 1, 2)
			if k == 1 {
				x = x.Scale(1e5)
			}
			err := dev.Step(func(s *tensor.Scope) error {
				autograd.Backward(scaler.Scale(model.Forward(s.In(x)).Mean().Scale(0.5)))
				r.Gradients(s)
				return scaler.Step(s, opt)
			}, r.Mode()...)
			if err != nil {
				return err
			}
			r.Step(1, 1)
		}
		return nil
	}
	for _, c := range []struct {
		args              string
		skipped           any // updates
		overflow, anomaly bool
	}{
		{"-amp fp16", 1., true, false},
		{"-amp fp16 -anomaly", 1., true, true},
		{"-amp bf16 -anomaly", nil, false, false},
	} {
		code, stdout, stderr := try(t.Context(), "-log json "+c.args, learn)
		if code != 0 {
			t.Fatalf("%s: code %d: %s", c.args, code, stderr)
		}
		all := lines(t, stdout)
		for k, line := range all[:3] {
			operation, _ := line["anomaly"].(string)
			named := strings.HasPrefix(operation, "run_test.go:") &&
				strings.Contains(operation, ": cast: the result float16[1 2] has 0 NaN and 2 infinite")
			if (line["nonfinite"] == "0.weight") != (k == 1 && c.overflow) || named != (k == 1 && c.anomaly) {
				t.Errorf("%s: step %v", c.args, line)
			}
		}
		if all[2]["skipped"] != c.skipped {
			t.Errorf("%s: the last step is %v", c.args, all[2])
		}
		for part, want := range map[string]bool{
			"\nstep 2: 3 gradients are not finite, first that of 0.weight\n": c.overflow,
			"\nstep 2: not finite: run_test.go:":                             c.anomaly,
		} {
			if strings.Contains(stderr, part) != want {
				t.Errorf("%s: the text has %q: %v\n%s", c.args, part, !want, stderr)
			}
		}
	}
}

func TestSmoothing(t *testing.T) {
	var p progress
	p.start(&output{Writer: &bytes.Buffer{}}, clock(time.Second))
	for range 50 {
		p.step(3, 1)
		if math.Abs(p.smooth()-3) > 1e-12 {
			t.Fatalf("constant losses of 3 are smoothed to %v", p.smooth())
		}
	}
	p.step(103, 1)
	if p.smooth() < 3.5 || p.smooth() > 20 {
		t.Errorf("one outlier of 103 moves the smoothed loss to %v", p.smooth())
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		p.step(bad, 1)
		if p.step(3, 1); math.Abs(p.smooth()-3) > 1e-12 {
			t.Errorf("a loss of %v, and the next one of 3, are smoothed to %v", bad, p.smooth())
		}
	}
}

// TestMain runs Main instead of the tests in the processes that TestSignals starts: a program that ends its step after
// the first signal, or with the word "deaf" never.
func TestMain(m *testing.M) {
	word := os.Getenv("TRAIN_TEST_CHILD")
	if word == "" {
		os.Exit(m.Run())
	}
	os.Args = []string{"program", "-log", "json"}
	flag.CommandLine = flag.NewFlagSet("program", flag.ExitOnError)
	os.Exit(Main(Options{Steps: 1}, func(ctx context.Context, r *Run) error {
		r.Step(1, 1)
		<-ctx.Done()
		r.Event("signal", nil)
		if word == "deaf" {
			select {}
		}
		r.Metric("accuracy", 0.5)
		return context.Cause(ctx)
	}))
}

// TestSignals sends real signals to a program: the first one lets it finish and ends it with code 130, the second one
// kills it.
func TestSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("windows cannot send an interrupt to one process")
	}
	for _, c := range []struct {
		word    string
		signals []os.Signal
	}{
		{"listens", []os.Signal{os.Interrupt}},
		{"listens", []os.Signal{syscall.SIGTERM}},
		{"deaf", []os.Signal{os.Interrupt, os.Interrupt}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), "TRAIN_TEST_CHILD="+c.word)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		text := bufio.NewReader(out)
		for _, signal := range c.signals {
			if _, err := text.ReadString('\n'); err != nil { // a line: the program listens
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond) // until the handler of an earlier signal is gone
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		rest, err := io.ReadAll(text)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if c.word == "deaf" {
			if code := cmd.ProcessState.ExitCode(); code != -1 || ctx.Err() != nil {
				t.Errorf("%v: ended with code %d (%v), want to be killed", c.signals, code, ctx.Err())
			}
			continue
		}
		all := lines(t, string(rest))
		last := all[len(all)-1]
		if code := cmd.ProcessState.ExitCode(); code != 130 || last["event"] != "done" || last["accuracy"] != 0.5 ||
			last["interrupted"] != true {
			t.Errorf("%v: code %d, last line %v", c.signals, code, last)
		}
	}
}

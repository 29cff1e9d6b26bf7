// Gpucheck runs the checks that need a GPU, on a machine that has a driver but no Go and no network. It is part of the
// bundle that scripts/gpu-bundle makes; scripts/gpu-check unpacks and starts it:
//
//	gpucheck [-out FOLDER] [-limit 9m] [-small] [CALL...]
//	gpucheck [-out FOLDER] [-limit 9m] [-small] [-name call1] STAGE...
//
// A call is some stages that end within a limit; without arguments all calls run, one after the other. Each leaves two
// files: FOLDER/bits1.jsonl, to which each result is written at once, a line of JSON, and FOLDER/bits1.tar.gz with what
// each process printed, which is written anew after each stage. With -small it is a rehearsal on the emulator, for
// which the bundle has stand-ins of the vendor's tools.
//
// Tests of a binary share a process, since a context takes a second; those that a fault, a hang or the end of the
// process keeps from passing have another one each. main.go runs the processes, tests.go those of tests, archive.go
// packs what they printed, speed.go measures in one of them, summary.go compares the figures with their targets and
// predictions.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A stage is a group of processes. The first stages test what the later ones need.
type stage struct {
	name, what string
	run        func(c *check)
	share      float64 // of the time of its call, reserved for this one
}

// A call is what a machine that is lent for ten minutes at a time does at once.
type call struct {
	name, what string
	stages     []string
}

// callLimit is the time of a call.
const callLimit = 9 * time.Minute

var calls = []call{
	{"bits", "does it work, right to the bit", []string{"machine", "primitives", "kernels", "operations", "hash"}},
	{"speed", "every figure beside the vendor's and the prediction", []string{"speed"}},
	{"why", "what a GPU's units do by themselves, and the vendor's counters for each family of kernels",
		[]string{"probe", "counters"}},
	{"faults", "the vendor's sanitizers, and whole training", []string{"sanitizers", "training"}},
}

// Tests that sanitizers look at, which make a kernel a hundred times slower.
const sanitized = "^(TestFlash|TestMatMulHalf|TestReductions|TestCrossEntropy)$"

var stages = []stage{
	{"machine", "driver, clocks, what images fit; a copy, a kernel, a matmul", func(c *check) {
		c.do("nvidia-smi", 20*time.Second, "nvidia-smi",
			"--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit,memory.total,compute_cap",
			"--format=csv,noheader")
		c.do("nvidia-smi all", 20*time.Second, "nvidia-smi", "-q", "-d", "CLOCK,POWER,ECC,PERFORMANCE")
		c.do("info", 60*time.Second, c.file("weft"), "info")
		c.do("doctor", 2*time.Minute, c.file("weft"), "doctor")
		c.do("startup", time.Minute, os.Args[0], "-speed", "startup")
		cache, err := os.MkdirTemp("", "jit")
		if err != nil {
			c.note("startup of PTX", err.Error())
			return
		}
		defer os.RemoveAll(cache)
		for _, name := range []string{"cold", "warm"} { // the driver compiles PTX, and caches the result
			c.do("startup of PTX "+name, time.Minute, "env", "CUDA_FORCE_PTX_JIT=1",
				"CUDA_CACHE_PATH="+cache, os.Args[0], "-speed", "startup")
		}
	}, 0.15},
	{"primitives", "every primitive and scalar instruction against its definition, bit for bit", func(c *check) {
		c.tests("emu.test", "^TestPrimitive", time.Minute)
	}, 0.1},
	{"kernels", "the backend, and kernels with random shapes and layouts, against the CPU", func(c *check) {
		shapes := []string{"-test.short", "-shapes=100"} // few expressions: NVRTC takes seconds for some
		if c.small {
			shapes = nil
		}
		c.tests("cuda.test", ".", time.Minute, shapes...)
	}, 0.25},
	{"operations", "every operation and whole models against the CPU", func(c *check) {
		c.tests("ops.test", ".", 2*time.Minute)
	}, 0.25},
	{"hash", "training ends with the CPU's hash", func(c *check) {
		for _, p := range [][]string{{"mlp", "-epochs", "5", "-hash"}, {"chargpt", "-steps", "100", "-hash"}} {
			cpu := c.train(p[0]+" cpu", "cpu", 3*time.Minute, p...)
			gpu := c.train(p[0]+" cuda", "cuda", 3*time.Minute, p...)
			if cpu.OK && gpu.OK && (cpu.hash() == "" || cpu.hash() != gpu.hash()) {
				c.note(p[0]+" hash", fmt.Sprintf("the CPU ends with %q, the GPU with %q", cpu.hash(), gpu.hash()))
				c.train(p[0]+" lockstep", "lockstep", 3*time.Minute, p...) // names the first launch that differs
			}
		}
	}, 0.25},
	{"speed", "operations beside a copy and beside PyTorch, products and attention in TFLOP/s, costs of the driver",
		(*check).speed, 1},
	{"probe", "units of the GPU and the driver by themselves", func(c *check) {
		c.do("probe", 40*time.Second, c.file("weft"), "probe", fmt.Sprint("-small=", c.small))
	}, 0.1},
	{"counters", "the vendor's counters for a launch of each kernel: why is a line as fast as it is", func(c *check) {
		for _, family := range []string{"rows", "reductions", "matmul", "attention"} {
			c.do("ncu "+family, 2*time.Minute, "ncu", "--clock-control", "none", "--filter-mode", "per-launch-config",
				"-c", "1", "--section", "SpeedOfLight", "--section", "WarpStateStats", "--section",
				"MemoryWorkloadAnalysis", "--section", "Occupancy", "-k",
				"regex:^(softmax|norm|cross_entropy|sum_|matmul|flash|attention)", "--csv",
				os.Args[0], "-speed", family, fmt.Sprint("-small=", c.small))
		}
	}, 0.9},
	{"sanitizers", "the vendor's sanitizers on kernels with shared memory", func(c *check) {
		for _, tool := range []string{"memcheck", "racecheck", "initcheck", "synccheck"} {
			c.do(tool, 80*time.Second, "compute-sanitizer", "--tool", tool, "--error-exitcode", "9", c.file("ops.test"),
				"-test.short", "-test.v", "-test.run", sanitized)
		}
	}, 0.62},
	{"training", "tokens a second and loss curves in float32, bfloat16 and float16", func(c *check) {
		for _, amp := range []string{"", "bf16", "fp16"} {
			c.train("chargpt "+amp, "cuda", 2*time.Minute, "chargpt", "-steps", "400", "-amp", amp)
		}
	}, 0.38},
}

func main() {
	out := flag.String("out", "gpu-results", "folder for results")
	name := flag.String("name", "", "of the files with results of stages; call1, call2 and so on if there is none")
	limit := flag.Duration("limit", callLimit, "for a call, or all stages together")
	speed := flag.String("speed", "", "measure one family of operations in this process")
	device := flag.String("device", "cuda", "for -speed")
	small := flag.Bool("small", false, "small sizes, to rehearse")
	list := flag.Bool("list", false, "list the calls and the stages")
	flag.Parse()
	switch {
	case *speed != "":
		if err := measure(*speed, *device, *small); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case *list:
		for _, c := range calls {
			fmt.Printf("call %-12s %s: %s\n", c.name, c.what, strings.Join(c.stages, ", "))
		}
		for _, s := range stages {
			fmt.Printf("stage %-11s %s\n", s.name, s.what)
		}
		return
	}
	if err := run(*out, *name, *limit, *small, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
		os.Exit(1)
	}
}

// check is one run.
type check struct {
	folder string // of the bundle
	out    string // folder of what processes print
	log    *os.File
	stage  string
	end    time.Time // of the stage
	gpu    *gpu      // its state when the stage began
	small  bool
	failed int

	weft, vendor map[string]figure // measured by the stage speed, by the names of lines
	table        string            // of these, printed at the end
}

// run runs calls, or stages as one call.
func run(out, name string, limit time.Duration, small bool, names []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	os.Args[0] = self
	folder := filepath.Dir(self)
	os.Setenv("WEFT_EMU_IMAGES", filepath.Join(folder, "texts"))
	if os.Getenv("WEFT_CUDA_DRIVER") == "" {
		os.Setenv("WEFT_CUDA_DRIVER", "libcuda.so.1")
	}
	os.Setenv("WEFT_EMU_GPU", os.Getenv("WEFT_CUDA_DRIVER"))
	if small {
		standIns(filepath.Join(folder, "standins"))
	}
	chosen, err := choose(name, names)
	if err != nil {
		return err
	}
	var failed error
	for _, c := range chosen {
		failed = errors.Join(failed, c.run(folder, out, name != "", limit, small))
	}
	return failed
}

// standIns makes programs of a folder, and modules of Python there, be found before the vendor's.
func standIns(folder string) {
	os.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	os.Setenv("PYTHONPATH", folder)
}

// choose returns the calls of some names, all without names; names of stages are one call.
func choose(name string, names []string) (chosen []call, err error) {
	for _, c := range calls {
		if len(names) == 0 || slices.Contains(names, c.name) {
			chosen = append(chosen, c)
		}
	}
	if name == "" && len(chosen) >= len(names) {
		return chosen, nil
	}
	if len(names) == 0 {
		return nil, errors.New("-name is for stages; calls have names")
	}
	for _, name := range names {
		if !slices.ContainsFunc(stages, func(s stage) bool { return s.name == name }) {
			return nil, fmt.Errorf("there is no stage %q; -list shows them", name)
		}
	}
	return []call{{name: cmp.Or(name, "call"), stages: names}}, nil
}

// run runs the stages of a call with programs of a folder. Its files have its name as it is, or with a number.
func (k call) run(folder, out string, named bool, limit time.Duration, small bool) error {
	log, err := create(out, k.name, !named)
	if err != nil {
		return err
	}
	defer log.Close()
	printed, err := os.MkdirTemp("", "gpucheck")
	if err != nil {
		return err
	}
	defer os.RemoveAll(printed)
	c := &check{folder: folder, out: printed, log: log, small: small}
	chosen := slices.DeleteFunc(slices.Clone(stages), func(s stage) bool { return !slices.Contains(k.stages, s.name) })
	start, ends := time.Now(), ends(chosen, limit)
	for i, s := range chosen {
		c.stage, c.gpu, c.end = s.name, query(), start.Add(ends[i])
		s.run(c)
		if err := pack(strings.TrimSuffix(log.Name(), ".jsonl")+".tar.gz", printed); err != nil {
			c.note("archive", err.Error())
		}
	}
	if c.table != "" {
		fmt.Print("\n", c.table)
	}
	fmt.Printf("%s took %.0f s of %.0f\n", k.name, time.Since(start).Seconds(), limit.Seconds())
	if c.failed > 0 {
		return fmt.Errorf("%d results are failures; see %s", c.failed, log.Name())
	}
	return nil
}

// ends are the times at which stages must end: before the shares of those that follow.
func ends(of []stage, limit time.Duration) []time.Duration {
	all := make([]time.Duration, len(of))
	sum := 0.0
	for _, s := range of {
		sum += s.share
	}
	end := limit
	for i := len(of) - 1; i >= 0; i-- {
		all[i] = end
		end -= time.Duration(of[i].share / max(1, sum) * float64(limit))
	}
	return all
}

// gpu is the first GPU and its state, recorded with each result.
type gpu struct {
	Name        string  `json:"name"`
	Driver      string  `json:"driver"`
	SM          float64 `json:"sm_mhz"`
	Memory      float64 `json:"memory_mhz"`
	PowerLimit  float64 `json:"power_limit_w"`
	Power       float64 `json:"power_w"`
	Temperature float64 `json:"temperature_c"`
}

// query asks nvidia-smi; the result is nil where there is none, as on the emulator.
func query() *gpu {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nvidia-smi", "--id=0",
		"--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit,power.draw,temperature.gpu",
		"--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	line, err := cmd.Output()
	if err != nil {
		return nil
	}
	name, rest, _ := strings.Cut(string(line), ", ")
	driver, rest, _ := strings.Cut(rest, ", ")
	g := &gpu{Name: name, Driver: driver}
	for i, word := range strings.Split(rest, ",") {
		if to := []*float64{&g.SM, &g.Memory, &g.PowerLimit, &g.Power, &g.Temperature}; i < len(to) {
			fmt.Sscan(word, to[i]) // 0 where the GPU does not say
		}
	}
	return g
}

// file is a file of the bundle.
func (c *check) file(name string) string { return filepath.Join(c.folder, name) }

// speed measures all families but "startup", Weft's and the vendor's in turn.
func (c *check) speed() {
	type process struct {
		name string
		args []string
	}
	var all []process
	for _, f := range families {
		if f.name == "startup" {
			continue // in the stage machine
		}
		all = append(all, process{f.name,
			[]string{os.Args[0], "-speed", f.name, fmt.Sprint("-small=", c.small)}})
		if f.peer {
			all = append(all, process{vendor + f.name, []string{"python3", c.file("gpu-peer.py"), f.name}})
		}
	}
	c.weft, c.vendor = map[string]figure{}, map[string]figure{}
	for i, p := range all {
		fair := 3 * time.Until(c.end) / time.Duration(len(all)-i) // a hang leaves time to the others
		figures := c.weft
		if strings.HasPrefix(p.name, vendor) {
			figures = c.vendor
		}
		// else the file is from another run
		if r := c.do(p.name, min(90*time.Second, fair), p.args[0], p.args[1:]...); r.Seconds > 0 {
			collect(figures, c.outputFile(p.name))
		}
	}
	c.summary()
}

// train runs an example, whose name is first in program, with its arguments.
func (c *check) train(name, device string, limit time.Duration, program ...string) result {
	args := append(slices.Clone(program[1:]), "-log", "json", "-device", device)
	switch {
	// with a short text of the bundle: all of its last tenth is evaluated at the end
	case program[0] == "chargpt" && c.small:
		args = append(args, "-sample", "0", "-data", c.file("gpu-peer.py"), "-steps", "4", "-layers", "1", "-width",
			"32", "-heads", "2", "-context", "16", "-batch", "2")
	case program[0] == "chargpt":
		args = append(args, "-sample", "0", "-data", c.file("opticks"))
	case c.small:
		args = append(args, "-epochs", "1")
	}
	return c.do(name, limit, c.file(program[0]), args...)
}

// result is one line.
type result struct {
	Stage   string          `json:"stage"`
	Name    string          `json:"name"`
	OK      bool            `json:"ok"`
	Skipped bool            `json:"skipped,omitempty"` // it cannot run here; the output says why
	Timeout bool            `json:"timeout,omitempty"`
	Seconds float64         `json:"seconds"`
	Output  string          `json:"output,omitempty"` // the end of what the process printed
	Values  json.RawMessage `json:"values,omitempty"` // its last line, if that is JSON
	GPU     *gpu            `json:"gpu"`              // three seconds into the process, or when the stage began
}

// hash is that of the weights, which a training prints last.
func (r result) hash() string {
	var last struct{ Hash string }
	json.Unmarshal(r.Values, &last) // without one it is ""
	return last.Hash
}

// outputFile is the file with what a process prints.
func (c *check) outputFile(name string) string {
	return filepath.Join(c.out, strings.ReplaceAll(c.stage+" "+name, " ", "-")+".txt")
}

// do runs a process under a time limit.
func (c *check) do(name string, limit time.Duration, program string, args ...string) result {
	return c.write(c.start(name, limit, 0, program, args...))
}

// start runs a process, which is ended after a time, or when it prints nothing for longer than quiet, if that is not 0.
// In a rehearsal it has five times these limits, since the emulator is slow.
func (c *check) start(name string, limit, quiet time.Duration, program string, args ...string) result {
	if c.small {
		limit, quiet = 5*limit, 5*quiet
	}
	left := time.Until(c.end)
	if left <= 0 {
		return c.failure(name, "not run: the time for this stage is over")
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(limit, left))
	defer cancel()
	path := c.outputFile(name)
	file, err := os.Create(path)
	if err != nil {
		return c.failure(name, err.Error())
	}
	defer file.Close()
	if quiet > 0 {
		go endQuiet(ctx, cancel, file, quiet)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = file, file
	start, state := time.Now(), c.gpu
	err = wait(ctx, cmd, func() { state = query() })
	r := result{Stage: c.stage, Name: name, OK: err == nil, Timeout: ctx.Err() != nil,
		Seconds: time.Since(start).Seconds(), GPU: state}
	output, unread := os.ReadFile(path)
	text := strings.TrimSpace(string(output))
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		text += "\n" + err.Error()
	}
	if unread != nil {
		text += "\n" + unread.Error()
	}
	if last := text[strings.LastIndexByte(text, '\n')+1:]; json.Valid([]byte(last)) && strings.HasPrefix(last, "{") {
		r.Values = json.RawMessage(last)
	}
	// nvidia-smi, Python and PyTorch are not in the bundle
	if errors.Is(err, exec.ErrNotFound) || exit != nil && exit.ExitCode() == 77 {
		r.OK, r.Skipped = true, true
	} else {
		// subtests of it may run
		r.Skipped = r.OK && skips(name, text)
	}
	if len(text) > 4000 {
		text = text[len(text)-4000:]
	}
	r.Output = text
	return r
}

// endQuiet cancels a process when nothing has been written to a file for some time.
func endQuiet(ctx context.Context, cancel func(), file *os.File, quiet time.Duration) {
	size, since := int64(-1), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(quiet / 20):
		}
		if info, err := file.Stat(); err == nil && info.Size() != size {
			size, since = info.Size(), time.Now()
		}
		if time.Since(since) > quiet {
			cancel()
			return
		}
	}
}

// wait runs a process, and calls a function three seconds after its start if it still runs then. A process that hangs
// in the driver survives being killed: wait gives up five seconds later.
func wait(ctx context.Context, cmd *exec.Cmd, during func()) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	case <-time.After(3 * time.Second):
		during()
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(5 * time.Second):
		return errors.New("the process could not be killed")
	}
}

// note records a process that could not be run, as a failure.
func (c *check) note(name, why string) result { return c.write(c.failure(name, why)) }

func (c *check) failure(name, why string) result {
	return result{Stage: c.stage, Name: name, Output: why, GPU: c.gpu}
}

// write writes the JSON line, and prints a line for people, with the last line of the output of a failed process.
func (c *check) write(r result) result {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err) // plain data
	}
	fmt.Fprintf(c.log, "%s\n", line)
	c.log.Sync()
	word, why := "ok    ", ""
	if !r.OK {
		c.failed++
		word, why = "FAILED", ": "+r.Output[strings.LastIndexByte(r.Output, '\n')+1:]
	}
	switch {
	case r.Timeout:
		word = "TIME  "
	case r.Skipped:
		word = "SKIP  "
	}
	fmt.Printf("%s %6.1f s  %s: %s%s\n", word, r.Seconds, r.Stage, r.Name, why)
	return r
}

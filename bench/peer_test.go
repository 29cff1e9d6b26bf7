package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/tensor"
)

// A process runs benchmarks on request: one JSON object a line in each direction. The head of peer.py describes the
// protocol; [serve] is the same for Weft, to measure another tier of kernels in the same run.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	facts answer
}

// An answer is what a process says about itself and the time of each call.
type answer struct {
	Program    string    `json:"program"` // of a peer: its name and version
	Benches    []string  `json:"benches"` // of a peer: its benchmarks
	Capability string    `json:"cpu_capability"`
	Tier       string    `json:"tier"`
	Peak       float64   `json:"peak"` // of Weft's own child: operations a second
	Seconds    []float64 `json:"seconds"`
	Error      string    `json:"error"`
}

// version names the program that a process runs.
func (a answer) version() string {
	if a.Program == "" {
		return "Weft, " + a.Tier
	}
	return a.Program
}

// start runs a program and asks what it is.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd}
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 16<<20)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.facts, err = p.ask(map[string]any{"bench": "info"})
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) ask(request map[string]any) (a answer, err error) {
	line, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return a, err
	}
	if !p.out.Scan() {
		return a, fmt.Errorf("the process ended: %v", p.out.Err())
	}
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s", a.Error)
	}
	return a, nil
}

func (p *process) stop() {
	p.in.Close()
	p.cmd.Wait()
}

// processes are those started so far, by key; for a failed start the value is its error.
var processes = map[string]any{}

// child is the process of the given key, started at first use.
func child(key string, command func() *exec.Cmd) (*process, error) {
	if processes[key] == nil {
		if p, err := start(command()); err != nil {
			processes[key] = err
		} else {
			processes[key] = p
		}
	}
	if err, failed := processes[key].(error); failed {
		return nil, err
	}
	return processes[key].(*process), nil
}

func stopProcesses() {
	for _, p := range processes {
		if p, ok := p.(*process); ok {
			p.stop()
		}
	}
}

// torch is PyTorch with flags of peer_torch.py and a setting of ATEN_CPU_CAPABILITY, "" for its own choice.
func torch(capability string, flags ...string) (*process, error) {
	return child("torch "+capability+strings.Join(flags, " "), func() *exec.Cmd {
		cmd := peer("WEFT_PEER", append([]string{"torch"}, flags...)...)
		if capability != "" {
			cmd.Env = append(os.Environ(), "ATEN_CPU_CAPABILITY="+capability)
		}
		return cmd
	})
}

// jax is JAX on a number of processors, with flags of peer.py.
func jax(threads int, flags ...string) (*process, error) {
	args := append([]string{"jax", "--threads", strconv.Itoa(threads)}, flags...)
	return child(strings.Join(args, " "), func() *exec.Cmd { return peer("WEFT_PEER_JAX", args...) })
}

// peer is peer.py, run by the program that an environment variable names, or by Python.
func peer(variable string, args ...string) *exec.Cmd {
	python := "/usr/bin/python3" // where Debian's python3-torch is
	if p := os.Getenv(variable); p != "" {
		python = p
	} else if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	cmd := exec.Command(python, append([]string{"peer.py"}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// serving is the environment variable that makes this test binary a child of the benchmarks.
const serving = "WEFT_BENCH_SERVE"

// tier is Weft with other kernels.
func tier(name string) (*process, error) {
	return child("weft "+name, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serving+"=1", "WEFT_CPU="+name)
		cmd.Stderr = os.Stderr
		return cmd
	})
}

// serve answers requests {"bench": line, "threads": n, "warmup": n, "reps": n} until the input ends.
func serve(in io.Reader, out io.Writer) {
	requests := bufio.NewScanner(in)
	answers := json.NewEncoder(out)
	prepared := map[string]call{}
	for requests.Scan() {
		var r struct {
			Bench                 string
			Threads, Warmup, Reps int
		}
		a := answer{Tier: cpu.Tier()}
		if err := json.Unmarshal(requests.Bytes(), &r); err != nil {
			a.Error = err.Error()
		} else if r.Bench != "info" {
			setThreads(r.Threads)
			if prepared[r.Bench] == nil {
				w := workloads[slices.IndexFunc(workloads, func(w workload) bool { return w.name == r.Bench })]
				prepared[r.Bench] = w.weft(openDevice())
			}
			a.Peak = peak(r.Threads)
			a.Seconds = repeat(prepared[r.Bench], r.Warmup, r.Reps)
		}
		answers.Encode(a)
	}
}

func openDevice() *tensor.Device {
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	if err != nil {
		panic(err)
	}
	return dev
}

// A contender runs a number of calls and returns the seconds of each.
type contender struct {
	name    string // of the variant: "PyTorch", "PyTorch AVX2 --passive", "JAX"
	version string
	run     func(warmup, reps int) ([]float64, error)
	peak    float64 // its own ceiling, where that differs from Weft's
}

// remote is a contender in another process.
func remote(name string, p *process, request map[string]any, threads int) *contender {
	c := &contender{name: name, version: p.facts.version()}
	c.run = func(warmup, reps int) ([]float64, error) {
		r := maps.Clone(request)
		r["threads"], r["warmup"], r["reps"] = threads, warmup, reps
		a, err := p.ask(r)
		c.peak = max(c.peak, a.Peak)
		if threads > 1 {
			time.Sleep(200 * time.Millisecond) // the threads of OpenMP and OpenBLAS spin for up to 120 ms
		}
		return a.Seconds, err
	}
	return c
}

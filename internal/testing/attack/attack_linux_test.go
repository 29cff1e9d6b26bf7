package attack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/tensor"
)

var (
	rounds = flag.Int("rounds", 0, "calls of each function, or programs; 0: what fits into CI")
	seed   = flag.Uint64("seed", 1, "of the calls")
	only   = flag.Int("part", -1, "attack in this part alone, and print its calls")
)

const (
	worldSize = 120              // calls in one world
	space     = 3 << 30          // bytes of address space that a child may have
	patience  = 20 * time.Second // for one call
)

// job is what a child is told: the parts from From, every Step-th.
type job struct {
	Kind         string   // "calls": a part is a world; "samples": an operation; "programs", "hashes": a program
	Tier         string   // of CPU kernels; "": the best
	Program      *program // the only one
	Seed         uint64
	Rounds, Step int
	From         int
	Progress     string // the file that tells how far it is
	Print        bool
}

// parts is how many there are.
func (j job) parts() int {
	switch j.Kind {
	case "calls":
		return (j.Rounds*len(targets()) + worldSize - 1) / worldSize
	case "samples":
		return len(engine.Ops())
	}
	if j.Program != nil {
		return 1
	}
	return j.Rounds
}

// calls are those of world n: of all calls, in rounds of all targets in random order, the n-th part.
func (j job) calls(all []target, n int) (calls []target) {
	var order []int
	for k := n * worldSize; k < min((n+1)*worldSize, j.Rounds*len(all)); k++ {
		if round := k / len(all); order == nil || k%len(all) == 0 {
			order = rand.New(rand.NewPCG(j.Seed, uint64(round))).Perm(len(all))
		}
		calls = append(calls, all[order[k%len(all)]])
	}
	return calls
}

// A report is what a child prints for each part.
type report struct {
	Part   int
	Counts counts
	Found  map[string]string // a call for each cause
	Hash   string            // of a program
	Done   bool              // the last one of the child
	Tired  bool              // another child goes on with Part
}

// progress is what a child is doing.
type progress struct {
	Part int
	Call string
}

func TestMain(m *testing.M) {
	if told := os.Getenv("WEFT_ATTACK"); told != "" {
		child(told)
		return
	}
	os.Exit(m.Run())
}

// child attacks as it is told.
func child(told string) {
	var j job
	if err := json.Unmarshal([]byte(told), &j); err != nil {
		panic(err)
	}
	debug.SetMaxStack(64 << 20)
	debug.SetGCPercent(400) // the heap is small
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: space, Max: space}); err != nil {
		panic(err)
	}
	file := must(os.OpenFile(j.Progress, os.O_WRONLY, 0))
	if err := files(); err != nil {
		panic(err)
	}
	out, n := json.NewEncoder(os.Stdout), j.parts()
	for part := j.From; part < n; part += j.Step {
		r := report{Part: part, Found: map[string]string{}}
		say := func(call string) {
			if j.Print {
				fmt.Fprintln(os.Stderr, call)
			}
			line := must(json.Marshal(progress{part, call}))
			must(file.WriteAt(append(line, '\n'), 0))
		}
		found := func(cause, call string) {
			if cause = strings.TrimSpace(numbers.ReplaceAllString(cause, "N")); r.Found[cause] == "" {
				r.Found[cause] = call
			}
		}
		switch j.Kind {
		case "calls":
			names, things := thingsOf()
			w := &world{rng: rand.New(rand.NewPCG(j.Seed, uint64(part)|1<<40)), pool: map[reflect.Type][]value{},
				strings: names, things: things, say: say, found: found}
			w.attack(j.calls(targets(), part))
			r.Counts = w.counts
		case "samples":
			r.Counts = samples(engine.Ops()[part], say, found)
		case "programs":
			r.Hash, r.Counts = programs(j.program(part), say, found)
		case "hashes":
			p := j.program(part)
			say(p.String())
			r.Hash, _ = p.hash("cpu", nil)
		}
		must(0, out.Encode(r))
		if mapped() > space/4*3 { // half is reserved from the start; Go keeps address space that it had once, in pieces
			must(0, out.Encode(report{Part: part + j.Step, Tired: true}))
			return
		}
	}
	must(0, out.Encode(report{Done: true}))
}

// mapped is the address space of the process.
func mapped() (bytes int) {
	fmt.Sscan(string(must(os.ReadFile("/proc/self/statm"))), &bytes)
	return bytes * os.Getpagesize()
}

// program is number n, of any operations, every fourth one with larger arrays.
func (j job) program(n int) *program {
	if j.Program != nil {
		return j.Program
	}
	dt := tensor.Float32
	if n%8 > 4 {
		dt = kernels.DTypeOf(n % 4)
	}
	return newProgram(j.Seed<<32+uint64(n), 2+n%17, methods, dt, n%4 == 0)
}

// A finding is a defect: its cause, where it was first seen, and how often.
type finding struct {
	Part  int
	Call  string
	Times int
}

// An attack collects what children report.
type attack struct {
	sync.Mutex
	counts counts
	found  map[string]finding
	hashes map[int]string // of programs
	cannot bool           // the processor cannot run the tier
}

func (a *attack) add(cause string, part int, call string) {
	f := a.found[cause]
	if f.Times == 0 {
		f.Part, f.Call = part, call
	}
	f.Times++
	a.found[cause] = f
}

// TestAttack calls every exported function and method with absurd arguments. Each call ends well or with a typed error
// that has a line of the caller; no child dies or hangs; a failed step has changed nothing.
func TestAttack(t *testing.T) {
	j := job{Kind: "calls", Seed: *seed, Rounds: roundsOr(400, 20)}
	a := begin(t, j)
	t.Logf("%d functions and methods, %d calls of each: %v", len(targets()), j.Rounds, a.counts)
}

// TestAttackGuardPages runs the samples of all operations with memory that ends and begins at pages without access.
func TestAttackGuardPages(t *testing.T) {
	a := begin(t, job{Kind: "samples"})
	t.Logf("%d operations: %v", len(engine.Ops()), a.counts)
}

// TestAttackPrograms runs random programs: results and gradients have the same bits on all tiers, with one thread, in
// regions, on a device with its own memory, and between pages without access; smooth ones in float64 agree with the
// references and their gradients with differences. A program that fails is reduced.
func TestAttackPrograms(t *testing.T) {
	j := job{Kind: "programs", Seed: *seed, Rounds: roundsOr(600, 60)}
	a := begin(t, j)
	used := strings.ToLower(strings.ReplaceAll(cpu.Tier(), "-", ""))
	tiers := []string{used}
	for _, tier := range []string{"portable", "neon", "avx2", "avx512"} {
		if tier == used {
			continue
		}
		j := job{Kind: "hashes", Seed: *seed, Rounds: j.Rounds, Tier: tier}
		b := begin(t, j)
		if b.cannot {
			continue
		}
		tiers = append(tiers, tier)
		for part, hash := range a.hashes {
			if b.hashes[part] == hash {
				continue
			}
			alone := func(p *program, tier string) string {
				c := &attack{found: map[string]finding{}, hashes: map[int]string{}}
				c.run(t, job{Kind: "hashes", Tier: tier, Program: p, Step: 1, Progress: filepath.Join(t.TempDir(),
					"progress")})
				return c.hashes[0]
			}
			p := j.program(part).reduced(func(p *program) bool { return alone(p, tier) != alone(p, "") })
			t.Fatalf("program %d has other bits on %s than on %s; reduced:\n%v", part, tier, used, p)
		}
	}
	t.Logf("%d programs on %s: %v", j.Rounds, strings.Join(tiers, ", "), a.counts)
	if a.counts.Fine == 0 {
		t.Error("no program did anything")
	}
}

// roundsOr is the flag, or as many as fit.
func roundsOr(long, short int) int {
	switch {
	case *rounds > 0:
		return *rounds
	case testing.Short():
		return short
	}
	return long
}

// begin runs a job on all processors.
func begin(t *testing.T, j job) *attack {
	if j.Step = runtime.GOMAXPROCS(0); *only >= 0 {
		j.From, j.Step, j.Print = *only, 1<<40, true
	}
	a := &attack{found: map[string]finding{}, hashes: map[int]string{}}
	var wg sync.WaitGroup
	for k := range min(j.Step, runtime.GOMAXPROCS(0)) {
		part := j
		part.From += k
		part.Progress = filepath.Join(t.TempDir(), "progress")
		wg.Go(func() {
			for part.From >= 0 {
				part.From = a.run(t, part)
			}
		})
		if j.Print {
			break
		}
	}
	wg.Wait()
	for _, cause := range slices.Sorted(maps.Keys(a.found)) {
		f := a.found[cause]
		t.Errorf("%s\n\tin part %d (-rounds %d -part %d), %d times: %s", cause, f.Part, j.Rounds, f.Part, f.Times,
			f.Call)
	}
	return a
}

// run runs a child and returns where the next one begins, -1 if it has done all.
func (a *attack) run(t *testing.T, j job) int {
	cmd := exec.Command(must(filepath.Abs(os.Args[0])))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "WEFT_ATTACK="+string(must(json.Marshal(j))),
		testFiles+"="+must(filepath.Abs("../../../data/testdata")))
	if j.Tier != "" {
		cmd.Env = append(cmd.Env, "WEFT_CPU="+j.Tier)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = errors.Join(os.WriteFile(j.Progress, make([]byte, 1), 0o600), cmd.Start())
	}
	if err != nil {
		t.Error(err)
		return -1
	}
	hung, over := make(chan string, 1), make(chan bool)
	go watch(cmd, j.Progress, hung, over)
	next, done := a.collect(stdout)
	err = cmd.Wait()
	close(over)
	if j.Print {
		t.Logf("%s", stderr.Bytes())
	}
	if done {
		return next
	}
	return a.died(t, j, err, len(hung) > 0, stderr.String())
}

// collect adds what a child reports. done says that it came to an end, and next where another child goes on.
func (a *attack) collect(stdout io.Reader) (next int, done bool) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<24)
	for next = -1; lines.Scan(); {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // the library or Go printed something
		}
		if done = r.Done || r.Tired; r.Tired {
			next = r.Part
		}
		a.Lock()
		a.counts.add(r.Counts)
		if r.Hash != "" {
			a.hashes[r.Part] = r.Hash
		}
		for cause, call := range r.Found {
			a.add(cause, r.Part, call)
		}
		a.Unlock()
	}
	return next, done
}

// died notes what ended a child, and returns where the next one begins.
func (a *attack) died(t *testing.T, j job, err error, hung bool, stderr string) (next int) {
	a.Lock()
	defer a.Unlock()
	if j.Tier != "" && strings.Contains(stderr, "this processor cannot run") {
		a.cannot = true
		return -1
	}
	at := read(j.Progress)
	cause := fatal(stderr)
	if hung {
		cause = "hangs: " + cause
	}
	t.Logf("part %d: %s: %s", at.Part, cause, at.Call)
	a.counts.Defects++
	a.add(fmt.Sprintf("%s (%v)", cause, err), at.Part, at.Call)
	if at.Part < j.From {
		t.Errorf("a child ends at once: %s", stderr)
	}
	if at.Part < j.From || j.Print {
		return -1
	}
	return at.Part + j.Step
}

// watch ends a child that makes no progress, with the stacks of its goroutines.
func watch(cmd *exec.Cmd, file string, hung chan<- string, over <-chan bool) {
	last, since := progress{}, time.Now()
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Second):
		}
		if now := read(file); now != last {
			last, since = now, time.Now()
		} else if time.Since(since) > patience {
			hung <- last.Call
			cmd.Process.Signal(syscall.SIGQUIT)
			select {
			case <-over:
			case <-time.After(5 * time.Second):
				cmd.Process.Kill()
			}
			return
		}
	}
}

func read(file string) (p progress) {
	text, err := os.ReadFile(file)
	if err == nil {
		line, _, _ := bytes.Cut(text, []byte("\n"))
		json.Unmarshal(line, &p) // torn: as if nothing were there
	}
	return p
}

var (
	died  = regexp.MustCompile(`(?m)^(fatal error|panic|runtime|SIG[A-Z]+): .*$`)
	frame = regexp.MustCompile(`(?m)^github\.com/weft-ml/weft/` +
		`((?:tensor|autograd|nn|optim|amp|data|kernels|internal/[pc]).*)\([^()]*\)$`)
)

// fatal is what ended a process, and the innermost function of the library.
func fatal(stderr string) string {
	what, where := died.FindString(stderr), "unknown"
	if m := frame.FindStringSubmatch(stderr); m != nil {
		where = m[1]
	}
	return numbers.ReplaceAllString(where+": "+what, "N")
}

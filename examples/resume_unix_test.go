//go:build unix

package examples

import (
	"bufio"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-ml/weft/checkpoint"
)

var killFor = flag.Duration("kill", 15*time.Second, "how long TestKillExamples kills each program; 1s with -short")

// event is a line of a program's JSON log.
type event struct {
	Event       string
	Step        int
	Loss        float64
	Hash        string
	Interrupted bool
}

// start runs a program, calls visit for each line of its log, and returns its exit code and what it said to people.
func start(t *testing.T, visit func(e event, p *os.Process), binary string, args ...string) (code int, text string) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"-log", "json", "-hash"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			break // cut by a kill
		}
		visit(e, cmd.Process)
	}
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), stderr.String()
}

// TestKillExamples kills programs again and again, by SIGKILL, SIGTERM and Ctrl-C, and goes on with -resume: losses and
// the hash at the end are those of the unbroken run, and so is the hash that the checkpoint has.
func TestKillExamples(t *testing.T) {
	period := *killFor
	if testing.Short() {
		period = time.Second
	}
	bin := t.TempDir() + string(filepath.Separator)
	if out, err := exec.Command("go", "build", "-o", bin, "./mlp", "./chargpt").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	gpt := "-steps 200 -layers 2 -width 32 -heads 2 -context 16 -batch 4 -dropout 0.1 -sample 20 -accumulate 2"
	for program, args := range map[string]string{"mlp": "-epochs 12", "chargpt": gpt} {
		killProgram(t, bin+program, strings.Fields(args), period)
	}
}

// killProgram kills a program for a time, in as many runs as that takes.
func killProgram(t *testing.T, binary string, args []string, period time.Duration) {
	t.Helper()
	program := filepath.Base(binary)
	losses, end := map[int]float64{}, ""
	note := func(e event, _ *os.Process) {
		if e.Event == "step" {
			losses[e.Step] = e.Loss
		}
		end = e.Hash
	}
	begin := time.Now()
	code, text := start(t, note, binary, args...)
	if code != 0 || len(losses) < 100 || end == "" {
		t.Fatalf("%s: code %d, %d steps, hash %q\n%s", program, code, len(losses), end, text)
	}
	whole := time.Since(begin) // several kills to a run
	counts, runs := map[int]int{}, 0
	for begin = time.Now(); runs == 0 || time.Since(begin) < period; runs++ {
		dir := t.TempDir()
		for last, hash := 0, ""; hash == ""; {
			kill := time.Since(begin) < period
			signal := []os.Signal{syscall.SIGKILL, syscall.SIGTERM, os.Interrupt}[rand.IntN(3)]
			wait, first := time.Duration(rand.Int64N(int64(whole/3))), true
			most := 0
			code, text := start(t, func(e event, p *os.Process) {
				if e.Event == "step" {
					if most = e.Step; e.Loss != losses[e.Step] {
						t.Fatalf("%s: step %d has the loss %v, want %v", program, e.Step, e.Loss, losses[e.Step])
					}
				}
				if hash = e.Hash; first {
					if e.Event == "step" && e.Step <= last {
						t.Fatalf("%s: goes on at step %d; %d was saved", program, e.Step, last)
					}
					if kill {
						time.AfterFunc(wait, func() { p.Signal(signal) })
					}
				}
				first = false
			}, binary, append(slices.Clone(args), "-checkpoint", dir, "-resume", "-save-every", "20ms")...)
			if counts[code]++; code == 130 {
				last = max(last, most)
			}
			if code != 0 && code != 130 && (code != -1 || signal != syscall.SIGKILL) || code == 0 && hash == "" {
				t.Fatalf("%s: code %d after %v\n%s", program, code, signal, text)
			}
			if code == 0 && hash != end {
				t.Errorf("%s: hash %s, want %s", program, hash, end)
			}
		}
		info, err := checkpoint.Verify(dir)
		if err != nil || info.Hash["optimizer"] != end || info.Step != len(losses) {
			t.Errorf("%s: %+v, error %v, want the hash %s", program, info, err, end)
		}
	}
	t.Logf("%s: %d killed, %d interrupted, %d runs to their end, each with the unbroken run's hash", program,
		counts[-1], counts[130], runs)
	if counts[-1]+counts[130] == 0 {
		t.Errorf("%s: never killed", program)
	}
}

// TestSaveSignal has a program save at SIGUSR1 and go on, and refuse the folder of another run.
func TestSaveSignal(t *testing.T) {
	bin := t.TempDir() + string(filepath.Separator)
	if out, err := exec.Command("go", "build", "-o", bin, "./mlp").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	saved := func() (n int) {
		entries, _ := filepath.Glob(filepath.Join(dir, "step-*"))
		return len(entries)
	}
	before, asked := 0, 0
	code, text := start(t, func(e event, p *os.Process) {
		switch {
		case e.Event != "step":
		case asked == 0:
			asked, before = e.Step, saved()
			if err := p.Signal(syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
		case asked > 0 && saved() > 0:
			asked = -1
			p.Signal(os.Interrupt)
		}
	}, bin+"mlp", "-epochs", "2000", "-checkpoint", dir, "-save-every", "1h")
	if code != 130 || before != 0 || asked != -1 || saved() != 2 {
		t.Errorf("code %d, %d checkpoints before the signal, %d at the end, seen %v\n%s", code, before, saved(), asked,
			text)
	}
	for args, want := range map[string]string{"-checkpoint " + dir: "-resume goes on with them",
		"-resume": "needs -checkpoint", "-checkpoint " + dir + " -save-every -1s": "cannot be negative"} {
		code, text := start(t, func(event, *os.Process) {}, bin+"mlp", strings.Fields(args)...)
		if code != 1 || !strings.Contains(text, want) || strings.Count(text, "error:") != 1 {
			t.Errorf("%s: code %d\n%s", args, code, text)
		}
	}
}

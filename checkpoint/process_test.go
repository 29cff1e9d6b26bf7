package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-ml/weft/tensor"
)

// A child process trains the run of resume_test.go up to a step, goes on with what its folder has, and saves after each
// step. It prints "saved STEP" when that is safe, and at last what tells two runs apart.
const childVariable = "WEFT_CHECKPOINT_CHILD" // FOLDER,TYPE,STEP

// TestChildProcess is a child process; in the test's own process it does nothing.
func TestChildProcess(t *testing.T) {
	args := strings.Split(os.Getenv(childVariable), ",")
	if len(args) != 3 {
		t.Skip("for child processes")
	}
	dt := tensor.Float32
	if args[1] == "float16" {
		dt = tensor.Float16
	}
	end, err := strconv.Atoi(args[2])
	if err != nil {
		t.Fatal(err)
	}
	ck, err := Open(args[0], Keep(2), Best("loss"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, dt)
	step, err := ck.Resume(r.state())
	if err != nil || step != r.step || len(ck.Stats().Passed) > 0 {
		t.Fatalf("resumed at step %d, state of step %d, passed over %v, error %v", step, r.step, ck.Stats().Passed, err)
	}
	fmt.Println("resumed", step)
	r.each = func() error {
		if err := ck.Save(r.step, r.state(), map[string]float64{"loss": r.log[len(r.log)-3]}); err != nil {
			return err
		}
		if r.step > step+1 {
			fmt.Println("saved", r.step-1)
		}
		return nil
	}
	r.until(t, end)
	if err := ck.Close(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("saved", r.step)
	fmt.Printf("end %s %x %+v\n", r.opt.Hash(), r.log, r.scaler.State())
}

// child runs a child process, and kills it after a time; 0 is never. It returns the step that was resumed, the last one
// that was reported as saved, and the end of the run, which is "" if it was killed.
func child(t *testing.T, dir, dtype string, step, threads int, kill time.Duration) (resumed, saved int, end string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildProcess$")
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{dir, dtype, strconv.Itoa(step)}, ","),
		fmt.Sprint("GOMAXPROCS=", threads))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	resumed, all := -1, ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "resumed":
			resumed, _ = strconv.Atoi(rest)
			if kill > 0 {
				time.AfterFunc(kill, func() { cmd.Process.Kill() })
			}
		case "saved":
			saved, _ = strconv.Atoi(rest)
		case "end":
			end = rest
		default:
			all += lines.Text() + "\n"
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && (kill == 0 || !errors.As(err, &exit) || exit.Exited()) {
		t.Fatalf("%v\n%s%s", err, all, stderr.String())
	}
	return resumed, saved, end
}

// TestResumeProcess stops a run, three times in a row, and goes on in a new process with another number of threads: it
// ends as the unbroken run, with its hash and each of its losses.
func TestResumeProcess(t *testing.T) {
	cuts := [][]int{{1}, {8, 9, 15}}
	if !testing.Short() {
		for cut := 2; cut < steps; cut++ {
			cuts = append(cuts, []int{cut})
		}
	}
	for _, dtype := range []string{"float32", "float16"} {
		_, _, whole := child(t, t.TempDir(), dtype, steps, 2, 0)
		if len(whole) < 1000 {
			t.Fatalf("the unbroken run: %q", whole)
		}
		for _, cut := range cuts {
			dir := t.TempDir()
			before := 0
			for i, stop := range append(cut, steps) {
				resumed, saved, end := child(t, dir, dtype, stop, 1+i%2, 0)
				if resumed != before || saved != stop || stop == steps && end != whole {
					t.Errorf("%s, cut at %v: resumed %d, want %d, saved %d, end %.200s, want %.200s", dtype, cut,
						resumed, before, saved, end, whole)
				}
				before = stop
			}
		}
	}
	t.Logf("%d runs cut in two types", 2*len(cuts))
}

// TestKill ends processes at random moments, while they resume, train and save: what they leave is whole and not older
// than what they reported as saved, and the run that is left ends as the unbroken one.
func TestKill(t *testing.T) {
	n := *kills
	if testing.Short() {
		n /= 4
	}
	_, _, whole := child(t, t.TempDir(), "float16", steps, 2, 0)
	killed, passed, runs := 0, 0, 0
	for killed < n {
		dir, last := filepath.Join(t.TempDir(), "run"), 0
		longest := 4 * time.Millisecond // grows until the run moves on
		for runs++; ; {
			wait := time.Duration(1 + rand.Int64N(int64(longest)))
			resumed, saved, end := child(t, dir, "float16", steps, 2, wait)
			if resumed >= 0 && resumed < last {
				t.Fatalf("resumed at step %d; %d was saved", resumed, last)
			}
			if resumed > 0 {
				passed++
			}
			if max(saved, resumed) <= last {
				longest += longest / 4
			}
			if last = max(last, saved, resumed); end != "" {
				if end != whole {
					t.Fatalf("the run ends as %.200s, want %.200s", end, whole)
				}
				break
			}
			killed++
		}
	}
	t.Logf("%d processes killed, %d resumed, %d runs ended as the unbroken one, 0 corrupt", killed, passed, runs)
}

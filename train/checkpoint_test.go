package train

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// saved runs a program of so many steps, whose model is its number of steps, and calls before in each.
func saved(t *testing.T, steps int, before func(step int), args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	flags := flag.NewFlagSet("program", flag.ContinueOnError)
	code = run(t.Context(), flags, args, Options{Steps: steps, Checkpoints: true}, &out, &problems, time.Now,
		func(_ context.Context, r *Run) error {
			dev, err := r.Open()
			if err != nil {
				return err
			}
			defer dev.Close()
			count := nn.State(nn.Constant(0), 1)
			if err := nn.Init(dev, []any{count}); err != nil {
				return err
			}
			r.Expect(steps, "examples")
			first, err := r.Resume(&checkpoint.State{Device: dev, Model: []any{count}})
			if err != nil {
				return err
			}
			for i := first; i < steps; i++ {
				before(i)
				if n := count.Item(); n != float64(i) {
					t.Errorf("the model of step %d is that of step %v", i, n)
				}
				count.Assign(tensor.Of(float32(i + 1)).Reshape(1))
				r.Step(1, 1)
			}
			return r.SaveLast()
		})
	return code, out.String(), problems.String()
}

// TestCheckpoints holds which steps are saved, that a run goes on, and that one whose saves fail ends with code 1.
func TestCheckpoints(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	steps := func(want ...string) {
		t.Helper()
		have, _ := filepath.Glob(filepath.Join(dir, "*"))
		for i, path := range have {
			have[i] = filepath.Base(path)
		}
		if strings.Join(have, " ") != strings.Join(want, " ") {
			t.Errorf("checkpoints %v, want %v", have, want)
		}
	}
	nothing := func(int) {}
	code, stdout, stderr := saved(t, 3, nothing, "-device", "cpu", "-checkpoint", dir, "-save-every", "1h")
	if code != 0 || !strings.Contains(stdout, "done: 3 steps") {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	steps("step-00000003")
	code, stdout, stderr = saved(t, 8, nothing, "-device", "cpu", "-checkpoint", dir, "-save-every", "0", "-resume")
	if code != 0 || !strings.Contains(stdout, "resumed after step 3") || !strings.Contains(stdout, "done: 5 steps") {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	steps("step-00000006", "step-00000007", "step-00000008")
	code, stdout, stderr = saved(t, 20, func(step int) {
		if step == 10 {
			for range 100 { // beside a save
				if os.RemoveAll(dir) == nil {
					return
				}
			}
		}
	}, "-device", "cpu", "-checkpoint", dir, "-save-every", "0", "-resume")
	if code != 1 || !strings.Contains(stdout, "a checkpoint is not saved: ") ||
		!strings.Contains(stdout, "step 20/20") || !strings.Contains(stderr, "error: ") {
		t.Errorf("without the folder: code %d\n%s%s", code, stdout, stderr)
	}
}

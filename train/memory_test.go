package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/profile"
	"github.com/weft-ml/weft/tensor"
)

// big is a step that takes 64 KiB for each example of a batch.
func big(dev *tensor.Device) func(n int) error {
	return func(n int) error {
		return dev.Step(func(s *tensor.Scope) error { s.Full(1, tensor.Float32, n, 1<<14); return nil })
	}
}

// TestHalve: a batch is halved until memory suffices, and no further; other errors are not about its size.
func TestHalve(t *testing.T) {
	var tried []int
	fits := func(most int, other error) func(int) error {
		return func(n int) error {
			if tried = append(tried, n); n > most {
				return &tensor.Error{Kind: tensor.ErrMemory, Op: "op"}
			}
			return other
		}
	}
	boom := errors.New("boom")
	for _, c := range []struct {
		n, most int
		other   error
		fitting int
		tried   []int
		want    error
	}{
		{13, 4, nil, 3, []int{13, 6, 3}, nil}, {8, 8, nil, 8, []int{8}, nil},
		{5, 0, nil, 1, []int{5, 2, 1}, tensor.ErrMemory}, {8, 4, boom, 4, []int{8, 4}, boom},
		{0, 4, nil, 0, nil, tensor.ErrValue},
	} {
		tried = nil
		n, err := Halve(c.n, fits(c.most, c.other))
		if n != c.fitting || !slices.Equal(tried, c.tried) || !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%d where %d fit: %d, tried %v, %v", c.n, c.most, n, tried, err)
		}
	}
	if _, err := Halve(1, nil); !errors.Is(err, tensor.ErrValue) {
		t.Errorf("no step: %v", err)
	}
}

// TestTrainStep: where memory is short a batch is learnt in parts, with the loss and the gradient of the whole, and
// evaluated in parts; what did not fit is not tried again.
func TestTrainStep(t *testing.T) {
	for limit, wantTried := range map[string][]int{"0": {8, 8, 8, 8}, "300KB": {8, 4, 4, 4, 4, 8, 4, 4, 4, 4}} {
		var tried []int
		code, _, stderr := try(t.Context(), "-device cpu -halve-batch -memory-limit "+limit, func(_ context.Context,
			r *Run) error {
			dev, err := r.Open()
			if err != nil {
				return err
			}
			defer dev.Close()
			w := nn.ParameterOf("w", tensor.Ones(tensor.Float32, 1))
			x, y := tensor.Arange(tensor.Float32, 0, 8, 1).Reshape(8, 1), tensor.Zeros(tensor.Float32, 8, 1)
			wide := func(s *tensor.Scope, n int) { // 40 KiB for each example
				tried = append(tried, n)
				s.Full(1, tensor.Float32, n, 10<<10)
			}
			for range 2 {
				err := r.TrainStep(8, func(s *tensor.Scope) error {
					loss := r.Backward(s, x, y, func(x, y *tensor.Tensor) *tensor.Tensor {
						wide(s, x.Dim(0))
						return x.Mul(w).Sub(y).Mean()
					}, func(l *tensor.Tensor) *tensor.Tensor { return l.Scale(2) })
					if l := loss.Item(); l != 3.5 {
						t.Errorf("limit %s: the loss is %v", limit, l)
					}
					return nil
				})
				if g := w.Grad(); err != nil || g == nil || g.Item() != 7 {
					t.Errorf("limit %s: the gradient is %v, error %v", limit, g, err)
				}
				w.ClearGrads()
			}
			for range 2 {
				at := 0
				err := r.EvalStep(8, func(s *tensor.Scope, lo, hi int) error {
					if wide(s, hi-lo); lo != at {
						t.Errorf("limit %s: from %d, %d are done", limit, lo, at)
					}
					at = hi
					return nil
				})
				if err != nil || at != 8 {
					t.Errorf("limit %s: %d of 8, %v", limit, at, err)
				}
			}
			return nil
		})
		if code != 0 || !slices.Equal(tried, wantTried) {
			t.Errorf("limit %s: code %d %s, tried %v", limit, code, stderr, tried)
		}
	}
}

// parts trains with big on so many parts of a batch.
func parts(k int) func(*tensor.Device) (func(int) error, error) {
	return func(dev *tensor.Device) (func(int) error, error) {
		return func(n int) error { return big(dev)((n + k - 1) / k) }, nil
	}
}

// memoryRun runs a program that trains steps of big with a batch of 32.
func memoryRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return try(t.Context(), strings.Join(args, " "), func(_ context.Context, r *Run) error {
		dev, err := r.Open()
		if err != nil {
			return err
		}
		defer dev.Close()
		n := 32
		for range 2 {
			if n, err = r.Halve(n, big(dev)); err != nil {
				return r.Explain(err, n, Remedy{"", parts(1)}, Remedy{"-small", parts(4)})
			}
			r.Step(1, n)
		}
		return nil
	})
}

// TestMemoryLimit: a run that takes more than -memory-limit ends with a report that has the batch that would have
// fitted, or goes on with -halve-batch; a bad limit is an error with the flag's name.
func TestMemoryLimit(t *testing.T) {
	code, stdout, stderr := memoryRun(t, "-device", "null")
	if code != 0 || !strings.Contains(stdout, "memory: at most 2.0 MiB of tensors") {
		t.Errorf("without a limit: code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = memoryRun(t, "-device", "null", "-memory-limit", "1MiB")
	for _, want := range []string{"1.00 MiB", "limit 1.00 MiB", "as it is, a batch of 16 fits, 32 does not",
		"-small, 32 fits", "memory_test.go:"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %q", want, stderr)
		}
	}
	if code != 1 || !strings.Contains(stdout, "memory of null, limit 1.00 MiB") {
		t.Errorf("code %d\n%s", code, stdout)
	}
	code, stdout, stderr = memoryRun(t, "-device", "null", "-memory-limit", "1MiB", "-halve-batch")
	if code != 0 || strings.Count(stdout, "memory does not suffice for 32 at a time: going on with 16") != 1 {
		t.Errorf("halved: code %d\n%s%s", code, stdout, stderr)
	}
	code, _, stderr = memoryRun(t, "-device", "null", "-memory-limit", "much")
	if code != 1 || !strings.Contains(stderr, `-memory-limit is "much"`) {
		t.Errorf("a bad limit: code %d %s", code, stderr)
	}
}

// TestMemoryFiles: profile and timeline are written, also where the run fails, and a file that cannot be is an error.
func TestMemoryFiles(t *testing.T) {
	dir := t.TempDir()
	for _, limit := range []string{"0", "1MiB"} {
		f, g := filepath.Join(dir, limit+".pb.gz"), filepath.Join(dir, limit+".json")
		code, _, stderr := memoryRun(t, "-device", "null", "-memory-limit", limit, "-memory-profile", f,
			"-memory-timeline", g)
		if failed := limit != "0"; (code == 1) != failed {
			t.Errorf("limit %s: code %d %s", limit, code, stderr)
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := pprof.Parse(bytes.NewReader(data)); err != nil || (len(p.Sample) == 0) != (limit != "0") {
			t.Errorf("limit %s: %v, %v", limit, p, err)
		}
		if data, err = os.ReadFile(g); err != nil || !json.Valid(data) {
			t.Errorf("limit %s: %q, %v", limit, data, err)
		}
	}
	code, stdout, stderr := memoryRun(t, "-device", "null", "-memory-profile", filepath.Join(dir, "none", "f"))
	if code != 1 || !strings.Contains(stderr, "none") || strings.Contains(stdout, "memory: at most") {
		t.Errorf("no folder: code %d %s%s", code, stdout, stderr)
	}
}

// TestWarnLeaks: kept losses that pile up are told where the flag is given.
func TestWarnLeaks(t *testing.T) {
	for _, flag := range []string{"", " -warn-leaks"} {
		code, stdout, stderr := try(t.Context(), "-device null"+flag, func(_ context.Context, r *Run) error {
			dev, err := r.Open()
			if err != nil {
				return err
			}
			defer dev.Close()
			var losses []*tensor.Tensor
			for i := range 600 {
				if err := dev.Eval(func(s *tensor.Scope) error {
					losses = append(losses, s.Full(1, tensor.Float32, 1).Keep())
					return nil
				}); err != nil {
					return err
				}
				if i == 200 {
					runtime.GC()
					runtime.GC()
				}
			}
			runtime.KeepAlive(losses)
			return profile.WarnLeaks(dev, nil)
		})
		if code != 0 || strings.Contains(stdout, "are never released: the last is float32[1]") != (flag != "") {
			t.Errorf("%q: code %d\n%s%s", flag, code, stdout, stderr)
		}
	}
}

// Explain has nothing to say about other errors, and about a run without device.
func TestExplainOthers(t *testing.T) {
	boom, full := errors.New("boom"), &tensor.Error{Kind: tensor.ErrMemory, Op: "op"}
	if err := new(Run).Explain(full, 1); err != full {
		t.Errorf("no device: %v", err)
	}
	code, _, stderr := try(t.Context(), "-device null", func(_ context.Context, r *Run) error {
		dev, err := r.Open()
		if err != nil {
			return err
		}
		defer dev.Close()
		if err := r.Explain(boom, 1); err != boom {
			t.Errorf("another error: %v", err)
		}
		err = r.Explain(full, 1, Remedy{"", func(*tensor.Device) (func(int) error, error) { return nil, boom }})
		if err != full {
			t.Errorf("a device without a limit: %v", err)
		}
		return nil
	})
	if code != 0 {
		t.Error(stderr)
	}
}

//go:build emu && cuda && cgo && linux

package ops

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda"
	"github.com/weft-ml/weft/tensor"
)

// inChild runs a test in a process of its own, for faults, which end the use of a GPU by a process. It returns true in
// that process.
//
// Variables of the emulator mean nothing to a GPU, where such a test is skipped.
func inChild(t *testing.T, env ...string) bool {
	t.Helper()
	if !emulated && slices.ContainsFunc(env, func(s string) bool { return strings.HasPrefix(s, "WEFT_EMU=") }) {
		t.Skipf("only the emulator does what %v asks for, and this is not its driver", env)
	}
	if os.Getenv("WEFT_OPS_TEST_CHILD") == t.Name() {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), "WEFT_OPS_TEST_CHILD="+t.Name()), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// threeLaunches runs three operations and waits for the last; at is the line of the second.
func threeLaunches(t *testing.T) (at string, err error) {
	gpu, err := tensor.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gpu.Close() })
	x := tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	err = gpu.Eval(func(s *tensor.Scope) error {
		y := s.In(x).MatMul(x)
		_, file, line, _ := runtime.Caller(0)
		at = fmt.Sprintf("%s:%d", filepath.Base(file), line+2)
		y = y.Softmax(1)
		t.Log(y.Sum().Item())
		return nil
	})
	return at, err
}

// The second launch fails. Whoever waits for the device learns which launches may have done it, and where they are in
// the program.
func TestFaultNamesLines(t *testing.T) {
	if !inChild(t, "WEFT_EMU=fail=launch:2:719") {
		return
	}
	at, err := threeLaunches(t)
	if !errors.Is(err, cuda.ErrFault) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"3 launches: matmul (", "softmax (softmax_f32) at " + at + ", sum (",
		"WEFT_CUDA_SYNC=1 finds which"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// In synchronous mode the operation that made the fault reports it.
func TestSynchronousFaultNamesLine(t *testing.T) {
	if !inChild(t, "WEFT_EMU=fail=launch:2:719", "WEFT_CUDA_SYNC=1") {
		return
	}
	at, err := threeLaunches(t)
	if !errors.Is(err, cuda.ErrFault) || !strings.HasPrefix(err.Error(), at+": softmax: ") ||
		!strings.Contains(err.Error(), "1 launches: softmax (softmax_f32) at "+at) {
		t.Errorf("error %v, want one of %s", err, at)
	}
}

// A kernel that writes behind its result is named, with the line.
func TestGuardBand(t *testing.T) {
	gpu, err := tensor.Open("cuda", tensor.Poison())
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	// argmax writes a number for each row of its operand
	careless := engine.NewOp(kernels.Op{Name: "careless", Kernel: "argmax"}, tensor.Int64, 2)
	x := tensor.Uniform(tensor.Seed(1), 0, 1, 4, 4)
	var at string
	err = gpu.Eval(func(s *tensor.Scope) error {
		t.Log(tensor.ToSlice[float32](s.In(x).Softmax(1)))
		_, file, line, _ := runtime.Caller(0)
		at = fmt.Sprintf("%s:%d", filepath.Base(file), line+2)
		engine.Apply(careless, []*tensor.Tensor{s.In(x)}, []int{1}, nil)
		return nil
	})
	if !errors.Is(err, tensor.ErrDevice) ||
		err.Error() != at+": careless: the kernel wrote 16 bytes behind the 16 bytes of its result" {
		t.Errorf("error %v", err)
	}
}

func TestAnomaly(t *testing.T) {
	gpu := open(t, "cuda")
	err := gpu.Step(func(s *tensor.Scope) error {
		s.Region("head", func() []*tensor.Tensor {
			x := s.In(tensor.FromSlice([]float32{1, -1, 2}, 1, 3))
			x.MatMul(x.T()).Softmax(1)
			s.In(tensor.FromSlice([]float32{3e38, 3e38, 0}, 1, 3)).Sum(1)
			return nil
		})
		return nil
	}, tensor.Anomaly())
	if !errors.Is(err, tensor.ErrValue) ||
		!strings.Contains(err.Error(), ": sum: the result float32[1] has 0 NaN and 1 infinite of 1 elements") ||
		!strings.HasSuffix(err.Error(), " in head") {
		t.Errorf("error %v", err)
	}
}

//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/kernels"
)

// The tests run on the bare emulator, a driver without kernels, unless WEFT_CUDA_DRIVER names another: then those of
// what only that does are skipped, and the others run there.
var onBare = os.Getenv("WEFT_CUDA_DRIVER") == "" || os.Getenv(bareVariable) != ""

// bareVariable is set where the driver is the bare one.
const bareVariable = "WEFT_CUDA_TEST_BARE"

// childVariable is set in the processes that inChild starts.
const childVariable = "WEFT_CUDA_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv("WEFT_CUDA_DRIVER") != "" || os.Getenv(childVariable) != "" {
		os.Exit(m.Run())
	}
	emu.UseOrExit(emu.Bare)
	dir, err := os.MkdirTemp("", "cuda")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("WEFT_CACHE", dir)
	os.Setenv(bareVariable, "1")
	os.Setenv("WEFT_EMU", "leaks=1")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// needBare skips a test of what only the bare emulator does.
func needBare(t *testing.T) {
	t.Helper()
	if !onBare {
		t.Skip("needs the bare emulator")
	}
}

// inChild runs a test of its own process, for what a process can see once only: with environment variables set as
// given ("NAME=value"). It returns true in that process, where the caller then tests.
func inChild(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv(childVariable) == t.Name() {
		return true
	}
	parts := strings.Split(t.Name(), "/")
	for i := range parts {
		parts[i] = "^" + parts[i] + "$"
	}
	cmd := exec.Command(os.Args[0], "-test.run="+strings.Join(parts, "/"), "-test.v")
	cmd.Env = append(append(os.Environ(), childVariable+"="+t.Name(), "GORACE=atexit_sleep_ms=0"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v: %v\n%s", env, err, out)
	}
	return false
}

// nextLine is the line after the one that calls it, as reports of faults name it.
func nextLine() string {
	_, file, line, _ := runtime.Caller(1)
	return filepath.Base(file) + ":" + itoa(line+1)
}

// device opens cuda:0 for a test.
func device(t testing.TB) *Backend {
	t.Helper()
	dev, err := kernels.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	b := dev.(*Backend)
	t.Cleanup(func() {
		if err := b.Close(); err != nil && b.fault.Load() == nil {
			t.Error(err)
		}
	})
	return b
}

// alloc takes memory for a test.
func alloc(t testing.TB, b *Backend, n int) kernels.Buffer {
	t.Helper()
	m, err := b.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fakeImages makes kernels of the bare emulator an image of this build, with plans that launch them.
func fakeImages(t testing.TB) {
	t.Helper()
	if !onBare {
		t.Skip("needs the kernels of the bare emulator")
	}
	symbols := []string{"add_f32", "report_f32", "fault_f32", "noop_f32"}
	fakeLibrary(t, &image{family: "fake", target: "sm_90", symbols: symbols,
		code: coded("emu " + strings.Join(symbols, " "))})
	launch := func(c *call, l *kernels.Launch) { c.start(l.Op.Name+"_f32", dim{1, 1, 1}, 32) }
	real := plans
	plans = maps.Clone(plans)
	plans["add"], plans["noop"], plans["fault"] = planAdd, launch, launch
	t.Cleanup(func() { plans = real })
}

// fakeLibrary makes some images all of this build.
func fakeLibrary(t testing.TB, all ...*image) {
	was := shipped
	shipped = func() *library { return newLibrary(all...) }
	t.Cleanup(func() { shipped = was })
}

// coded is the code of an image.
func coded(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}

func planAdd(c *call, l *kernels.Launch) {
	n := l.Out[0].Len()
	c.start("add_"+suffixes[l.Out[0].DType], dim{uint32(n+255) / 256, 1, 1}, 256)
	c.pointer(&l.Out[0])
	c.pointer(&l.In[0])
	c.pointer(&l.In[1])
	arg(c, int64(n))
}

var (
	addOp   = &kernels.Op{Name: "add", Kernel: "add"}
	noopOp  = &kernels.Op{Name: "noop", Kernel: "noop"}
	faultOp = &kernels.Op{Name: "fault", Kernel: "fault"}
)

// vector is an operand of n float32 elements from element offset on.
func vector(m kernels.Buffer, offset, n int) kernels.Arg {
	return kernels.Arg{Buf: m, Layout: kernels.Layout{Shape: []int{n}, Strides: []int{1}, Offset: offset}}
}

// run launches an operation without operands but one result.
func run(b *Backend, op *kernels.Op, m kernels.Buffer) error {
	return b.Run(&kernels.Launch{Op: op, Out: []kernels.Arg{vector(m, 0, 1)}})
}

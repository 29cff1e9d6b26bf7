//go:build cuda && cgo && linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
)

// bare builds the bare emulator and returns the setting that makes a program use it.
func bare(t *testing.T) string {
	t.Helper()
	path, err := emu.Build(emu.Bare)
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return "WEFT_CUDA_DRIVER=" + path
}

func TestInfoOfGPUs(t *testing.T) {
	driver := bare(t)
	stdout, _, code := weft(t, []string{driver, "WEFT_EMU=devices=2"}, "info")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	says(t, stdout, "driver  ", "libcuda_emu_bare.so, CUDA 13.0",
		"cuda:0  Weft emulator 9.0, Hopper, compute capability 9.0",
		"1.0 GiB, 6144 bits at 3201 MHz", "132 SMs at up to 1980 MHz",
		"0001:f0:02.0, PCIe", "the memory of cuda:1 (rank 0, atomics as over NVLink)")
	if strings.Contains(stdout, "TOO OLD") || strings.Contains(stdout, "NOT USABLE") {
		t.Error("a GPU that is right is reported as faulty:\n" + stdout)
	}
	t.Log("\n" + stdout)

	stdout, _, _ = weft(t, []string{driver, "WEFT_EMU=devices=2,pcie=1,driver=12020"}, "info")
	if says(t, stdout, "(rank 1, no atomics, as over PCIe)"); strings.Contains(stdout, "TOO OLD") {
		t.Error("a driver of which no PTX is asked is too old:\n" + stdout)
	}
	stdout, _, _ = weft(t, []string{driver, "WEFT_EMU=capability=100,driver=12020"}, "info")
	says(t, stdout, "TOO OLD: ", "CUDA 12.2 is older than CUDA 12.4 of driver 550",
		"install NVIDIA driver 550 or newer")

	stdout, _, _ = weft(t, []string{driver, "WEFT_EMU=capability=75"}, "info")
	says(t, stdout, "NOT USABLE", "compute capability 7.5 (Turing); Weft needs 8.0")
	stdout, _, _ = weft(t, []string{driver, "WEFT_EMU=init=803"}, "info")
	says(t, stdout, "GPU  none: the NVIDIA driver", "restart the machine")
	stdout, _, _ = weft(t, []string{"WEFT_CUDA_DRIVER=/nowhere"}, "info")
	says(t, stdout, "GPU  none: WEFT_CUDA_DRIVER names no driver library: /nowhere")
}

func TestDoctorOnGPU(t *testing.T) {
	driver := bare(t)
	stdout, _, code := weft(t, []string{driver}, "doctor")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	says(t, stdout, "cpu\n  memory    ok", "images    ok      ", "none to load", "cuda:0\n  memory    ok",
		"images    FAILED", "emulator: not an image", "kernel    FAILED", "matmul    FAILED", "4 of 10 checks failed")
	t.Log("\n" + stdout)

	for setting, want := range map[string]string{
		"fail=cuMemAlloc:1:2":           "alloc: 67108864 bytes on cuda:0: 1073741824 of its 1073741824 bytes are free",
		"fail=cuEventSynchronize:1:700": "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
		"init=100":                      "it sees no GPU",
	} {
		stdout, _, code := weft(t, []string{driver, "WEFT_EMU=" + setting}, "doctor", "-device", "cuda")
		if code != 1 || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit code %d\n%s", setting, code, stdout)
		}
	}

	// Only what never ends has a short limit: on a busy machine the other checks may take seconds.
	stdout, _, code = weft(t, []string{driver, "WEFT_EMU=hang=cuMemcpyHtoDAsync"}, "doctor", "-device", "cuda",
		"-timeout", "1s")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	says(t, stdout, "memory    FAILED", "it did not end within 1s and was stopped")
}

// Compilers are found, or missing with a way out; without the driver's compiler only GPUs that need it are not usable.
func TestInfoOfCompilers(t *testing.T) {
	driver := bare(t)
	library := strings.TrimPrefix(driver, "WEFT_CUDA_DRIVER=")
	ptx := filepath.Join(t.TempDir(), "libnvidia-ptxjitcompiler.so.1")
	unusable := "NOT USABLE  the driver must compile kernels for it, and its PTX compiler: "

	env := []string{driver, "WEFT_NVRTC=/nowhere/libnvrtc.so", "WEFT_EMU=capability=100"}
	stdout, _, _ := weft(t, env, "info")
	says(t, stdout, "NVRTC   MISSING: it cannot be opened (/nowhere/libnvrtc.so", "WEFT_NVRTC names it",
		"PTX     MISSING: it cannot be opened (libnvidia-ptxjitcompiler.so.1",
		"install the driver's complete package", unusable+"it cannot be opened")
	stdout, _, _ = weft(t, append(env, "WEFT_EMU=capability=90"), "info")
	if says(t, stdout, "PTX     MISSING"); strings.Contains(stdout, "NOT USABLE") {
		t.Error(stdout)
	}

	if b, err := os.ReadFile(library); err != nil || os.WriteFile(ptx, b, 0o755) != nil {
		t.Fatalf("%s cannot be copied: %v", library, err)
	}
	env = append(env, "WEFT_NVRTC="+library, "LD_LIBRARY_PATH="+filepath.Dir(ptx))
	stdout, _, _ = weft(t, env, "info")
	says(t, stdout, "NVRTC   "+library+", version 12.4\n", "PTX     "+ptx+"\n")
	if strings.Contains(stdout, "MISSING") || strings.Contains(stdout, "NOT USABLE") {
		t.Error(stdout)
	}
	stdout, _, _ = weft(t, append(env, "CUDA_DISABLE_PTX_JIT=1"), "info")
	says(t, stdout, "PTX     MISSING: it is switched off; unset CUDA_DISABLE_PTX_JIT", unusable+"it is switched off")

	stdout, _, _ = weft(t, append(env, "WEFT_NVRTC=", "LD_LIBRARY_PATH="), "info")
	if strings.Contains(stdout, "NVRTC   MISSING") { // unless this machine has it
		says(t, stdout, "pip install nvidia-cuda-nvrtc-cu12", "set WEFT_NVRTC to the path of its libnvrtc.so.12")
	}
}

// userProgram prints a device and computes the square of 3 on it.
const userProgram = `package main

import (
	"fmt"

	"github.com/weft-ml/weft/tensor"
)

func main() {
	dev, err := tensor.Open("auto")
	if err != nil {
		panic(err)
	}
	fmt.Println(dev)
	err = dev.Eval(func(s *tensor.Scope) error {
		fmt.Println(s.In(tensor.Of(float32(3))).Square().Item())
		return nil
	})
	fmt.Println(err)
}
`

// A module that has nothing but a dependency on Weft builds with CUDA after one command, on a machine without a
// toolkit, and its program runs without a driver.
func TestModuleFromScratch(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// Those of the caller: with caches of its own the test would download and compile all modules.
	modules, err := goEnv("GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	built, err := goEnv("GOCACHE")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	goSettings(t, dir)
	module := filepath.Join(dir, "module")
	if err := os.Mkdir(module, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"go.mod": "module example.org/user\n\ngo " + strings.TrimPrefix(runtime.Version(), "go") + "\n\n" +
			"require github.com/weft-ml/weft v0.0.0\n\nreplace github.com/weft-ml/weft => " + root + "\n",
		"main.go": userProgram,
	} {
		if err := os.WriteFile(filepath.Join(module, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	do := func(env []string, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = module
		cmd.Env = append(append(os.Environ(), "GOCACHE="+built, "GOMODCACHE="+modules,
			"GOFLAGS=-mod=mod "+os.Getenv("GOFLAGS"), "CGO_ENABLED=1"), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	do(nil, "go", "mod", "tidy")
	do(nil, "go", "run", "github.com/weft-ml/weft/cmd/weft", "cuda-env", "-w")
	do(nil, "go", "build", "-tags", "cuda", "-o", "program", ".")
	program := filepath.Join(module, "program")
	for _, line := range strings.Split(do(nil, "ldd", program), "\n") { // nothing but the C library
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" &&
			!strings.HasPrefix(name, "linux-vdso.") &&
			!strings.HasPrefix(filepath.Base(name), "ld-linux") &&
			!slices.Contains([]string{"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libresolv.so.2"},
				name) {
			t.Errorf("the program needs %s", line)
		}
	}
	said := do([]string{"WEFT_CUDA_DRIVER=/nowhere/libcuda.so"}, program)
	says(t, said, "cpu (", "WEFT_CUDA_DRIVER names no driver library", "\n9\n<nil>\n")
	says(t, do([]string{bare(t)}, program), "cuda:0: the first NVIDIA GPU")
	t.Log(said)

	// The same from a vendor directory.
	do(nil, "go", "mod", "vendor")
	do([]string{"GOFLAGS=-mod=vendor " + os.Getenv("GOFLAGS")}, "go", "build", "-tags", "cuda", "-o", "program", ".")
	says(t, do([]string{"WEFT_CUDA_DRIVER=/nowhere/libcuda.so"}, program), "\n9\n<nil>\n")
}

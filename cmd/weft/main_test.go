package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// asCommand makes the test binary behave as the program: doctor starts itself.
const asCommand = "WEFT_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// weft runs the program in a process of its own and returns its output and exit code.
func weft(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), asCommand+"=1"), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// says fails unless text contains all of want.
func says(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"", 0, "weft checks an installation", ""},
		{"help", 0, "weft doctor", ""},
		{"inform", 2, "", `there is no command "inform"`},
		{"info -x", 2, "", "flag provided but not defined: -x"},
		{"info all", 2, "", `weft info: unexpected argument "all"`},
		{"inspect", 2, "", "weft inspect: PATH is missing"},
		{"inspect a b", 2, "", `weft inspect: unexpected argument "b"`},
		{"inspect -h", 0, "", "a file of weights"},
		{"doctor -h", 0, "", "time for one check"},
		{"probe -h", 0, "", "graphs and a node more"},
		{"probe -device cpu", 1, "", "weft probe: cpu is no GPU"},
		{"doctor-check cpu nothing", 1, "", `want a device and a check, not ["cpu" "nothing"]`},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(c.args), &stdout, &stderr); code != c.code {
			t.Errorf("weft %s: exit code %d, want %d", c.args, code, c.code)
		}
		says(t, stdout.String(), c.stdout)
		says(t, stderr.String(), c.stderr)
		if c.stdout == "" && stdout.Len() > 0 {
			t.Errorf("weft %s prints %q", c.args, &stdout)
		}
	}
}

func TestInfo(t *testing.T) {
	stdout, stderr, code := weft(t, nil, "info")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	says(t, stdout, "Weft ", runtime.Version(), "CPU ", "cores ", "kernels ", "portable; in use: ")
	t.Log("\n" + stdout)

	if tiers()[0] != "portable" {
		stdout, _, _ = weft(t, []string{"WEFT_CPU=portable"}, "info")
		says(t, stdout, "in use: portable")
	}
}

// A tier that info offers can be chosen.
func TestTiers(t *testing.T) {
	for _, tier := range tiers() {
		stdout, stderr, code := weft(t, []string{"WEFT_CPU=" + tier}, "info")
		if code != 0 || !strings.Contains(stdout, "in use: "+tier) {
			t.Errorf("%s: exit code %d\n%s%s", tier, code, stdout, stderr)
		}
	}
	stdout, _, _ := weft(t, []string{"WEFT_CPU=sse"}, "info")
	says(t, stdout, "in use: none: ", "WEFT_CPU=sse: want portable, neon, avx2 or avx512")
}

func TestDoctorOnCPU(t *testing.T) {
	stdout, stderr, code := weft(t, nil, "doctor", "-device", "cpu")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	says(t, stdout, "cpu\n  memory    ok", "64 MiB there and back", "kernel    ok", "matmul    ok", "training  ok",
		"in 100 steps\n")
	t.Log("\n" + stdout)
}

func TestDoctorFails(t *testing.T) {
	stdout, _, code := weft(t, nil, "doctor", "-device", "tpu")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	says(t, stdout, "memory    FAILED", `no device kind "tpu"`, "5 of 5 checks failed")

	// The null device computes nothing: what it gives is wrong.
	stdout, _, code = weft(t, nil, "doctor", "-device", "null")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	says(t, stdout, "came back different", "kernel    FAILED", "in float64", "matmul    FAILED", "training  FAILED",
		"it should have halved", "4 of 5 checks failed")

	stdout, _, code = weft(t, nil, "doctor", "-device", "cpu", "-timeout", "1ms")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	says(t, stdout, "it did not end within 1ms and was stopped")
}

// goSettings gives the go command an empty file of settings, and the program an empty cache, in dir.
func goSettings(t *testing.T, dir string) {
	t.Helper()
	t.Setenv("GOENV", filepath.Join(dir, "env"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("HOME", dir)
	for _, name := range []string{"CGO_CFLAGS", "CGO_LDFLAGS"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
}

// command runs the program in this process and fails the test if it fails.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, &stdout, &stderr); code != 0 {
		t.Fatalf("weft %v: exit code %d\n%s%s", args, code, &stdout, &stderr)
	}
	return stdout.String()
}

func TestCUDAEnv(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the cache is elsewhere")
	}
	get := func(name string) string {
		v, err := goEnv(name)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, name := range []string{"plain", "with space"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			goSettings(t, dir)

			said := command(t, "cuda-env")
			says(t, said, "export CGO_CFLAGS='-O2 -g ", "-I"+dir+"/cache/weft/cuda/",
				"export CGO_LDFLAGS='-O2 -g -Wl,--as-needed'\n")
			if get("CGO_CFLAGS") != "-O2 -g" {
				t.Error("cuda-env without -w stores settings")
			}

			says(t, command(t, "cuda-env", "-w"), "go build -tags cuda")
			flags := get("CGO_CFLAGS")
			command(t, "cuda-env", "-w")
			if again := get("CGO_CFLAGS"); again != flags || get("CGO_LDFLAGS") != "-O2 -g -Wl,--as-needed" {
				t.Errorf("twice -w: %s, then %s; %s", flags, again, get("CGO_LDFLAGS"))
			}
			include, err := filepath.Glob(filepath.Join(dir, "cache/weft/cuda/*/include/cuda.h"))
			if len(include) != 1 || err != nil {
				t.Errorf("headers: %v, %v", include, err)
			}
			says(t, command(t, "cuda-env", "-u"), "taken back", dir+"/cache/weft/cuda\n")
			if get("CGO_CFLAGS") != "-O2 -g" || get("CGO_LDFLAGS") != "-O2 -g" {
				t.Errorf("after -u: %s, %s", get("CGO_CFLAGS"), get("CGO_LDFLAGS"))
			}
			if _, err := os.Stat(filepath.Join(dir, "cache/weft/cuda")); !os.IsNotExist(err) {
				t.Errorf("headers are left behind: %v", err)
			}
		})
	}
}

// The user's own settings stay, and those of another version of Weft are replaced.
func TestCUDAEnvKeeps(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the cache is elsewhere")
	}
	dir := t.TempDir()
	goSettings(t, dir)
	old := "-I" + dir + "/cache/weft/cuda/0123456789ab/include"
	out, err := exec.Command("go", "env", "-w", "CGO_CFLAGS=-O3 "+old+" -march=native").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	command(t, "cuda-env", "-w")
	flags, _ := goEnv("CGO_CFLAGS")
	if !strings.HasPrefix(flags, "-O3 -march=native -I"+dir+"/cache/weft/cuda/") || strings.Contains(flags, old) {
		t.Errorf("flags %s", flags)
	}
	command(t, "cuda-env", "-u")
	if flags, _ := goEnv("CGO_CFLAGS"); flags != "-O3 -march=native" {
		t.Errorf("flags %s", flags)
	}
}

// figures is a device that only reports what its kernels use.
type figures struct {
	kernels.Backend
	remarks []string
}

func (f figures) CheckKernels() (int, []string, error) { return 7, f.remarks, nil }

// Kernels that use more than they were checked with are a failure of the doctor, which names them.
func TestKernelsAboveBudget(t *testing.T) {
	if said, err := tryImages(figures{}); err != nil || said != "7 kernels loaded, within their budgets" {
		t.Errorf("%q, %v", said, err)
	}
	_, err := tryImages(figures{remarks: []string{"sum_f32 (sm_90): 41 registers, budget 40",
		"mul_f32 (sm_90): 8 bytes of local memory"}})
	const want = "slower than they should: sum_f32 (sm_90): 41 registers, budget 40; mul_f32"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	if _, err := tryImages(figures{remarks: make([]string, 23)}); err == nil ||
		!strings.HasSuffix(err.Error(), " and 3 more") {
		t.Error(err)
	}
}

package emu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// A Flavour is one of the two builds of the emulator, and a target of its Makefile.
type Flavour string

// The plain build is fast; the checked build inspects every access of memory.
const (
	Plain   Flavour = "plain"
	Checked Flavour = "check"
)

// ErrNoCompiler tells that the emulator cannot be built here.
var ErrNoCompiler = errors.New("emu: the emulator needs g++ and make, and an x86-64 processor with AVX2")

// Build brings a build up to date and returns the path of its driver library.
func Build(f Flavour) (string, error) {
	if err := available(); err != nil {
		return "", err
	}
	if out, err := exec.Command("make", "-s", "-j2", "-C", folder(), string(f)).CombinedOutput(); err != nil {
		return "", fmt.Errorf("emu: make: %w\n%s", err, out)
	}
	name := "libcuda_emu.so"
	if f == Checked {
		name = "libcuda_emu_check.so"
	}
	return filepath.Join(output(), name), nil
}

// Use builds the emulator and makes it the driver and the compiler of this process, unless the environment names a driver.
func Use(f Flavour) error {
	if os.Getenv("WEFT_CUDA_DRIVER") != "" {
		return nil
	}
	driver, err := Build(f)
	if err != nil {
		return err
	}
	os.Setenv("WEFT_CUDA_DRIVER", driver)
	os.Setenv("WEFT_NVRTC", strings.Replace(driver, "libcuda_emu", "libnvrtc_emu", 1))
	return nil
}

// Compile compiles the text of kernels to an image for cuModuleLoadData. The name stands in reports of faults. Options
// are for g++; -I folder finds headers there before those of the kernels.
func Compile(f Flavour, name, text string, options ...string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "weft-emu-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, object := filepath.Join(dir, name), filepath.Join(dir, "out.so")
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(folder(), "compile"), append([]string{string(f), source, object}, options...)...)
	cmd.Env = append(os.Environ(), "WEFT_EMU_LIB="+output())
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("emu: %s: %w\n%s", name, err, out)
	}
	return os.ReadFile(object)
}

// folder is where the sources of this package lie.
func folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

func output() string { return filepath.Join(folder(), "..", "..", "build", "emu") }

// available tells why the emulator cannot be built, if so.
func available() error {
	for _, tool := range []string{"g++", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %w", ErrNoCompiler, err)
		}
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || runtime.GOARCH != "amd64" || !strings.Contains(string(info), " avx2 ") {
		return ErrNoCompiler
	}
	return nil
}

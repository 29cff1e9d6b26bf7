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

// A Flavour is one of the builds of the emulator, and a target of its Makefile.
type Flavour string

// The plain build is fast; the checked build checks every memory access. The bare one has no kernels of the sources.
const (
	Plain   Flavour = "plain"
	Checked Flavour = "check"
	Bare    Flavour = "bare"
)

// Libraries are the names of the files that stand for the driver and for NVRTC.
func (f Flavour) Libraries() (driver, nvrtc string) {
	switch f {
	case Checked:
		return "libcuda_emu_check.so", "libnvrtc_emu_check.so"
	case Bare:
		return "libcuda_emu_bare.so", "libcuda_emu_bare.so"
	}
	return "libcuda_emu.so", "libnvrtc_emu.so"
}

// ErrNoCompiler is the error if the emulator cannot be built here.
var ErrNoCompiler = errors.New("emu: the emulator needs g++, make and flock, and an x86-64 processor with AVX2")

// Build brings a build up to date and returns the path of its driver library.
func Build(f Flavour) (string, error) {
	if err := available(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(output(), 0o777); err != nil {
		return "", err
	}
	lock := filepath.Join(output(), "lock") // several tests may build at once
	make := exec.Command("flock", lock, "make", "-s", "-j2", "-C", folder(), string(f))
	if out, err := make.CombinedOutput(); err != nil {
		return "", fmt.Errorf("emu: make: %w\n%s", err, out)
	}
	driver, _ := f.Libraries()
	return filepath.Join(output(), driver), nil
}

// Use builds the emulator and makes it the driver and the compiler of this process, unless the environment names a
// driver.
func Use(f Flavour) error {
	if os.Getenv("WEFT_CUDA_DRIVER") != "" {
		return nil
	}
	driver, err := Build(f)
	if err != nil {
		return err
	}
	_, nvrtc := f.Libraries()
	os.Setenv("WEFT_CUDA_DRIVER", driver)
	os.Setenv("WEFT_NVRTC", filepath.Join(output(), nvrtc))
	return nil
}

// UseOrExit is Use for a TestMain: without a compiler it says so and ends the process well, after other errors not.
func UseOrExit(f Flavour) {
	if err := Use(f); errors.Is(err, ErrNoCompiler) {
		fmt.Println("SKIPPED emu:", err)
		os.Exit(0)
	} else if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// Compile compiles the text of kernels to an image for cuModuleLoadData. Reports of faults contain the name. Options
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
		return nil, &CompileError{name, err, string(out)}
	}
	return os.ReadFile(object)
}

// Variant builds the driver library of a build into a folder, with the kernels of some files in that folder instead of
// those of the sources with the same names. The build itself must be up to date. An error of the compiler is a
// *CompileError.
func Variant(f Flavour, dir string, kernels []string) error {
	var objects []string
	changed := map[string]bool{"nvrtc.o": true, "nvrtc_compile.o": true, "bare.o": true} // of other libraries
	for _, name := range kernels {
		object := strings.TrimSuffix(name, ".cu") + ".o"
		changed[object] = true
		objects = append(objects, filepath.Join(dir, object))
		args := []string{string(f), filepath.Join(dir, name), filepath.Join(dir, object)}
		if out, err := exec.Command(filepath.Join(folder(), "compile"), args...).CombinedOutput(); err != nil {
			return &CompileError{name, err, string(out)}
		}
	}
	for _, pattern := range []string{"same/*.o", string(f) + "/*.o", string(f) + "/kernels/*.o"} {
		found, err := filepath.Glob(filepath.Join(output(), pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if !changed[filepath.Base(path)] {
				objects = append(objects, path)
			}
		}
	}
	library, _ := f.Libraries()
	link := append([]string{"-shared", "-Wl,-soname," + library, "-Wl,-Bsymbolic", "-o", filepath.Join(dir, library)},
		objects...)
	if out, err := exec.Command("g++", append(link, "-lpthread", "-ldl")...).CombinedOutput(); err != nil {
		return fmt.Errorf("emu: %s: %w\n%s", library, err, out)
	}
	return nil
}

// A CompileError is what the compiler says about kernels.
type CompileError struct {
	Name   string // of the file
	Err    error
	Output string
}

// Error has the compiler's output.
func (e *CompileError) Error() string { return fmt.Sprintf("emu: %s: %v\n%s", e.Name, e.Err, e.Output) }

// Unwrap is the error of the process.
func (e *CompileError) Unwrap() error { return e.Err }

// folder is the folder of the sources of this package.
func folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

func output() string { return filepath.Join(folder(), "..", "..", "..", "build", "emu") }

// available is nil, or why the emulator cannot be built.
func available() error {
	for _, tool := range []string{"g++", "make", "flock"} {
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

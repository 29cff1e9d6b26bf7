//go:build emu && cgo && linux

package emu

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

// Both builds are loaded in one process. On a GPU both are its driver.
var plain, checkedDriver *Driver

// realDriver is the library of a GPU's driver, "" for the emulator. The tests of primitives, which begin with
// TestPrimitive, run there too, with the images of their texts in realImages, which scripts/gpu-bundle makes: it has
// the emulator's tests write the texts to textFolder.
var realDriver, realImages, textFolder = os.Getenv("WEFT_EMU_GPU"), os.Getenv("WEFT_EMU_IMAGES"),
	os.Getenv("WEFT_EMU_TEXTS")

func TestMain(m *testing.M) {
	if realDriver != "" {
		d, err := Open(realDriver)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		plain, checkedDriver = d, d
		os.Exit(m.Run())
	}
	for _, x := range []struct {
		flavour Flavour
		driver  **Driver
	}{{Plain, &plain}, {Checked, &checkedDriver}} {
		path, err := library(x.flavour)
		if errors.Is(err, ErrNoCompiler) {
			fmt.Println("SKIPPED emu:", err)
			os.Exit(0)
		}
		if err == nil {
			*x.driver, err = Open(path)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// mutant is a folder with changed sources and the libraries that they make, if a test of mutants (package mutants)
// names one.
var mutant = os.Getenv("WEFT_EMU_MUTANT")

// library is the driver library of a build, the mutant's if it has one.
func library(f Flavour) (string, error) {
	path, err := Build(f)
	if changed := filepath.Join(mutant, filepath.Base(path)); err == nil && mutant != "" {
		if _, err := os.Stat(changed); err == nil {
			return changed, nil
		}
	}
	return path, err
}

// settings are the defaults, which each test starts from and leaves.
var settings = map[string]string{
	"order": "fifo", "copies": "early", "streams": "late", "seed": "1", "threads": "1", "capability": "90",
	"fail": "", "count": "0",
}

// fresh is a driver with an empty device and default settings, but for those given as name, value, name, value.
func fresh(t *testing.T, d *Driver, changed ...string) *Driver {
	t.Helper()
	if realDriver != "" {
		return d
	}
	restore := func() {
		for name, value := range settings {
			must(t, d.Set(name, value))
		}
		must(t, d.Reset())
	}
	restore()
	t.Cleanup(restore)
	for i := 0; i < len(changed); i += 2 {
		must(t, d.Set(changed[i], changed[i+1]))
	}
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// function finds a kernel of the sources.
func function(t *testing.T, d *Driver, name string) uintptr {
	t.Helper()
	if realDriver != "" {
		t.Skip("a test of the emulator's own kernels")
	}
	m, err := d.Module([]byte("emu"))
	must(t, err)
	f, err := d.Function(m, name)
	must(t, err)
	return f
}

// modules are the texts that were compiled, by driver; resetting a device keeps them.
var modules = map[*Driver]map[string]uintptr{}

// compiled loads the text of a kernel.
func compiled(t *testing.T, d *Driver, name, text string) uintptr {
	t.Helper()
	if modules[d] == nil {
		modules[d] = map[string]uintptr{}
	}
	if m := modules[d][text]; m != 0 {
		return m
	}
	if realDriver != "" {
		m, err := d.Module(realImage(t, d, text))
		must(t, err)
		modules[d][text] = m
		return m
	}
	flavour := Plain
	if d == checkedDriver {
		flavour = Checked
	}
	options := []string{"-Itestdata"}
	if mutant != "" {
		options = append(options, "-I"+mutant)
	}
	image, err := Compile(flavour, name, text, options...)
	must(t, err)
	if textFolder != "" && flavour == Plain {
		must(t, os.WriteFile(filepath.Join(textFolder, textName(text)+".cu"), []byte(text), 0o666))
		must(t, os.WriteFile(filepath.Join(textFolder, textName(text)+".emu"), image, 0o666))
	}
	m, err := d.Module(image)
	must(t, err)
	modules[d][text] = m
	return m
}

// textName is the file name of a text without ending.
func textName(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16] }

// realImage is the image of a text for the GPU: that for its own generation if there is one. The emulator takes the
// place of a GPU in rehearsals.
func realImage(t *testing.T, d *Driver, text string) []byte {
	t.Helper()
	if _, err := os.Stat(filepath.Join(realImages, textName(text)+".cu")); err != nil {
		t.Fatalf("the bundle has another text than this test: %v", err)
	}
	var name [64]byte
	var major, minor int32
	must(t, d.Call("cuDeviceGetName", &name, len(name), 0))
	must(t, d.Call("cuDeviceGetAttribute", &major, 75, 0))
	must(t, d.Call("cuDeviceGetAttribute", &minor, 76, 0))
	targets := []string{fmt.Sprintf("sm_%d%da", major, minor), "sm_80", "compute_80"}
	if strings.HasPrefix(string(name[:]), "Weft emulator") {
		targets = []string{"emu"}
	}
	for _, target := range targets {
		image, err := os.ReadFile(filepath.Join(realImages, textName(text)+"."+target))
		if err == nil && (target != "sm_80" || major == 8) {
			return append(image, 0)
		}
	}
	t.Skipf("no image of this text for compute %d.%d", major, minor)
	return nil
}

// upload is new device memory with the given content.
func upload[T any](t *testing.T, d *Driver, data []T) Ptr {
	t.Helper()
	p, err := d.Alloc(max(4, len(data)*int(unsafe.Sizeof(*new(T)))))
	must(t, err)
	if len(data) > 0 {
		must(t, Upload(d, p, data))
	}
	return p
}

// download is the content of device memory.
func download[T any](t *testing.T, d *Driver, p Ptr, n int) []T {
	t.Helper()
	data := make([]T, n)
	if n > 0 {
		must(t, Download(d, data, p))
	}
	return data
}

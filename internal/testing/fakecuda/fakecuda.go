// Package fakecuda builds a driver library for tests of package cuda: it simulates GPUs, runs the few kernels that it
// knows, and fails where a test asks for it. The head of src/fakecuda.c says what it does and how it is configured.
package fakecuda

import (
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed src/fakecuda.c
var source []byte

// Build compiles the library into dir and returns its path, for the environment variable WEFT_CUDA_DRIVER. headers
// are those of package cuda, whose tests use this package. It needs a C compiler: $CC, or cc.
func Build(dir string, headers fs.FS) (path string, err error) {
	if err := os.CopyFS(dir, headers); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "fakecuda.c")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "libcuda-fake.so")
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	out, err := exec.Command(cc, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread",
		"-I", filepath.Join(dir, "include"), "-o", path, file).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("fakecuda: %s: %v\n%s", cc, err, out)
	}
	return path, nil
}

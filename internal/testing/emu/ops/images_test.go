//go:build emu && cuda && cgo && linux

package ops

import (
	"io"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// TestImages loads the compiled kernels of this build, whose names and figures the emulator reads: each has its twin in
// the sources, and keeps its budget.
func TestImages(t *testing.T) {
	dev, err := kernels.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.(io.Closer).Close()
	n, remarks, err := dev.(interface {
		CheckKernels() (n int, remarks []string, err error)
	}).CheckKernels()
	if err != nil || n < 80 || len(remarks) > 0 {
		t.Errorf("%d kernels, %v, remarks %q", n, err, remarks)
	}
}

//go:build cuda && cgo && linux

package cuda_test

import (
	"testing"

	"github.com/weft-ml/weft/kernels/cuda"
)

// TestPlansOfOps: the kernels that rows of the operation table name, and docs/OPS.md after them, are those that have
// plans.
func TestPlansOfOps(t *testing.T) {
	named := map[string]bool{"copies": true, "sums": true} // package tensor's own, of several parameters at once
	for _, op := range engine.Ops() {
		if op.Kernel == "" {
			continue
		}
		named[op.Kernel] = true
		if cuda.Plans[op.Kernel] == nil {
			t.Errorf("operation %s: there is no plan for its kernel %s", op.Name, op.Kernel)
		}
		if op.Expr != nil || op.View != nil {
			t.Errorf("operation %s needs no kernel, and names %s", op.Name, op.Kernel)
		}
	}
	for kernel := range cuda.Plans {
		if !named[kernel] {
			t.Errorf("no operation has the kernel %s", kernel)
		}
	}
}

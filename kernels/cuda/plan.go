//go:build cuda && cgo && linux

package cuda

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/src"
)

// A plan makes the launches of an operation: it looks at the operands' types and layouts, chooses kernels, grid and
// block, and calls c.start and arg. Errors are panics with a [*kernels.Error], which [Backend.Run] returns: see
// [call.refuse].
type plan func(c *call, l *kernels.Launch)

// must is v, and panics with an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// plans holds the plan of each operation that has kernels for all element types that it takes, by its Op.Kernel.
// Operations that are expressions need no entry: planPointwise serves them.
var plans = map[string]plan{}

// suffixes end the symbols of kernels.
var suffixes = src.Suffixes

// plan is that of an operation on elements of type d.
func (b *Backend) plan(op *kernels.Op, d kernels.DType) (plan, error) {
	if op.Expr != nil {
		return planPointwise, nil
	}
	if p := plans[op.Kernel]; p != nil {
		return p, nil
	}
	return nil, kernels.Errorf(kernels.ErrDevice, op.Name, "device %s (%s) has no kernel for this operation on %v",
		b.Name(), b.gpu.Name, d)
}

package tensor

import (
	"slices"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/kernels"
)

// Error is misuse or a failure of resources; see [kernels.Error] for its fields.
type Error = kernels.Error

// Kinds of [Error], for errors.Is.
var (
	ErrShape   = kernels.ErrShape
	ErrDType   = kernels.ErrDType
	ErrIndex   = kernels.ErrIndex
	ErrValue   = kernels.ErrValue
	ErrStep    = kernels.ErrStep
	ErrGrad    = kernels.ErrGrad
	ErrVersion = kernels.ErrVersion
	ErrBusy    = kernels.ErrBusy
	ErrMemory  = kernels.ErrMemory
	ErrDevice  = kernels.ErrDevice
)

// Fail panics with an [*Error] of the given kind, with the line of the caller outside the library. Inside a step the
// error comes back from the step. Of tensors among args the message has name, type and shape.
func Fail(kind error, op, format string, args ...any) {
	args = slices.Clone(args)
	for i, a := range args {
		if t, ok := a.(*Tensor); ok {
			args[i] = t.String() // not its values
		}
	}
	e := kernels.Errorf(kind, op, format, args...)
	e.Site = caller.Site()
	panic(e)
}

// Try runs f outside a step and returns the [*Error] that it panicked with.
func Try(f func()) (err error) {
	Given("try", "the function", f)
	defer kernels.Catch(&err)
	f()
	return nil
}

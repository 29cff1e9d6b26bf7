package tensor

import (
	"slices"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/kernels"
)

// Error is misuse or a failure of resources. Its fields are
//
//	Kind error  // one of the kinds below, for errors.Is
//	Op   string // the operation, such as "matmul"
//	Msg  string // what was wrong, with axes, sizes and shapes
//	Site string // file:line of the caller outside the library
//	In   string // path of the enclosing layers, such as "blocks.0/attn"
//
// and Error() joins them: "file.go:14: matmul: inner sizes differ: ..., in blocks.0/attn". errors.As finds it,
// errors.Is its kind.
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

// fail is engine.Fail.
func fail(kind error, op, format string, args ...any) {
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

// try runs f outside a step and returns the [*Error] that it panicked with.
func try(f func()) (err error) {
	given("try", "the function", f)
	defer kernels.Catch(&err)
	f()
	return nil
}

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
	ErrShape   = kernels.ErrShape   // shapes, axes or sizes that do not fit
	ErrDType   = kernels.ErrDType   // an element type that the operation does not take
	ErrIndex   = kernels.ErrIndex   // an index value outside its axis
	ErrValue   = kernels.ErrValue   // an argument outside its domain
	ErrStep    = kernels.ErrStep    // a tensor outside its step, two steps or two devices mixed
	ErrGrad    = kernels.ErrGrad    // differentiation that is not possible
	ErrVersion = kernels.ErrVersion // a value that backward needs was overwritten; a parameter read after its update
	ErrBusy    = kernels.ErrBusy    // two goroutines in one step, evaluation beside an update
	ErrMemory  = kernels.ErrMemory  // memory of the device or the host, or a limit, is exhausted
	ErrDevice  = kernels.ErrDevice  // no such device, or it cannot do this
)

// fail is engine.Fail.
func fail(kind error, op, format string, args ...any) {
	args = slices.Clone(args)
	for i, a := range args {
		switch a := a.(type) { // not their values
		case *Tensor:
			args[i] = a.String()
		case []*Tensor:
			names := make([]string, len(a))
			for k, t := range a {
				names[k] = t.String()
			}
			args[i] = names
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

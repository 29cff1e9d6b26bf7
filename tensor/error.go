package tensor

import (
	"path"
	"runtime"
	"strconv"
	"strings"

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

// Fail panics with an [*Error] of the given kind that names the caller outside the library. Inside a
// step the error comes back from the step.
func Fail(kind error, op, format string, args ...any) {
	e := kernels.Errorf(kind, op, format, args...)
	e.Site = callSite()
	panic(e)
}

// Try runs f, which works outside a step, and returns the [*Error] it panicked with.
func Try(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	f()
	return nil
}

const module = "github.com/weft-ml/weft/"

// callSite is the innermost caller outside the library, as file:line.
func callSite() string {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(2, pcs)
	for n == len(pcs) { // deeply nested modules
		pcs = make([]uintptr, 4*n)
		n = runtime.Callers(2, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		if !inLibrary(f.Function, f.File) {
			return path.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}

// inLibrary tells library code from its callers. Tests, examples and commands of this module are callers.
func inLibrary(function, file string) bool {
	if strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "reflect.") {
		return true
	}
	in, ok := strings.CutPrefix(function, module)
	if !ok || strings.HasSuffix(file, "_test.go") {
		return false
	}
	return !strings.HasPrefix(in, "examples/") && !strings.HasPrefix(in, "cmd/") && !strings.HasPrefix(in, "bench")
}

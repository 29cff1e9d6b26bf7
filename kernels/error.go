package kernels

import (
	"errors"
	"fmt"
	"strings"
)

// Kinds of [Error], for errors.Is.
var (
	ErrShape   = errors.New("wrong shape")          // shapes, axes or sizes that do not fit
	ErrDType   = errors.New("wrong dtype")          // an element type the operation does not take
	ErrIndex   = errors.New("index out of range")   // an index value outside its axis
	ErrValue   = errors.New("wrong value")          // an argument outside its domain
	ErrStep    = errors.New("wrong step")           // a tensor outside its step, two steps or two devices mixed
	ErrGrad    = errors.New("no gradient")          // differentiation that is not possible
	ErrVersion = errors.New("modified")             // a saved value was assigned before backward read it
	ErrBusy    = errors.New("in use")               // two goroutines in one step, evaluation beside an update
	ErrMemory  = errors.New("out of memory")        // the device's memory or the limit is exhausted
	ErrDevice  = errors.New("device not available") // no such device, or it cannot do this
)

// ErrScratch is [ErrMemory] for what an operation needs besides its results: its kernel, or scratch memory. Nothing of
// the operation is queued, so it can run again when there is memory.
var ErrScratch = fmt.Errorf("%w: for the work of an operation", ErrMemory)

// Error is a misuse of the library or a lack of resources. Inside a step it is a panic, which the step returns as an
// error.
type Error struct {
	Kind error  // one of the kinds above
	Op   string // the operation, such as "matmul"
	Msg  string // what was wrong, with axes, sizes and shapes
	Site string // file:line of the caller outside the library
	In   string // path of the enclosing regions, such as "blocks.0/attn"
}

// Error is the message "file.go:14: matmul: inner sizes differ: ..., in blocks.0/attn".
// Parts that are too long to be read, such as the path of a thousand regions, are cut in their middle.
func (e *Error) Error() string {
	s := cut(e.Op, 100) + ": " + cut(e.Msg, 1000)
	if e.Site != "" {
		s = e.Site + ": " + s
	}
	if e.In != "" && e.In != e.Op {
		s += ", in " + cut(e.In, 200)
	}
	return s
}

// cut leaves the beginning and the end of a text of more than most bytes.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most/2]+" ... "+s[len(s)-most/2:], "")
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Errorf makes an Error without a site; package tensor adds the caller and the region.
func Errorf(kind error, op, format string, args ...any) *Error {
	return &Error{Kind: kind, Op: op, Msg: fmt.Sprintf(format, args...)}
}

// Catch, deferred, makes an [*Error] that a function panics with its result err. Other panics go on.
func Catch(err *error) {
	switch e := recover().(type) {
	case nil:
	case *Error:
		*err = e
	default:
		panic(e)
	}
}

// IndexError is the error that index k of a tensor of the given shape has the value v, which is outside [0, size), the
// size of an axis of a shape; of is nil where the index is of no operand's axis.
func IndexError(op string, shape []int, k, v, size int, of []int, axis int) *Error {
	e := Errorf(ErrIndex, op, "the index at %v is %d, outside [0, %d)", indicesOf(shape, k), v, size)
	if of != nil {
		e.Msg += fmt.Sprintf(", axis %d of %v", axis, of)
	}
	return e
}

// IndexError is [IndexError] for operand number i, indices of an axis of the given size: axis l.Ints[0] of the first
// operand, or, if that has the indices, of no operand.
func (l *Launch) IndexError(i, k, v, size int) *Error {
	var of []int
	if i > 0 {
		of = l.In[0].Shape
	}
	return IndexError(l.Op.Name, l.In[i].Shape, k, v, size, of, l.Ints[0])
}

// TargetError is the error that target k of a tensor of the given shape has the value v, which is no class.
func TargetError(op string, shape []int, k, v, classes, ignore int) *Error {
	return Errorf(ErrIndex, op, "target %v is %d, outside the classes [0, %d); %d marks rows to ignore",
		indicesOf(shape, k), v, classes, ignore)
}

// indicesOf are the indices of element k, in row-major order, of a shape.
func indicesOf(shape []int, k int) []int {
	indices := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		indices[d] = k % shape[d]
		k /= shape[d]
	}
	return indices
}

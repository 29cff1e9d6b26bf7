package seam

import (
	"fmt"
	"unsafe"

	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/kernels"
)

// Key opens the engine of package tensor.
type Key struct{}

// Pass says how a backward pass runs; T is *tensor.Tensor. Package autograd documents the options. The zero value is a
// plain pass.
type Pass[T comparable] struct {
	Retain bool       // keep what operations saved, for another pass
	Create bool       // record the pass itself
	Finite bool       // Backward fails if the result is not
	Unused bool       // Grad may find no gradient
	Seed   T          // the gradient of the result; nil: 1
	Only   map[T]bool // the parameters that Backward gives gradients to; nil: all
}

// Counters are the numbers of the last step and the last evaluation of a device, where those that failed do not count.
// With the seed they decide the random numbers of those that follow.
type Counters struct {
	Steps uint64 `json:"steps"`
	Evals uint64 `json:"evals"`
}

// Initializer draws the first values v of a parameter of the given shape from the parameter's own stream.
type Initializer func(v []float64, shape []int, r philox.Source)

// How the losses of rows are combined.
const (
	ReduceMean = iota // their sum divided by their number
	ReduceSum         // their sum
	ReduceNone        // one for each row, 0 where it is ignored
)

// IgnoreIndex is the target of rows that a loss leaves out, unless an option names another one.
const IgnoreIndex = -100

// Applied is one application of an operation, as an observer sees it; O is *tensor.Op, T is *tensor.Tensor.
type Applied[O, T any] struct {
	Op     O
	In     []T
	Out    []T
	Ints   []int
	Floats []float64
	Flops  float64 // its arithmetic
}

// Sample is one way to call an operation, for tests; T is *tensor.Tensor. Call receives tensors made from In.
type Sample[T any] struct {
	Name string
	In   []Arg
	Call func(x []T) T
	// CallAll takes the place of Call where several outputs carry a gradient, and returns those.
	CallAll func(x []T) []T
	// Fixed operands must keep their layout; otherwise tests also try transposed, sliced and expanded ones.
	Fixed bool
}

// Arg describes an operand of a Sample: its shape, and either explicit Values or random ones from [Lo, Hi).
type Arg struct {
	Shape  []int
	DType  kernels.DType // of floating operands: the type under test replaces Float32
	Lo, Hi float64
	Values []float64
}

// CastClass says what autocast does with the operands of an operation that are float32, float16 or bfloat16. It changes
// neither integers and bools nor any operand of an operation with a float64 one.
type CastClass uint8

// The classes. Operations of backward passes are not cast: they run in the types of their forward.
const (
	CastKeep   CastClass = iota // nothing: the operation takes what it is given, pointwise ones promote
	CastLower                   // to the region's type: products of matrices, which tensor cores compute
	CastFull                    // to float32: what overflows, or loses its sum, in half precision
	CastWidest                  // to the widest operand's type: what takes operands of one type
	CastBanned                  // refused: no cast makes it safe
	CastParts                   // as its two operations do: where one of them casts, its method calls both instead
)

// String is what the documentation calls the class.
func (c CastClass) String() string {
	names := [...]string{"keep", "lower", "full", "widest", "banned", "parts"}
	if int(c) >= len(names) {
		return fmt.Sprintf("CastClass(%d)", c)
	}
	return names[c]
}

// Elems is memory as a slice of elements of type T, which it is aligned for; a part of an element at its end is left
// out.
func Elems[T any](memory []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/int(unsafe.Sizeof(zero)))
}

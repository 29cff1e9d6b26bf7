package kernels

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/weft-ml/weft/kernels/expr"
)

// Op is the part of an operation that devices know: how its results are computed.
type Op struct {
	Name   string          // lower case, the field's standard term: "softmax"
	Expr   *expr.Func      // a pointwise operation is its expression
	CPU    func(l *Launch) // direct loops for the element types of Types; nil: Ref is used
	Types  []DType         // element types (of the first input) that CPU takes; empty: Float32
	Ref    func(l *Launch) // the definition; floating-point operands and results are contiguous float64
	Kernel string          // names the CUDA kernels of an operation without Expr; empty: there are none
	Parts  []*Op           // the two operations of a sum and its norm

	// Approximate lets a GPU compute an expression on half precision with its approximate units: results are within a
	// unit in the last place of the rounded ones, or 2^-16 of the largest term where terms cancel.
	Approximate bool
}

// Buffer is device memory; each backend knows its own kind.
type Buffer interface {
	Bytes() int // size
	// Slice is n bytes of it from byte off on, in the place of old, a slice that is not used any more, or nil.
	Slice(old Buffer, off, n int) Buffer
}

// Arg is an operand or a result of an op call.
type Arg struct {
	Buf   Buffer
	DType DType
	Layout
}

// Random selects a sequence of random numbers: Philox key and first counter.
type Random struct{ Key, Counter uint64 }

// Launch is an op call: one operation with its operands and attributes. It is valid until Run returns; callers that
// keep it must [Launch.Clone] it.
type Launch struct {
	Op      *Op
	In, Out []Arg
	Ints    []int     // attributes: axes, sizes, flags
	Floats  []float64 // attributes: the parameters of an expression, probabilities, epsilons
	Random  Random
	Stream  Stream

	Step     uint64 // the number of the training step, for errors that arrive later; 0: none
	Prepared bool   // by a Preparer: Run tells of no earlier failures
}

// DType is the element type that selects the kernel: that of the first input, or of the result if there is no input.
func (l *Launch) DType() DType {
	if len(l.In) > 0 {
		return l.In[0].DType
	}
	return l.Out[0].DType
}

// Split writes the two operations of l, a sum and its norm, to sum and norm. Operands are those of the sum, then the
// norm's parameters; results the sum, then the norm's results.
func (l *Launch) Split(sum, norm *Launch) {
	*sum = Launch{Op: l.Op.Parts[0], In: append(sum.In[:0], l.In[:2]...), Out: append(sum.Out[:0], l.Out[0])}
	*norm = Launch{Op: l.Op.Parts[1], In: append(norm.In[:0], l.Out[0]), Out: append(norm.Out[:0], l.Out[1:]...)}
	norm.In = append(norm.In, l.In[2:]...)
	norm.Ints, norm.Floats = l.Ints, l.Floats
	sum.Stream, norm.Stream = l.Stream, l.Stream
}

// Clone is a deep copy of l.
func (l *Launch) Clone() *Launch {
	c := *l
	cloned := func(args []Arg) []Arg {
		args = slices.Clone(args)
		for i := range args {
			args[i].Shape, args[i].Strides = slices.Clone(args[i].Shape), slices.Clone(args[i].Strides)
		}
		return args
	}
	c.In, c.Out = cloned(l.In), cloned(l.Out)
	c.Ints, c.Floats = slices.Clone(l.Ints), slices.Clone(l.Floats)
	return &c
}

// Stream orders the work of a device; 0 is the default stream.
type Stream uint32

// Side is the stream of copies to the host that go on beside the work of the others: no copy of theirs holds it up.
const Side Stream = math.MaxUint32 - 2

// Ahead is the stream of copies to the device for work that comes later. They hold up no other copy, nor the host in a
// step.
const Ahead Stream = math.MaxUint32 - 3

// Event marks a point of a stream.
type Event interface {
	// Done tells, without waiting, whether everything before the mark has finished and copies to the host have arrived.
	// With an error they never will.
	Done() (bool, error)
}

// Backend is a device. Its methods may be called from many goroutines.
type Backend interface {
	Name() string                // "cpu", "cuda:0"
	Alloc(n int) (Buffer, error) // n bytes, aligned to 64; the content is undefined
	Free(b Buffer)               // b is not used again
	// CopyIn queues a copy to the device; src may be reused on return.
	CopyIn(s Stream, dst Buffer, off int, src []byte) error
	// CopyOut queues a copy to the host; dst is valid after Synchronize, or when a later event is done.
	CopyOut(s Stream, dst []byte, src Buffer, off int) error
	// Read is CopyOut, and waits until dst is valid: for what is queued on the stream, and not for what others queue
	// meanwhile. It returns what Synchronize would.
	Read(s Stream, dst []byte, src Buffer, off int) error
	// Copy queues a copy of n bytes from byte srcOff of src to byte off of dst, other memory of the device.
	Copy(s Stream, dst Buffer, off int, src Buffer, srcOff, n int) error
	Run(l *Launch) error // in the order of the stream
	Record(s Stream) Event
	Wait(s Stream, e Event)
	Synchronize(s Stream) error
}

// Peer is a backend that copies between devices of its kind without the host waiting.
type Peer interface {
	Backend
	// CopyPeer queues a copy of n bytes of another device's memory to byte off of dst: after what is queued on stream s
	// of either device, and before what is queued there later. It is false if src is of another kind.
	CopyPeer(s Stream, dst Buffer, off int, src Buffer, srcOff, n int) (bool, error)
}

// Pinner is a backend that copies between its memory and that of the host while the host does something else.
type Pinner interface {
	Backend
	// AllocHost takes n bytes of the host's memory, pinned for the device. Copy takes it for dst, or for src, and Free
	// gives it back. The error of a host without memory is of kind [ErrMemory].
	AllocHost(n int) (Buffer, error)
}

// Sizer is a backend that knows how much memory its device has.
type Sizer interface {
	Memory() int     // bytes, used or not
	FreeMemory() int // bytes that nobody uses; it asks the device
}

// Reserver is a backend with virtual memory.
type Reserver interface {
	// Reserve takes a range of addresses for all the memory that the device has. A backend that has none after all
	// answers with [errors.ErrUnsupported].
	Reserve() (Range, error)
}

// Range is addresses of a device, to parts of which memory is mapped. What is mapped keeps its place while others come
// and go.
type Range interface {
	Buffer() Buffer       // all of it; only what is mapped may be used
	Granularity() int     // offsets and sizes are multiples
	Map(off, n int) error // the error of a full device is of kind [ErrMemory]; nothing is mapped then
	// Unmap gives back what one Map has mapped or, of a divisible range, any of what is mapped. It waits until no work
	// uses any of it.
	Unmap(off, n int) error
	Divisible() bool
}

// Preparer is a backend whose op calls can fail for want of a kernel or of memory.
type Preparer interface {
	Backend
	// Prepare does what can fail of Run, and tells of earlier failures as Run does. A Run that follows, with the same
	// call marked Prepared, fails only with the device.
	Prepare(l *Launch) error
}

// Batcher is a backend on which each op call takes time of its own, so that small copies wait for others and are made
// together.
type Batcher interface{ Batches() }

var (
	mu      sync.Mutex
	drivers = map[string]func(ordinal int) (Backend, error){}
	absent  = map[string]string{} // why a kind is not registered
)

// Register makes a kind of device available under a name; backends call it from init.
func Register(name string, open func(ordinal int) (Backend, error)) {
	mu.Lock()
	defer mu.Unlock()
	drivers[name] = open
}

// Absent says why a kind of device is not in this program, and how it gets there: [Open] answers with it.
func Absent(name, why string) {
	mu.Lock()
	defer mu.Unlock()
	absent[name] = why
}

// Open opens the device called "name" or "name:ordinal". The error is an [*Error] of kind [ErrDevice].
func Open(name string) (Backend, error) {
	kind, num, numbered := strings.Cut(name, ":")
	ordinal := 0
	if numbered {
		if _, err := fmt.Sscanf(num, "%d", &ordinal); err != nil || ordinal < 0 || fmt.Sprint(ordinal) != num {
			return nil, Errorf(ErrDevice, "open", "device %q: %q is not a device number", name, num)
		}
	}
	mu.Lock()
	open, why := drivers[kind], absent[kind]
	mu.Unlock()
	if open == nil && why != "" {
		return nil, Errorf(ErrDevice, "open", "no device kind %q: %s", kind, why)
	}
	if open == nil {
		have := strings.Join(Drivers(), ", ")
		return nil, Errorf(ErrDevice, "open", "no device kind %q in this program; there are %s", kind, have)
	}
	return open(ordinal)
}

// Drivers lists the registered kinds of device, sorted.
func Drivers() []string {
	mu.Lock()
	defer mu.Unlock()
	return slices.Sorted(maps.Keys(drivers))
}

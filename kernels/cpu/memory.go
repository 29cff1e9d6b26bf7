package cpu

import (
	"fmt"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
)

// Mem is memory of the CPU, aligned to 64 bytes, or to huge pages if it is large: Go memory without pointers, or part
// of a range that the memory pool has reserved.
type Mem struct{ data []byte }

const alignment = 64 // a cache line, and the widest vector

// newMem is memory of n bytes, all 0, or an error of kind [kernels.ErrMemory], with collect not before a collection.
func newMem(n int, collect bool) (*Mem, error) {
	return granted(n, collect, func() *Mem {
		if n >= hugeMemory {
			m := aligned(n, hugePage)
			adviseHuge(m)
			return &Mem{m}
		}
		return &Mem{aligned(n, alignment)}
	})
}

// mustMem is newMem for the work of an op call, which panics with the error. Small memory it makes in any case: a
// commit must not fail for want of it.
func mustMem(n int) *Mem {
	if n < small {
		return &Mem{aligned(n, alignment)}
	}
	m, err := newMem(n, true)
	if err != nil {
		panic(&kernels.Error{Kind: kernels.ErrMemory, Msg: "scratch memory: " + err.(*kernels.Error).Msg})
	}
	return m
}

// Wrap makes device memory of existing host memory, without copying.
func Wrap(b []byte) *Mem { return &Mem{b} }

// aligned is memory of n bytes at a multiple of a power of two.
func aligned(n, to int) []byte {
	raw := counted(make([]byte, n+to-1))
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (to - 1)
	return raw[skip : skip+n : skip+n]
}

// AdviseHuge asks the system for huge pages for the part of memory that is aligned to them: random reads of a large
// array miss the TLB less. Where the memory was written already, that comes late.
func AdviseHuge(b []byte) {
	if len(b) < hugeMemory {
		return
	}
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (hugePage - 1)
	adviseHuge(b[skip:])
}

// Bytes is the size.
func (m *Mem) Bytes() int { return len(m.data) }

// Slice is a part of it.
func (m *Mem) Slice(old kernels.Buffer, off, n int) kernels.Buffer {
	s, _ := old.(*Mem)
	if s == nil {
		s = &Mem{}
	}
	s.data = m.data[off : off+n : off+n]
	return s
}

// Data is the memory itself.
func (m *Mem) Data() []byte { return m.data }

// Element is a Go type that holds elements of a tensor. Those of float16 and bfloat16 are their bits in a uint16.
type Element interface {
	float32 | float64 | uint16 | int64 | int32 | uint8 | bool
}

// Slice is the memory of an operand from its first element (the layout's offset) to the end of the buffer.
func Slice[T Element](a kernels.Arg) []T {
	var t T
	if int(unsafe.Sizeof(t)) != a.DType.Size() {
		panic(fmt.Sprintf("cpu: elements of %v read as %T", a.DType, t))
	}
	return view[T](bytesOf(a))
}

// bytesOf is the memory of an operand from its first element on.
func bytesOf(a kernels.Arg) []byte {
	return a.Buf.(*Mem).data[a.Offset*a.DType.Size():]
}

// view reads memory as elements of another type. No other function changes the type of memory.
func view[T, S any](b []S) []T {
	var t T
	var s S
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)*int(unsafe.Sizeof(s))/int(unsafe.Sizeof(t)))
}

// sizeOf is the size of a value in bytes.
func sizeOf[T any](v T) int { return int(unsafe.Sizeof(v)) }

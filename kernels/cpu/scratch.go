package cpu

import (
	"math/bits"
	"sync"
)

// buffers hold scratch memory that is not in use; pool k has buffers of 1<<k elements, so that a small request does not
// use up a large buffer.
var buffers [bits.UintSize]sync.Pool

// borrow returns scratch memory of n elements, with any content.
func borrow(n int) *[]float32 {
	k := bits.Len(uint(max(n, 1) - 1))
	b, ok := buffers[k].Get().(*[]float32)
	if !ok {
		b = new([]float32)
		*b = view[float32](mustMem(4 << k).data)
	}
	*b = (*b)[:n]
	return b
}

// integers is memory for n integers, all 0.
func integers(n int) []int { return view[int](mustMem(n * sizeOf(n)).data) }

func giveBack(b *[]float32) { buffers[bits.Len(uint(cap(*b)-1))].Put(b) }

package cpu

import (
	"math/bits"
	"sync"
)

// buffers hold scratch memory that is not in use, of 1<<k elements each in number k: a small demand then takes no large
// memory, and a large one finds what it gave back.
var buffers [bits.UintSize]sync.Pool

// borrow returns scratch memory of n elements, with any content.
func borrow(n int) *[]float32 {
	k := bits.Len(uint(max(n, 1) - 1))
	b, ok := buffers[k].Get().(*[]float32)
	if !ok {
		b = new([]float32)
		*b = view[float32](newMem(4 << k).data)
	}
	*b = (*b)[:n]
	return b
}

func giveBack(b *[]float32) { buffers[bits.Len(uint(cap(*b)-1))].Put(b) }

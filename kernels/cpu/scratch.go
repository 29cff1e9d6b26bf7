package cpu

import "sync"

var buffers = sync.Pool{New: func() any { return new([]float32) }}

// borrow returns scratch memory of n elements, with any content.
func borrow(n int) *[]float32 {
	b := buffers.Get().(*[]float32)
	if cap(*b) < n {
		*b = make([]float32, n)
	}
	*b = (*b)[:n]
	return b
}

func giveBack(b *[]float32) { buffers.Put(b) }

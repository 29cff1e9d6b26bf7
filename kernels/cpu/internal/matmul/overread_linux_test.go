package matmul

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"
)

// beforeHole copies x to memory that ends where memory that cannot be read begins.
func beforeHole(t *testing.T, x []float32) []float32 {
	const page = 1 << 16 // a multiple of any page size in use
	size := (4*len(x) + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(mem) })
	if err := syscall.Mprotect(mem[size:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	y := unsafe.Slice((*float32)(unsafe.Pointer(&mem[size-4*len(x)])), len(x))
	copy(y, x)
	return y
}

// The vector loads must not reach beyond the last element of an operand: there may be no memory.
func TestReadsInside(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	exact := func(l layout, rows, cols int) Matrix {
		m := l.view(r, rows, cols)
		m.Data = beforeHole(t, m.Data[:(rows-1)*m.RowStride+(cols-1)*m.ColStride+1])
		return m
	}
	for _, s := range [][3]int{{1, 1, 1}, {5, 9, 3}, {12, 16, 7}, {13, 24, 8}, {25, 48, 30}, {8, 17, 5}, {40, 40, 40},
		{100, 104, 20}, {100, 112, 21}, {121, 103, 258}} {
		m, n, k := s[0], s[1], s[2]
		for _, la := range layouts {
			for _, lb := range layouts {
				a, b, c := exact(la, m, k), exact(lb, k, n), beforeHole(t, make([]float32, m*n))
				for _, tier := range tiers()[1:] {
					force(t, tier)
					Float32(m, n, k, a, b, c, n, nil)
				}
			}
		}
	}
}

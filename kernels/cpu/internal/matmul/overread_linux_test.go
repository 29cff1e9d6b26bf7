package matmul

import (
	"math/rand/v2"
	"slices"
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
		{100, 104, 20}, {100, 112, 21}, {121, 103, 258},
		{16, 43, 90}} {
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

// Nor beyond that of an unfolded one, of which pieces of columns are copied, and runs read, as whole vectors.
func TestUnfoldReadsInside(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for range 40 {
		m, k := []int{5, 30, 100}[r.IntN(3)], 1+r.IntN(300)
		b := UnfoldedOf[float32]{Rows: make([]int, k)}
		width := 1 + r.IntN(40)
		b.Columns.PushAll([]int{1 + r.IntN(3), 1 + r.IntN(9), width}, []int{900, width + r.IntN(9), 1})
		for p := range b.Rows {
			b.Rows[p] = r.IntN(200)
		}
		n := b.Columns.Len()
		b.Data = beforeHole(t, make([]float32, slices.Max(b.Rows)+b.Columns.Offset(n-1)+1))
		a, c := layout("rows").view(r, m, k), beforeHole(t, make([]float32, m*n))
		for _, tier := range tiers()[1:] {
			force(t, tier)
			Unfold(m, a, b, c, n, false, nil)
			runs := b
			runs.Run = width
			runs.Result.Push(n, 1)
			Unfold(m, a, runs, c, n, false, nil)
			if Splits[float32](n, width) {
				runs.Run = n
				Unfold(m, a, runs, c, n, false, nil)
			}
		}
	}
}

// Nor beyond the last element of a plane.
func TestPlaneReadsInside(t *testing.T) {
	for n := range 40 {
		for step := 1; step <= 2; step++ {
			few, all := beforeHole(t, make([]float32, n+1)), beforeHole(t, make([]float32, n*step+1))
			for _, tier := range tiers()[1:] {
				force(t, tier)
				CopyPlane(few, 0, all, 0, 2, n+1, step)
				PutPlane(all, 0, few, 0, 2, n+1, step)
			}
		}
	}
}

// Nor, in windows, beyond a plane or its result, however narrow. Those that a tier knows have the chains of the others.
func TestWindowsReadInside(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for width := 1; width < 40; width++ {
		plane, pad := [2]int{1 + r.IntN(7), width}, [2]int{r.IntN(2), r.IntN(3)}
		var taps []Tap
		for h := range min(3, plane[0]+2*pad[0]) {
			for w := range min(3, plane[1]+2*pad[1]) {
				taps = append(taps, Tap{0, h - pad[0], w - pad[1]})
			}
		}
		last := taps[len(taps)-1]
		size := [2]int{plane[0] + pad[0] - last.H, plane[1] + pad[1] - last.W}
		integers := func(n int) []float32 { // whose sums are exact
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.IntN(9) - 4)
			}
			return x
		}
		src, weights := integers(plane[0]*plane[1]), integers(len(taps))
		var want []float32
		for i := range size[0] {
			for j := range size[1] {
				sum := float32(0)
				for t, tap := range taps {
					if h, w := i+tap.H, j+tap.W; h >= 0 && h < plane[0] && w >= 0 && w < plane[1] {
						sum += weights[t] * src[h*width+w]
					}
				}
				want = append(want, sum)
			}
		}
		src, dst := beforeHole(t, src), beforeHole(t, make([]float32, size[0]*size[1]))
		for _, tier := range tiers()[1:] {
			force(t, tier)
			windows := NewWindows(size, size[1], plane, width, 0, taps)
			if windows == nil {
				continue
			}
			clear(dst)
			windows.Slide(dst, src, weights)
			if !slices.Equal(dst, want) {
				t.Fatalf("%v: windows of %v over %v: got %v, want %v", tier, taps, plane, dst, want)
			}
		}
	}
}

package matmul

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// naive is the definition of the canonical order, one element of C at a time.
func naive(m, n, k int, a, b Matrix, c []float32, ldc int) {
	for i := range m {
		for j := range n {
			var total float32
			for k0 := 0; k0 < k; k0 += 256 {
				var sum float32
				for p := k0; p < min(k0+256, k); p++ {
					sum = lane.FMA32(a.Data[i*a.RowStride+p*a.ColStride], b.Data[p*b.RowStride+j*b.ColStride], sum)
				}
				if k0 == 0 {
					total = sum
				} else {
					total += sum
				}
			}
			c[i*ldc+j] = total
		}
	}
}

// same reports whether x and y have the same bits; all NaNs are equal.
func same(x, y float32) bool {
	return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
}

// tiers returns the tiers that this machine has.
func tiers() []vec.Tier {
	var list []vec.Tier
	for _, tier := range []vec.Tier{vec.Portable, vec.NEON, vec.AVX2, vec.AVX512} {
		if vec.Supported(tier) {
			list = append(list, tier)
		}
	}
	return list
}

// force uses a tier until the end of the test.
func force(t testing.TB, tier vec.Tier) {
	old := vec.SetTier(tier)
	t.Cleanup(func() { vec.SetTier(old) })
}

// A layout is a way to lay a matrix out in memory.
type layout string

// view fills fresh memory and returns a matrix of it with the given sizes.
func (l layout) view(r *rand.Rand, rows, cols int) Matrix {
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
			switch r.IntN(200) {
			case 0:
				x[i] = 0
			case 1:
				x[i] = float32(math.Copysign(0, -1))
			case 2:
				x[i] *= 0x1p-130
			}
		}
		return x
	}
	pad := r.IntN(5)
	size := func(n, stride int) int { return max(0, (n-1)*stride) }
	switch l {
	case "rows":
		return Matrix{fill(size(rows, cols+pad) + cols), cols + pad, 1}
	case "columns":
		return Matrix{fill(size(cols, rows+pad) + rows), 1, rows + pad}
	case "both strided":
		return Matrix{fill(size(rows, 2*cols+pad) + size(cols, 2) + 1), 2*cols + pad, 2}
	case "one row":
		return Matrix{fill(cols + 1), 0, 1}
	case "one column":
		return Matrix{fill(rows + 1), 1, 0}
	case "one element":
		return Matrix{fill(1), 0, 0}
	}
	panic("unknown layout " + l)
}

var layouts = []layout{"rows", "columns", "both strided", "one row", "one column", "one element"}

// checkProduct computes a product of random data in all tiers and compares it with naive, with guards around C.
func checkProduct(t *testing.T, r *rand.Rand, m, n, k int, la, lb layout) {
	t.Helper()
	a, b := la.view(r, m, k), lb.view(r, k, n)
	const guard = 37
	ldc := n + r.IntN(4)
	size := m * ldc
	if m > 0 {
		size = (m-1)*ldc + n
	}
	want := make([]float32, m*ldc)
	naive(m, n, k, a, b, want, ldc)
	for _, tier := range tiers() {
		force(t, tier)
		whole := make([]float32, size+2*guard)
		for i := range whole {
			whole[i] = 12345
		}
		touched := make([]bool, len(whole))
		c := whole[guard : guard+size : guard+size]
		Float32(m, n, k, a, b, c, ldc, nil)
		for i := range m {
			for j := range n {
				touched[guard+i*ldc+j] = true
				if got := c[i*ldc+j]; !same(got, want[i*ldc+j]) {
					t.Fatalf("%v: [%d %d] x [%d %d] (%s, %s): element (%d, %d) is %x, want %x",
						tier, m, k, k, n, la, lb, i, j, got, want[i*ldc+j])
				}
			}
		}
		for i, ok := range touched {
			if !ok && whole[i] != 12345 {
				t.Fatalf("%v: [%d %d] x [%d %d] (%s, %s): wrote outside C at %d of %d", tier, m, k, k, n, la, lb,
					i-guard, size)
			}
		}
	}
}

func TestSmallSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 15, 16, 17, 23, 24, 25, 31, 32, 33, 39, 40}
	if raceEnabled {
		sizes = []int{0, 1, 2, 4, 12, 17, 33} // the detector makes the loops that check slow
	}
	for _, m := range sizes {
		for _, n := range sizes {
			for _, k := range []int{0, 1, 2, 3, 4, 5, 8, 13, 32, 37} {
				la, lb := layouts[r.IntN(len(layouts))], layouts[r.IntN(len(layouts))]
				checkProduct(t, r, m, n, k, la, lb)
			}
		}
	}
}

func TestChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	depths, layouts := []int{255, 256, 257, 511, 512, 513, 1000, 2047, 2048, 2049, 2305}, layouts
	if raceEnabled {
		depths, layouts = []int{257, 2049}, layouts[:2]
	}
	for _, k := range depths {
		for _, la := range layouts {
			for _, lb := range layouts {
				checkProduct(t, r, 1+r.IntN(30), 1+r.IntN(70), k, la, lb)
			}
		}
	}
}

func TestBigSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	if raceEnabled {
		t.Skip("slow under the race detector; TestThreads runs the same code")
	}
	for _, s := range [][3]int{{97, 513, 257}, {130, 1037, 40}, {301, 95, 300}, {96, 96, 96}, {100, 100, 513},
		{257, 129, 130}, {8, 1100, 300}} {
		for _, la := range layouts[:3] {
			for _, lb := range layouts[:3] {
				checkProduct(t, r, s[0], s[1], s[2], la, lb)
			}
		}
	}
}

// TestPacked has the smallest products that pack both operands.
func TestPacked(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for _, s := range [][3]int{{96, 97, 19}, {25, 100, 260}} {
		for _, la := range layouts[:3] {
			for _, lb := range layouts[:3] {
				checkProduct(t, r, s[0], s[1], s[2], la, lb)
			}
		}
	}
}

// TestTurned has products that are computed as those of their transposed operands, in several pieces with two threads.
func TestTurned(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for _, s := range [][3]int{{16, 40, 260}, {32, 101, 90}, {16, 30, 300}, {48, 131, 513}, {64, 600, 270}} {
		m, n, k := s[0], s[1], s[2]
		checkProduct(t, r, m, n, k, "rows", "columns")
		a, b := layout("rows").view(r, m, k), layout("columns").view(r, k, n)
		want, got, ldc := make([]float32, m*n), make([]float32, m*(n+3)), n+3
		naive(m, n, k, a, b, want, n)
		for _, tier := range tiers() {
			force(t, tier)
			if tier := current(); tier != nil && !turnPays(m, n, k, a, b, tier.lanes) {
				t.Fatalf("[%d %d] x [%d %d] is not turned", m, k, k, n)
			}
			Float32(m, n, k, a, b, got, ldc, func(i, j int, dst []float32) {
				for x, v := range dst {
					dst[x] = float32(i) - float32(j+x)*v
				}
			})
			for i := range m {
				for j := range n {
					if want := float32(i) - float32(j)*want[i*n+j]; !same(got[i*ldc+j], want) {
						t.Fatalf("%v: [%d %d] x [%d %d]: element (%d, %d) is %x behind the epilogue, want %x",
							tier, m, k, k, n, i, j, got[i*ldc+j], want)
					}
				}
			}
		}
	}
}

func TestRandomShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	count := 300
	if raceEnabled {
		count = 30
	}
	for range count {
		m, n, k := 1+r.IntN(120), 1+r.IntN(120), r.IntN(120)
		checkProduct(t, r, m, n, k, layouts[r.IntN(len(layouts))], layouts[r.IntN(len(layouts))])
	}
}

// Zero times infinity is NaN, and what is not finite stays so: nothing may be skipped.
func TestNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for _, tier := range tiers() {
		force(t, tier)
		for _, size := range []int{1, 7, 33, 100} {
			for _, x := range []float32{inf, -inf, nan} {
				a, b := make([]float32, size*size), make([]float32, size*size)
				b[(size/2)*size+size-1] = x
				c := make([]float32, size*size)
				Float32(size, size, size, Matrix{a, size, 1}, Matrix{b, size, 1}, c, size, nil)
				for i := range size {
					for j := range size {
						if got, want := c[i*size+j], j == size-1; (got != got) != want {
							t.Fatalf("%v: size %d, %v: element (%d, %d) is %v", tier, size, x, i, j, got)
						}
					}
				}
			}
		}
	}
}

// Sums of three numbers whose float64 value rounds to the middle of two float32 numbers, from where rounding again goes
// the wrong way: the product is just less than half of the last place of the number it is added to.
func TestDoubleRounding(t *testing.T) {
	for _, want := range []float32{1 + 0x1p-23, 0x1p-129 + 0x1p-149} {
		half := float32(0x1p-24)
		if want < 1 {
			half = 0x1p-90
		}
		a := []float32{want, 1 + 0x1p-18}
		if want < 1 {
			a[1] *= 0x1p-60
		}
		b := []float32{1, (1 - 0x1p-18) * half}
		for _, tier := range tiers() {
			force(t, tier)
			var c [1]float32
			Float32(1, 1, 2, Matrix{a, 2, 1}, Matrix{b, 1, 1}, c[:], 1, nil)
			if c[0] != want {
				t.Errorf("%v: got %x, want %x", tier, c[0], want)
			}
		}
	}
}

func TestSignedZero(t *testing.T) {
	for _, tier := range tiers() {
		force(t, tier)
		for _, k := range []int{0, 1, 300} {
			a, b, c := make([]float32, 20*k), make([]float32, k*40), make([]float32, 20*40)
			for i := range a {
				a[i] = float32(math.Copysign(0, -1))
			}
			for i := range b {
				b[i] = 1
			}
			for i := range c {
				c[i] = nanGuard
			}
			Float32(20, 40, k, Matrix{a, k, 1}, Matrix{b, 40, 1}, c, 40, nil)
			for i, x := range c {
				if math.Float32bits(x) != 0 {
					t.Fatalf("%v: k %d: element %d is %v, want +0", tier, k, i, x)
				}
			}
		}
	}
}

var nanGuard = float32(math.NaN())

func TestThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	sizes := [][3]int{{300, 200, 300}, {5, 3000, 500}, {40, 2000, 300}, {1000, 10, 600}, {128, 600, 784},
		{7000, 1, 300}, {50, 60, 2100}}
	for _, s := range sizes {
		m, n, k := s[0], s[1], s[2]
		for _, lb := range layouts[:2] {
			a, b := layout("rows").view(r, m, k), lb.view(r, k, n)
			for _, tier := range tiers() {
				if tier == vec.Portable && raceEnabled {
					continue
				}
				force(t, tier)
				var want []float32
				for _, procs := range []int{1, 2, 7} {
					old := runtime.GOMAXPROCS(procs)
					c := make([]float32, m*n)
					calls := make([]int32, m*n)
					Float32(m, n, k, a, b, c, n, func(i, j int, dst []float32) {
						if i >= m || j+len(dst) > n {
							t.Errorf("%v: %v, %d threads: segment [%d, %d) of row %d", tier, s, procs, j, j+len(dst), i)
							return
						}
						for x := range dst {
							calls[i*n+j+x]++
							dst[x] = max(dst[x], 0)
						}
					})
					runtime.GOMAXPROCS(old)
					if want == nil {
						want = c
					}
					for i := range c {
						if !same(c[i], want[i]) || calls[i] != 1 {
							t.Fatalf("%v: %v, %d threads: element %d is %v after %d epilogues, want %v",
								tier, s, procs, i, c[i], calls[i], want[i])
						}
					}
				}
			}
		}
	}
}

func TestBatch(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, s := range [][4]int{{0, 3, 3, 3}, {1, 64, 64, 32}, {64, 64, 64, 32}, {7, 5, 6, 0}, {3, 110, 110, 110}} {
		count, m, n, k := s[0], s[1], s[2], s[3]
		as, bs := make([]Matrix, count), make([]Matrix, count)
		for i := range count {
			as[i], bs[i] = layouts[i%3].view(r, m, k), layouts[i/3%3].view(r, k, n)
		}
		for _, tier := range tiers() {
			force(t, tier)
			c := make([]float32, count*m*n)
			Batch(count, m, n, k, func(i int) Matrix { return as[i] }, func(i int) Matrix { return bs[i] },
				func(i int) ([]float32, int) { return c[i*m*n:][:m*n], n })
			want := make([]float32, m*n)
			for i := range count {
				naive(m, n, k, as[i], bs[i], want, n)
				for x := range want {
					if !same(c[i*m*n+x], want[x]) {
						t.Fatalf("%v: %v: product %d, element %d is %v, want %v", tier, s, i, x, c[i*m*n+x], want[x])
					}
				}
			}
		}
	}
}

func TestBadSizesPanic(t *testing.T) {
	x := make([]float32, 100)
	y := make([]float64, 100)
	for name, f := range map[string]func(){
		"float64":   func() { Float64(10, 10, 11, Matrix64{y, 11, 1}, Matrix64{y, 10, 1}, y, 10) },
		"short A":   func() { Float32(10, 10, 11, Matrix{x, 11, 1}, Matrix{make([]float32, 110), 10, 1}, x, 10, nil) },
		"short B":   func() { Float32(10, 10, 11, Matrix{make([]float32, 110), 11, 1}, Matrix{x, 10, 1}, x, 10, nil) },
		"short C":   func() { Float32(10, 11, 5, Matrix{x, 5, 1}, Matrix{x, 11, 1}, x, 11, nil) },
		"small ldc": func() { Float32(10, 10, 5, Matrix{x, 5, 1}, Matrix{x, 10, 1}, x, 9, nil) },
		"negative":  func() { Float32(10, 10, 5, Matrix{x, -5, 1}, Matrix{x, 10, 1}, x, 10, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// double returns a float64 matrix with the layout of x. Its elements have all their bits, and a share of them, one of
// so many if that is not 0, are special.
func double(r *rand.Rand, x Matrix, oneOf int) Matrix64 {
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-1060, -0x1p-1060, 1e308}
	data := make([]float64, len(x.Data))
	for i := range data {
		data[i] = r.NormFloat64()
		if oneOf > 0 && r.IntN(oneOf) == 0 {
			data[i] = special[r.IntN(len(special))]
		}
	}
	return Matrix64{data, x.RowStride, x.ColStride}
}

// definition64 is element (i, j) of C in the canonical order.
func definition64(k int, a, b Matrix64, i, j int) (total float64) {
	for k0 := 0; k0 < k; k0 += 256 {
		sum := 0.0
		for p := k0; p < min(k0+256, k); p++ {
			sum = math.FMA(a.Data[i*a.RowStride+p*a.ColStride], b.Data[p*b.RowStride+j*b.ColStride], sum)
		}
		if k0 == 0 {
			total = sum
		} else {
			total += sum
		}
	}
	return total
}

// checkFloat64 compares a product in all tiers with the definition, with guards around C.
func checkFloat64(t *testing.T, m, n, k int, a, b Matrix64, ldc int) {
	t.Helper()
	const guard = 1234.5
	want := slices.Repeat([]float64{guard}, m*ldc+9)
	for i := range m {
		for j := range n {
			want[i*ldc+j] = definition64(k, a, b, i, j)
		}
	}
	for _, tier := range tiers() {
		old := vec.SetTier(tier)
		c := slices.Repeat([]float64{guard}, len(want))
		Float64(m, n, k, a, b, c, ldc)
		vec.SetTier(old)
		for x := range c {
			if c[x] != c[x] && want[x] != want[x] {
				continue
			}
			if math.Float64bits(c[x]) != math.Float64bits(want[x]) {
				t.Fatalf("%v: %dx%dx%d, strides %d %d, %d %d: element (%d, %d) is %v, want %v", tier, m, n, k,
					a.RowStride, a.ColStride, b.RowStride, b.ColStride, x/ldc, x%ldc, c[x], want[x])
			}
		}
	}
}

func TestFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	check := func(m, n, k int, la, lb layout, oneOf int) {
		t.Helper()
		checkFloat64(t, m, n, k, double(r, la.view(r, m, k), oneOf), double(r, lb.view(r, k, n), oneOf), n+r.IntN(4))
	}
	for _, s := range [][3]int{{3, 5, 7}, {4, 4, 0}, {1, 1, 257}, {20, 70, 600}, {150, 300, 30}, {64, 256, 128},
		{1, 600, 300}, {600, 1, 300}} {
		check(s[0], s[1], s[2], "rows", "rows", 0)
		check(s[0], s[1], s[2], "columns", "columns", 0)
	}
	for range 300 {
		la, lb := layouts[r.IntN(len(layouts))], layouts[r.IntN(len(layouts))]
		check(1+r.IntN(30), 1+r.IntN(40), r.IntN(1+1<<r.IntN(11)), la, lb, []int{0, 5, 300}[r.IntN(3)])
	}
}

func TestBatch64(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, s := range [][4]int{{0, 3, 3, 3}, {1000, 8, 8, 8}, {7, 5, 6, 0}, {3, 110, 110, 110}, {9, 110, 110, 110}} {
		count, m, n, k := s[0], s[1], s[2], s[3]
		as, bs := make([]Matrix64, count), make([]Matrix64, count)
		for i := range count {
			as[i], bs[i] = double(r, layouts[i%3].view(r, m, k), 0), double(r, layouts[i/3%3].view(r, k, n), 0)
		}
		c := make([]float64, count*m*n)
		Batch64(count, m, n, k, func(i int) Matrix64 { return as[i] }, func(i int) Matrix64 { return bs[i] },
			func(i int) ([]float64, int) { return c[i*m*n:][:m*n], n })
		for x, v := range c {
			i, row, column := x/(m*n), x/n%m, x%n
			if want := definition64(k, as[i], bs[i], row, column); v != want {
				t.Fatalf("%v: product %d, element (%d, %d) is %v, want %v", s, i, row, column, v, want)
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops what is in a sync.Pool")
	}
	if current() == nil {
		t.Skip("the portable tier makes a closure for its threads")
	}
	for _, procs := range []int{1, 2} {
		old := runtime.GOMAXPROCS(procs)
		for _, s := range []int{8, 100, 200} {
			x, c := make([]float32, s*s), make([]float32, s*s)
			run := func() { Float32(s, s, s, Matrix{x, s, 1}, Matrix{x, 1, s}, c, s, nil) }
			run()
			if n := testing.AllocsPerRun(50, run); n >= 1 {
				t.Errorf("size %d, %d threads: %v allocations a call", s, procs, n)
			}
		}
		x, c := make([]float64, 64), make([]float64, 64)
		run := func() { Float64(8, 8, 8, Matrix64{x, 8, 1}, Matrix64{x, 1, 8}, c, 8) }
		run()
		if n := testing.AllocsPerRun(50, run); n >= 1 {
			t.Errorf("float64, %d threads: %v allocations a call", procs, n)
		}
		runtime.GOMAXPROCS(old)
	}
}

func ExampleFloat32() {
	a := []float32{1, 2, 3, 4, 5, 6} // [2 3]
	b := []float32{1, 0, 1, 0, 1, 1} // [2 3], used transposed
	c := make([]float32, 4)
	Float32(2, 2, 3, Matrix{a, 3, 1}, Matrix{b, 1, 3}, c, 2, nil)
	fmt.Println(c)
	// Output: [4 5 10 11]
}

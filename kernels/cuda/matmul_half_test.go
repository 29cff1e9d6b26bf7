//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/x448/float16"

	"github.com/weft-ml/weft/kernels"
)

// Products in half precision follow the order of tensor cores, so they are held to float64 with a bound.

// halfNumber is an element of half precision, exactly.
func halfNumber(d kernels.DType, b []byte) float64 {
	u := binary.LittleEndian.Uint16(b)
	if d == kernels.Float16 {
		return float64(float16.Frombits(u).Float32())
	}
	return float64(math.Float32frombits(uint32(u) << 16))
}

// vectors is a layout with rows or columns that begin at multiples of 8 elements, and the elements of its buffer.
func (r fuzz) vectors(shape []int) (kernels.Layout, int) {
	l := kernels.Layout{Shape: shape, Strides: make([]int, len(shape)), Offset: 8 * r.IntN(2)}
	columns := r.IntN(2)
	next := 1
	for i := range shape {
		d := len(shape) - 1 - i
		if i < 2 && len(shape) > 1 {
			d = len(shape) - 1 - (i ^ columns)
		}
		l.Strides[d] = next
		next = roundUp(next*max(1, shape[d]), 8) + 8*r.IntN(2)
	}
	return l, l.Offset + next
}

// half is an operand of half precision, and the same in float64: its numbers and their absolute values.
func (r fuzz) half(d kernels.DType, positive bool, shape ...int) (x, wide, absolute value) {
	l, n := r.layout(shape)
	if r.IntN(3) > 0 {
		l, n = r.vectors(shape)
	}
	x, wide, absolute = value{d, nil, l}, value{kernels.Float64, nil, l}, value{kernels.Float64, nil, l}
	for range n {
		v := float32(r.NormFloat64())
		if positive {
			v = r.Float32()
		}
		u := uint16(math.Float32bits(v) >> 16)
		if d == kernels.Float16 {
			u = float16.Fromfloat32(v).Bits()
		}
		x.data = binary.LittleEndian.AppendUint16(x.data, u)
		exact := halfNumber(d, x.data[len(x.data)-2:])
		wide.data = binary.LittleEndian.AppendUint64(wide.data, math.Float64bits(exact))
		absolute.data = binary.LittleEndian.AppendUint64(absolute.data, math.Float64bits(math.Abs(exact)))
	}
	return x, wide, absolute
}

// closeToExact runs a product of half precision, and in float64 on the CPU. A tensor core adds 16 products to a sum at
// once; what it loses is bounded by the sum of absolute values S, so that over k the error is at most a multiple of
// (k/16 + 2) 2^-23 S: 8 units for each addition, since hardware truncates the addends, and a chain rounds 16 times. The
// result is rounded once.
func closeToExact(t *testing.T, b *Backend, r fuzz, op *kernels.Op, d kernels.DType, positive bool, k int, result []int,
	shapes ...[]int) {
	t.Helper()
	var in, exact, absolute []value
	for _, s := range shapes {
		x, w, a := r.half(d, positive, s...)
		in, exact, absolute = append(in, x), append(exact, w), append(absolute, a)
	}
	host, err := kernels.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	l := &kernels.Launch{Op: op}
	out := r.result(d, result...)
	n := out.Len()
	got, err := on(t, b, l, in, []value{out})
	if err != nil {
		t.Fatalf("%s %v: %v", op.Name, shapes, err)
	}
	if n == 0 {
		return
	}
	numbers := func(in []value) []float64 {
		y, err := on(t, host, l, in,
			[]value{{kernels.Float64, make([]byte, 8*n), kernels.Layout{Shape: result, Strides: out.Strides}}})
		if err != nil {
			t.Fatal(err)
		}
		v := make([]float64, n)
		for i := range v {
			v[i] = math.Float64frombits(binary.LittleEndian.Uint64(y[0][8*i:]))
		}
		return v
	}
	want, sizes := numbers(exact), numbers(absolute)
	ulp, least := 0x1p-11, 0x1p-25 // half of the last place of 1, and of the smallest number
	if d == kernels.BFloat16 {
		ulp, least = 0x1p-8, 0
	}
	for i := range n {
		y := halfNumber(d, got[0][2*(out.Offset+i):])
		sum := float64(k/16+2) * 0x1p-20 * sizes[i]
		if most := sum + (math.Abs(want[i])+sum)*ulp + least; !(math.Abs(y-want[i]) <= most) {
			t.Fatalf("%s of %v %v: element %d is %v, exactly %v, more than %v apart", op.Name, d, shapes, i, y, want[i],
				most)
		}
	}
	for i, x := range got[0] { // nothing around it changes
		if at := i/2 - out.Offset; (at < 0 || at >= n) && x != out.data[i] {
			t.Fatalf("%s of %v %v: byte %d beside the result is written", op.Name, d, shapes, i)
		}
	}
}

func TestMatMulHalf(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(8)
	was, wgmma := partTime, hopperTiles
	defer func() { partTime, hopperTiles = was, wgmma }()
	multiprocessors(t, b, 2) // where wgmma is, a block computes several tiles
	for i := range cases(320) {
		partTime = oneOf(r, 0, was) // 0: k in as many parts as can be
		hopperTiles = wgmma
		if r.IntN(2) == 0 { // wherever it can be
			hopperTiles.wave, hopperTiles.time, hopperTiles.between, hopperTiles.fewest = math.MaxInt32, 1, 0, 0
		}
		d, positive := oneOf(r, kernels.Float16, kernels.BFloat16), i%2 == 0
		m, n, k := 1+r.IntN(80), 1+r.IntN(80), oneOf(r, 0, 1, 15, 16, 17, 33, 64, 100, 257)
		if i%5 == 0 {
			m, n, k = 8*r.IntN(20), 8+8*r.IntN(40), 8*r.IntN(20)
		} else if i%2 == 0 {
			n = roundUp(n, 8)
		}
		switch i % 8 {
		case 0: // a row
			closeToExact(t, b, r, matmulOp, d, positive, k, []int{n}, []int{k}, []int{k, n})
		case 1: // a column
			closeToExact(t, b, r, matmulOp, d, positive, k, []int{m}, []int{m, k}, []int{k})
		case 2: // one matrix for a batch
			closeToExact(t, b, r, matmulOp, d, positive, k, []int{2, 3, m, n}, []int{2, 3, m, k}, []int{k, n})
		case 3: // batches that broadcast
			closeToExact(t, b, r, matmulOp, d, positive, k, []int{2, 2, 3, m, n}, []int{2, 1, m, k},
				[]int{2, 1, 3, k, n})
		case 4:
			closeToExact(t, b, r, linearOp, d, positive, k, []int{2, m, n}, []int{2, m, k}, []int{n, k})
		case 5:
			closeToExact(t, b, r, linearOp, d, positive, k, []int{m, n}, []int{m, k}, []int{n, k}, []int{n})
		default:
			closeToExact(t, b, r, matmulOp, d, positive, k, []int{m, n}, []int{m, k}, []int{k, n})
		}
	}
}

// Kernels and parts of products by shapes on a GPU with wgmma, operands of which are vectorised, and on others.
func TestHalfTiles(t *testing.T) {
	for _, c := range []struct {
		m, n, k, count int
		wgmma          int // parts, 0 for mma
		mma            int
	}{
		{4096, 4096, 4096, 1, 1, 1}, {32768, 768, 768, 1, 1, 1}, {32768, 3072, 768, 1, 1, 1},
		{32768, 768, 3072, 1, 1, 1}, {768, 3072, 32768, 1, 7, 9}, {768, 768, 32768, 1, 7, 7},
		{1024, 1024, 1024, 1, 0, 1}, {128, 256, 4096, 1, 0, 5}, {64, 64, 64, 1, 0, 1}, // few tiles
		{1024, 1024, 64, 96, 0, 1}, {4096, 4096, 0, 1, 0, 1}, // short k
	} {
		p := product{m: uint32(c.m), n: uint32(c.n), k: uint32(c.k)}
		for _, wgmma := range []bool{false, true} {
			want, parts := &mmaTiles, c.mma
			if wgmma && c.wgmma > 0 {
				want, parts = &hopperTiles, c.wgmma
			}
			if got, n := p.fastestHalf(c.count, maxParts, wgmma); got != want || n != parts {
				t.Errorf("%v, wgmma %v: tiles of %d x %d, %d parts", c, wgmma, got.high, got.wide, n)
			}
		}
	}
}

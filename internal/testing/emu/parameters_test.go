//go:build emu && cgo && linux

package emu

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/src"
)

// The functions of this file write parameters of kernels with the memory layout of the headers' C++ structs, apart from
// package cuda.

// maxDims is kMaxDims of layout.cuh.
const maxDims = kernels.MaxDims

// collapse returns the shape and the strides of operands of that shape with as few dimensions as visit the same
// elements in the same order: dimensions of size 1 go, and neighbours merge where all operands have a constant stride
// across both. The result has at least one dimension.
func collapse(shape []int, strides ...[]int) ([]int, [][]int) {
	var sizes []int
	steps := make([][]int, len(strides))
	for d, size := range shape {
		if size == 1 {
			continue
		}
		last := len(sizes) - 1
		merge := last >= 0
		for k := range strides {
			merge = merge && steps[k][last] == strides[k][d]*size
		}
		if merge {
			sizes[last] *= size
			for k := range strides {
				steps[k][last] = strides[k][d]
			}
			continue
		}
		sizes = append(sizes, size)
		for k := range strides {
			steps[k] = append(steps[k], strides[k][d])
		}
	}
	if len(sizes) == 0 {
		sizes = []int{1}
		for k := range steps {
			steps[k] = []int{0}
		}
	}
	return sizes, steps
}

// divisor is the multiplier and the shift of Divisor in layout.cuh.
func divisor(value uint32) (multiplier, shift uint32) {
	shift = uint32(bits.Len32(value - 1))
	return uint32((uint64(1)<<32)*(uint64(1)<<shift-uint64(value))/uint64(value)) + 1, shift
}

// appendShape32 appends a Shape32 of the operands' number.
func appendShape32(b []byte, shape []int, strides ...[]int) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(shape)))
	for d := range maxDims {
		value := uint32(1)
		if d < len(shape) {
			value = uint32(max(1, shape[d]))
		}
		multiplier, shift := divisor(value)
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, value), multiplier), shift)
	}
	for _, s := range strides {
		for d := range maxDims {
			b = le.AppendUint32(b, uint32(entry(s, d)))
		}
	}
	return b
}

// appendShape64 appends a Shape64 of the operands' number. What is appended to must be a multiple of 8 long.
func appendShape64(b []byte, shape []int, strides ...[]int) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(len(shape)))
	for d := range maxDims {
		b = le.AppendUint64(b, uint64(max(1, entry(shape, d))))
	}
	for _, s := range strides {
		for d := range maxDims {
			b = le.AppendUint64(b, uint64(entry(s, d)))
		}
	}
	return b
}

func entry(s []int, d int) int {
	if d < len(s) {
		return s[d]
	}
	return 0
}

// appendOperands appends the Operands of p: the addresses of its operands and results, its place in the random
// streams, the operands of which a thread has one element (bit k for operand k), and its scalars. What is appended to
// must be a multiple of 8 long.
func appendOperands(p *src.Pointwise, b []byte, in, out []uintptr, random kernels.Random, uniform uint32,
	scalars []float64) []byte {
	le := binary.LittleEndian
	for k := range max(1, len(p.In)) {
		address := uintptr(0)
		if k < len(in) {
			address = in[k]
		}
		b = le.AppendUint64(b, uint64(address))
	}
	for k := range p.Out {
		b = le.AppendUint64(b, uint64(out[k]))
	}
	b = le.AppendUint64(le.AppendUint64(b, random.Key), random.Counter)
	number := p.Number()
	b = le.AppendUint32(b, uniform)
	for len(b)%number.Size() != 0 {
		b = append(b, 0)
	}
	for k := range max(1, len(p.Func.Params)) {
		x := 0.0
		if k < len(scalars) {
			x = scalars[k]
		}
		b = src.AppendNumber(b, number, x)
	}
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// appendStrides appends the Strides of operands of a shape, which threads have `each` neighbours of; one where they are
// not all in one row. It returns the number of threads, and the operands of which a thread has one element.
func appendStrides(b []byte, shape []int, each int, aligned func(operand int) bool, strides ...[]int) (all []byte,
	threads int, uniform uint32) {
	le := binary.LittleEndian
	last := len(shape) - 1
	if shape[last]%each != 0 {
		each = 1
	}
	strides = append(strides, kernels.RowMajor(make([]int, len(shape)), shape))
	vectors := uint32(0)
	axes := slices.Clone(shape)
	axes[last] /= each
	threads = kernels.Count(axes)
	var groups [][]int
	var steps []uint32
	for k, s := range strides {
		steps = append(steps, uint32(s[last]))
		whole := s[last] == 1 && aligned(k)
		for _, stride := range s[:last] {
			whole = whole && stride%each == 0
		}
		if whole {
			vectors |= 1 << k
		}
		if s[last] == 0 {
			uniform |= 1 << k
		}
		group := slices.Clone(s)
		group[last] *= each
		groups = append(groups, group)
	}
	b = le.AppendUint64(b, 0)
	for _, n := range append([]uint32{uint32(threads), uint32(each), vectors}, steps...) {
		b = le.AppendUint32(b, n)
	}
	b = appendShape32(b, axes, groups...)
	return append(b, make([]byte, -len(b)&7)...), threads, uniform
}

// TestDivisor compares quotients by multiplication with division, at and around multiples.
func TestDivisor(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		d := uint32(i + 1)
		if i > 5000 {
			d = 1 + r.Uint32N(1<<31-1)
		}
		multiplier, shift := divisor(d)
		for k := range 20 {
			n := r.Uint32N(1 << 31)
			if k > 2 {
				n = n / d * d
				n += uint32(k%3) - 1
			}
			if n >= 1<<31 {
				continue
			}
			high, _ := bits.Mul32(n, multiplier)
			if got := uint32((uint64(high) + uint64(n)) >> shift); got != n/d {
				t.Fatalf("%d/%d = %d, want %d", n, d, got, n/d)
			}
		}
	}
}

func TestCollapse(t *testing.T) {
	for _, c := range []struct {
		shape, a, b        []int
		want, wantA, wantB []int
	}{
		{[]int{2, 3, 4}, []int{12, 4, 1}, []int{12, 4, 1}, []int{24}, []int{1}, []int{1}},
		{[]int{2, 3, 4}, []int{12, 4, 1}, []int{0, 0, 1}, []int{6, 4}, []int{4, 1}, []int{0, 1}},
		{[]int{2, 1, 4}, []int{4, 9, 1}, []int{1, 9, 2}, []int{2, 4}, []int{4, 1}, []int{1, 2}},
		{[]int{1, 1}, []int{7, 7}, []int{7, 7}, []int{1}, []int{0}, []int{0}},
		{nil, nil, nil, []int{1}, []int{0}, []int{0}},
	} {
		got, steps := collapse(c.shape, c.a, c.b)
		if !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(steps, [][]int{c.wantA, c.wantB}) {
			t.Errorf("collapse(%v, %v, %v) = %v, %v", c.shape, c.a, c.b, got, steps)
		}
	}
}

func TestShapeSizes(t *testing.T) {
	// As the compiler lays out Shape32<2> and Shape64<2>.
	if n := len(appendShape32(nil, []int{2, 3}, []int{3, 1}, []int{1, 2})); n != 4+8*12+2*8*4 {
		t.Errorf("Shape32 has %d bytes", n)
	}
	if n := len(appendShape64(nil, []int{2, 3}, []int{3, 1}, []int{1, 2})); n != 8+8*8+2*8*8 {
		t.Errorf("Shape64 has %d bytes", n)
	}
	odd := func(int) bool { return false }
	if b, _, _ := appendStrides(nil, []int{2, 3}, 4, odd, []int{3, 1}, []int{1, 2}); len(b) != 8+6*4+4+8*12+3*8*4+4 {
		t.Errorf("Strides has %d bytes", len(b))
	}
}

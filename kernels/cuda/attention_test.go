//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu/exact"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// attentionCase is one of TestAttention: float32 if no type is told, one head of one matrix if no other number is, and
// operands in any layout. Row i sees the keys up to i+last, so many if `sees` tells.
type attentionCase struct {
	dtype                                      kernels.DType
	batch, heads, rows, keys, d, e, last, sees int
	operand                                    func(r fuzz, d kernels.DType, shape ...int) value
	change                                     func(v, g value) // the values and the gradient of y
}

// TestAttention: values and gradients to the bit, around the groups of 32 rows, the tiles of 128 x 64 and the chunks of
// 256 of the kernels, of operands in any layout, with more tiles than blocks.
func TestAttention(t *testing.T) {
	b := kernelDevice(t)
	was := b.gpu.SMs
	b.gpu.SMs = 2
	t.Cleanup(func() { b.gpu.SMs = was })
	contiguous := fuzz.contiguous
	shifted := func(r fuzz, d kernels.DType, shape ...int) value {
		v := r.contiguous(d, shape...)
		v.data = append(make([]byte, d.Size()), v.data...)
		v.Offset++
		return v
	}
	infinite := func(at int) func(v, g value) { return func(v, _ value) { v.set(at, math.Inf(1)) } }
	unusual := func(_, g value) { g.set(g.Offset, math.NaN()) }
	negative := func(v, g value) { // the first of two values of each key, and of two gradients of each row, is -0
		for i := 0; i < len(v.data)/4; i += 2 {
			v.set(i, math.Copysign(0, -1))
			g.set(i, math.Copysign(0, -1))
		}
	}
	tiny := func(v, _ value) { // products with probabilities underflow to -0
		for i := range len(v.data) / 4 {
			v.set(i, -math.SmallestNonzeroFloat32)
		}
	}
	for i, c := range []attentionCase{
		// The last row of a chunk alone sees the first key of a group, and keys from one of the second group on have
		// no part of the first chunk of rows; g is NaN in a row of it.
		{rows: 257, keys: 258, d: 3, e: 2, last: 1, change: unusual},
		{rows: 300, keys: 344, d: 3, e: 2, last: 44, change: unusual},
		// A group of whose last chunk the next groups see more.
		{rows: 330, keys: 330, d: 3, e: 2},
		// Rows and operands that are not aligned.
		{rows: 40, keys: 41, d: 65, e: 65, last: 1, operand: contiguous},
		{heads: 2, rows: 160, keys: 166, d: 64, e: 64, last: 6, operand: shifted},
		// Steps of 1 and of 6 keys, for the last row alone and for all; the last value is infinite.
		{rows: 33, keys: 33, d: 16, e: 16},
		{rows: 40, keys: 134, d: 16, e: 64, last: 134, operand: contiguous, change: infinite(134*64 - 1)},
		// The first row of a group alone sees the last key of a tile.
		{rows: 128, keys: 128, d: 16, e: 16, sees: 2},
		// Infinite values of a key that is later, and of a chunk that is earlier, than a group of rows sees.
		{rows: 64, keys: 64, d: 16, e: 16, operand: contiguous, change: infinite(32 * 16)},
		{rows: 300, keys: 300, d: 3, e: 2, sees: 21, operand: contiguous, change: infinite(0)},
		{rows: 40, keys: 40, d: 16, e: 2, operand: contiguous, change: negative},
		// The first row of a chunk alone sees the last key of one, or none does, with NaN in the last row of g. The
		// first of all rows alone sees the last key of the first chunk, or none does, with NaN in the first row of g.
		{rows: 300, keys: 300, d: 3, e: 2, sees: 2},
		{rows: 300, keys: 300, d: 3, e: 2, sees: 1, operand: contiguous,
			change: func(_, g value) { g.set(300*2-1, math.NaN()) }},
		{rows: 20, keys: 300, d: 3, e: 2, last: 300, sees: 46},
		{rows: 20, keys: 600, d: 3, e: 2, last: 600, sees: 301, change: unusual},
		// Sums that begin with the second chunk, and are -0.
		{rows: 20, keys: 400, d: 3, e: 2, last: 400, sees: 101, operand: contiguous, change: tiny},
		// All but one of the last rows and columns of a thread.
		{batch: 2, heads: 2, rows: 95, keys: 95, d: 63, e: 63},
		// Rows of scores of which shared memory has room for one a warp, and not for three: in the gradient and in the
		// forward pass.
		{rows: 40, keys: 1000, d: 3, e: 2, last: 960},
		{rows: 40, keys: 1400, d: 3, e: 2, last: 1360},
		// Keys that no row sees, no keys, and heads of no elements.
		{rows: 128, keys: 600, d: 64, e: 64, last: 10, operand: contiguous},
		{rows: 40, keys: 0, d: 64, e: 64, operand: contiguous},
		{rows: 140, keys: 140, d: 70, e: 0},
		{rows: 140, keys: 140, d: 0, e: 70, operand: contiguous},
	} {
		c.test(t, b, newFuzz(uint64(100+i)))
	}
	r := newFuzz(16)
	for i := range cases(28) {
		c := attentionCase{dtype: singleTypes[i%3], batch: 1 + r.IntN(2), heads: 1 + r.IntN(3),
			rows: oneOf(r, 1, 32, 33, 1+r.IntN(100)), d: oneOf(r, 1, 32, 33, 1+r.IntN(70)),
			e: oneOf(r, 1, 32, 1+r.IntN(70))}
		causal := r.IntN(2)
		c.keys = c.rows + r.IntN(40)
		switch {
		case i%16 == 15: // longer rows than a block of the canonical order, and than shared memory holds
			c = attentionCase{dtype: c.dtype, rows: 1 + r.IntN(4), keys: oneOf(r, 2049, 2500, 2900) + r.IntN(300), d: 2,
				e: 1}
		case i%8 == 7: // several chunks
			c = attentionCase{dtype: c.dtype, rows: 250 + r.IntN(40), keys: 290 + r.IntN(300), d: 1 + r.IntN(4),
				e: 1 + r.IntN(4)}
		case i%8 == 3:
			c = attentionCase{dtype: c.dtype, rows: 32, keys: 40, d: 257 + r.IntN(40), e: 3}
		case i%8 == 6: // whole tiles and ragged ones, in units of 16 bytes
			c = attentionCase{heads: 1 + r.IntN(2), rows: oneOf(r, 128, 160, 253), d: oneOf(r, 16, 64, 36),
				e: oneOf(r, 64, 128, 68), operand: contiguous}
			c.keys = c.rows + oneOf(r, 0, 6, 128)
		case causal == 0 && r.IntN(2) == 0:
			c.keys = oneOf(r, 1, 32, 1+r.IntN(60))
		}
		if c.dtype.IsHalf() && flashHead(c.d) {
			c.d++ // in other kernels: TestFlash
		}
		c.last = c.keys - causal*c.rows
		c.test(t, b, r)
	}
}

func (c attentionCase) test(t *testing.T, b *Backend, r fuzz) {
	t.Helper()
	dtype, batch, heads := cmp.Or(c.dtype, kernels.Float32), cmp.Or(c.batch, 1), cmp.Or(c.heads, 1)
	operand := fuzz.moderate
	if c.operand != nil {
		operand = c.operand
	}
	visible := []int{-c.rows, c.last}
	if c.sees > 0 {
		visible[0] = c.last - c.sees + 1
	}
	l := &kernels.Launch{Op: hostOp("attention", cpu.Attention), Ints: visible, Floats: []float64{0.3, 0}}
	in := []value{operand(r, dtype, batch, heads, c.rows, c.d), operand(r, dtype, batch, heads, c.keys, c.d),
		operand(r, dtype, batch, heads, c.keys, c.e)}
	number := func() value { return r.result(kernels.Float32, batch, heads, c.rows) }
	y, g := r.result(dtype, batch, c.rows, heads, c.e), operand(r, dtype, batch, heads, c.rows, c.e)
	if c.change != nil {
		c.change(in[2], g)
	}
	sameAsWidened(t, b, l, in, []value{y, number(), number()})

	most, norm := maxima(t, b, l, in, y, number(), number())
	l.Op = hostOp("attention_grad", cpu.AttentionGrad)
	in = append(in, y, most, norm, g)
	sameAsWidened(t, b, l, in,
		[]value{r.result(dtype, batch, c.rows, heads, c.d), r.result(dtype, batch, c.keys, heads, c.d),
			r.result(dtype, batch, c.keys, heads, c.e)})

	if visible[0] > c.rows {
		return // of packed operands, which have as many keys as rows, none could be seen
	}
	l.Op, l.Ints = hostOp("attention_packed", cpu.AttentionPacked), append(visible, heads)
	qkv, y := r.moderate(dtype, batch, c.rows, 3*heads*c.d), r.result(dtype, batch, c.rows, heads*c.d)
	sameAsWidened(t, b, l, []value{qkv}, []value{y, number(), number()})
	most, norm = maxima(t, b, l, []value{qkv}, y, number(), number())
	infinite := value{dtype, slices.Clone(qkv.data), qkv.Layout} // scores of some rows are infinite or NaN
	if n := len(qkv.data) / dtype.Size(); n > 0 {
		for range 3 {
			infinite.set(r.IntN(n), oneOf(r, math.Inf(1), math.Inf(-1), math.NaN()))
		}
	}
	sameAsWidened(t, b, l, []value{infinite}, []value{y, number(), number()})
	l.Op = hostOp("attention_packed_grad", cpu.AttentionPackedGrad)
	in = []value{qkv, y, most, norm, r.moderate(dtype, batch, c.rows, heads*c.d)}
	sameAsWidened(t, b, l, in, []value{r.result(dtype, batch, c.rows, 3*heads*c.d)})
}

// maxima gives m and r the results of attention, for its gradient.
func maxima(t *testing.T, b *Backend, l *kernels.Launch, in []value, y, m, r value) (value, value) {
	t.Helper()
	got, err := on(t, b, l, in, []value{y, m, r})
	if err != nil {
		t.Fatal(err)
	}
	m.data, r.data = got[1], got[2]
	return m, r
}

// TestAttentionOverflow: where sum(dp*p) overflows by rounding, ds of what a row sees is -Inf, and of the rest 0.
func TestAttentionOverflow(t *testing.T) {
	b, r := kernelDevice(t), newFuzz(19)
	const n = 100
	of := func(x float64, shape ...int) value {
		v := r.result(kernels.Float32, shape...)
		for i := range len(v.data) / 4 {
			v.set(i, x)
		}
		return v
	}
	operand := func(x float64) value { return of(x, 1, 1, n, 1) }
	result, number := func() value { return of(0, 1, n, 1, 1) }, func() value { return of(0, 1, 1, n) }
	l := &kernels.Launch{Op: hostOp("attention", cpu.Attention), Ints: []int{-n, 0}, Floats: []float64{1, 0}}
	k := operand(1)
	for i := range len(k.data) / 4 {
		k.set(i, 1+r.Float64())
	}
	in, y := []value{operand(1), k, operand(1)}, result()
	most, norm := maxima(t, b, l, in, y, number(), number())
	l.Op = hostOp("attention_grad", cpu.AttentionGrad)
	in, out := append(in, y, most, norm, operand(math.MaxFloat32)), []value{result(), result(), result()}
	sameAsWidened(t, b, l, in, out)
	got, err := on(t, b, l, in, out)
	if err != nil {
		t.Fatal(err)
	}
	infinite := 0
	for i := range n {
		bits := binary.LittleEndian.Uint32(got[0][4*(out[0].Offset+i):])
		if x := float64(math.Float32frombits(bits)); math.IsNaN(x) {
			t.Errorf("dq of row %d is NaN", i)
		} else if math.IsInf(x, -1) {
			infinite++
		}
	}
	if infinite == 0 {
		t.Error("no sum overflows")
	}
}

// TestMaskedAttention: the same with masks, some of whose rows and elements are -Inf, dropout, windows and shared
// heads.
func TestMaskedAttention(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(18)
	for i := range cases(24) {
		dtype, shared, group := singleTypes[i%3], 1+r.IntN(2), 1+r.IntN(3)
		batch, heads, rows, keys := 1+r.IntN(2), shared*group, oneOf(r, 1, 32, 33, 1+r.IntN(70)), 1+r.IntN(70)
		d, e := 1+r.IntN(40), 1+r.IntN(40)
		last := oneOf(r, keys, r.IntN(keys))
		first := oneOf(r, -rows, last-r.IntN(20), last-r.IntN(keys))
		if i%4 == 3 { // chunks that a window skips
			batch, heads, shared, rows, keys, d, e = 1, 1, 1, 300+r.IntN(240), 520+r.IntN(300), 1+r.IntN(3), 2
			last = r.IntN(keys)
			if i%8 == 7 { // and longer rows than a block of the canonical order
				rows, keys, last = 1+r.IntN(4), 2100, 2050+r.IntN(40)
			}
			first = last - r.IntN(40)
		}
		in := []value{r.moderate(dtype, batch, heads, rows, d), r.moderate(dtype, batch, shared, keys, d),
			r.moderate(dtype, batch, shared, keys, e)}
		if i%3 != 1 || r.IntN(2) == 0 {
			in = append(in, r.mask(dtype, batch, heads, rows, keys))
		}
		if i%2 == 0 && len(in) > 3 {
			in = append(in, r.operand(kernels.Bool, 2, batch, heads, rows, keys))
		}
		g := r.moderate(dtype, batch, heads, rows, e)
		if x := []value{in[0], g}[i%2]; i%5 < 2 && len(x.data) > 0 { // which keys that no row sees do not meet
			x.set(r.IntN(len(x.data)/dtype.Size()), math.NaN())
		}
		l := &kernels.Launch{Op: hostOp("attention", cpu.Attention), Ints: []int{first, last},
			Floats: []float64{0.3, 0.4}}
		number := func() value { return r.result(kernels.Float32, batch, heads, rows) }
		y := r.result(dtype, batch, rows, heads, e)
		sameAsWidened(t, b, l, in, []value{y, number(), number()})

		most, norm := maxima(t, b, l, in, y, number(), number())
		l.Op = hostOp("attention_grad", cpu.AttentionGrad)
		all := append(in[:3:3], y, most, norm, g)
		sameAsWidened(t, b, l, append(all, in[3:]...),
			[]value{r.result(dtype, batch, rows, heads, d), r.result(dtype, batch, keys, heads, d),
				r.result(dtype, batch, keys, heads, e)})
	}
}

// mask is an operand for scores in any layout, a third of whose elements, and some of whose rows, are -Inf.
func (r fuzz) mask(d kernels.DType, shape ...int) value {
	v := r.moderate(d, shape...)
	for at, all := 0, len(v.data)/d.Size(); at < all; {
		n := oneOf(r, 1, 2, 1+r.IntN(2*shape[3]))
		for ; r.IntN(3) == 0 && n > 0 && at < all; n-- {
			v.set(at, math.Inf(-1))
			at++
		}
		at += n
	}
	return v
}

// set changes element i of the memory.
func (v value) set(i int, x float64) {
	bits, size := floatBits(v.dtype, x), v.dtype.Size()
	for k := range size {
		v.data[i*size+k] = byte(bits >> (8 * k))
	}
}

// aligned is an operand [B H T D] of half precision whose rows lie at multiples of 16 bytes, in any order of the axes.
func (r fuzz) aligned(d kernels.DType, shape ...int) value {
	l := kernels.Layout{Shape: shape, Strides: []int{0, 0, 0, 1}, Offset: 8 * r.IntN(3)}
	next := shape[3] + 8*r.IntN(3)
	for _, axis := range r.Perm(3) {
		l.Strides[axis] = next
		next = next*shape[axis] + 8*r.IntN(2)
	}
	v := value{d, nil, l}
	for range l.Offset + next + 8 {
		v.data = binary.LittleEndian.AppendUint16(v.data, uint16(floatBits(d, r.NormFloat64())))
	}
	return v
}

// matrix is head h of batch entry b of an operand or result whose axes are batch, head and row in the given order.
func matrix(v *value, b, h int, order ...int) (x []float64) {
	st := v.Strides
	for i := range v.Shape[order[2]] {
		for e := range v.Shape[3] {
			at := v.Offset + b*st[order[0]] + h*st[order[1]] + i*st[order[2]] + e*st[3]
			x = append(x, halfNumber(v.dtype, v.data[2*at:]))
		}
	}
	return x
}

// flashSizes are sizes for case i of TestFlash.
func flashSizes(r fuzz, i int) (batch, heads, rows, keys, causal int) {
	causal = r.IntN(2)
	batch, heads, rows = 1+r.IntN(2), 1+r.IntN(2), oneOf(r, 1, 63, 64, 65, 1+r.IntN(70), 1+r.IntN(150))
	keys = rows + oneOf(r, 0, 1, 1, 15, r.IntN(70))
	switch {
	case i == 1: // heads of 128, of whose blocks the first tile sees one key of the second half
		batch, heads, rows, keys, causal = 1, 2, 130, 131, 1
	case i == 5: // the same, which sees none
		batch, heads, rows, keys, causal = 1, 2, 129, 129, 1
	case i == 2: // heads of 32, in which the last row of a warp alone sees the first key of a step
		batch, heads, rows, keys, causal = 1, 2, 130, 131, 1
	case i == 6, i == 12, i == 17: // the first row of a step sees all keys of a warp but the last one
		batch, heads, rows, keys, causal = 1, 2, 130, 160, 1
	case i == 9: // heads of 64 in whole tiles, of which two of three are computed together
		batch, heads, rows, keys = 1, 3, 256, 256
	case i == 14: // heads of 128 in whole tiles
		batch, heads, rows, keys, causal = 1, 1, 192, 256, 1
	case i == 16: // heads of 96 in more than a block
		batch, heads, rows, keys = 1, 2, 130, 200
	case i%5 == 0: // more tiles than stages, whole ones and a ragged end
		batch, heads, rows = 1, 1, 129+r.IntN(80)
		keys = max(rows, 193+r.IntN(80))
		if r.IntN(3) == 0 {
			rows, keys = 192, 256
		}
	case i%10 == 3: // more blocks of keys than the emulator has under way
		batch, heads, rows, keys = 1, 1, 1+r.IntN(40), 1040+r.IntN(80)
	case i%10 == 8: // nobody sees the keys
		rows, keys, causal = 0, 1+r.IntN(100), 0
	case causal == 0 && r.IntN(2) == 0:
		keys = oneOf(r, 1, 64, 1+r.IntN(100))
	}
	return batch, heads, rows, keys, causal
}

// TestFlashBlocks: which blocks the gradient of heads of 128 has, by the GPU and the number of heads.
func TestFlashBlocks(t *testing.T) {
	b := kernelDevice(t)
	gpu, wide := b.gpu, flashWide
	t.Cleanup(func() { b.gpu, flashWide = gpu, wide })
	r := newFuzz(18)
	for _, c := range []struct {
		major, minor, wide, d int
		want                  string
	}{
		{8, 0, 4, 128, "grad_wide_128"}, {9, 0, 4, 128, "grad_wide_128"},
		{10, 0, 4, 128, "grad_wide_128"},
		{8, 6, 4, 128, "grad_turns_128"}, {8, 9, 4, 128, "grad_turns_128"},
		{12, 0, 4, 128, "grad_turns_128"}, {9, 0, 5, 128, "grad_turns_128"},
		{9, 0, 4, 96, "grad_turns_96"},
	} {
		b.gpu.Major, b.gpu.Minor, flashWide = c.major, c.minor, c.wide
		half := func() value { return r.aligned(kernels.BFloat16, 2, 1, 130, c.d) }
		rows := func() value { return r.whole(kernels.Float32, 2, 1, 130) }
		l := &kernels.Launch{Op: hostOp("attention_grad", cpu.AttentionGrad), Ints: []int{-130, 0},
			Floats: []float64{0.1, 0}}
		out := func() value { return r.whole(kernels.BFloat16, 2, 130, 1, c.d) }
		if _, err := on(t, b, l, []value{half(), half(), half(), out(), rows(), rows(), half()},
			[]value{out(), out(), out()}); err != nil {
			t.Fatal(err)
		}
		s, err := b.stream("test", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.log.ring[(s.log.queued()-1)%logSize].kernel; got != "flash_"+c.want+"_bf16" {
			t.Errorf("%+v: the last kernel is %s", c, got)
		}
	}
}

// whole is a result with nothing around it.
func (r fuzz) whole(d kernels.DType, shape ...int) value {
	v := r.result(d, shape...)
	v.Offset = 0
	v.data = v.data[:max(1, v.Len())*d.Size()]
	return v
}

// sameBits holds results of halves against those of other kernels.
func sameBits(t *testing.T, what string, a, b []value) {
	t.Helper()
	for k := range a {
		if n := 2 * a[k].Len(); !bytes.Equal(a[k].data[:n], b[k].data[:n]) {
			t.Fatalf("result %d of %s: other bits", k, what)
		}
	}
}

// wantZeros fails if an element of halves is not 0.
func wantZeros(t *testing.T, what string, all []value) {
	t.Helper()
	for k, v := range all {
		for i := 1; i < len(v.data); i += 2 {
			if v.data[i-1] != 0 || v.data[i]&0x7f != 0 {
				t.Fatalf("result %d of %s is not 0", k, what)
			}
		}
	}
}

// sameMatrices fails if matrices from `from` to to-1 of results [B T H D] of halves differ.
func sameMatrices(t *testing.T, what string, a, b *value, from, to int) {
	t.Helper()
	heads := a.Shape[2]
	for n := from; n < to; n++ {
		if !slices.Equal(matrix(a, n/heads, n%heads, 0, 2, 1), matrix(b, n/heads, n%heads, 0, 2, 1)) {
			t.Fatalf("%s: matrix %d has other numbers", what, n)
		}
	}
}

// infiniteAt is v, halves, with +Inf at an offset.
func infiniteAt(v value, offset int) value {
	v.data = bytes.Clone(v.data)
	binary.LittleEndian.PutUint16(v.data[2*offset:], uint16(floatBits(v.dtype, math.Inf(1))))
	return v
}

// onlyFirst is v, halves [B H T D], with NaN for all that is not of the first matrix, the gaps of the layout too.
func onlyFirst(v value) value {
	whole, nan := v.data, uint16(floatBits(v.dtype, math.NaN()))
	v.data = nil
	for range len(whole) / 2 {
		v.data = binary.LittleEndian.AppendUint16(v.data, nan)
	}
	for i := range v.Shape[2] {
		at := 2 * (v.Offset + i*v.Strides[2])
		copy(v.data[at:at+2*v.Shape[3]], whole[at:])
	}
	return v
}

// flashKernels returns a function that draws the kernels for case i of TestFlash, and says which. A block of those by
// wgmma has several items.
func flashKernels(t *testing.T, b *Backend, r fuzz) func(i int) string {
	wide, hopper, grad, three, cache := flashWide, flashHopper, flashHopperGrad, flashThree, flashCache
	t.Cleanup(func() {
		flashWide, flashHopper, flashHopperGrad, flashThree, flashCache = wide, hopper, grad, three, cache
	})
	multiprocessors(t, b, 2)
	return func(i int) string {
		flashHopper, flashThree = oneOf(r, 1, 1, hopper, math.MaxInt), oneOf(r, 1, three)
		flashCache = oneOf(r, 0, cache)
		switch i {
		case 0: // heads of 64 in more than a block, not by wgmma
			flashHopper = math.MaxInt
		case 9:
			flashHopper = 1
		}
		return fmt.Sprintf("wgmma from %d on, three warpgroups from %d on, cache %d", flashHopper, flashThree,
			flashCache)
	}
}

// hopperGrads are values of flashHopperGrad that make a difference for heads of d.
func hopperGrads(d int) []int {
	if d%64 == 0 {
		return []int{1, math.MaxInt}
	}
	return []int{math.MaxInt}
}

// TestFlash: values and gradients of attention in half precision on tensor cores against float64, around the sizes of
// tiles, strips and blocks, with more and fewer tiles than stages, and gradients whose blocks of all sizes, and all
// numbers of blocks, give the same bits.
func TestFlash(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(17)
	draw := flashKernels(t, b, r)
	for i := range cases(80) {
		width := (i + i/5) % 5 // each has all sizes of flashSizes
		dtype, d := halfTypes[(width+i/5)%2], []int{64, 128, 32, 80, 96}[width]
		batch, heads, rows, keys, causal := flashSizes(r, i)
		scale := oneOf(r, 0.05, 0.125, 0.3)
		what := fmt.Sprintf("flash attention of %v, [%d %d %d %d], %d keys, causal %d, scale %v, %s", dtype, batch,
			heads, rows, d, keys, causal, scale, draw(i))
		run := func(op *kernels.Op, in, out []value) []value {
			got, err := on(t, b, &kernels.Launch{Op: op, Ints: []int{-rows, keys - causal*rows},
				Floats: []float64{scale, 0}}, in, out)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for k := range out {
				out[k].data = got[k]
			}
			return out
		}
		attend := func(in []value) []value {
			b.gpu.SMs = 2
			return run(hostOp("attention", cpu.Attention), in, []value{r.whole(dtype, batch, rows, heads, d),
				r.whole(kernels.Float32, batch, heads, rows), r.whole(kernels.Float32, batch, heads, rows)})
		}
		gradients := func(wide int, in, out []value, g value) []value {
			flashWide, b.gpu.SMs = wide, 1+min(wide, 4)
			return run(hostOp("attention_grad", cpu.AttentionGrad), append(slices.Concat(in, out), g),
				[]value{r.whole(dtype, batch, rows, heads, d), r.whole(dtype, batch, keys, heads, d),
					r.whole(dtype, batch, keys, heads, d)})
		}
		in := []value{r.aligned(dtype, batch, heads, rows, d), r.aligned(dtype, batch, heads, keys, d),
			r.aligned(dtype, batch, heads, keys, d)}
		g := r.aligned(dtype, batch, heads, rows, d)
		out := attend(in)
		for _, from := range hopperGrads(d) {
			flashHopperGrad = from
			what := fmt.Sprintf("%s, their gradients from %d on", what, from)
			grads := gradients(1, in, out, g)
			sameBits(t, what, grads, gradients(math.MaxInt, in, out, g))
			if i%5 == 2 {
				none := g
				none.data = make([]byte, len(g.data))
				wantZeros(t, what+", whose result has no gradient", gradients(1, in, out, none))
			}
			if i%5 == 1 { // nothing of other matrices, and of what lies between rows, reaches a matrix
				in := []value{onlyFirst(in[0]), onlyFirst(in[1]), onlyFirst(in[2])}
				again := attend(in)
				sameMatrices(t, what+", beside NaN", &out[0], &again[0], 0, 1)
				for k, x := range gradients(1, in, again, onlyFirst(g)) {
					sameMatrices(t, fmt.Sprintf("gradient %d of %s, beside NaN", k, what), &grads[k], &x, 0, 1)
				}
			}
			if causal != 0 && keys > 64 { // what is infinite reaches the same tiles, and no other matrix
				in := slices.Clone(in)
				in[1] = infiniteAt(in[1], in[1].Offset+64*in[1].Strides[2])
				sameBits(t, what+", an infinite key", gradients(1, in, out, g)[:1],
					gradients(math.MaxInt, in, out, g)[:1])
				again := attend(in)
				sameMatrices(t, what+", an infinite key", &out[0], &again[0], 1, batch*heads)
			}
			f := exact.Attention{T: rows, S: keys, D: d, Causal: causal != 0, Scale: scale}
			nearFloat64(t, what, f, append(in, g), out, grads)
		}
	}
}

// nearFloat64 holds results and gradients of halves [B T H D] against attention f of the operands, the last of which is
// the gradient of the result, within the bounds of their type.
func nearFloat64(t *testing.T, what string, f exact.Attention, in, out, grads []value) {
	t.Helper()
	u, least := 0x1p-11, 0x1p-25
	if in[0].dtype == kernels.BFloat16 {
		u, least = 0x1p-8, 0
	}
	batch, heads := in[0].Shape[0], in[0].Shape[1]
	for n := range batch * heads {
		i, h := n/heads, n%heads
		f.Q, f.K = matrix(&in[0], i, h, 0, 1, 2), matrix(&in[1], i, h, 0, 1, 2)
		f.V, f.G = matrix(&in[2], i, h, 0, 1, 2), matrix(&in[3], i, h, 0, 1, 2)
		want, sizes := f.Results()
		got := [][]float64{matrix(&out[0], i, h, 0, 2, 1)}
		for k := range grads {
			got = append(got, matrix(&grads[k], i, h, 0, 2, 1))
		}
		for k := range got {
			// p and ds that are small are multiplied by at most as many numbers below 5.
			if err := exact.Near(got[k], want[k], sizes[k], u, 5*least*float64(max(f.T, f.S))); err != nil {
				t.Fatalf("result %d of %s: %v", k, what, err)
			}
		}
		nearMaxima(t, what, out[1].data[4*n*f.T:], out[2].data[4*n*f.T:], want, sizes)
	}
}

// nearMaxima compares m and r of the rows of a matrix with the results of exact.Attention.
func nearMaxima(t *testing.T, what string, m, r []byte, want, sizes [6][]float64) {
	t.Helper()
	for i := range want[4] {
		m, r := float64(float32At(m, i)), float64(float32At(r, i))
		if !(math.Abs(m-want[4][i]) <= 0x1p-14*(1+sizes[4][i]) && math.Abs(r*want[5][i]-1) <= 0x1p-14) {
			t.Fatalf("%s: m and r of row %d are %v and %v, want %v and %v", what, i, m, r, want[4][i], 1/want[5][i])
		}
	}
}

func float32At(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

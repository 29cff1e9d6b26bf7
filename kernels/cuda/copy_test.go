//go:build cuda && cgo && linux

package cuda

import (
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

func TestCopies(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(4)
	another := r.reaches(t)
	for range cases(160) {
		another()
		d := oneOf(r, kernels.DTypes()...)
		rank := 1 + r.IntN(4)
		axis := r.IntN(rank)
		s := r.shape(rank, 7)

		parts := []value{r.operand(d, 200, s...), r.operand(d, 200, with(s, axis, 3)...),
			r.operand(d, 200, with(s, axis, 0)...)}
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("cat", cpu.Cat), Ints: []int{axis}}, parts,
			[]value{r.result(d, with(s, axis, s[axis]+3)...)})

		at := r.IntN(rank + 1)
		parts = []value{r.operand(d, 200, s...), r.operand(d, 200, s...), r.operand(d, 200, s...)}
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("stack", cpu.Stack), Ints: []int{at}}, parts,
			[]value{r.result(d, slices.Insert(slices.Clone(s), at, 3)...)})

		x := r.operand(d, 200, s...)
		if kernels.Count(s) > 0 {
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("flip", cpu.Flip), Ints: r.Perm(rank)[:1+r.IntN(rank)]},
				[]value{x}, []value{r.result(d, s...)})
		}

		var pads []int
		padded := slices.Clone(s)
		for i := range padded {
			lo, hi := r.IntN(3), r.IntN(3)
			pads = append(pads, lo, hi)
			padded[i] += lo + hi
		}
		with16 := oneOf(r, 0, -2, 1.0/3, 1e9, 7)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("pad", cpu.Pad), Ints: pads, Floats: []float64{with16}}, []value{x},
			[]value{r.result(d, padded...)})

		step, start := 1+r.IntN(3), r.IntN(3)
		size := start + step*s[axis] + r.IntN(3)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("slice_grad", cpu.SliceGrad), Ints: []int{axis, start, step, size}},
			[]value{x}, []value{r.result(d, with(s, axis, size)...)})

		at, size = r.IntN(rank+1), 1+r.IntN(4)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("select_grad", cpu.SelectGrad), Ints: []int{at, r.IntN(size), size}},
			[]value{x}, []value{r.result(d, slices.Insert(slices.Clone(s), at, size)...)})

		if rank > 1 && kernels.Count(s) > 0 {
			k := []int{oneOf(r, r.IntN(9)-4, 1<<40, -1<<40)}
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("tril", cpu.Tril), Ints: k}, []value{x},
				[]value{r.result(d, s...)})
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("triu", cpu.Triu), Ints: k}, []value{x},
				[]value{r.result(d, s...)})
		}
	}
}

// TestCopiesTogether: copies of many tensors of few and many elements, with conversions and without, some aligned, some
// with zeros behind them.
func TestCopiesTogether(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(41)
	for i := range cases(40) {
		var in, out []value
		for range 1 + r.IntN(oneOf(r, 3, 10, 140)) {
			n, more := r.IntN(oneOf(r, 1, 40, 5000)), oneOf(r, 0, 0, 1, 16)
			if i%10 == 9 {
				n = copyPart*r.IntN(3) + oneOf(r, 0, 1, 64)
			}
			pair := oneOf(r, [2]kernels.DType{kernels.Float32, kernels.Float32},
				[2]kernels.DType{kernels.Float32, kernels.Float16}, [2]kernels.DType{kernels.Float32, kernels.BFloat16},
				[2]kernels.DType{kernels.Float16, kernels.Float32}, [2]kernels.DType{kernels.BFloat16, kernels.Float32},
				[2]kernels.DType{kernels.Float64, kernels.Float32}, [2]kernels.DType{kernels.Float16, kernels.Float16})
			x := r.result(pair[0], n)
			if r.IntN(4) > 0 {
				x.Offset = 0
			}
			y := r.result(pair[1], n+more)
			if more == 0 && n%2 == 0 {
				y.Shape, y.Strides = []int{2, n / 2}, []int{n / 2, 1}
			}
			in, out = append(in, x), append(out, y)
		}
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("copies", cpu.Copies)}, in, out)
	}
}

// TestCopyWide: columns of matrices, whose places let a copy move 1, 2, 4, 8 or 16 bytes at a time, also into a larger
// result.
func TestCopyWide(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(23)
	another := r.reaches(t)
	for range cases(160) {
		another()
		d := oneOf(r, kernels.DTypes()...)
		unit := max(1, oneOf(r, 1, 2, 4, 8, 16)/d.Size())
		s := []int{1 + r.IntN(40), 1 + r.IntN(4), unit * (1 + r.IntN(9))}
		row := s[2] + unit*r.IntN(4)
		x := value{dtype: d, Layout: kernels.Layout{Shape: s, Strides: []int{s[1]*row + unit*r.IntN(2), row, 1},
			Offset: unit * r.IntN(3)}}
		x.data = r.content(d, 200, x.Offset+s[0]*(x.Strides[0]+row))
		y := r.result(d, s...)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("cat", cpu.Cat), Ints: []int{0}}, []value{x}, []value{y})

		pads := []int{r.IntN(3), r.IntN(3), 0, r.IntN(2), unit * r.IntN(3), unit * r.IntN(3)}
		padded := []int{pads[0] + s[0] + pads[1], s[1] + pads[3], pads[4] + s[2] + pads[5]}
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("pad", cpu.Pad), Ints: pads, Floats: []float64{3}}, []value{x},
			[]value{r.result(d, padded...)})
	}
}

// TestCopyFar: elements further apart than one launch reaches, forwards and backwards.
func TestCopyFar(t *testing.T) {
	b := kernelDevice(t)
	far := maxReach + 48
	x, y := alloc(t, b, far+32), alloc(t, b, 2*32)
	var want []byte
	for i := range 2 {
		row := noise(uint64(i), 32)
		b.CopyIn(0, x, i*far, row)
		want = append(row, want...)
	}
	l := &kernels.Launch{Op: rowOf("flip", cpu.Flip), Ints: []int{0},
		In: []kernels.Arg{{Buf: x, DType: kernels.Uint8,
			Layout: kernels.Layout{Shape: []int{2, 32}, Strides: []int{far, 1}}}},
		Out: []kernels.Arg{{Buf: y, DType: kernels.Uint8,
			Layout: kernels.Layout{Shape: []int{2, 32}, Strides: []int{32, 1}}}}}
	for _, shift := range []int{0, 1} { // by units of 16 bytes and by bytes
		l.In[0].Offset, l.In[0].Shape[1], l.Out[0].Shape[1], l.Out[0].Strides[0] = shift, 32-shift, 32-shift, 32-shift
		if err := b.Run(l); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2*(32-shift))
		b.CopyOut(0, got, y, 0)
		if err := b.Synchronize(0); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if string(got[i*(32-shift):][:32-shift]) != string(want[32*i+shift:32*(i+1)]) {
				t.Errorf("from byte %d, row %d differs", shift, i)
			}
		}
	}
}

// TestTranspose: copies between random orders of the axes, of matrices that end inside tiles.
func TestTranspose(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(21)
	for range cases(60) {
		d := oneOf(r, kernels.DTypes()...)
		s := []int{1 + r.IntN(3), 1 + r.IntN(90), 1 + r.IntN(90)}
		r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("cat", cpu.Cat), Ints: []int{0}}, []value{r.operand(d, 200, s...)},
			[]value{r.result(d, s...)})
	}
}

// TestPadEveryAxis: as many axes as there may be.
func TestPadEveryAxis(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(19)
	another := r.reaches(t)
	for range cases(40) {
		another()
		var s, pads, padded []int
		for range kernels.MaxDims {
			n, lo, hi := 1+r.IntN(2), r.IntN(2), r.IntN(2)
			s, pads, padded = append(s, n), append(pads, lo, hi), append(padded, lo+n+hi)
		}
		l := &kernels.Launch{Op: rowOf("pad", cpu.Pad), Ints: pads, Floats: []float64{7}}
		sameAsCPU(t, b, l, []value{r.operand(kernels.Float32, 0, s...)}, []value{r.result(kernels.Float32, padded...)})
	}
}

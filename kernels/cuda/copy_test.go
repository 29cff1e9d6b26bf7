//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// rowOf is an operation for tests of all element types.
func rowOf(name string, f func(l *kernels.Launch)) *kernels.Op {
	return &kernels.Op{Name: name, Kernel: name, CPU: f, Types: kernels.DTypes()}
}

// shape is a random shape of the given rank.
func (r fuzz) shape(rank, most int) []int {
	s := make([]int, rank)
	for d := range s {
		s[d] = r.IntN(most + 1)
	}
	return s
}

// with is a copy of a shape in which entry d has the given sizes in its place.
func with(shape []int, d int, sizes ...int) []int {
	return slices.Concat(shape[:d], sizes, shape[d+1:])
}

// reaches is a function that makes walks short for some cases of a test, so that an operation takes several.
func (r fuzz) reaches(t *testing.T) func() {
	was := walkReach
	t.Cleanup(func() { walkReach = was })
	return func() { walkReach = oneOf(r, was, 20+r.IntN(100)) }
}

func TestMoves(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(4)
	another := r.reaches(t)
	for range cases(160) {
		another()
		d := oneOf(r, kernels.DTypes()...)
		rank := 1 + r.IntN(4)
		axis := r.IntN(rank)
		s := r.shape(rank, 7)

		parts := []value{r.operand(d, 200, s...), r.operand(d, 200, with(s, axis, 3)...), r.operand(d, 200, with(s, axis, 0)...)}
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("cat", cpu.Cat), Ints: []int{axis}}, parts, []value{r.result(d, with(s, axis, s[axis]+3)...)})

		at := r.IntN(rank + 1)
		parts = []value{r.operand(d, 200, s...), r.operand(d, 200, s...), r.operand(d, 200, s...)}
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("stack", cpu.Stack), Ints: []int{at}}, parts, []value{r.result(d, slices.Insert(slices.Clone(s), at, 3)...)})

		x := r.operand(d, 200, s...)
		if kernels.Count(s) > 0 {
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("flip", cpu.Flip), Ints: r.Perm(rank)[:1+r.IntN(rank)]}, []value{x}, []value{r.result(d, s...)})
		}

		var pads []int
		padded := slices.Clone(s)
		for i := range padded {
			lo, hi := r.IntN(3), r.IntN(3)
			pads = append(pads, lo, hi)
			padded[i] += lo + hi
		}
		with16 := oneOf(r, 0, -2, 1.0/3, 1e9, 7)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("pad", cpu.Pad), Ints: pads, Floats: []float64{with16}}, []value{x}, []value{r.result(d, padded...)})

		step, start := 1+r.IntN(3), r.IntN(3)
		size := start + step*s[axis] + r.IntN(3)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("slice_grad", cpu.SliceGrad), Ints: []int{axis, start, step, size}}, []value{x}, []value{r.result(d, with(s, axis, size)...)})

		at, size = r.IntN(rank+1), 1+r.IntN(4)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("select_grad", cpu.SelectGrad), Ints: []int{at, r.IntN(size), size}}, []value{x}, []value{r.result(d, slices.Insert(slices.Clone(s), at, size)...)})

		if rank > 1 && kernels.Count(s) > 0 {
			k := []int{oneOf(r, r.IntN(9)-4, 1<<40, -1<<40)}
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("tril", cpu.Tril), Ints: k}, []value{x}, []value{r.result(d, s...)})
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("triu", cpu.Triu), Ints: k}, []value{x}, []value{r.result(d, s...)})
		}
	}
}

// TestCopyWide: columns of matrices, whose places let a copy move 1, 2, 4, 8 or 16 bytes at a time, also into a larger result.
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
		x := value{dtype: d, Layout: kernels.Layout{Shape: s, Strides: []int{s[1]*row + unit*r.IntN(2), row, 1}, Offset: unit * r.IntN(3)}}
		x.data = r.content(d, 200, x.Offset+s[0]*(x.Strides[0]+row))
		y := r.result(d, s...)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("cat", cpu.Cat), Ints: []int{0}}, []value{x}, []value{y})

		pads := []int{r.IntN(3), r.IntN(3), 0, r.IntN(2), unit * r.IntN(3), unit * r.IntN(3)}
		padded := []int{pads[0] + s[0] + pads[1], s[1] + pads[3], pads[4] + s[2] + pads[5]}
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("pad", cpu.Pad), Ints: pads, Floats: []float64{3}}, []value{x}, []value{r.result(d, padded...)})
	}
}

// TestCopyFar: elements further apart than one launch reaches, forwards and backwards.
func TestCopyFar(t *testing.T) {
	b := kernelDevice(t)
	far := walkReach + 48
	x, y := alloc(t, b, far+32), alloc(t, b, 2*32)
	var want []byte
	for i := range 2 {
		row := noise(uint64(i), 32)
		b.CopyIn(0, x, i*far, row)
		want = append(row, want...)
	}
	l := &kernels.Launch{Op: rowOf("flip", cpu.Flip), Ints: []int{0},
		In:  []kernels.Arg{{Buf: x, DType: kernels.Uint8, Layout: kernels.Layout{Shape: []int{2, 32}, Strides: []int{far, 1}}}},
		Out: []kernels.Arg{{Buf: y, DType: kernels.Uint8, Layout: kernels.Layout{Shape: []int{2, 32}, Strides: []int{32, 1}}}}}
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
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("cat", cpu.Cat), Ints: []int{0}}, []value{r.operand(d, 200, s...)}, []value{r.result(d, s...)})
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

func TestIndexed(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(5)
	addable := []kernels.DType{kernels.Float32, kernels.Float64, kernels.Int64, kernels.Int32, kernels.Uint8}
	adding := func(name string, f func(l *kernels.Launch)) *kernels.Op {
		return &kernels.Op{Name: name, Kernel: name, CPU: f, Types: addable} // half precision goes through float32
	}
	another := r.reaches(t)
	for range cases(320) {
		another()
		d, sum := oneOf(r, kernels.DTypes()...), oneOf(r, append(addable, kernels.Float16, kernels.BFloat16)...)
		ids := oneOf(r, kernels.Int64, kernels.Int32, kernels.Uint8)
		s := r.shape(1+r.IntN(3), 6)
		axis := r.IntN(len(s))
		s[axis] = 1 + r.IntN(6)
		if r.IntN(3) == 0 {
			s[len(s)-1] = 16 * (1 + r.IntN(20))
		}
		chosen := r.operand(ids, s[axis], oneOf(r, []int{}, []int{3}, []int{70}, []int{2, 5}, []int{0})...)
		y := with(s, axis, chosen.Shape...)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("index_select", cpu.IndexSelect), Ints: []int{axis}}, []value{r.operand(d, 200, s...), chosen}, []value{r.result(d, y...)})
		sameAsCPU(t, b, &kernels.Launch{Op: adding("index_add", cpu.IndexAdd), Ints: []int{axis}},
			[]value{r.operand(sum, 200, s...), chosen, r.operand(sum, 200, y...)}, []value{r.result(sum, s...)})

		along := slices.Clone(s)
		for i := range along {
			along[i] = r.IntN(s[i] + 1)
		}
		along[axis] = r.IntN(20)
		chosen = r.operand(ids, s[axis], along...)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("gather", cpu.Gather), Ints: []int{axis}}, []value{r.operand(d, 200, s...), chosen}, []value{r.result(d, along...)})
		sameAsCPU(t, b, &kernels.Launch{Op: adding("scatter_add", cpu.ScatterAdd), Ints: []int{axis}},
			[]value{r.operand(sum, 200, s...), chosen, r.operand(sum, 200, along...)}, []value{r.result(sum, s...)})

		classes := s[axis]
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("one_hot", cpu.OneHot), Ints: []int{classes}}, []value{chosen}, []value{r.result(kernels.Int64, append(slices.Clone(along), classes)...)})
	}
}

// Embedding rows that are aligned move 16 bytes at a time; odd ones do not.
func TestEmbedding(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(6)
	for _, width := range []int{1, 4, 63, 64, 65, 256} {
		for _, d := range kernels.DTypes() {
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("embedding", cpu.IndexSelect), Ints: []int{0}},
				[]value{r.operand(d, 200, 9, width), r.operand(kernels.Int64, 9, 4, 7)}, []value{r.result(d, 4, 7, width)})
		}
	}
}

// An index outside its axis is the CPU's error, when the host waits the next time, and no harm to the device.
func TestIndexOutside(t *testing.T) {
	b := kernelDevice(t)
	host, err := kernels.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	r := newFuzz(7)
	for i := range cases(160) {
		ids := oneOf(r, kernels.Int64, kernels.Int32, kernels.Uint8)
		size := 1 + r.IntN(6)
		x, chosen := r.operand(kernels.Float32, 0, 3, size, 4), r.operand(ids, size, 3, 5, 4)
		y := r.operand(kernels.Float32, 0, 3, 5, 4)
		line := r.operand(ids, size, 9)
		// Some are wrong.
		for _, v := range []value{chosen, line} {
			for n := range len(v.data) / v.dtype.Size() {
				if r.IntN(9) == 0 {
					e := v.data[n*v.dtype.Size():][:v.dtype.Size()]
					e[0] = byte(size + r.IntN(2)*r.IntN(200-size))
					if v.dtype != kernels.Uint8 && r.IntN(2) == 0 {
						for j := range e {
							e[j] = 0xff // -1
						}
					}
				}
			}
		}
		axis := []int{1}
		logits := r.operand(kernels.Float32, 0, 9, size)
		loss := []value{r.result(kernels.Float32), r.result(kernels.Float32, 9), r.result(kernels.Float32, 9)}
		for _, c := range []struct {
			l       *kernels.Launch
			in, out []value
		}{
			{&kernels.Launch{Op: rowOf("embedding", cpu.IndexSelect), Ints: []int{0}}, []value{r.operand(kernels.Float32, 0, size, 6), line}, []value{r.result(kernels.Float32, 9, 6)}},
			{&kernels.Launch{Op: rowOf("gather", cpu.Gather), Ints: axis}, []value{x, chosen}, []value{r.result(kernels.Float32, 3, 5, 4)}},
			{&kernels.Launch{Op: rowOf("scatter_add", cpu.ScatterAdd), Ints: axis}, []value{x, chosen, y}, []value{r.result(kernels.Float32, 3, size, 4)}},
			{&kernels.Launch{Op: rowOf("index_add", cpu.IndexAdd), Ints: axis}, []value{x, line, r.operand(kernels.Float32, 0, 3, 9, 4)}, []value{r.result(kernels.Float32, 3, size, 4)}},
			{&kernels.Launch{Op: rowOf("one_hot", cpu.OneHot), Ints: []int{size}}, []value{chosen}, []value{r.result(kernels.Int64, 3, 5, 4, size)}},
			{&kernels.Launch{Op: hostOp("cross_entropy", cpu.CrossEntropy), Ints: []int{-100, lossMean}, Floats: []float64{0}}, []value{logits, line}, loss},
		} {
			_, want := on(t, host, c.l, c.in, c.out)
			got, err := on(t, b, c.l, c.in, c.out)
			switch {
			case want == nil && err != nil:
				t.Fatalf("%s: %v", c.l.Op.Name, err)
			case want != nil && (!errors.Is(err, kernels.ErrIndex) || !strings.HasSuffix(err.Error(), want.Error()+" in an earlier operation")):
				t.Fatalf("%s %v, case %d: error %v, want %v", c.l.Op.Name, ids, i, err, want)
			case want != nil && c.l.Op.Name == "embedding": // the others are right, and this one is 0
				for k := range 9 {
					row := number(line, k)
					for j := range 6 {
						e, w := got[0][4*(c.out[0].Offset+6*k+j):][:4], []byte{0, 0, 0, 0}
						if row >= 0 && row < size {
							w = c.in[0].data[4*(c.in[0].Offset+row*c.in[0].Strides[0]+j*c.in[0].Strides[1]):][:4]
						}
						if string(e) != string(w) {
							t.Fatalf("embedding: element [%d %d] is %x, want %x", k, j, e, w)
						}
					}
				}
			}
		}
		if err := b.Synchronize(0); err != nil {
			t.Fatalf("an error is told twice: %v", err)
		}
	}
}

// number is element k of a vector of integers.
func number(v value, k int) int {
	e := v.data[(v.Offset+k*v.Strides[0])*v.dtype.Size():]
	switch v.dtype {
	case kernels.Int64:
		return int(int64(binary.LittleEndian.Uint64(e)))
	case kernels.Int32:
		return int(int32(binary.LittleEndian.Uint32(e)))
	}
	return int(e[0])
}

// TestIndexOutsideLater: work goes on, and of several operations with wrong indices the first is named, by whoever
// looks next: more work or a wait, here after more operations than are remembered at once.
func TestIndexOutsideLater(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(8)
	right, wrong := r.operand(kernels.Uint8, 4, 3), value{kernels.Uint8, []byte{0, 9, 200}, kernels.Layout{Shape: []int{3}, Strides: []int{1}}}
	x, y := r.operand(kernels.Float32, 0, 4, 2), r.result(kernels.Float32, 3, 2)
	put := func(v value) kernels.Arg {
		m, err := b.Alloc(len(v.data))
		if err != nil {
			t.Fatal(err)
		}
		b.CopyIn(0, m, 0, v.data)
		t.Cleanup(func() { b.Free(m) })
		return kernels.Arg{Buf: m, DType: v.dtype, Layout: v.Layout}
	}
	table, good, bad, to := put(x), put(right), put(wrong), put(y)
	run := func(name string, ids kernels.Arg) error {
		return b.Run(&kernels.Launch{Op: rowOf(name, cpu.IndexSelect), Ints: []int{0}, In: []kernels.Arg{table, ids}, Out: []kernels.Arg{to}})
	}
	const want, late = "embedding: the index at [1] is 9, outside [0, 4)", " in an earlier operation"
	for _, before := range []int{0, 3, reportCount - 1, reportCount, reportCount + 5} {
		for i := range before {
			if err := run("index_select", good); err != nil {
				t.Fatal(i, err)
			}
		}
		told := 0
		for i, err := range []error{run("embedding", bad), run("index_select", bad), run("index_select", good), run("index_select", good), b.Synchronize(0), b.Synchronize(0), run("index_select", good)} {
			if err == nil {
				continue
			}
			if told++; told > 1 || i == 0 || !errors.Is(err, kernels.ErrIndex) || !strings.HasSuffix(err.Error(), want+late) {
				t.Fatalf("after %d operations, %d after the wrong one: error %v, want %s", before, i, err, want)
			}
		}
		if told == 0 {
			t.Fatalf("after %d operations: no error", before)
		}
	}
	// A mark tells that the operation has run; the next one learns of it without a wait.
	if err := run("embedding", bad); err != nil {
		t.Fatal(err)
	}
	for e := b.Record(0); !happened(t, e); {
	}
	if err := run("index_select", good); !errors.Is(err, kernels.ErrIndex) || !strings.HasSuffix(err.Error(), want+late) {
		t.Fatalf("more work: error %v, want %s", err, want)
	}
	if err := run("index_select", good); err != nil {
		t.Fatal(err)
	}
	b.sync = true
	defer func() { b.sync = false }()
	if err := run("embedding", bad); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Fatalf("waiting for every operation: error %v, want %s", err, want)
	}
}

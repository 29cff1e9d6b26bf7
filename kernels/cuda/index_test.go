//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// addable are the types of additions on the CPU; half precision goes through float32.
var addable = []kernels.DType{kernels.Float32, kernels.Float64, kernels.Int64, kernels.Int32, kernels.Uint8}

func adding(name string, f func(l *kernels.Launch)) *kernels.Op {
	return &kernels.Op{Name: name, Kernel: name, CPU: f, Types: addable}
}

func TestIndexed(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(5)
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
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("index_select", cpu.IndexSelect), Ints: []int{axis}},
			[]value{r.operand(d, 200, s...), chosen}, []value{r.result(d, y...)})
		sameAsCPU(t, b, &kernels.Launch{Op: adding("index_add", cpu.IndexAdd), Ints: []int{axis}},
			[]value{r.operand(sum, 200, s...), chosen, r.operand(sum, 200, y...)}, []value{r.result(sum, s...)})

		along := slices.Clone(s)
		for i := range along {
			along[i] = r.IntN(s[i] + 1)
		}
		along[axis] = r.IntN(20)
		chosen = r.operand(ids, s[axis], along...)
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("gather", cpu.Gather), Ints: []int{axis}},
			[]value{r.operand(d, 200, s...), chosen}, []value{r.result(d, along...)})
		sameAsCPU(t, b, &kernels.Launch{Op: adding("scatter_add", cpu.ScatterAdd), Ints: []int{axis}},
			[]value{r.operand(sum, 200, s...), chosen, r.operand(sum, 200, along...)}, []value{r.result(sum, s...)})

		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("scatter", cpu.Scatter), Ints: []int{axis}},
			[]value{r.operand(d, 200, s...), chosen, r.operand(d, 200, along...)}, []value{r.result(d, s...)})
		single := oneOf(r, singleTypes...)
		for name, f := range map[string]func(l *kernels.Launch){
			"scatter_prod": cpu.ScatterProd, "scatter_max": cpu.ScatterMax, "scatter_min": cpu.ScatterMin} {
			sameAsWidened(t, b, &kernels.Launch{Op: hostOp(name, f), Ints: []int{axis}},
				[]value{r.wild(single, s...), chosen, r.wild(single, along...)}, []value{r.result(single, s...)})
		}

		classes := s[axis]
		sameAsCPU(t, b, &kernels.Launch{Op: rowOf("one_hot", cpu.OneHot), Ints: []int{classes}}, []value{chosen},
			[]value{r.result(kernels.Int64, append(slices.Clone(along), classes)...)})
	}
}

// Embedding rows that are aligned move 16 bytes at a time; odd ones do not.
func TestEmbedding(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(6)
	for _, width := range []int{1, 4, 63, 64, 65, 256} {
		for _, d := range kernels.DTypes() {
			sameAsCPU(t, b, &kernels.Launch{Op: rowOf("embedding", cpu.IndexSelect), Ints: []int{0}},
				[]value{r.operand(d, 200, 9, width), r.operand(kernels.Int64, 9, 4, 7)},
				[]value{r.result(d, 4, 7, width)})
		}
	}
}

// indexOrders are indices of an axis of a size, by their place among n.
var indexOrders = []func(r fuzz, k, n, size int) int{
	func(r fuzz, k, n, size int) int { return r.IntN(size) },
	func(r fuzz, k, n, size int) int { return size / 2 },                                 // all are equal
	func(r fuzz, k, n, size int) int { return k * size / n },                             // ascending
	func(r fuzz, k, n, size int) int { return (n - 1 - k) * size / n },                   // descending
	func(r fuzz, k, n, size int) int { return r.IntN(1+r.IntN(size)) * r.IntN(3) / 2 },   // few of many
	func(r fuzz, k, n, size int) int { return min(size-1, r.IntN(3)*511+r.IntN(2)*512) }, // ends of digits
}

// addIndices is a contiguous vector of n indices of an axis of the given size.
func (r fuzz) addIndices(d kernels.DType, n, size int) value {
	v := value{d, nil, kernels.Layout{Shape: []int{n}, Strides: []int{1}}}
	order := oneOf(r, indexOrders...)
	for k := range n {
		v.data = binary.LittleEndian.AppendUint64(v.data, uint64(order(r, k, n, size)))[:(k+1)*d.Size()]
	}
	return v
}

// TestManyAdditions: additions of equal indices stay in order, however many there are and to how many entries. A block
// sorts one part of them or several.
func TestManyAdditions(t *testing.T) {
	b := kernelDevice(t)
	was := sortBlocks
	t.Cleanup(func() { sortBlocks = was })
	r := newFuzz(41)
	counts := []int{1, 2, 31, 32, 33, 1000, 4095, 4096, 4097, 9000, 20000}
	types := []kernels.DType{kernels.Float32, kernels.BFloat16, kernels.Float64, kernels.Float32, kernels.Float16,
		kernels.Int64, kernels.Int32, kernels.Uint8}
	for i := range cases(60) {
		n, size := oneOf(r, counts...), oneOf(r, 1, 2, 33, 511, 512, 513, 3000, 70000, 270000)
		if i == 59 {
			n = 70000
		}
		sortBlocks = oneOf(r, was, 1, 2, 3)
		d, ids := types[i%len(types)], oneOf(r, kernels.Int64, kernels.Int32)
		add := &kernels.Launch{Op: adding("index_add", cpu.IndexAdd), Ints: []int{0}}
		width := oneOf(r, 1, 1, 2, 3, 4, 8, 16, 17, 32, 140)
		for n > 1 && n*width > 100000 || width > 1 && size*width > 100000 {
			width /= 2
		}
		sameAsWidened(t, b, add, []value{r.finite(d, size, width), r.addIndices(ids, n, size), r.finite(d, n, width)},
			[]value{r.result(d, size, width)})

		lines := 1 + r.IntN(4)
		chosen := r.addIndices(ids, n, size)
		shape, y, along := []int{n, lines}, []int{size, lines}, 0
		if r.IntN(2) == 0 {
			shape, y, along = []int{lines, n}, []int{lines, size}, 1
		}
		chosen.Layout = kernels.Layout{Shape: shape, Strides: []int{0, 0}} // the same indices for all lines
		chosen.Strides[along] = 1
		scatter := &kernels.Launch{Op: adding("scatter_add", cpu.ScatterAdd), Ints: []int{along}}
		sameAsWidened(t, b, scatter, []value{r.finite(d, y...), chosen, r.finite(d, shape...)},
			[]value{r.result(d, y...)})
	}
}

// finite is an operand of any layout without infinities and NaN, of any type.
func (r fuzz) finite(d kernels.DType, shape ...int) value {
	if d.IsFloat() && d != kernels.Float64 {
		return r.moderate(d, shape...)
	}
	return r.operand(d, 200, shape...)
}

// TestAdditionsOutside: additions whose index is outside its axis change nothing, and those after them are added.
func TestAdditionsOutside(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(42)
	for range cases(20) {
		n, size, width := 1+r.IntN(5000), 1+r.IntN(700), oneOf(r, 1, 3, 4)
		x, added := r.result(kernels.Float32, size, width), r.result(kernels.Float32, n, width)
		chosen := r.addIndices(kernels.Int64, n, size)
		y := r.result(kernels.Float32, size, width)
		numbers := func(v value, from, to int) (all []float32) {
			for at := 4 * from; at < 4*to; at += 4 {
				all = append(all, math.Float32frombits(binary.LittleEndian.Uint32(v.data[at:])))
			}
			return all
		}
		end := y.Offset + y.Len()
		want := slices.Concat(numbers(y, 0, y.Offset), numbers(x, x.Offset, x.Offset+x.Len()),
			numbers(y, end, len(y.data)/4))
		terms := numbers(added, added.Offset, added.Offset+added.Len())
		outside := false
		for k := range n {
			if e := chosen.data[8*k:]; r.IntN(20) == 0 {
				binary.LittleEndian.PutUint64(e, oneOf(r, uint64(size), 1<<40, math.MaxUint64))
				outside = true
				continue
			}
			for j := range width {
				want[y.Offset+number(chosen, k)*width+j] += terms[k*width+j]
			}
		}
		to := alloc(t, b, len(y.data))
		b.CopyIn(0, to, 0, y.data)
		in := []kernels.Arg{}
		for _, v := range []value{x, chosen, added} {
			m := alloc(t, b, len(v.data))
			b.CopyIn(0, m, 0, v.data)
			in = append(in, kernels.Arg{Buf: m, DType: v.dtype, Layout: v.Layout})
		}
		out := kernels.Arg{Buf: to, DType: y.dtype, Layout: y.Layout}
		if err := b.Run(&kernels.Launch{Op: rowOf("index_add", cpu.IndexAdd), Ints: []int{0}, In: in,
			Out: []kernels.Arg{out}}); err != nil {
			t.Fatal(err)
		}
		if err := b.Synchronize(0); outside != errors.Is(err, kernels.ErrIndex) {
			t.Fatalf("error %v", err)
		}
		b.CopyOut(0, y.data, to, 0)
		if err := b.Synchronize(0); err != nil {
			t.Fatal(err)
		}
		for i, got := range numbers(y, 0, len(y.data)/4) {
			if math.Float32bits(got) != math.Float32bits(want[i]) {
				t.Fatalf("%d additions to %d entries of %d: element %d is %v, want %v", n, size, width, i, got, want[i])
			}
		}
		for _, a := range append(in, out) {
			b.Free(a.Buf)
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
		loss := []value{r.result(kernels.Float32), r.result(kernels.Float32, 9), r.result(kernels.Float32, 9),
			r.result(kernels.Float32)}
		for _, c := range []struct {
			l       *kernels.Launch
			in, out []value
		}{
			{&kernels.Launch{Op: rowOf("embedding", cpu.IndexSelect), Ints: []int{0}},
				[]value{r.operand(kernels.Float32, 0, size, 6), line}, []value{r.result(kernels.Float32, 9, 6)}},
			{&kernels.Launch{Op: rowOf("gather", cpu.Gather), Ints: axis}, []value{x, chosen},
				[]value{r.result(kernels.Float32, 3, 5, 4)}},
			{&kernels.Launch{Op: rowOf("scatter_add", cpu.ScatterAdd), Ints: axis}, []value{x, chosen, y},
				[]value{r.result(kernels.Float32, 3, size, 4)}},
			{&kernels.Launch{Op: rowOf("index_add", cpu.IndexAdd), Ints: axis},
				[]value{x, line, r.operand(kernels.Float32, 0, 3, 9, 4)},
				[]value{r.result(kernels.Float32, 3, size, 4)}},
			{&kernels.Launch{Op: rowOf("one_hot", cpu.OneHot), Ints: []int{size}}, []value{chosen},
				[]value{r.result(kernels.Int64, 3, 5, 4, size)}},
			{&kernels.Launch{Op: hostOp("cross_entropy", cpu.CrossEntropy), Ints: []int{-100, lossMean},
				Floats: []float64{0}}, []value{logits, line}, loss},
		} {
			_, want := on(t, host, c.l, c.in, c.out)
			got, err := on(t, b, c.l, c.in, c.out)
			switch {
			case want == nil && err != nil:
				t.Fatalf("%s: %v", c.l.Op.Name, err)
			case want != nil && (!errors.Is(err, kernels.ErrIndex) ||
				!strings.HasSuffix(err.Error(), want.Error()+", in an earlier operation")):
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

// TestIndexOutsideLater: work goes on, and of several operations with wrong indices the first is named, by whoever
// looks next: more work or a wait, here after more operations than are remembered at once.
func TestIndexOutsideLater(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(8)
	right, wrong := r.operand(kernels.Uint8, 4, 3),
		value{kernels.Uint8, []byte{0, 9, 200}, kernels.Layout{Shape: []int{3}, Strides: []int{1}}}
	x, y := r.operand(kernels.Float32, 0, 4, 2), r.result(kernels.Float32, 3, 2)
	table, good, bad, to := put(t, b, x), put(t, b, right), put(t, b, wrong), put(t, b, y)
	run := func(name string, ids kernels.Arg) error {
		return b.Run(&kernels.Launch{Op: rowOf(name, cpu.IndexSelect), Ints: []int{0}, In: []kernels.Arg{table, ids},
			Out: []kernels.Arg{to}, Step: 3})
	}
	const want, late = "embedding: the index at [1] is 9, outside [0, 4), axis 0 of [4 2]",
		", in an earlier operation of step 3"
	for _, before := range []int{0, 3, reportCount - 1, reportCount, reportCount + 5} {
		for i := range before {
			if err := run("index_select", good); err != nil {
				t.Fatal(i, err)
			}
		}
		told := 0
		for i, err := range []error{run("embedding", bad), run("index_select", bad), run("index_select", good),
			run("index_select", good), b.Synchronize(0), b.Synchronize(0), run("index_select", good)} {
			if err == nil {
				continue
			}
			if told++; told > 1 || i == 0 || !errors.Is(err, kernels.ErrIndex) ||
				!strings.HasSuffix(err.Error(), want+late) {
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
	if err := run("index_select", good); !errors.Is(err, kernels.ErrIndex) ||
		!strings.HasSuffix(err.Error(), want+late) {
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

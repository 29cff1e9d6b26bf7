//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

var sumOp = &kernels.Op{Name: "add", Expr: expr.Must("x+y", []string{"x", "y"}, nil)}

// addNormOn makes the launch of a sum and its norm for rows of n elements: of an operand of type d and one of type e.
// A layer norm has weight and bias, an RMS norm the weight.
func addNormOn(t testing.TB, b kernels.Backend, name string, d, e kernels.DType, rows, n int) *kernels.Launch {
	t.Helper()
	sum, statistics := d, kernels.Float32
	switch {
	case d == kernels.Float64:
		statistics = d
	case d != e:
		sum = kernels.Float32
	}
	of := func(d kernels.DType, shape ...int) kernels.Arg {
		strides := kernels.RowMajor(make([]int, len(shape)), shape)
		return kernels.Arg{
			Buf: alloc(t, b.(*Backend), (kernels.Count(shape)+1)*d.Size()), DType: d, // one more, for an offset
			Layout: kernels.Layout{Shape: shape, Strides: strides},
		}
	}
	norm := &kernels.Op{Name: name, Kernel: name}
	l := &kernels.Launch{
		Op:   &kernels.Op{Name: "add_" + name, Kernel: "add_" + name, Parts: []*kernels.Op{sumOp, norm}},
		In:   []kernels.Arg{of(d, rows, n), of(e, rows, n), of(sum, n)},
		Out:  []kernels.Arg{of(sum, rows, n), of(sum, rows, n), of(statistics, rows)},
		Ints: []int{1}, Floats: []float64{1e-5},
	}
	if name == "layer_norm" {
		l.In, l.Out = append(l.In, of(sum, n)), append(l.Out, of(statistics, rows))
	}
	return l
}

// resultsOf are the bytes of the results.
func resultsOf(t testing.TB, b kernels.Backend, l *kernels.Launch) (all [][]byte) {
	t.Helper()
	for _, a := range l.Out {
		to := make([]byte, a.Len()*a.DType.Size())
		if err := b.Read(0, to, a.Buf, a.Offset*a.DType.Size()); err != nil {
			t.Fatal(err)
		}
		all = append(all, to)
	}
	return all
}

// launched are the operations and kernels that stream 0 has launched, from number `from` of its log on.
func launched(t testing.TB, b *Backend, from uint64) (all []string) {
	t.Helper()
	s, err := b.stream("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < s.log.queued(); i++ {
		l := s.log.ring[i%logSize]
		kernel, _, _ := strings.Cut(l.kernel, "_")
		all = append(all, l.op+" "+kernel)
	}
	return all
}

// queued is how many launches stream 0 has queued.
func queued(t testing.TB, b *Backend) uint64 {
	t.Helper()
	s, err := b.stream("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	return s.log.queued()
}

// TestAddNormBits: the sum and the norm of it have the bits that they have apart, in all types, for rows that a warp
// or a block caches, and for others.
func TestAddNormBits(t *testing.T) {
	b := kernelDevice(t)
	multiprocessors(t, b, 1)
	r := newFuzz(31)
	types := [][2]kernels.DType{
		{kernels.Float32, kernels.Float32}, {kernels.Float64, kernels.Float64}, {kernels.Float16, kernels.Float16},
		{kernels.BFloat16, kernels.BFloat16}, {kernels.Float32, kernels.Float16}, {kernels.Float32, kernels.BFloat16},
		{kernels.Float16, kernels.BFloat16},
	}
	for i := range cases(84) {
		d := types[i%len(types)]
		n := oneOf(r, 1, 31, 33, 64, 257, 508, 512, 516, 1000, 1024, 1025, 1028, 2052)
		if i%20 == 0 {
			n = oneOf(r, 2048, 8192, 8196, 16387) // a block caches the first two
		}
		l := addNormOn(t, b, oneOf(r, "layer_norm", "rms_norm"), d[0], d[1], 1+r.IntN(40), n)
		l.In[i%2].Offset = r.IntN(2) // an operand that cannot be read in fours
		for _, a := range l.In {
			b.CopyIn(0, a.Buf, a.Offset*a.DType.Size(), r.numbers(a.DType, a.Len(), true))
		}
		if r.IntN(2) == 0 {
			l.In[0], l.In[1] = l.In[1], l.In[0]
		}
		var sum, norm kernels.Launch
		l.Split(&sum, &norm)
		var got [2][][]byte
		for k, launches := range [][]*kernels.Launch{{&sum, &norm}, {l}} {
			from := queued(t, b)
			reschedule()
			for _, l := range launches {
				if err := b.Run(l); err != nil {
					t.Fatal(err)
				}
			}
			got[k] = resultsOf(t, b, l)
			want := 2
			if k == 1 && (d[0] == d[1] || d[0] == kernels.Float32) {
				want = 1
			}
			if ops := launched(t, b, from); len(ops) != want {
				t.Errorf("%v, %d elements: launches %v, want %d", d, n, ops, want)
			}
			for _, a := range l.Out {
				b.Fill(a.Buf, 0xa5)
			}
		}
		for k := range got[0] {
			if !bytes.Equal(got[0][k], got[1][k]) {
				t.Errorf("%s %v, %v: result %d differs from that of two operations", l.Op.Name, d, l.Out[0].Shape, k)
			}
		}
		for _, a := range slices.Concat(l.In, l.Out) {
			b.Free(a.Buf)
		}
	}
}

// fakeAddNorm is a device of the bare emulator that has the kernels of float32.
func fakeAddNorm(t testing.TB) *Backend {
	t.Helper()
	fakeImages(t)
	symbols := []string{"pointwise", "norm_f32"}
	code := coded("emu " + strings.Join(symbols, " "))
	fakeLibrary(t, &image{family: "norms", target: "sm_90", symbols: symbols, code: code})
	b := device(t)
	f, err := b.images.function(b, "pointwise")
	if err != nil {
		t.Fatal(err)
	}
	for _, types := range []uint64{0, 1} {
		b.images.expressions.add(pointwiseKey{sumOp.Expr.Weak(), types},
			&pointwiseFamily{vector: f, strided: f, elements: 4})
	}
	return b
}

// TestAddNormKernels: one kernel computes both where it can read the operands; else the sum has a kernel of its own.
func TestAddNormKernels(t *testing.T) {
	b := fakeAddNorm(t)
	two := []string{"add_layer_norm pointwise", "add_layer_norm norm"}
	for name, c := range map[string]struct {
		change func(l *kernels.Launch)
		want   []string
	}{
		"contiguous":       {func(*kernels.Launch) {}, two[1:]},
		"strided weight":   {func(l *kernels.Launch) { l.In[2].Strides = []int{0} }, two[1:]},
		"transposed":       {func(l *kernels.Launch) { l.In[0].Strides = []int{1, 4} }, two},
		"repeated row":     {func(l *kernels.Launch) { l.In[1].Strides = []int{0, 1} }, two},
		"gaps between row": {func(l *kernels.Launch) { l.In[1].Strides = []int{7, 1} }, two},
	} {
		l := addNormOn(t, b, "layer_norm", kernels.Float32, kernels.Float32, 4, 8)
		c.change(l)
		from := queued(t, b)
		if err := b.Run(l); err != nil {
			t.Fatal(name, err)
		}
		if got := launched(t, b, from); !slices.Equal(got, c.want) {
			t.Errorf("%s: launches %v, want %v", name, got, c.want)
		}
	}
	l := addNormOn(t, b, "rms_norm", kernels.Float32, kernels.Float32, 4, 8)
	if n := testing.AllocsPerRun(20, func() {
		if err := b.Run(l); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	l.In[2].Buf = &buffer{n: 1 << 20}
	if err := b.Run(l); err == nil || !strings.HasPrefix(err.Error(), "add_rms_norm: memory of another device") {
		t.Errorf("error %v", err)
	}
}

// TestAddNormShared: goroutines that share a stream leave each other's sums whole.
func TestAddNormShared(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(32)
	var all sync.WaitGroup
	for range 4 {
		l := addNormOn(t, b, "layer_norm", kernels.Float32, kernels.Float32, 3, 40)
		for _, a := range l.In {
			b.CopyIn(0, a.Buf, 0, r.numbers(a.DType, a.Len(), true))
		}
		if err := b.Run(l); err != nil {
			t.Fatal(err)
		}
		want := resultsOf(t, b, l)
		all.Go(func() {
			for range 10 {
				for _, a := range l.Out {
					b.Fill(a.Buf, 0xff)
				}
				if b.Run(l) != nil {
					t.Error("refused")
				}
				if got := resultsOf(t, b, l); !slices.EqualFunc(got, want, bytes.Equal) {
					t.Error("results differ")
				}
			}
		})
	}
	all.Wait()
}

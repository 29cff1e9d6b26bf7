//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

var sumOp = &kernels.Op{Name: "add", Expr: expr.Must("x+y", []string{"x", "y"}, nil)}

// A residualPair is a sum and a norm of it, in memory of their own.
type residualPair struct{ sum, norm *kernels.Launch }

// pairOn makes the launches for rows of n elements of type d; the second addend has type e. A layer norm has weight and bias,
// an RMS norm the weight.
func pairOn(t testing.TB, b kernels.Backend, name string, d, e kernels.DType, rows, n int) residualPair {
	t.Helper()
	statistics := d
	if d.IsHalf() {
		statistics = kernels.Float32
	}
	of := func(d kernels.DType, shape ...int) kernels.Arg {
		m, err := b.Alloc(max(1, kernels.Count(shape)*d.Size()))
		if err != nil {
			t.Fatal(err)
		}
		return kernels.Arg{Buf: m, DType: d, Layout: kernels.Layout{Shape: shape, Strides: kernels.RowMajor(make([]int, len(shape)), shape)}}
	}
	x, y, sum, weight := of(d, rows, n), of(e, rows, n), of(d, rows, n), of(d, n)
	p := residualPair{
		&kernels.Launch{Op: sumOp, In: []kernels.Arg{x, y}, Out: []kernels.Arg{sum}},
		&kernels.Launch{Op: &kernels.Op{Name: name, Kernel: name}, In: []kernels.Arg{sum, weight}, Out: []kernels.Arg{of(d, rows, n), of(statistics, rows)}, Ints: []int{1}, Floats: []float64{1e-5}},
	}
	if name == "layer_norm" {
		p.norm.In, p.norm.Out = append(p.norm.In, of(d, n)), append(p.norm.Out, of(statistics, rows))
	}
	return p
}

// results are the bytes of the sum and of the norm's results.
func (p residualPair) results(t testing.TB, b kernels.Backend) (all [][]byte) {
	t.Helper()
	for _, a := range append(slices.Clip(p.sum.Out), p.norm.Out...) {
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
	s, err := b.stream(0)
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

var (
	apart  = []string{"add pointwise", "layer_norm norm"}
	fused  = []string{"add norm", "layer_norm norm"}
	resume = []string{"add pointwise"}
)

// TestResidualBits: the sum and the norm of it have the bits that they have apart, in all types, for rows that a warp or a block
// keeps.
func TestResidualBits(t *testing.T) {
	b := kernelDevice(t)
	multiprocessors(t, b, 1)
	r := newFuzz(31)
	types := [][2]kernels.DType{{kernels.Float32, kernels.Float32}, {kernels.Float64, kernels.Float64}, {kernels.Float16, kernels.Float16},
		{kernels.BFloat16, kernels.BFloat16}, {kernels.Float32, kernels.Float16}, {kernels.Float32, kernels.BFloat16}}
	for i := range cases(72) {
		d := types[i%len(types)]
		n := oneOf(r, 1, 31, 33, 65, 257, 511, 512, 513, 1000, 1024, 1025)
		p := pairOn(t, b, oneOf(r, "layer_norm", "rms_norm"), d[0], d[1], 1+r.IntN(40), n)
		for _, a := range slices.Concat(p.sum.In, p.norm.In[1:]) {
			b.CopyIn(0, a.Buf, 0, r.numbers(a.DType, a.Len(), true))
		}
		if r.IntN(2) == 0 {
			p.sum.In[0], p.sum.In[1] = p.sum.In[1], p.sum.In[0]
		}
		var got [2][][]byte
		for k := range got { // apart, then one after the other
			s, err := b.stream(0)
			if err != nil {
				t.Fatal(err)
			}
			from := s.log.queued()
			reschedule()
			for _, l := range []*kernels.Launch{p.sum, p.norm} {
				if err := b.Run(l); err != nil {
					t.Fatal(err)
				}
				if k == 0 {
					if err := b.Synchronize(0); err != nil {
						t.Fatal(err)
					}
				}
			}
			got[k] = p.results(t, b)
			if ops := launched(t, b, from); (ops[0] == "add norm") != (k == 1 && n <= longRow(d[0])) {
				t.Errorf("%v, %d elements: launches %v", d, n, ops)
			}
			for _, a := range append(slices.Clip(p.sum.Out), p.norm.Out...) {
				b.Fill(a.Buf, 0xa5)
			}
		}
		for k := range got[0] {
			if !bytes.Equal(got[0][k], got[1][k]) {
				t.Errorf("%s %v, %v: result %d differs from that of two kernels", p.norm.Op.Name, d, p.sum.Out[0].Shape, k)
			}
		}
		for _, a := range slices.Concat(p.sum.In, p.norm.In, p.norm.Out) {
			b.Free(a.Buf)
		}
	}
}

// fakeResidual is a device of the fake driver that has the kernels of a float32 pair.
func fakeResidual(t testing.TB) *Backend {
	t.Helper()
	fakeImages(t)
	symbols := []string{"noop_f32", "pointwise", "norm_f32", "fault_f32"}
	fakeLibrary(t, &image{family: "residual", target: "sm_90", symbols: symbols, code: coded("fake " + strings.Join(symbols, " "))})
	b := device(t)
	f, err := b.images.function(b, "pointwise")
	if err != nil {
		t.Fatal(err)
	}
	b.images.expressions.add(pointwiseKey{sumOp.Expr, 0}, &pointwiseFamily{f, f, f, 4})
	return b
}

// TestResidualHeld: whoever has to do with a stream meets the sum launched, but a norm of it that may be computed with it.
func TestResidualHeld(t *testing.T) {
	b := fakeResidual(t)
	other := alloc(t, b, 1<<12)
	early := b.Record(0)
	for name, c := range map[string]struct {
		next func(p residualPair)
		want []string
	}{
		"nothing":           {func(residualPair) {}, nil},
		"norm":              {func(p residualPair) { b.Run(p.norm) }, fused},
		"run":               {func(residualPair) { run(b, noopOp, other) }, []string{"add pointwise", "noop noop"}},
		"another sum":       {func(p residualPair) { b.Run(p.sum); b.Run(p.norm) }, append(resume, fused...)},
		"norm of what else": {func(p residualPair) { p.norm.In[0].Buf = other; b.Run(p.norm) }, apart},
		"part of the sum": {func(p residualPair) {
			for _, l := range [...]*kernels.Arg{&p.norm.In[0], &p.norm.Out[0]} {
				l.Shape = []int{2, 8}
			}
			b.Run(p.norm)
		}, apart},
		"transposed":       {func(p residualPair) { p.norm.In[0].Strides = []int{1, 4}; b.Run(p.norm) }, apart},
		"over the operand": {func(p residualPair) { p.norm.Out[0].Buf = p.sum.In[1].Buf; b.Run(p.norm) }, apart},
		"mean over it":     {func(p residualPair) { p.norm.Out[1].Buf = p.sum.In[0].Buf; b.Run(p.norm) }, apart},
		"over the sum":     {func(p residualPair) { p.norm.Out[0].Buf = p.sum.Out[0].Buf; b.Run(p.norm) }, apart},
		"weight in it":     {func(p residualPair) { p.norm.In[1].Buf = p.sum.Out[0].Buf; b.Run(p.norm) }, apart},
		"copy in":          {func(residualPair) { b.CopyIn(0, other, 0, make([]byte, 4)) }, resume},
		"copy out":         {func(residualPair) { b.CopyOut(0, make([]byte, 4), other, 0) }, resume},
		"read":             {func(residualPair) { b.Read(0, make([]byte, 4), other, 0) }, resume},
		"record":           {func(residualPair) { b.Record(0) }, resume},
		"wait":             {func(residualPair) { b.Wait(0, early) }, resume},
		"synchronize":      {func(residualPair) { b.Synchronize(0) }, resume},
		"fill":             {func(residualPair) { b.Fill(other, 1) }, resume},
		"free":             {func(p residualPair) { b.Free(p.sum.In[0].Buf) }, resume},
		"another stream":   {func(residualPair) { b.Synchronize(1) }, nil},
		"capture": {func(p residualPair) {
			if g, err := b.Capture(0, func() error { return b.Run(p.sum) }); err == nil {
				g.Free()
			}
		}, append(resume, resume...)},
	} {
		if err := b.Synchronize(0); err != nil {
			t.Fatal(name, err)
		}
		s, err := b.stream(0)
		if err != nil {
			t.Fatal(err)
		}
		p := pairOn(t, b, "layer_norm", kernels.Float32, kernels.Float32, 4, 8)
		from := s.log.queued()
		if err := b.Run(p.sum); err != nil {
			t.Fatal(name, err)
		}
		c.next(p)
		if got := launched(t, b, from); !slices.Equal(got, c.want) {
			t.Errorf("%s: launches %v, want %v", name, got, c.want)
		}
	}
	for name, change := range map[string]func(l *kernels.Launch){
		"a broadcast": func(l *kernels.Launch) { l.In[1].Strides = []int{0, 1} },
		"gaps":        func(l *kernels.Launch) { l.In[0].Strides = []int{7, 1} },
		"in place":    func(l *kernels.Launch) { l.Out[0].Buf = l.In[0].Buf },
	} {
		s, _ := b.stream(0)
		s.flush()
		p := pairOn(t, b, "layer_norm", kernels.Float32, kernels.Float32, 4, 8)
		p.sum.In[0].Shape, p.sum.In[1].Shape, p.sum.Out[0].Shape = []int{4, 2}, []int{4, 2}, []int{4, 2}
		p.sum.In[0].Strides, p.sum.In[1].Strides, p.sum.Out[0].Strides = []int{2, 1}, []int{2, 1}, []int{2, 1}
		change(p.sum)
		from := s.log.queued()
		if err := b.Run(p.sum); err != nil {
			t.Fatal(name, err)
		}
		if got := launched(t, b, from); !slices.Equal(got, resume) {
			t.Errorf("a sum of %s: launches %v, want %v", name, got, resume)
		}
	}
}

// TestResidualErrors: a refused launch of the sum is told at the line of the sum, whoever meets it; of a kernel that computes
// both, reports name both lines.
func TestResidualErrors(t *testing.T) {
	b := fakeResidual(t)
	p := pairOn(t, b, "rms_norm", kernels.Float32, kernels.Float32, 4, 8)
	other := alloc(t, b, 4)
	for name, next := range map[string]func() error{
		"run":         func() error { return run(b, noopOp, other) },
		"read":        func() error { return b.Read(0, make([]byte, 4), other, 0) },
		"synchronize": func() error { return b.Synchronize(0) },
		"record":      func() error { b.Record(0); return b.Synchronize(0) },
	} {
		t.Setenv("FAKE_CUDA", "leaks=1,fail=cuLaunchKernel:1:701:"+itoa(len(name))) // the number makes the setting a new one
		line := nextLine()
		if err := b.Run(p.sum); err != nil {
			t.Fatal(err)
		}
		err := next()
		if !errors.Is(err, kernels.ErrDevice) || !strings.HasPrefix(err.Error(), line+": add: launching pointwise on cuda:0: ") || !strings.HasSuffix(err.Error(), " in an earlier operation") {
			t.Errorf("%s: error %v, want one of %s", name, err, line)
		}
		if err := b.Synchronize(0); err != nil {
			t.Errorf("%s: error %v comes again", name, err)
		}
	}
	t.Setenv("FAKE_CUDA", "leaks=1")
	sum := nextLine()
	b.Run(p.sum)
	norm := nextLine()
	b.Run(p.norm)
	s, err := b.stream(0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.log.suspects(0), "add (norm_f32) at "+sum+", rms_norm (norm_f32) at "+norm; !strings.HasSuffix(got, want) {
		t.Errorf("suspects %s, want %s", got, want)
	}
}

// TestResidualClosed: Close launches a sum that is held before it waits for the device and frees memory, and so sees its fault.
func TestResidualClosed(t *testing.T) {
	needFake(t)
	if !inChild(t) {
		return
	}
	b := fakeResidual(t)
	f, err := b.images.function(b, "fault_f32")
	if err != nil {
		t.Fatal(err)
	}
	b.images.expressions.add(pointwiseKey{sumOp.Expr, 0}, &pointwiseFamily{f, f, f, 4})
	line := nextLine()
	if err := b.Run(pairOn(t, b, "layer_norm", kernels.Float32, kernels.Float32, 4, 8).sum); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); !errors.Is(err, ErrFault) || !strings.Contains(err.Error(), "1 launches: add (fault_f32) at "+line) {
		t.Errorf("close: error %v, want the fault of the sum at %s", err, line)
	}
}

// TestResidualAllocatesNothing: holding and fusing take no Go memory.
func TestResidualAllocatesNothing(t *testing.T) {
	b := fakeResidual(t)
	p := pairOn(t, b, "rms_norm", kernels.Float32, kernels.Float32, 4, 8)
	if n := testing.AllocsPerRun(20, func() {
		if b.Run(p.sum) != nil || b.Run(p.norm) != nil || b.Run(p.sum) != nil {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestResidualShared: goroutines that share a stream leave each other's sums whole.
func TestResidualShared(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(32)
	var pairs []residualPair
	var want [][][]byte
	for range 4 {
		p := pairOn(t, b, "layer_norm", kernels.Float32, kernels.Float32, 3, 40)
		for _, a := range slices.Concat(p.sum.In, p.norm.In[1:]) {
			b.CopyIn(0, a.Buf, 0, r.numbers(a.DType, a.Len(), true))
		}
		if b.Run(p.sum) != nil || b.Synchronize(0) != nil || b.Run(p.norm) != nil {
			t.Fatal("refused")
		}
		pairs, want = append(pairs, p), append(want, p.results(t, b))
	}
	var all sync.WaitGroup
	for i, p := range pairs {
		all.Go(func() {
			for range 10 {
				for _, a := range append(slices.Clip(p.sum.Out), p.norm.Out...) {
					b.Fill(a.Buf, 0xff)
				}
				if b.Run(p.sum) != nil || b.Run(p.norm) != nil {
					t.Error("refused")
				}
				for k, got := range p.results(t, b) {
					if !bytes.Equal(got, want[i][k]) {
						t.Errorf("result %d of pair %d differs", k, i)
					}
				}
			}
		})
	}
	all.Wait()
}

// Errors of a norm that might feed on a sum name the norm.
func TestResidualNames(t *testing.T) {
	b := fakeResidual(t)
	p := pairOn(t, b, "layer_norm", kernels.Float32, kernels.Float32, 4, 8)
	if err := b.Run(p.sum); err != nil {
		t.Fatal(err)
	}
	p.norm.In[1].Buf = &buffer{n: 1 << 20}
	if err := b.Run(p.norm); err == nil || !strings.HasPrefix(err.Error(), "layer_norm: memory of another device") {
		t.Errorf("error %v", err)
	}
}

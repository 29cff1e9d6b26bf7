//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// noise is n bytes that differ from what any other seed gives.
func noise(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(r.Uint32())
	}
	return v
}

// happened tells whether the device has reached a mark.
func happened(t *testing.T, e kernels.Event) bool {
	t.Helper()
	done, err := e.Done()
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// smallRings makes staging rings small in a test, so that copies go round them many times, and copies from a size on go
// by the side.
func smallRings(t *testing.T, ring, side int) {
	wasRing, wasSide := ringBytes, overlapBytes
	ringBytes, overlapBytes = ring, side
	t.Cleanup(func() { ringBytes, overlapBytes = wasRing, wasSide })
}

func TestCopy(t *testing.T) {
	smallRings(t, 1024, 50)
	b := device(t)
	m := alloc(t, b, 10000)
	if m.Bytes() != 10000 {
		t.Errorf("%d bytes", m.Bytes())
	}
	want := noise(1, 10000)
	b.CopyIn(0, m, 0, want)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		off := r.IntN(len(want))
		n := r.IntN(len(want) - off + 1)
		if i%2 == 0 {
			n = min(n, 100)
		}
		part := noise(uint64(i)+2, n)
		b.CopyIn(0, m, off, part)
		copy(want[off:], part)
		clear(part) // src may be reused
	}
	got := make([]byte, 10000)
	b.CopyOut(0, got[:5000], m, 0)
	b.CopyOut(0, got[5000:], m, 5000)
	if err := b.Synchronize(0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("copies differ")
	}
	if n := len(b.events.all); n > 2*1024/chunkAlignment {
		t.Errorf("%d events for two rings of 16 parts", n)
	}
	b.CopyIn(0, m, 10000, nil)
	b.CopyOut(0, nil, m, 0)
	for _, f := range []func(){
		func() { b.CopyIn(0, m, 9999, make([]byte, 2)) }, func() { b.CopyOut(0, make([]byte, 2), m, -1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a copy outside the memory is accepted")
				}
			}()
			f()
		}()
	}
	b.Free(m)
}

// Goroutines move between threads; each call must find the device there, and streams must keep their order.
func TestGoroutines(t *testing.T) {
	smallRings(t, 4096, 1000)
	fakeImages(t)
	b := device(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 3))
			for i := range 30 {
				n := 1 + r.IntN(600)
				id := kernels.Stream(r.IntN(4))
				m, err := b.Alloc(12 * n)
				if err != nil {
					t.Error(err)
					return
				}
				x, y, got := make([]byte, 4*n), make([]byte, 4*n), make([]byte, 4*n)
				for k := range n {
					binary.LittleEndian.PutUint32(x[4*k:], math.Float32bits(float32(k)))
					binary.LittleEndian.PutUint32(y[4*k:], math.Float32bits(float32(1000*g+i)))
				}
				b.CopyIn(id, m, 4*n, x)
				runtime.Gosched()
				b.CopyIn(id, m, 8*n, y)
				err = b.Run(&kernels.Launch{Op: addOp, Stream: id, Out: []kernels.Arg{vector(m, 0, n)},
					In: []kernels.Arg{vector(m, n, n), vector(m, 2*n, n)}})
				if err != nil {
					t.Error(err)
				}
				runtime.Gosched()
				b.CopyOut(id, got, m, 0)
				if err := b.Synchronize(id); err != nil {
					t.Error(err)
				}
				for k := range n {
					if v := math.Float32frombits(binary.LittleEndian.Uint32(got[4*k:])); v != float32(k+1000*g+i) {
						t.Errorf("goroutine %d, round %d: element %d is %v", g, i, k, v)
						return
					}
				}
				b.Free(m)
			}
		})
	}
	wg.Wait()
}

// Work on one stream waits for another where it is told to, without the host waiting.
func TestEvents(t *testing.T) {
	fakeImages(t)
	b := device(t)
	m := alloc(t, b, 12)
	one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1))
	zero := make([]byte, 12)
	b.CopyIn(2, m, 0, zero)
	if err := b.Synchronize(2); err != nil {
		t.Fatal(err)
	}
	b.CopyIn(1, m, 4, one)
	b.CopyIn(1, m, 8, one)
	filled := b.Record(1)
	b.Wait(2, filled)
	if err := b.Run(&kernels.Launch{Op: addOp, Stream: 2, Out: []kernels.Arg{vector(m, 0, 1)},
		In: []kernels.Arg{vector(m, 1, 1), vector(m, 2, 1)}}); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	b.CopyOut(2, got, m, 0)
	if happened(t, filled) {
		t.Error("the host waited")
	}
	if err := b.Synchronize(2); err != nil {
		t.Fatal(err)
	}
	if v := math.Float32frombits(binary.LittleEndian.Uint32(got)); v != 2 {
		t.Errorf("1 + 1 = %v", v)
	}
	if !happened(t, filled) {
		t.Error("what was waited for has not happened")
	}
	polled := b.Record(1)
	for range 1000 {
		if happened(t, polled) {
			return
		}
	}
	t.Error("an event never happens")
}

// Large copies go over the bus on their own: they wait for no kernel and no kernel waits for the bus, but for those
// copied to the device. The emulator does what somebody waits for, and nothing else.
func TestCopyBySide(t *testing.T) {
	needBare(t)
	smallRings(t, 4096, 500)
	b := device(t)
	m := alloc(t, b, 1000)
	// the emulator's is the host's
	memory := func(m kernels.Buffer) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&m.(*buffer).ptr)), 1000) }
	there := memory(m)
	finish := func(id kernels.Stream) {
		t.Helper()
		if err := b.streams.get(id).wait("test"); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, got, want []byte, equal bool) {
		t.Helper()
		if bytes.Equal(got, want) != equal {
			t.Errorf("%s: %x, %x", what, got[:4], want[:4])
		}
	}
	first, second := noise(1, 1000), noise(2, 1000)
	b.Fill(m, 0)
	b.CopyIn(0, m, 0, first)
	mirror := memory(b.in.bounce)
	before := bytes.Clone(there)
	finish(inCopies)
	is("over the bus", mirror, first, true)
	is("what was queued before, and the place", there, before, true)
	finish(0)
	is("at its place", there, first, true)

	got := make([]byte, 1000)
	b.CopyOut(0, got, m, 0)
	b.CopyIn(0, m, 0, second)
	finish(0)
	is("over the bus to the device", there, second, true)
	is("not yet over the bus to the host", b.out.chunks[0].mem, first, false)
	mark := b.Record(0)
	finish(0)
	polls := 0
	for ; !happened(t, mark); polls++ {
		is("at the host", got, first, false)
	}
	is("at the host at last", got, first, true)
	if polls == 0 {
		t.Error("the event did not wait for the bus")
	}

	if err := b.Read(0, got, m, 0); err != nil {
		t.Fatal(err)
	}
	is("read", got, second, true)
	clear(got)
	b.CopyOut(0, got[:600], m, 0)
	b.CopyOut(0, got[600:], m, 600)
	if err := b.Synchronize(0); err != nil {
		t.Fatal(err)
	}
	is("large and small", got, second, true)
}

// Copies on the side stream wait for nothing that other streams have queued, many times round their ring.
func TestSide(t *testing.T) {
	needBare(t)
	smallRings(t, 1024, 50)
	b := device(t)
	m, snapshot := alloc(t, b, 4000), alloc(t, b, 4100)
	want, got, other := noise(1, 4000), make([]byte, 4000), make([]byte, 40)
	b.CopyIn(0, m, 0, want)
	if err := b.Copy(0, snapshot, 100, m, 0, 4000); err != nil {
		t.Fatal(err)
	}
	b.Wait(kernels.Side, b.Record(0))
	b.Fill(m, 7) // the next update
	b.CopyOut(0, other, m, 0)
	waits := b.waits.Count()
	for at := 0; at < 4000; at += 200 {
		if err := b.CopyOut(kernels.Side, got[at:at+200], snapshot, 100+at); err != nil {
			t.Fatal(err)
		}
		if err := b.Synchronize(kernels.Side); err != nil || !bytes.Equal(got[at:at+200], want[at:at+200]) {
			t.Fatalf("bytes from %d on: error %v, %x, want %x", at, err, got[at:at+4], want[at:at+4])
		}
	}
	if n := b.waits.Count() - waits; n != 0 || other[0] != 0 {
		t.Errorf("%d waits, and what the other stream has queued is there: %v", n, other[0] != 0)
	}
	if err := b.Synchronize(0); err != nil || other[0] != 7 {
		t.Errorf("error %v, %d", err, other[0])
	}
}

// Without memory for the bounce buffer, copies go directly.
func TestCopyWithoutMirror(t *testing.T) {
	needBare(t)
	smallRings(t, 4096, 500)
	t.Setenv("WEFT_EMU", "leaks=1,memory=6000")
	b := device(t)
	m := alloc(t, b, 1000)
	want, got := noise(1, 1000), make([]byte, 1000)
	b.CopyIn(0, m, 0, want) // takes 4096 bytes
	b.CopyOut(0, got, m, 0)
	if err := b.Synchronize(0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v", err)
	}
	if b.in.bounce == nil || b.out.bounce != nil {
		t.Error("memory for one mirror of two")
	}
}

// A fill follows what is queued before it.
func TestFill(t *testing.T) {
	b := device(t)
	m, got := alloc(t, b, 1000), make([]byte, 1000)
	b.CopyIn(0, m, 0, noise(1, 1000))
	b.Fill(m, 0xff)
	b.CopyOut(0, got, m, 0)
	if err := b.Synchronize(0); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{0xff}, 1000)) {
		t.Errorf("%v: %x", err, got[:10])
	}
}

// Memory may be freed while work uses it: Free waits. In the emulator it is a fault otherwise.
func TestFreeWaits(t *testing.T) {
	b := device(t)
	m := alloc(t, b, 100)
	b.CopyIn(1, m, 0, make([]byte, 100))
	b.Free(m)
	b.Free(m) // nothing happens
	if err := b.Synchronize(1); err != nil {
		t.Error(err)
	}
}

func TestOutOfMemory(t *testing.T) {
	needBare(t)
	t.Setenv("WEFT_EMU", "leaks=1,memory=1000000")
	b := device(t)
	m := alloc(t, b, 600000)
	_, err := b.Alloc(500000)
	if !errors.Is(err, kernels.ErrMemory) ||
		!strings.Contains(err.Error(), "500000 bytes on cuda:0: 400000 of its 1000000 bytes are free") {
		t.Errorf("error %v", err)
	}
	b.Free(m)
	b.Free(alloc(t, b, 500000))
	b.Free(alloc(t, b, 0))
	if err := b.Synchronize(0); err != nil {
		t.Error(err)
	}
}

// A copy that fails says so itself, and once.
func TestCopyFails(t *testing.T) {
	needBare(t)
	for _, failing := range []string{"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemHostAlloc", "cuEventCreate",
		"cuEventRecord", "cuStreamCreate",
		"cuMemAlloc/side", "cuMemcpyHtoDAsync/side", "cuMemcpyDtoHAsync/side", "cuMemcpyDtoDAsync/side",
		"cuStreamWaitEvent/side"} {
		t.Run(failing, func(t *testing.T) {
			function, side := strings.CutSuffix(failing, "/side")
			if side {
				smallRings(t, 1024, 1)
			}
			fakeImages(t)
			b := device(t)
			m := alloc(t, b, 100)
			t.Setenv("WEFT_EMU", "leaks=1,fail="+function+":1:1")
			var errs []error
			for _, err := range []error{b.CopyIn(0, m, 0, make([]byte, 100)), b.CopyOut(0, make([]byte, 100), m, 0),
				b.Synchronize(0)} {
				if err != nil {
					errs = append(errs, err)
				}
			}
			if function == "cuMemHostAlloc" && len(errs) == 0 {
				return // it was the memory for marks of progress, which are not needed
			}
			if len(errs) != 1 || !errors.Is(errs[0], kernels.ErrDevice) ||
				!strings.Contains(errs[0].Error(), "CUDA_ERROR_INVALID_VALUE (1)") {
				t.Errorf("errors %v", errs)
			}
			want, got := noise(7, 100), make([]byte, 100)
			b.CopyIn(0, m, 0, want)
			if err := run(b, noopOp, m); err != nil {
				t.Error(err)
			}
			b.CopyOut(0, got, m, 0)
			if err := b.Synchronize(0); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the device is not as before: %v", err)
			}
		})
	}
}

// What was queued of a copy that fails halfway does not meet the next copy.
func TestCopyFailsHalfway(t *testing.T) {
	needBare(t)
	smallRings(t, 1024, 1)
	b := device(t)
	m := alloc(t, b, 200)
	want, got := noise(1, 200), make([]byte, 100)
	b.CopyIn(0, m, 0, want)
	if err := b.Synchronize(0); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEFT_EMU", "leaks=1,fail=cuStreamWaitEvent:1:1")
	if err := b.CopyOut(1, make([]byte, 100), m, 0); err == nil {
		t.Error("no error")
	}
	for range 1024 / 128 { // the last goes by way of the same memory
		b.CopyOut(2, got, m, 100)
	}
	for _, id := range []kernels.Stream{2, 1} {
		if err := b.streams.get(id).wait("test"); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Synchronize(2); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(got, want[100:]) {
		t.Error("another copy arrived")
	}
}

// Whose copy fails learns of it, whatever others do.
func TestReadFails(t *testing.T) {
	fakeImages(t)
	b := device(t)
	m := alloc(t, b, 100)
	t.Setenv("WEFT_EMU", "leaks=1,fail=cuMemcpyDtoHAsync:1:1")
	others := make(chan error)
	stop := make(chan bool)
	go func() {
		for {
			select {
			case <-stop:
				close(others)
				return
			default:
				if err := run(b, noopOp, m); err != nil {
					others <- err
				}
			}
		}
	}()
	if err := b.Read(0, make([]byte, 100), m, 0); !errors.Is(err, kernels.ErrDevice) ||
		!strings.Contains(err.Error(), "copying 100 bytes on cuda:0") {
		t.Errorf("error %v", err)
	}
	close(stop)
	for err := range others {
		t.Errorf("another goroutine: %v", err)
	}
}

func TestMemoryOfAnother(t *testing.T) {
	fakeImages(t)
	t.Setenv("WEFT_EMU", "leaks=1,devices=2")
	b := device(t)
	dev, err := kernels.Open("cuda:1")
	if err != nil {
		t.Fatal(err)
	}
	other := dev.(*Backend)
	defer other.Close()
	if b.Name() != "cuda:0" || other.Name() != "cuda:1" || other.GPU().Ordinal != 1 {
		t.Errorf("%s, %s", b.Name(), other.Name())
	}
	m, mine := alloc(t, other, 4), alloc(t, b, 4)
	err = b.Run(&kernels.Launch{Op: addOp, Out: []kernels.Arg{vector(mine, 0, 1)},
		In: []kernels.Arg{vector(m, 0, 1), vector(mine, 0, 1)}})
	if !errors.Is(err, kernels.ErrDevice) || !strings.Contains(err.Error(), "memory of another device") {
		t.Errorf("error %v", err)
	}
}

func TestNoKernel(t *testing.T) {
	fakeImages(t)
	b := device(t)
	m := alloc(t, b, 4)
	for _, c := range []struct {
		op    kernels.Op
		dtype kernels.DType
		want  string
	}{
		{kernels.Op{Name: "convolution"}, kernels.Float64,
			"convolution: device cuda:0 (Weft emulator 9.0) has no kernel for this operation on float64"},
		{kernels.Op{Name: "plus", Kernel: "add"}, kernels.BFloat16, "load: this build has no kernel add_bf16"},
	} {
		a := vector(m, 0, 1)
		a.DType = c.dtype
		err := b.Run(&kernels.Launch{Op: &c.op, Out: []kernels.Arg{a}})
		if !errors.Is(err, kernels.ErrDevice) || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

func TestRank(t *testing.T) {
	all := []string{"sm_80", "sm_86", "sm_90", "sm_90a", "compute_80", "compute_90a"}
	for capability, want := range map[[2]int]string{
		{7, 5}: "", {8, 0}: "sm_80", {8, 6}: "sm_86", {8, 9}: "sm_86", {9, 0}: "sm_90a", {10, 0}: "compute_80",
		{12, 0}: "compute_80",
	} {
		best, most := "", 0
		for _, target := range all {
			if r := rank(target, capability[0], capability[1]); r > most {
				best, most = target, r
			}
		}
		if best != want {
			t.Errorf("%v takes %q, want %q", capability, best, want)
		}
	}
	if rank("nonsense", 9, 0) != 0 {
		t.Error("nonsense is a target")
	}
}

// report is what the kernel report_f32 writes.
type report struct {
	Grid, Block [3]int32
	Shared      int32
	A           int32
	B           int64
	C           float32
	_           int32
	D           float64
}

// launchOn submits what f puts into a call of stream 0.
func launchOn(t *testing.T, b *Backend, f func(c *call)) error {
	t.Helper()
	s, err := b.stream("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call.reset("test")
	f(&s.call)
	return s.call.submit()
}

// Arguments and sizes arrive as they were given, for several launches in one call.
func TestLaunch(t *testing.T) {
	fakeImages(t)
	b := device(t)
	f, err := b.images.function(b, "report_f32")
	if err != nil {
		t.Fatal(err)
	}
	size := int(unsafe.Sizeof(report{}))
	m := alloc(t, b, 3*size)
	err = launchOn(t, b, func(c *call) {
		for i := range 3 {
			c.launch(f, dim{1, 2, uint32(3 + i)}, dim{32, 2, 1}, 50000*i)
			arg(c, uint64(b.at("test", m, i*size, size)))
			arg(c, int32(-5-i))
			arg(c, int64(1)<<40)
			arg(c, float32(0.5))
			arg(c, 0.25)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 3*size)
	b.CopyOut(0, out, m, 0)
	if err := b.Synchronize(0); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		var got report
		if _, err := binary.Decode(out[i*size:], binary.LittleEndian, &got); err != nil {
			t.Fatal(err)
		}
		want := report{Grid: [3]int32{1, 2, int32(3 + i)}, Block: [3]int32{32, 2, 1}, Shared: int32(50000 * i),
			A: int32(-5 - i), B: 1 << 40, C: 0.5, D: 0.25}
		if got != want {
			t.Errorf("launch %d: %+v, want %+v", i, got, want)
		}
	}
}

// A launch that the driver refuses fails alone.
func TestLaunchRefused(t *testing.T) {
	fakeImages(t)
	b := device(t)
	m := alloc(t, b, 4)
	f, err := b.images.function(b, "noop_f32")
	if err != nil {
		t.Fatal(err)
	}
	err = launchOn(t, b, func(c *call) {
		c.launch(f, dim{1, 1, 1}, dim{32, 1, 1}, 0)
		c.launch(f, dim{1, 1, 1}, dim{2048, 1, 1}, 0)
	})
	if !errors.Is(err, kernels.ErrDevice) || errors.Is(err, ErrFault) ||
		!strings.Contains(err.Error(), "launching noop_f32 on cuda:0: CUDA_ERROR_INVALID_VALUE (1)") {
		t.Errorf("error %v", err)
	}
	// The kernel has 1 KiB of its own, and a block of this GPU can have 227.
	for kib, refused := range map[int]bool{47: false, 48: false, 226: false, 227: true} {
		err := launchOn(t, b, func(c *call) {
			c.launch(f, dim{1, 1, 1}, dim{32, 1, 1}, kib<<10)
		})
		if refused != errors.Is(err, kernels.ErrDevice) {
			t.Errorf("%d KiB of dynamic shared memory: %v", kib, err)
		}
	}
	if err := run(b, noopOp, m); err != nil {
		t.Error(err)
	}
	if err := b.Synchronize(0); err != nil {
		t.Error(err)
	}
}

// A kernel that fails in the middle: whoever waits next learns of it and of what may have caused it; the device
// takes no more work, in this process.
func TestFault(t *testing.T) {
	needBare(t)
	if !inChild(t) {
		return
	}
	fakeImages(t)
	b := device(t)
	m := alloc(t, b, 12)
	shot := &kernels.Launch{Op: noopOp, Out: []kernels.Arg{vector(m, 0, 1)}}
	var noops, faulty string
	for range 70 {
		noops = nextLine()
		if err := b.Run(shot); err != nil {
			t.Fatal(err)
		}
	}
	shot.Op, faulty = faultOp, nextLine()
	if err := b.Run(shot); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := b.Run(&kernels.Launch{Op: addOp, Out: []kernels.Arg{vector(m, 0, 1)},
			In: []kernels.Arg{vector(m, 1, 1), vector(m, 2, 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	b.CopyOut(0, make([]byte, 4), m, 0)
	err := b.Synchronize(0)
	t.Log(err)
	if !errors.Is(err, ErrFault) || !errors.Is(err, kernels.ErrDevice) {
		t.Fatalf("error %v", err)
	}
	// Marks were written after launches 32 and 64: 12 are left.
	want := "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered (emulator: told to " +
		"[fault_f32, block (0,0,0), thread (0,0,0)]); " +
		"seen while synchronize was waiting for the device; " +
		"not known to be finished on stream 0: 12 launches: " + strings.Repeat("noop (noop_f32) at "+noops+", ", 6) +
		"fault (fault_f32) at " + faulty + ", add (add_f32) at backend_test.go:"
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
	_, allocErr := b.Alloc(1)
	for what, err := range map[string]error{"run": run(b, noopOp, m), "synchronize": b.Synchronize(0),
		"alloc": allocErr} {
		if !errors.Is(err, ErrFault) || !strings.Contains(err.Error(), "refused: cuda:0: CUDA_ERROR_ILLEGAL_ADDRESS") {
			t.Errorf("%s after a fault: %v", what, err)
		}
	}
	b.CopyIn(0, m, 0, []byte{1})
	b.Wait(1, b.Record(0))
	b.Free(m)
	if err := b.Close(); !errors.Is(err, ErrFault) {
		t.Errorf("close: %v", err)
	}
	if _, err := kernels.Open("cuda"); !errors.Is(err, ErrFault) {
		t.Errorf("reopened: %v", err)
	}
}

// In synchronous mode the operation that fails says so itself.
func TestSynchronousFault(t *testing.T) {
	needBare(t)
	if !inChild(t, "WEFT_CUDA_SYNC=1") {
		return
	}
	fakeImages(t)
	b := device(t)
	m := alloc(t, b, 4)
	for range 3 {
		if err := run(b, noopOp, m); err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.stream("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	noop, err := b.images.function(b, "noop_f32")
	if err != nil {
		t.Fatal(err)
	}
	fault, err := b.images.function(b, "fault_f32")
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.call.reset("several")
	for _, f := range []*function{noop, fault, noop} {
		s.call.launch(f, dim{1, 1, 1}, dim{32, 1, 1}, 0)
	}
	site := nextLine()
	err = s.call.submit()
	s.mu.Unlock()
	if !errors.Is(err, ErrFault) || !strings.HasPrefix(err.Error(), "several: cuda:0") ||
		!strings.Contains(err.Error(), "running fault_f32; ") ||
		!strings.Contains(err.Error(), "1 launches: several (fault_f32) at "+site+"; what was") {
		t.Errorf("error %v", err)
	}
}

func TestLost(t *testing.T) {
	needBare(t)
	if !inChild(t) {
		return
	}
	b := device(t)
	m := alloc(t, b, 4)
	t.Setenv("WEFT_EMU", "fail=cuStreamSynchronize:1:214")
	b.CopyIn(0, m, 0, make([]byte, 4))
	if err := b.Synchronize(0); !errors.Is(err, ErrLost) || errors.Is(err, ErrFault) ||
		!strings.Contains(err.Error(),
			"CUDA_ERROR_ECC_UNCORRECTABLE (214): uncorrectable ECC error encountered; "+
				"seen while synchronize was waiting for the device; what was") {
		t.Errorf("error %v", err) // no launch can have done it, so none need be looked for
	}
	if _, err := b.Alloc(1); !errors.Is(err, ErrLost) {
		t.Errorf("error %v", err)
	}
}

// A long window shows its ends.
func TestSuspects(t *testing.T) {
	var g launchLog
	for i := range 2000 {
		g.add("op"+itoa(i), "main.go:1", []string{"k"})
	}
	g.confirm(100)
	got := g.suspects(3)
	if !strings.HasPrefix(got, "; not known to be finished on stream 3: 1900 launches: op976 (k) at main.go:1, ") ||
		!strings.Contains(got, " op983 (k) at main.go:1, ..., op1992 (k)") ||
		!strings.HasSuffix(got, ", op1999 (k) at main.go:1") {
		t.Error(got)
	}
	g.confirm(2000)
	if got := g.suspects(3); got != "" {
		t.Error(got)
	}
}

// Every kind of plan, from Run to the driver, without Go memory; kernels_test.go looks at each plan in all its
// branches.
func TestLaunchAllocatesNothing(t *testing.T) {
	for _, l := range launches(t) {
		b := device(t)
		prepare(t, b, l)
		if n := testing.AllocsPerRun(20, func() {
			if err := b.Run(l); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations a launch", l.Op.Name, n)
		}
		if err := b.Synchronize(0); err != nil {
			t.Error(err)
		}
	}
}

// launches are launches of several kinds, for kernels that the bare emulator has by name only.
func launches(t testing.TB) []*kernels.Launch {
	fakeImages(t)
	symbols := []string{"noop_f32", "pointwise", "matmul_f32", "matmul_128_f32", "sum_rows_f32", "sum_columns_f32",
		"sum_strided_rows_f32", "softmax_f32", "softmax_long_f32", "norm_f32", "copy_b4", "copy_b16", "gather_b16"}
	fakeLibrary(t, &image{family: "kinds", target: "sm_90", symbols: symbols,
		code: coded("emu " + strings.Join(symbols, " "))})
	shaped := func(shape ...int) kernels.Arg {
		return kernels.Arg{Layout: kernels.Layout{Shape: shape,
			Strides: kernels.RowMajor(make([]int, len(shape)), shape)}}
	}
	ids := shaped(5)
	ids.DType = kernels.Int64
	row := func(name, kernel string, ints []int, out kernels.Arg, in ...kernels.Arg) *kernels.Launch {
		return &kernels.Launch{Op: &kernels.Op{Name: name, Kernel: kernel}, Ints: ints, Floats: []float64{1e-5}, In: in,
			Out: []kernels.Arg{out}}
	}
	plus := row("add", "", nil, shaped(4, 8), shaped(4, 8), shaped(4, 8))
	plus.Op.Expr = expr.Must("x + y", []string{"x", "y"}, nil)
	plus.Op.Name = "pointwise add"
	norm := row("rms_norm", "rms_norm", []int{1}, shaped(4, 8), shaped(4, 8), shaped(8))
	norm.Out = append(norm.Out, shaped(4))
	return []*kernels.Launch{
		row("noop", "noop", nil, shaped(1)),
		plus,
		row("sum of rows", "sum", []int{1}, shaped(3), shaped(3, 40000)),
		row("sum of columns", "sum", []int{0}, shaped(40), shaped(30, 40)),
		row("mean", "mean", []int{0, 2}, shaped(5), shaped(4, 5, 6)),
		row("softmax", "softmax", []int{1}, shaped(3, 100), shaped(3, 100)),
		row("softmax of long rows", "softmax", []int{1}, shaped(3, 2000), shaped(3, 2000)),
		row("matmul", "matmul", nil, shaped(2, 8, 9), shaped(2, 8, 5), shaped(5, 9)),
		row("large matmul", "matmul", nil, shaped(2000, 2000), shaped(2000, 5), shaped(5, 2000)),
		norm,
		row("cat", "cat", []int{0}, shaped(6, 4), shaped(2, 4), shaped(4, 4)),
		row("index_select", "index_select", []int{0}, shaped(5, 8), shaped(9, 8), ids),
	}
}

// prepare gives a launch operands, and a kernel to an expression.
func prepare(t testing.TB, b *Backend, l *kernels.Launch) {
	m := alloc(t, b, 16<<20)
	for _, as := range [2][]kernels.Arg{l.In, l.Out} {
		for i := range as {
			as[i].Buf = m
		}
	}
	if l.Op.Expr != nil {
		f, err := b.images.function(b, "pointwise")
		if err != nil {
			t.Fatal(err)
		}
		key, err := keyOf(l)
		if err != nil {
			t.Fatal(err)
		}
		b.images.expressions.add(key, &pointwiseFamily{vector: f, strided: f, elements: 4})
	}
}

// The path of a launch from Run to the driver and back; the driver forgets it.
func BenchmarkRun(b *testing.B) {
	b.Setenv("WEFT_EMU", "leaks=1,forget=1")
	for _, l := range launches(b) {
		b.Run(l.Op.Name, func(b *testing.B) {
			dev := device(b)
			prepare(b, dev, l)
			b.ReportAllocs()
			for b.Loop() {
				if err := dev.Run(l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func Example() {
	gpus, driver, err := Devices()
	if err != nil {
		fmt.Println(err) // such as: open: no NVIDIA driver found ...
		return
	}
	fmt.Println(driver)
	for _, g := range gpus {
		fmt.Println(g.Name, g.Generation(), g.Capability(), g.Check())
	}
}

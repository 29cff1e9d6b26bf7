//go:build emu && cgo && linux

package emu

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// pinned is pinned memory of the host.
func pinned(t *testing.T, d *Driver, n int) []float32 {
	t.Helper()
	p := new(unsafe.Pointer)
	must(t, d.Call("cuMemHostAlloc", p, 4*n, 0))
	return unsafe.Slice((*float32)(*p), n)
}

func newStream(t *testing.T, d *Driver) uintptr {
	t.Helper()
	s := new(uintptr)
	must(t, d.Call("cuStreamCreate", s, 1)) // CU_STREAM_NON_BLOCKING
	return *s
}

func newEvent(t *testing.T, d *Driver) uintptr {
	t.Helper()
	e := new(uintptr)
	must(t, d.Call("cuEventCreate", e, 0))
	return *e
}

// code is the number of a driver's error, 0 if there is none.
func code(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// fails holds an error to its code and a part of its text.
func fails(t *testing.T, err error, want int, text string) {
	t.Helper()
	if code(err) != want || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want code %d and %q", err, want, text)
	}
}

// fill4 queues a fill of 4-byte elements.
func fill4(t *testing.T, d *Driver, stream uintptr, p Ptr, value float32, n int) error {
	t.Helper()
	return d.Launch(function(t, d, "fill_b4"), [3]uint32{uint32(n/1024 + 1), 1, 1}, [3]uint32{256, 1, 1}, 0, stream, p,
		math.Float32bits(value), uint64(n))
}

// TestLate: work waits until the host does. What it will write is NaN before.
func TestLate(t *testing.T) {
	d := fresh(t, plain)
	s := newStream(t, d)
	host := pinned(t, d, 100)
	p, err := d.Alloc(400)
	must(t, err)
	must(t, fill4(t, d, s, p, 3, 100))
	must(t, d.Call("cuMemcpyDtoHAsync_v2", host, uintptr(p), 400, s))
	if host[0] == host[0] {
		t.Errorf("a copy that nobody waited for has brought %v", host[0])
	}
	if got := download[float32](t, d, p, 1)[0]; got == got {
		t.Errorf("the null stream waited for one that does not block: %v", got)
	}
	must(t, d.Call("cuStreamSynchronize", s))
	if host[0] != 3 || host[99] != 3 {
		t.Errorf("after the wait the copy holds %v", host[:3])
	}
}

// TestMissingWait: streams are not ordered without an event, and are with one.
func TestMissingWait(t *testing.T) {
	for _, waits := range []bool{false, true} {
		d := fresh(t, plain)
		a, b := newStream(t, d), newStream(t, d)
		host := pinned(t, d, 100)
		p, err := d.Alloc(400)
		must(t, err)
		must(t, fill4(t, d, a, p, 3, 100))
		if waits {
			e := newEvent(t, d)
			must(t, d.Call("cuEventRecord", e, a))
			must(t, d.Call("cuStreamWaitEvent", b, e, 0))
		}
		must(t, d.Call("cuMemcpyDtoHAsync_v2", host, uintptr(p), 400, b))
		must(t, d.Call("cuStreamSynchronize", b))
		if right := host[0] == 3; right != waits {
			t.Errorf("waits: %v, the copy holds %v", waits, host[0])
		}
	}
}

// TestNullStream orders with streams that block, in both directions.
func TestNullStream(t *testing.T) {
	d := fresh(t, plain)
	s := new(uintptr)
	must(t, d.Call("cuStreamCreate", s, 0))
	p := upload(t, d, make([]float32, 100))
	must(t, fill4(t, d, *s, p, 1, 100))
	must(t, fill4(t, d, 0, p, 2, 50))
	must(t, fill4(t, d, *s, p, 3, 25))
	must(t, d.Call("cuStreamSynchronize", *s))
	if got := download[float32](t, d, p, 100); got[0] != 3 || got[30] != 2 || got[70] != 1 {
		t.Errorf("got %v, %v, %v", got[0], got[30], got[70])
	}
}

// TestEarlyFree: freed memory that is still in use shows as NaN, and in the checked build as a report.
func TestEarlyFree(t *testing.T) {
	run := func(d *Driver) ([]float32, error) {
		s := newStream(t, d)
		host := pinned(t, d, 100)
		p, q := upload(t, d, random(100)), upload(t, d, make([]float32, 100))
		must(t, d.Call("cuMemcpyDtoDAsync_v2", uintptr(q), uintptr(p), 400, s))
		must(t, fill4(t, d, s, p, 1, 100))
		must(t, d.Call("cuMemcpyDtoHAsync_v2", host, uintptr(q), 400, s))
		must(t, d.Free(p))
		return host, d.Call("cuStreamSynchronize", s)
	}
	_, err := run(fresh(t, plain))
	fails(t, err, 700, "a copy of 400 bytes goes beyond its memory: freed memory")

	d := fresh(t, checkedDriver)
	p := upload(t, d, random(100))
	must(t, d.Synchronize())
	must(t, fill4(t, d, 0, p, 1, 100))
	must(t, d.Free(p))
	fails(t, d.Synchronize(), 700, "write out of bounds: 16 bytes at freed memory, or none, by thread 0 at copy.cu")
}

// TestPinned: an asynchronous copy reads pinned memory when it happens, which must be there then, and no other.
func TestPinned(t *testing.T) {
	d := fresh(t, plain)
	s := newStream(t, d)
	host, heap := pinned(t, d, 1), []float32{1}
	host[0] = 1
	p := upload(t, d, []float32{0})
	must(t, d.Synchronize())
	must(t, d.Call("cuMemcpyHtoDAsync_v2", uintptr(p), host, 4, s))
	host[0] = 2
	must(t, d.Call("cuStreamSynchronize", s))
	if a := download[float32](t, d, p, 1)[0]; a != 2 {
		t.Errorf("copied %v", a)
	}
	fails(t, d.Call("cuMemcpyHtoDAsync_v2", uintptr(p), heap, 4, s), 1,
		"asynchronous copy to the device of host memory that is not pinned")
	fails(t, d.Call("cuMemcpyDtoHAsync_v2", heap, uintptr(p), 4, s), 1, "not pinned")
	must(t, d.Call("cuMemcpyHtoDAsync_v2", uintptr(p), host, 4, s))
	must(t, d.Call("cuMemFreeHost", host))
	fails(t, d.Synchronize(), 700, "a copy to the device uses freed pinned memory")
}

// TestQueries come to an end, and events know their time.
func TestQueries(t *testing.T) {
	d := fresh(t, plain)
	s, start, end := newStream(t, d), newEvent(t, d), newEvent(t, d)
	p := upload(t, d, make([]float32, 100_000))
	must(t, d.Call("cuEventRecord", start, s))
	for range 3 {
		must(t, fill4(t, d, s, p, 1, 100_000))
	}
	must(t, d.Call("cuEventRecord", end, s))
	queries := 0
	for ; code(d.Call("cuEventQuery", end)) == 600; queries++ {
	}
	if queries != 5 {
		t.Errorf("%d queries found five pieces of work not ready", queries)
	}
	must(t, d.Call("cuStreamQuery", s))
	ms := new(float32)
	must(t, d.Call("cuEventElapsedTime", ms, start, end))
	if !(*ms > 0) {
		t.Errorf("%v ms", *ms)
	}
}

// TestFaultIsSticky until the device is reset.
func TestFaultIsSticky(t *testing.T) {
	d := fresh(t, plain)
	p := upload(t, d, make([]float32, 4))
	must(t, fill4(t, d, 0, p, 1, 4))
	must(t, d.Synchronize())
	module := compiled(t, d, "stop.cu",
		"#include \"prim_tma.cuh\"\nKERNEL(stop, 32, 1)() { trap(); }\nEXPORT(stop);\n")
	f, err := d.Function(module, "stop")
	must(t, err)
	must(t, d.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, 0))
	must(t, fill4(t, d, 0, p, 2, 4)) // a launch says nothing of the one before it
	fails(t, d.Synchronize(), 719,
		"unspecified launch failure (emulator: trap at stop.cu:2 [stop, block (0,0,0), thread (0,0,0)])")
	_, err = d.Alloc(4)
	fails(t, err, 719, "trap")
	must(t, d.Reset())
	p = upload(t, d, make([]float32, 4))
	must(t, fill4(t, d, 0, p, 2, 4))
	if got := download[float32](t, d, p, 4)[3]; got != 2 {
		t.Errorf("after the reset a fill gives %v", got)
	}
}

// TestFail: a function is refused, and a kernel fails, when told to.
func TestFail(t *testing.T) {
	d := fresh(t, plain, "fail", "cuMemAlloc:2:1")
	p := upload(t, d, make([]float32, 4))
	_, err := d.Alloc(4)
	fails(t, err, 1, "invalid argument")
	_, err = d.Alloc(4)
	must(t, err)
	must(t, d.Set("fail", "launch:2:716"))
	must(t, fill4(t, d, 0, p, 1, 4))
	must(t, d.Synchronize())
	must(t, fill4(t, d, 0, p, 1, 4))
	fails(t, d.Synchronize(), 716, "misaligned address")
}

// TestVirtual: what is mapped can be used when it has access, over several mappings in a row, and only there.
func TestVirtual(t *testing.T) {
	const unit = 2 << 20
	for _, d := range []*Driver{plain, checkedDriver} {
		fresh(t, d)
		addresses, handle := new(Ptr), new(uint64)
		must(t, d.Call("cuMemAddressReserve", addresses, 4*unit, 0, 0, 0))
		location := []int32{1, 0, 1, 0, 3} // pinned memory of device 0; from the third on, access to it
		at := func(n int) uintptr { return uintptr(*addresses) + uintptr(n)*unit }
		for _, n := range []int{0, 1} {
			must(t, d.Call("cuMemCreate", handle, unit, location, 0))
			must(t, d.Call("cuMemMap", at(n), unit, 0, *handle, 0))
			must(t, d.Call("cuMemRelease", *handle))
			if n == 0 {
				fails(t, fill8(d, at(n)), 1, "not inside one allocation")
			}
			must(t, d.Call("cuMemSetAccess", at(n), unit, location[2:], 1))
		}
		must(t, fill8(d, at(1)-4))
		fails(t, fill8(d, at(2)-4), 1, "not inside one allocation")
		must(t, fill4(t, d, 0, Ptr(at(1)-8), 3, 4)) // a kernel goes over them, too
		must(t, d.Synchronize())
		fails(t, d.Call("cuMemAddressFree", at(0), 4*unit), 1, "memory behind it")
		fails(t, d.Call("cuMemUnmap", at(0), unit/2), 1, "not the whole of mappings")
		must(t, d.Call("cuMemUnmap", at(0), unit))
		fails(t, fill8(d, at(1)-4), 1, "not inside one allocation")
		must(t, d.Call("cuMemUnmap", at(1), unit))
		must(t, d.Call("cuMemAddressFree", at(0), 4*unit))
	}
}

// fill8 fills 8 bytes.
func fill8(d *Driver, at uintptr) error { return d.Call("cuMemsetD8Async", at, 1, 8, 0) }

// TestRefusals: what a driver refuses at once.
func TestRefusals(t *testing.T) {
	d := fresh(t, plain)
	_, err := d.Alloc(1 << 40)
	fails(t, err, 2, "out of memory")
	_, err = d.Alloc(0)
	fails(t, err, 1, "an allocation of 0 bytes")
	fails(t, d.Free(12345), 1, "not the start of an allocation")
	f := function(t, d, "fill_b4")
	one := [3]uint32{1, 1, 1}
	fails(t, d.Launch(f, one, [3]uint32{512, 1, 1}, 0, 0, Ptr(0), uint32(0), uint64(0)), 1,
		"512 threads are more than the launch bounds of fill_b4, 256")
	fails(t, d.Launch(f, [3]uint32{0, 1, 1}, one, 0, 0, Ptr(0), uint32(0), uint64(0)), 1,
		"the grid is outside the limits")
	fails(t, d.Launch(f, one, [3]uint32{1, 1, 65}, 0, 0, Ptr(0), uint32(0), uint64(0)), 1,
		"the block is outside the limits")
	fails(t, d.Launch(f, one, one, 49<<10, 0, Ptr(0), uint32(0), uint64(0)), 1,
		"dynamic shared memory is above the limit")
	fails(t, d.Call("cuFuncSetAttribute", f, 8, 300<<10), 1, "over 232448")
	must(t, d.Call("cuFuncSetAttribute", f, 8, 49<<10))
	must(t, d.Launch(f, one, one, 49<<10, 0, Ptr(0), uint32(0), uint64(0)))
	m, err := d.Module([]byte("emu"))
	must(t, err)
	_, err = d.Function(m, "nothing")
	fails(t, err, 500, "no kernel nothing in the sources")
	_, err = d.Module([]byte("\x7fELF and then nothing of use, but long enough to be read as a header of an ELF file"))
	fails(t, err, 200, "neither a cubin nor PTX")
	fails(t, d.Call("cuStreamSynchronize", 123456), 400, "no such stream")
	fails(t, d.Call("cuMemcpyHtoD_v2", uintptr(upload(t, d, []float32{1})), make([]float32, 4), 16), 1,
		"not inside one allocation")
	must(t, d.Synchronize())
}

const ptx = `
.version 8.4
.target sm_80
.address_size 64
.visible .entry fill_b4(
	.param .u64 fill_b4_param_0
)
.maxntid 128, 1, 1
{
	ret;
}
`

// TestPTX: a text for the device's capability is read for names and limits.
func TestPTX(t *testing.T) {
	d := fresh(t, plain)
	m, err := d.Module([]byte(ptx))
	must(t, err)
	f, err := d.Function(m, "fill_b4")
	must(t, err)
	threads := new(int32)
	must(t, d.Call("cuFuncGetAttribute", threads, 0, f))
	if *threads != 128 {
		t.Errorf("%d threads", *threads)
	}
	_, err = d.Function(m, "copy_b4")
	fails(t, err, 500, "no kernel copy_b4 in the image")
	must(t, d.Set("capability", "75"))
	_, err = d.Module([]byte(ptx))
	fails(t, err, 218, "the PTX is for sm_80")
}

// TestDevices: no device, and several.
func TestDevices(t *testing.T) {
	path, err := Build(Plain)
	must(t, err)
	text, err := os.ReadFile(path)
	must(t, err)
	copied := filepath.Join(t.TempDir(), "libcuda_copy.so") // loads beside the other
	must(t, os.WriteFile(copied, text, 0o777))
	d, err := Load(copied)
	must(t, err)
	must(t, d.Set("devices", "0"))
	fails(t, d.Call("cuInit", 0), 100, "no CUDA-capable device")
	must(t, d.Set("devices", "2"))
	must(t, d.Call("cuInit", 0))
	n := new(int32)
	must(t, d.Call("cuDeviceGetCount", n))
	if *n != 2 {
		t.Errorf("%d devices", *n)
	}
	must(t, d.Call("cuDeviceCanAccessPeer", n, 0, 1))
	if *n != 1 {
		t.Error("no access to a peer")
	}
	fails(t, d.Call("cuMemAlloc_v2", new(Ptr), 4), 201, "invalid device context")
}

// TestNVRTC compiles text through the stand-in of NVRTC.
func TestNVRTC(t *testing.T) {
	d := fresh(t, plain)
	path, err := Build(Plain)
	must(t, err)
	_, nvrtc := Plain.Libraries()
	n, err := Load(filepath.Join(filepath.Dir(path), nvrtc))
	must(t, err)
	compile := func(text string, header ...string) ([]byte, string, error) {
		program, size := new(uintptr), new(uint64)
		var texts, names [1]*byte
		for _, h := range header {
			texts[0], names[0] = &append([]byte(h), 0)[0], &[]byte("header.cuh\x00")[0]
		}
		var pins runtime.Pinner
		defer pins.Unpin()
		pins.Pin(texts[0])
		pins.Pin(names[0])
		must(t, n.Call("nvrtcCreateProgram", program, text, "three.cu", len(header), &texts, &names))
		defer n.Call("nvrtcDestroyProgram", program)
		err := n.Call("nvrtcCompileProgram", *program, 0, 0)
		must(t, n.Call("nvrtcGetProgramLogSize", *program, size))
		log := make([]byte, *size)
		must(t, n.Call("nvrtcGetProgramLog", *program, log))
		must(t, n.Call("nvrtcGetCUBINSize", *program, size))
		image := make([]byte, *size)
		must(t, n.Call("nvrtcGetCUBIN", *program, image))
		return image, string(log), err
	}
	// The second image may be kept from the first; the third has another header.
	for _, want := range []float32{3, 3, 4} {
		image, log, err := compile("#include \"prim.cuh\"\n#include \"header.cuh\"\nKERNEL(three, 32, 1)(float* y) "+
			"{ y[threadIdx.x] = VALUE; }\nEXPORT(three);\n",
			fmt.Sprint("#define VALUE ", want, "\n"))
		if err != nil {
			t.Fatal(err, log)
		}
		m, err := d.Module(image)
		must(t, err)
		f, err := d.Function(m, "three")
		must(t, err)
		p := upload(t, d, make([]float32, 32))
		must(t, d.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, 0, p))
		if got := download[float32](t, d, p, 32)[31]; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if _, log, err := compile("nonsense"); code(err) != 6 || !strings.Contains(log, "three.cu:1") {
		t.Errorf("error %v, log %q", err, log)
	}
}

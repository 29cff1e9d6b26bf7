//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// secondDevice opens cuda:1 for a test, which closes it.
func secondDevice(t *testing.T) *Backend {
	t.Helper()
	dev, err := kernels.Open("cuda:1")
	if err != nil {
		t.Fatal(err)
	}
	return dev.(*Backend)
}

// Copies between two GPUs, which reach each other or do not, keep the order of the streams of both.
func TestCopyPeer(t *testing.T) {
	for _, how := range []string{"devices=2", "devices=2,apart=1"} {
		t.Run(how, func(t *testing.T) {
			needBare(t)
			smallRings(t, 1024, 50)
			t.Setenv("WEFT_EMU", "leaks=1,"+how)
			a := device(t)
			b := secondDevice(t)
			const n = 5000
			x, y := alloc(t, a, n), alloc(t, b, n)
			first, second, got := noise(1, n), noise(2, n), make([]byte, n)
			a.CopyIn(0, x, 0, first)
			if ok, err := b.CopyPeer(0, y, 0, x, 0, n); !ok || err != nil {
				t.Fatalf("memory of a GPU is refused: %v", err)
			}
			a.CopyIn(0, x, 0, second) // after the copy has read it
			b.CopyOut(0, got, y, 0)
			if err := b.Synchronize(0); err != nil || !bytes.Equal(got, first) {
				t.Errorf("%v; as the source was: %v, as it became: %v", err, bytes.Equal(got, first),
					bytes.Equal(got, second))
			}
			for range 3 {
				a.CopyPeer(0, x, 7, y, 100, 1000) // back, both ways in turn
				b.CopyPeer(0, y, 100, x, 7, 1000)
			}
			a.CopyOut(0, got, x, 0)
			if err := a.Synchronize(0); err != nil || !bytes.Equal(got[7:1007], first[100:1100]) ||
				!bytes.Equal(got[:7], second[:7]) || !bytes.Equal(got[1007:], second[1007:]) {
				t.Errorf("part of it: %v", err)
			}
			b.CopyPeer(0, y, 0, x, 0, n)
			a.Free(x) // waits for the other GPU
			if host, err := kernels.Open("cpu"); err != nil {
				t.Error(err)
			} else if m, _ := host.Alloc(4); taken(b.CopyPeer(0, y, 0, m, 0, 4)) {
				t.Error("memory of the host is taken for a GPU's")
			}
			b.CopyPeer(0, y, 0, alloc(t, a, n), 0, n) // in flight when both close
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Of two GPUs of which the driver says that they reach each other, and that do not, or deliver other bytes, copies go
// through the host, and that is logged once for each direction.
func TestCopyPeerLies(t *testing.T) {
	for how, why := range map[string]string{
		"lies=1":                           "other bytes arrived than were sent",
		"fail=cuCtxEnablePeerAccess:1:205": "(205)",
		"fail=cuMemcpyPeerAsync:1:1":       "(1)",
		"fail=cuMemcpyDtoHAsync:1:801":     "(801)",
		"fail=cuStreamCreate:3:801":        "(801)",
		"fail=cuEventCreate:2:801":         "(801)",
		"fail=cuMemAlloc:2:2":              "", // it is tried again
	} {
		t.Run(how, func(t *testing.T) {
			needBare(t)
			var logged strings.Builder
			was := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
			t.Cleanup(func() { slog.SetDefault(was) })
			t.Setenv("WEFT_EMU", "leaks=1,devices=2")
			a, b := device(t), secondDevice(t)
			const n = 5000
			x, y := alloc(t, a, n), alloc(t, b, n)
			content, got := noise(1, n), make([]byte, n)
			a.CopyIn(0, x, 0, content)
			t.Setenv("WEFT_EMU", "leaks=1,devices=2,"+how)
			for range 3 {
				b.Fill(y, 0)
				clear(got)
				if _, err := b.CopyPeer(0, y, 0, x, 0, n); err != nil {
					t.Fatal(err)
				}
				if err := b.Read(0, got, y, 0); err != nil || !bytes.Equal(got, content) {
					t.Fatalf("%v, and the bytes are the same: %v", err, bytes.Equal(got, content))
				}
			}
			direct, err := b.reaches(a)
			if err != nil || direct != (why == "") {
				t.Errorf("direct: %v, %v", direct, err)
			}
			if text := logged.String(); why != "" && (strings.Count(text, "\n") != 1 || !strings.Contains(text, why) ||
				!strings.Contains(text, "from=cuda:0 to=cuda:1")) || why == "" && text != "" {
				t.Errorf("logged %q", text)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func taken(ok bool, _ error) bool { return ok }

// One of two GPUs that copy through the host fails: that one is dead, the other goes on with all it has.
func TestCopyPeerFault(t *testing.T) {
	const kernel = "a kernel" // fails, or a function of the driver that returns 719
	for _, c := range []struct {
		name, fails string
		source      bool
	}{
		{"kernel of the target", kernel, false},
		{"kernel of the source", kernel, true},
		{"copy to the target", "cuMemcpyHtoDAsync", false},
		{"copy from the source", "cuMemcpyDtoHAsync", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			needBare(t)
			if !inChild(t, "WEFT_EMU=devices=2,apart=1") {
				return
			}
			smallRings(t, 1024, 50)
			fakeImages(t)
			a, b := device(t), secondDevice(t)
			const n = 5000 // goes round the ring
			x, y := alloc(t, a, n), alloc(t, b, n)
			dead, alive, of := b, a, x
			if c.source {
				dead, alive, of = a, b, y
			}
			content, got := noise(1, n), make([]byte, n)
			alive.CopyIn(0, of, 0, content)
			if c.fails == kernel {
				if err := run(dead, faultOp, map[*Backend]kernels.Buffer{a: x, b: y}[dead]); err != nil {
					t.Fatal(err)
				}
			} else {
				t.Setenv("WEFT_EMU", "devices=2,apart=1,fail="+c.fails+":1:719")
			}
			b.CopyPeer(0, y, 0, x, 0, n)
			if err := dead.Synchronize(0); !errors.Is(err, ErrFault) ||
				!strings.Contains(err.Error(), dead.Name()+": CUDA") {
				t.Errorf("%s failed: %v", dead.Name(), err)
			}
			if err := alive.fault.Load(); err != nil {
				t.Fatalf("%s did not fail: %v", alive.Name(), err)
			}
			if err := alive.Synchronize(0); err != nil && !(c.source && strings.Contains(err.Error(), a.Name())) {
				t.Errorf("%s did not fail: %v", alive.Name(), err) // that its data did not come it may say
			}
			for range 3 { // parts of the ring that the dead one had are used again
				clear(got)
				alive.CopyIn(0, of, 0, content)
				alive.CopyOut(0, got, of, 0)
				if err := alive.Synchronize(0); err != nil || !bytes.Equal(got, content) {
					t.Fatalf("%s goes on: %v, and its data are the same: %v", alive.Name(), err,
						bytes.Equal(got, content))
				}
			}
			if err := alive.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What the driver refuses in a copy through the host is an error of the GPU it was asked of, and no more than that.
func TestCopyPeerRefused(t *testing.T) {
	const refused = "CUDA_ERROR_INVALID_VALUE (1): invalid argument"
	for _, c := range []struct{ call, want string }{
		{"cuEventCreate:1", "making an event on cuda:1: " + refused},
		{"cuEventCreate:2", "making an event on cuda:0: " + refused},
		{"cuMemcpyDtoHAsync:1", "copying 256 bytes for cuda:1 on cuda:0: " + refused},
		{"cuMemcpyHtoDAsync:1", "copying 256 bytes from cuda:0 on cuda:1: " + refused},
		{"cuStreamWaitEvent:1", "copying 256 bytes from cuda:0 on cuda:1: " + refused},
	} {
		t.Run(c.call, func(t *testing.T) {
			needBare(t)
			smallRings(t, 1024, 50)
			t.Setenv("WEFT_EMU", "leaks=1,devices=2,apart=1")
			a, b := device(t), secondDevice(t)
			x, y := alloc(t, a, 1000), alloc(t, b, 1000)
			a.Fill(x, 1)
			t.Setenv("WEFT_EMU", "leaks=1,devices=2,apart=1,fail="+c.call+":1")
			if _, err := b.CopyPeer(0, y, 0, x, 0, 1000); !errors.Is(err, kernels.ErrDevice) ||
				errors.Is(err, ErrLost) || errors.Is(err, ErrFault) || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			got := make([]byte, 1000)
			b.CopyPeer(0, y, 0, x, 0, 1000)
			b.CopyOut(0, got, y, 0)
			if err := errors.Join(b.Synchronize(0), a.Synchronize(0)); err != nil ||
				!bytes.Equal(got, bytes.Repeat([]byte{1}, 1000)) {
				t.Errorf("the copy is not possible later: %v", err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What has been queued of a copy through the host that fails halfway does not meet the next copy.
func TestCopyPeerFailsHalfway(t *testing.T) {
	needBare(t)
	smallRings(t, 1024, 1<<20)
	for _, fails := range []string{"cuEventRecord:1", "cuEventRecord:2", "cuStreamWaitEvent:1"} {
		t.Setenv("WEFT_EMU", "leaks=1,devices=2,apart=1")
		a, b := device(t), secondDevice(t)
		x, y, z := alloc(t, a, 256), alloc(t, b, 256), alloc(t, a, 256)
		a.Fill(x, 1)
		a.Fill(z, 2)
		if err := a.Synchronize(0); err != nil {
			t.Fatal(err)
		}
		t.Setenv("WEFT_EMU", "leaks=1,devices=2,apart=1,fail="+fails+":1")
		if _, err := b.CopyPeer(0, y, 0, x, 0, 256); !errors.Is(err, kernels.ErrDevice) {
			t.Errorf("error %v", err)
		}
		got := make([]byte, 256)
		for range 8 { // round the ring
			a.CopyOut(1, got, z, 0)
		}
		for _, id := range []kernels.Stream{1, 0} {
			if err := a.streams.get(id).wait("test"); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Synchronize(1); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{2}, 256)) {
			t.Errorf("%s failed: another copy arrived, %v", fails, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What other CUDA code does with the context of a thread does not matter.
func TestOtherContext(t *testing.T) {
	needBare(t)
	t.Setenv("WEFT_EMU", "leaks=1,devices=2")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, b := device(t), secondDevice(t)
	defer b.Close()
	a.Free(alloc(t, a, 4))
	t.Setenv("WEFT_EMU", "leaks=1,devices=2,memory=1000")
	other, rc := driver.Retain(1, false)
	if rc != driver.Success {
		t.Fatal(rc)
	}
	defer other.Release()
	other.Do(func() driver.Result { return driver.Success }) // it stays current on this thread
	alloc(t, a, 1000)
	alloc(t, b, 1000)
}

// A GPU is closed while another still reads from its pinned memory.
func TestCloseDuringPeerCopy(t *testing.T) {
	fakeImages(t)
	t.Setenv("WEFT_EMU", "leaks=1,devices=2,apart=1")
	a, b := device(t), secondDevice(t)
	x, y := alloc(t, a, 100), alloc(t, b, 100)
	a.Fill(x, 3)
	if err := run(a, noopOp, x); err != nil { // loads a module
		t.Fatal(err)
	}
	b.CopyPeer(0, y, 0, x, 0, 100)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	got := make([]byte, 100)
	if err := b.Read(0, got, y, 0); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{3}, 100)) {
		t.Errorf("%v, %v", got, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// A range grows where it is: what lies there stays.
func TestRange(t *testing.T) {
	needFake(t)
	t.Setenv("FAKE_CUDA", "leaks=1,memory=10000000")
	b := device(t)
	r, err := b.Reserve(20e6)
	if err != nil {
		t.Fatal(err)
	}
	if r.Mapped() != 0 || r.Buffer().Bytes() != 20<<20 {
		t.Errorf("%d of %d bytes", r.Mapped(), r.Buffer().Bytes())
	}
	if err := r.Grow(100); err != nil || r.Mapped() != 2<<20 {
		t.Fatalf("%d bytes: %v", r.Mapped(), err)
	}
	want := noise(1, 2<<20)
	b.CopyIn(0, r.Buffer(), 0, want)
	if err := errors.Join(r.Grow(2<<20), r.Grow(5e6)); err != nil || r.Mapped() != 6<<20 {
		t.Fatalf("%d bytes: %v", r.Mapped(), err)
	}
	b.CopyIn(0, r.Buffer(), 2<<20, want)
	got := make([]byte, 4<<20)
	b.CopyOut(0, got, r.Buffer(), 0)
	if err := b.Synchronize(0); err != nil || !bytes.Equal(got[:2<<20], want) || !bytes.Equal(got[2<<20:], want) {
		t.Errorf("content differs: %v", err)
	}
	if err := b.CopyIn(0, r.Buffer(), 7<<20, make([]byte, 10)); !errors.Is(err, kernels.ErrDevice) {
		t.Errorf("a copy to where no memory is: %v", err)
	}
	for _, n := range []int{12e6, 30e6} {
		if err := r.Grow(n); !errors.Is(err, kernels.ErrMemory) || r.Mapped() != 6<<20 {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	b.CopyIn(0, r.Buffer(), 0, want) // Free waits
	if err := r.Free(); err != nil {
		t.Error(err)
	}
	if r, err := b.Reserve(1); err != nil || r.Grow(1) != nil { // Close frees it
		t.Error(err)
	}
}

// What is captured runs when the graph is launched, each time anew.
func TestCapture(t *testing.T) {
	fakeImages(t)
	b := device(t)
	m := alloc(t, b, 12)
	put := func(x ...float32) {
		var v []byte
		for _, x := range x {
			v = binary.LittleEndian.AppendUint32(v, math.Float32bits(x))
		}
		b.CopyIn(0, m, 0, v)
	}
	sum := func() float32 {
		v := make([]byte, 4)
		b.CopyOut(0, v, m, 0)
		if err := b.Synchronize(0); err != nil {
			t.Fatal(err)
		}
		return math.Float32frombits(binary.LittleEndian.Uint32(v))
	}
	add := &kernels.Launch{Op: addOp, Out: []kernels.Arg{vector(m, 0, 1)}, In: []kernels.Arg{vector(m, 0, 1), vector(m, 1, 1)}}
	put(1, 10)
	if err := b.Run(add); err != nil { // loads the kernel
		t.Fatal(err)
	}
	g, err := b.Capture(0, func() error {
		for range markEvery + 1 {
			if err := b.Run(add); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := sum(); v != 11 {
		t.Errorf("%v: what is captured ran", v)
	}
	for range 2 {
		if err := g.Launch(0); err != nil {
			t.Error(err)
		}
	}
	if v := sum(); v != 11+2*10*(markEvery+1) {
		t.Errorf("%v after two launches", v)
	}
	g.Free()
	refused := errors.New("no")
	if _, err := b.Capture(0, func() error { return refused }); err != refused {
		t.Errorf("error %v", err)
	}
	if _, err := b.Capture(0, func() error { _, err := b.Alloc(4); return err }); err == nil || !strings.HasSuffix(err.Error(), "CUDA error (900)") {
		t.Errorf("memory is taken during a capture: %v", err)
	}
	for what, f := range map[string]func() error{
		"copy in":  func() error { return b.CopyIn(0, m, 0, make([]byte, 4)) },
		"copy out": func() error { return b.CopyOut(0, make([]byte, 4), m, 0) },
	} {
		if _, err := b.Capture(0, f); !errors.Is(err, kernels.ErrDevice) || !strings.Contains(err.Error(), "a stream that is captured takes no copies") {
			t.Errorf("%s: %v", what, err)
		}
	}
	func() {
		defer func() { recover() }()
		b.Capture(0, func() error { panic("of the program") })
	}()
	if err := b.Run(add); err != nil || sum() != 21+2*10*(markEvery+1) {
		t.Errorf("the stream is not as before: %v", err)
	}
}

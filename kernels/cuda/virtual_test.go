//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"errors"
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

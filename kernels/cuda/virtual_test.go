//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// Memory is mapped to parts of a range, and what is there stays when other parts come and go. A copy may go over
// several of them. A hundredth of the memory is left to the driver.
func TestRange(t *testing.T) {
	needBare(t)
	t.Setenv("WEFT_EMU", "leaks=1,memory=10500000")
	b := device(t)
	r, err := b.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	if r.Granularity() != 2*mib || r.Buffer().Bytes() < 2*b.GPU().Memory {
		t.Errorf("%d bytes of addresses in pieces of %d", r.Buffer().Bytes(), r.Granularity())
	}
	if err := errors.Join(r.Map(0, 2*mib), r.Map(4*mib, 2*mib), r.Map(2*mib, 2*mib)); err != nil {
		t.Fatal(err)
	}
	want, got := noise(1, 3*mib), make([]byte, 3*mib)
	b.CopyIn(0, r.Buffer(), mib, want)
	b.CopyOut(0, got, r.Buffer(), mib)
	if err := b.Synchronize(0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("content differs: %v", err)
	}
	if err := r.Map(6*mib, 4*mib); !errors.Is(err, kernels.ErrMemory) {
		t.Errorf("more than there is: %v", err)
	}
	b.CopyIn(0, r.Buffer(), 2*mib, want[:2*mib]) // Unmap waits
	if err := r.Unmap(2*mib, 2*mib); err != nil {
		t.Error(err)
	}
	if err := b.CopyIn(0, r.Buffer(), 3*mib, make([]byte, 10)); !errors.Is(err, kernels.ErrDevice) {
		t.Errorf("a copy to where no memory is: %v", err)
	}
	b.CopyOut(0, got[:mib], r.Buffer(), mib)
	if err := b.Synchronize(0); err != nil || !bytes.Equal(got[:mib], want[:mib]) {
		t.Errorf("what stayed differs: %v", err)
	}
	half := r.Buffer().Slice(nil, mib, mib)
	b.CopyOut(0, got[:10], half, 5)
	if err := b.Synchronize(0); err != nil || !bytes.Equal(got[:10], want[5:15]) || half.Bytes() != mib {
		t.Errorf("a slice: %v", err)
	}
	if err := r.Map(2*mib, 2*mib); err != nil { // Close gives all of it back
		t.Error(err)
	}
}

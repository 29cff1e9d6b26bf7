//go:build !race

package cpu

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// resident is how many bytes of memory the process has.
func resident(t *testing.T) (bytes int) {
	t.Helper()
	var size int
	statm, err := os.ReadFile("/proc/self/statm")
	if _, scan := fmt.Sscan(string(statm), &size, &bytes); err != nil || scan != nil {
		t.Fatal(err, scan)
	}
	return bytes * os.Getpagesize()
}

func reserve(t *testing.T) kernels.Range {
	t.Helper()
	r, err := Backend{}.Reserve()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("addresses are limited")
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func bytesAt(r kernels.Range, off, n int) []byte { return r.Buffer().Slice(nil, off, n).(*Mem).Data() }

// What is mapped takes memory when it is written, gives it back when it is unmapped, and then reads as zeros, which is
// what slices of it find, too.
func TestAddresses(t *testing.T) {
	const n = 64 << 20
	r := reserve(t)
	before, counted := resident(t), inRanges.Load()
	for _, off := range []int{0, n} {
		if err := r.Map(off, n); err != nil {
			t.Fatal(err)
		}
	}
	if got := inRanges.Load() - counted; got != 2*n {
		t.Errorf("%d bytes are counted as mapped", got)
	}
	data := bytesAt(r, 0, 2*n)
	for i := range data {
		if data[i] != 0 {
			t.Fatalf("byte %d is %d", i, data[i])
		}
		data[i] = 7
	}
	if got := resident(t) - before; got < 2*n-n/4 {
		t.Errorf("%d bytes were written, the process has %d more", 2*n, got)
	}
	if err := r.Unmap(0, n); err != nil {
		t.Fatal(err)
	}
	if got := resident(t) - before; got > n+n/4 {
		t.Errorf("after half was given back the process has %d bytes more", got)
	}
	if inRanges.Load() != counted+n {
		t.Errorf("%d bytes are counted as mapped", inRanges.Load()-counted)
	}
	for i, x := range data {
		if want := byte(i / n * 7); x != want {
			t.Fatalf("byte %d is %d, want %d", i, x, want)
		}
	}
	runtime.KeepAlive(r)
}

// What is mapped counts, and what there is no room for is refused.
func TestAddressesRoom(t *testing.T) {
	r := reserve(t)
	leave(t, 256<<20)
	all, free := 0, Free()
	for ; r.Map(all, 32<<20) == nil; all += 32 << 20 {
		if all > 512<<20 {
			t.Fatal("more than there is room for")
		}
	}
	if all < 128<<20 || free-Free() < all-16<<20 {
		t.Errorf("%d bytes were mapped; %d were free, %d are", all, free, Free())
	}
	if err := r.Map(all, 32<<20); !errors.Is(err, kernels.ErrMemory) {
		t.Errorf("there is no room, and the error is %v", err)
	}
	if _, err := (Backend{}).Alloc(64 << 20); !errors.Is(err, kernels.ErrMemory) {
		t.Errorf("Go memory beside it: %v", err)
	}
	if err := r.Unmap(0, 32<<20); err != nil {
		t.Fatal(err)
	}
	if err := r.Map(0, 32<<20); err != nil {
		t.Errorf("after as much was given back: %v", err)
	}
}

// Addresses that nobody refers to give their memory back and serve again, empty. A slice of them stays readable.
func TestAddressesDropped(t *testing.T) {
	const n = 32 << 20
	var old []byte
	counted := inRanges.Load()
	func() {
		r := reserve(t)
		if err := r.Map(0, n); err != nil {
			t.Fatal(err)
		}
		old = bytesAt(r, 0, n)
		old[n-1] = 7
	}()
	Collect()
	if got := inRanges.Load(); got > counted {
		t.Fatalf("%d bytes are counted as mapped", got-counted)
	}
	if old[n-1] != 0 {
		t.Error("memory was not given back")
	}
	idleMu.Lock()
	unused := len(idle)
	idleMu.Unlock()
	r := reserve(t)
	idleMu.Lock()
	defer idleMu.Unlock()
	if len(idle) != unused-1 {
		t.Errorf("of %d ranges %d are left after one was taken", unused, len(idle))
	}
	runtime.KeepAlive(r)
}

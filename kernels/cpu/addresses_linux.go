//go:build !race

package cpu

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weft-ml/weft/kernels"
)

// The race detector sees memory of Go's heap alone, so under it the memory pool has only that.

// addresses are a range of them, to parts of which memory is mapped: a segment of the memory pool. None is ever given
// back to the system, since slices of it may be around: who reads what is no longer mapped finds zeros.
type addresses struct{ *mapping }

// mapping is what remains of addresses that nobody refers to.
type mapping struct {
	memory []byte
	mapped int // bytes
}

var _ kernels.Reserver = Backend{}

var (
	idleMu sync.Mutex
	idle   []*mapping // of pools that are gone
)

// Reserve takes addresses for twice the memory that the process may have, so that there is room for what cannot be
// joined. Where addresses are limited (ulimit -v) it is [errors.ErrUnsupported].
func (Backend) Reserve() (kernels.Range, error) {
	if l, _ := spaceLimit(); l.bytes > 0 {
		return nil, errors.ErrUnsupported
	}
	m, err := mappingOf(2 * memoryLimit().bytes)
	if err != nil {
		return nil, errors.ErrUnsupported
	}
	r := &addresses{m}
	runtime.AddCleanup(r, func(m *mapping) {
		if m.unmap(m.mapped, m.memory) == nil {
			idleMu.Lock()
			defer idleMu.Unlock()
			idle = append(idle, m)
		}
	}, m)
	return r, nil
}

// mappingOf is a range of n bytes, or of more.
func mappingOf(n int) (*mapping, error) {
	idleMu.Lock()
	defer idleMu.Unlock()
	if i := slices.IndexFunc(idle, func(m *mapping) bool { return len(m.memory) >= n }); i >= 0 {
		m := idle[i]
		idle = slices.Delete(idle, i, i+1)
		return m, nil
	}
	all, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(all)))) & (hugePage - 1)
	memory := all[skip : skip+n : skip+n]
	adviseHuge(memory)
	return &mapping{memory: memory}, nil
}

// Buffer is the whole range.
func (r *addresses) Buffer() kernels.Buffer { return &Mem{r.memory} }

// Granularity is the size of a page.
func (r *addresses) Granularity() int { return os.Getpagesize() }

// Divisible is true: any page can be given back.
func (r *addresses) Divisible() bool { return true }

// Map lets n bytes from offset off on be used. They are 0, and take memory as they are written. If the process has no
// [Room] for them the error is of kind [kernels.ErrMemory].
func (r *addresses) Map(off, n int) error {
	refused, err := granted(n, false, func() error {
		err := unix.Mprotect(r.memory[off:off+n], unix.PROT_READ|unix.PROT_WRITE)
		if err == nil {
			r.mapped += n
			inRanges.Add(int64(n))
		}
		return err
	})
	if refused != nil {
		return kernels.Errorf(kernels.ErrMemory, "alloc", "%d bytes requested; the system says: %v", n, refused)
	}
	return err
}

// Unmap gives the memory of n bytes back to the system. The addresses stay readable.
func (r *addresses) Unmap(off, n int) error { return r.unmap(n, r.memory[off:off+n]) }

func (m *mapping) unmap(n int, memory []byte) error {
	m.mapped -= n
	inRanges.Add(int64(-n))
	if err := unix.Madvise(memory, unix.MADV_DONTNEED); err != nil {
		return kernels.Errorf(kernels.ErrDevice, "unmap", "%d bytes: %v", n, err)
	}
	return nil
}

package pool_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/kernels"
)

// heap is a source that takes memory from the Go heap.
type heap struct{}

type bytes []byte

func (b bytes) Bytes() int { return len(b) }

func (b bytes) Slice(_ kernels.Buffer, off, n int) kernels.Buffer { return b[off : off+n] }

func (heap) Alloc(n int) (kernels.Buffer, error) { return make(bytes, n), nil }
func (heap) Free(kernels.Buffer)                 {}

func Example() {
	p := pool.New(heap{}, 512<<20) // at most 512 MiB
	a, err := p.Alloc(100_000, pool.Owner{Op: "full"})
	if err != nil {
		fmt.Println(err)
	}
	b, _ := p.Alloc(150_000, pool.Owner{Op: "exp"})
	s := p.Stats()
	fmt.Println(a.Buf.Bytes(), "and", b.Buf.Bytes(), "bytes of", s.Reserved, "in", s.SourceAllocs, "segment")

	_, err = p.Alloc(511<<20, pool.Owner{})
	fmt.Println(errors.Is(err, kernels.ErrMemory))
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", ";\n"))
	// Output:
	// 100352 and 150016 bytes of 2097152 in 1 segment
	// true
	// alloc: 511.00 MiB (535822336 bytes) requested;
	// 244.50 KiB (250368 bytes) live, of which 0 bytes kept;
	// 2.00 MiB (2097152 bytes) reserved, of which 1.76 MiB (1846784 bytes) cached;
	// limit 512.00 MiB (536870912 bytes);
	// largest: 146.48 KiB of activations exp, 97.66 KiB of activations full
}

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

func (heap) Alloc(n int) (kernels.Buffer, error) { return make(bytes, n), nil }
func (heap) Free(kernels.Buffer)                 {}

func Example() {
	p := pool.New(heap{}, 1<<20) // at most 1 MiB
	a, err := p.Alloc(100_000, kernels.Activations)
	if err != nil {
		fmt.Println(err)
	}
	p.Free(a)

	b, _ := p.Alloc(101_000, kernels.Activations) // another size of the same class: served by the cache
	s := p.Stats()
	fmt.Println(b.Size(), "of", b.Buf.Bytes(), "bytes; cache hits:", s.Hits)

	_, err = p.Alloc(2<<20, kernels.Activations)
	fmt.Println(errors.Is(err, kernels.ErrMemory))
	fmt.Println(strings.ReplaceAll(err.Error(), ", ", ",\n"))
	// Output:
	// 101000 of 106496 bytes; cache hits: 1
	// true
	// alloc: 2.00 MiB (2097152 bytes) requested; 104.00 KiB (106496 bytes) live,
	// of which 1 blocks in steps and 0 bytes kept,
	// 0 bytes cached,
	// 104.00 KiB (106496 bytes) reserved,
	// limit 1.00 MiB (1048576 bytes)
}

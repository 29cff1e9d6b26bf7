package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// overlap is a pair of blocks that are alive at once and share bytes.
func overlap(blocks []Block, offsets []int, size int) error {
	for i, x := range blocks {
		if offsets[i] < 0 || offsets[i]%Align != 0 || offsets[i]+x.Size > size {
			return fmt.Errorf("block %d, %+v, at %d of %d", i, x, offsets[i], size)
		}
		for j, y := range blocks[:i] {
			if x.First <= y.Last && y.First <= x.Last && offsets[i] < offsets[j]+y.Size &&
				offsets[j] < offsets[i]+x.Size {
				return fmt.Errorf("%+v at %d and %+v at %d", x, offsets[i], y, offsets[j])
			}
		}
	}
	return nil
}

// TestPack: of random blocks no two overlap, and the whole is no smaller than what is alive, nor than twice that.
func TestPack(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		blocks := make([]Block, r.IntN(60))
		for i := range blocks {
			first, unit := r.IntN(100), []int{1, 10, 1e6}[seed%3]
			blocks[i] = Block{r.IntN(1 << r.IntN(20)), unit * first, unit * (first + r.IntN(1+r.IntN(40)))}
		}
		offsets, size := Pack(blocks)
		if err := overlap(blocks, offsets, size); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if live := Live(blocks); size < live || size > 2*live {
			t.Fatalf("seed %d: %d bytes, %d are alive", seed, size, live)
		}
	}
}

func TestPackSmall(t *testing.T) {
	for _, c := range []struct {
		blocks []Block
		size   int
	}{
		{nil, 0}, {[]Block{{0, 0, 0}}, 0}, {[]Block{{1, 0, 0}}, Align},
		{[]Block{{Align, 0, 1}, {Align, 1, 2}}, 2 * Align}, // both at moment 1
		{[]Block{{Align, 0, 1}, {Align, 2, 3}}, Align},
		{[]Block{{2 * Align, 0, 1}, {Align, 1, 4}, {Align, 2, 3}, {3 * Align, 5, 6}}, 3 * Align},
	} {
		offsets, size := Pack(c.blocks)
		if err := overlap(c.blocks, offsets, size); err != nil || size != c.size || Live(c.blocks) != c.size {
			t.Errorf("%v: %d bytes at %v, %d alive, want %d, %v", c.blocks, size, offsets, Live(c.blocks), c.size, err)
		}
	}
}

// memory is a buffer of tests.
type memory struct{ bytes int }

func (m *memory) Bytes() int { return m.bytes }

func (*memory) Slice(_ kernels.Buffer, _, n int) kernels.Buffer { return &memory{n} }

// Two results share their place in memory, since the first is read for the last time before the second is made.
func ExamplePack() {
	arg := func(m *memory) kernels.Arg {
		l := kernels.Layout{Shape: []int{256}, Strides: []int{1}}
		return kernels.Arg{Buf: m, DType: kernels.Float32, Layout: l}
	}
	w, x, y, z := &memory{1024}, &memory{1024}, &memory{1024}, &memory{1024}
	var t Trace
	t.Add(&kernels.Launch{In: []kernels.Arg{arg(w)}, Out: []kernels.Arg{arg(x)}})
	t.Add(&kernels.Launch{In: []kernels.Arg{arg(x), arg(w)}, Out: []kernels.Arg{arg(y)}})
	t.Add(&kernels.Launch{In: []kernels.Arg{arg(y)}, Out: []kernels.Arg{arg(z)}})
	offsets, size := Pack(t.Blocks())
	fmt.Println(t.Blocks(), size, offsets[0] == offsets[2])
	// Output:
	// [{1024 0 1} {1024 1 2} {1024 2 2}] 2048 true
}

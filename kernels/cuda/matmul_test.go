//go:build cuda && cgo && linux

package cuda

import (
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var (
	matmulOp = &kernels.Op{Name: "matmul", Kernel: "matmul", CPU: cpu.MatMul,
		Types: []kernels.DType{kernels.Float32, kernels.Float64}}
	linearOp = &kernels.Op{Name: "linear", Kernel: "matmul", CPU: cpu.Linear,
		Types: []kernels.DType{kernels.Float32, kernels.Float64}}
)

func TestMatMul(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(1)
	for i := range cases(240) {
		d := oneOf(r, kernels.Float32, kernels.Float32, kernels.Float64)
		m, n, k := r.IntN(50), r.IntN(50), oneOf(r, 0, 1, 15, 16, 17, 255, 256, 257, 300, 530, r.IntN(40))
		shapeA, shapeB, shape := []int{m, k}, []int{k, n}, []int{m, n}
		switch i % 6 {
		case 0: // a row
			shapeA, shape = shapeA[1:], shape[1:]
		case 1: // a column
			shapeB, shape = shapeB[:1], shape[:1]
		case 2:
			shapeA, shape = append([]int{2, 3}, shapeA...), append([]int{2, 3}, shape...)
		case 3:
			shapeA, shapeB, shape = append([]int{2, 1}, shapeA...), append([]int{2, 1, 3}, shapeB...),
				append([]int{2, 2, 3}, shape...)
		}
		sameAsCPU(t, b, &kernels.Launch{Op: matmulOp}, []value{r.operand(d, 0, shapeA...), r.operand(d, 0, shapeB...)},
			[]value{r.result(d, shape...)})
	}
}

// Tiles of products on 132 multiprocessors: of those of 64, each has so many at most, and of those of 128.
func TestMatMulTiles(t *testing.T) {
	for _, c := range []struct {
		m, n                uint32
		medium, large, want int
	}{
		{12288, 768, 18, 5, 128}, {12288, 2304, 53, 14, 128}, {12288, 3072, 70, 18, 128}, // GPT-2
		{768, 3072, 5, 2, 64}, {2304, 768, 4, 1, 128}, // gradients of weights
		{4096, 768, 6, 2, 64}, {4096, 2304, 18, 5, 128}, {3072, 1728, 10, 3, 64}, {3072, 1856, 11, 3, 128},
		{128, 128, 1, 1, 64}, {1024, 512, 1, 1, 64}, {1408, 1408, 4, 1, 128}, {1536, 1536, 5, 2, 64},
		{16, 100, 1, 1, 32}, {33, 100, 1, 1, 64}, {32, 50257, 6, 3, 64}, {50257, 32, 6, 3, 64},
	} {
		p := product{m: c.m, n: c.n}
		medium, large := ceilDiv(p.tiles(mediumTile, mediumTile), 132), ceilDiv(p.tiles(largeTile, largeTile), 132)
		if got := p.fastest(tiles[:], 1, 132).size; got != c.want || medium != c.medium || large != c.large {
			t.Errorf("[%d %d]: %d tiles of 64 and %d of 128, takes %d; want %v", c.m, c.n, medium, large, got, c)
		}
	}
}

// Products in large tiles.
func TestMatMulLarge(t *testing.T) {
	b := kernelDevice(t)
	defer func(n int) { tiles[0].time = n }(tiles[0].time)
	tiles[0].time = 0
	r := newFuzz(2)
	for range cases(32) {
		m, n, k := 129+r.IntN(150), 1+r.IntN(200), oneOf(r, 1, 16, 40, 257, 272, 513)
		d := kernels.Float32
		a, y := r.operand(d, 0, m, k), r.result(d, m, n)
		sameAsCPU(t, b, &kernels.Launch{Op: matmulOp}, []value{a, r.operand(d, 0, k, n)}, []value{y})
		sameAsCPU(t, b, &kernels.Launch{Op: linearOp}, []value{a, r.operand(d, 0, n, k), r.operand(d, 0, n)},
			[]value{y})
	}
}

// Products of medium tiles, at once and by chunks that are added, all or three at a time; chunks in large tiles, too.
func TestMatMulMedium(t *testing.T) {
	b := kernelDevice(t)
	was, limit, large := splitTiles, splitBytes, tiles[0].time
	defer func() { splitTiles, splitBytes, tiles[0].time = was, limit, large }()
	r := newFuzz(9)
	for i := range cases(32) {
		m, n, k := 1+r.IntN(150), 1+r.IntN(150), oneOf(r, 1, 16, 40, 257, 512, 700)
		splitTiles = i % 2 * 1000 // none, or all with three chunks
		splitBytes, tiles[0].time = limit, large
		if i%4 == 3 {
			splitBytes, k = 3*4*2*m*n, oneOf(r, 700, 769, 1000, 1700)
			tiles[0].time = i % 8 / 7 * large
		}
		d := kernels.Float32
		a, y := r.operand(d, 0, 2, m, k), r.result(d, 2, m, n)
		sameAsCPU(t, b, &kernels.Launch{Op: matmulOp}, []value{a, r.operand(d, 0, oneOf(r, 1, 2), k, n)}, []value{y})
		sameAsCPU(t, b, &kernels.Launch{Op: linearOp}, []value{a, r.operand(d, 0, n, k), r.operand(d, 0, n)},
			[]value{y})
	}
}

func TestLinear(t *testing.T) {
	b := kernelDevice(t)
	r := newFuzz(3)
	for i := range cases(160) {
		d := oneOf(r, kernels.Float32, kernels.Float64)
		m, n, k := r.IntN(40), 1+r.IntN(40), oneOf(r, 0, 1, 31, 32, 257, r.IntN(60))
		in := []value{r.operand(d, 0, 2, m, k), r.operand(d, 0, n, k), r.operand(d, 0, n)}
		sameAsCPU(t, b, &kernels.Launch{Op: linearOp}, in[:2+i%2], []value{r.result(d, 2, m, n)})
	}
}

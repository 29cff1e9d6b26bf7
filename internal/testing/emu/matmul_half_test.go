//go:build emu && cgo && linux

package emu

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"

	"github.com/weft-ml/weft/kernels"
)

// TestMatMulHalf: the emulator's tensor cores add in ascending k, in FP32. Then the result of every size, layout and
// path is one chain of additions, the bias, and one rounding, to the bit.
func TestMatMulHalf(t *testing.T) {
	eachBuild(t, func(t *testing.T, d *Driver, r *rand.Rand) {
		dtype := kernels.Float16
		if r.IntN(2) == 0 {
			dtype = kernels.BFloat16
		}
		m, n, k := 1+r.IntN(200), 1+r.IntN(200), 1+r.IntN(50)
		if r.IntN(2) == 0 {
			k = 60 + r.IntN(140) // more tiles than stages
		}
		if r.IntN(3) == 0 {
			m, n, k = (m+7)/8*8, (n+7)/8*8, (k+31)/32*32
		}
		if r.IntN(5) == 0 {
			m, n = 128*(1+r.IntN(2)), 128*(1+r.IntN(2)) // whole tiles
		}
		for _, layout := range r.Perm(4)[:2] {
			testMatMulHalf(t, d, r, mmaProducts, dtype, layout, m, n, k, 1+r.IntN(3)/2)
		}
		testMatMulHalf(t, d, r, mmaProducts, dtype, r.IntN(4), 1, 1, 1, 1)
		testMatMulHalf(t, d, r, mmaProducts, dtype, r.IntN(4), 3, 2, 0, 1)
		if d == plain && r.IntN(4) == 0 {
			// more rows of tiles than are computed together
			testMatMulHalf(t, d, r, mmaProducts, dtype, r.IntN(4), 9*128+5, 130, 33, 2)
		}
	})
}

// TestMatMulHopper: by wgmma the bits are the same here, where it adds in ascending k, too.
func TestMatMulHopper(t *testing.T) {
	eachBuild(t, func(t *testing.T, d *Driver, r *rand.Rand) {
		dtype := kernels.Float16
		if r.IntN(2) == 0 {
			dtype = kernels.BFloat16
		}
		m, n, k := 1+r.IntN(300), 8*(1+r.IntN(70)), 1+r.IntN(200)
		switch r.IntN(4) {
		case 0:
			k = []int{63, 64, 65, 128, 256, 320, 700}[r.IntN(7)] // as many steps as stages, more, fewer
		case 1:
			m, n, k = 128*(1+r.IntN(2)), 256*(1+r.IntN(2)), 64*(1+r.IntN(6)) // whole tiles
		}
		testMatMulHalf(t, d, r, hopperProducts, dtype, r.IntN(4), m, n, k, 1+r.IntN(3)/2)
		testMatMulHalf(t, d, r, hopperProducts, dtype, r.IntN(4), 1, 8, 1, 1)
		testMatMulHalf(t, d, r, hopperProducts, dtype, r.IntN(4), 3, 8, 0, 1)
		testMatMulHalf(t, d, r, hopperProducts, dtype, r.IntN(4), 70, 8, 520, 1) // parts that end in the last stage
		if d != plain {
			return
		}
		if r.IntN(4) == 0 {
			testMatMulHalf(t, d, r, hopperProducts, dtype, r.IntN(4), 9*128+5, 264, 33, 2)
		}
		two := *hopperProducts
		two.part = two.steps
		testMatMulHalf(t, d, r, &two, dtype, r.IntN(4), 1, 8, 65, 9) // more blocks of second parts than are under way
	})
}

// products16 are kernels of products in half precision: their tiles, blocks, and bytes of shared memory.
type products16 struct {
	name          string
	high, wide    int
	threads       uint32
	shared, steps int
	turns         int // of a tile
	part          int // k of a part; 0: any
}

var (
	mmaProducts    = &products16{"matmul_half_", 128, 128, 128, 0, 32, 1, 0}
	hopperProducts = &products16{"matmul_hopper_", 128, 256, 384, 229440, 64, 8, 0}
)

// half16 is a batch of matrices in half precision: values, where they lie, and what kernels read at once.
type half16 struct {
	tensor
	x, k, step int // strides, and that of the batch
	wide       bool
}

func (h *half16) at(batch, x, k int) float32 {
	i := h.arg.Offset + batch*h.step + x*h.x + k*h.k
	return half(h.arg.DType, uint16(h.data[2*i])|uint16(h.data[2*i+1])<<8)
}

func half(d kernels.DType, bits uint16) float32 {
	if d == kernels.Float16 {
		return float16.Frombits(bits).Float32()
	}
	return math.Float32frombits(uint32(bits) << 16)
}

func rounded(d kernels.DType, x float32) uint16 {
	if d == kernels.Float16 {
		return float16.Fromfloat32(x).Bits()
	}
	u := math.Float32bits(x)
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// halves16 makes an operand of `size` rows or columns and k steps, with k or the other as the faster dimension. Wide
// ones are aligned; others have odd pitches and offsets, and now and then gaps between elements.
func halves16(t *testing.T, d *Driver, r *rand.Rand, dtype kernels.DType, along, wide bool, batch, size,
	k int) *half16 {
	t.Helper()
	fast, slow := size, k
	if along {
		fast, slow = k, size
	}
	pitch, gap, offset := (fast+7)/8*8+8*r.IntN(2), 1, 8*r.IntN(2)
	if !wide {
		pitch, offset = fast+r.IntN(3), r.IntN(4)
		if r.IntN(4) == 0 {
			gap = 2 + r.IntN(2)
			pitch *= gap
		}
	}
	h := &half16{x: gap, k: pitch, step: (max(0, slow-1)*pitch + max(0, fast-1)*gap + 1 + 7) / 8 * 8, wide: wide}
	if along {
		h.x, h.k = pitch, gap
	}
	if r.IntN(3) == 0 {
		h.step = 0
	}
	var data []byte
	// Nothing lies behind the last element.
	for range offset + (batch-1)*h.step + max(0, slow-1)*pitch + max(0, fast-1)*gap + 1 {
		bits := rounded(dtype, float32(r.NormFloat64()))
		data = append(data, byte(bits), byte(bits>>8))
	}
	h.tensor = place(t, d, dtype, kernels.Layout{Offset: offset}, data)
	return h
}

func testMatMulHalf(t *testing.T, d *Driver, r *rand.Rand, by *products16, dtype kernels.DType, layout, m, n, k,
	batch int) {
	t.Helper()
	name := by.name + []string{"nn", "nt", "tn", "tt"}[layout] +
		map[kernels.DType]string{kernels.Float16: "_f16", kernels.BFloat16: "_bf16"}[dtype]
	hopper := by.name == hopperProducts.name
	a := halves16(t, d, r, dtype, layout < 2, hopper || r.IntN(2) == 0, batch, m, k)
	b := halves16(t, d, r, dtype, layout%2 == 1, hopper || r.IntN(2) == 0, batch, n, k)
	wide := uint32(0)
	if a.wide {
		wide |= 1
	}
	if b.wide {
		wide |= 2
	}
	pitch := n + r.IntN(3)
	if hopper || r.IntN(2) == 0 {
		pitch, wide = (n+7)/8*8, wide|4
	}
	const guard = 0x5a
	out := bytes.Repeat([]byte{guard}, 2*batch*m*pitch+16)
	c := upload(t, d, out)
	p := product{c, a.first(), b.first(), 0, uint32(m), uint32(n), uint32(k), uint32(pitch), int64(a.x), int64(a.k),
		int64(b.k), int64(b.x), 0}
	var bias *half16
	if r.IntN(2) == 0 {
		bias = halves16(t, d, r, dtype, r.IntN(2) == 0, r.IntN(2) == 0, 1, n, 1)
		p.bias, p.biasStep = bias.first(), int64(bias.x)
	}
	tiles := (n + by.wide - 1) / by.wide * ((m + by.high - 1) / by.high) * batch
	parts := struct { // of k; one, or, always if k is large, several of one, two or four steps
		sums, turns Ptr
		count, k    uint32
	}{count: 1, k: uint32(k)}
	each := cmp.Or(by.part, by.steps<<r.IntN(3))
	if k > each && (by.part > 0 || k > 8*by.steps || r.IntN(2) == 0) {
		parts.count, parts.k = uint32((k+each-1)/each), uint32(each)
		parts.sums = upload(t, d, bytes.Repeat([]byte{guard}, 4*by.high*by.wide*tiles))
		parts.turns = upload(t, d, make([]byte, 4*(tiles*by.turns+1)))
	}
	grid := [3]uint32{uint32(tiles) * parts.count, 1, 1}
	shape := appendShape64(nil, []int{batch}, []int{a.step}, []int{b.step})
	f, block := function(t, d, name), [3]uint32{by.threads, 1, 1}
	if !hopper {
		must(t, d.Launch(f, grid, block, 0, 0, p, shape, wide, parts))
	} else {
		if parts.count == 1 { // a block computes several tiles
			grid[0] = min(grid[0], 1+uint32(r.IntN(4)))
		}
		must(t, d.Call("cuFuncSetAttribute", f, 8, by.shared))
		must(t, d.Launch(f, grid, block, by.shared, 0, p, shape, parts, uint32(tiles)))
	}

	what := fmt.Sprintf("%s of %d times %dx%dx%d, pitches %d %d %d, wide %d", name, batch, m, n, k, a.x+a.k, b.x+b.k,
		pitch, wide)
	got := download[uint16](t, d, c, len(out)/2)
	for i := range got {
		row, j := i/pitch, i%pitch
		want := uint16(guard | guard<<8)
		if row < batch*m && j < n {
			sum := float32(0)
			for from := 0; from < k; from += int(parts.k) {
				part := float32(0)
				for z := from; z < min(k, from+int(parts.k)); z++ { // the products are exact
					part += float32(a.at(row/m, row%m, z) * b.at(row/m, j, z))
				}
				sum += part
			}
			if bias != nil {
				sum += bias.at(0, j, 0)
			}
			want = rounded(dtype, sum)
		}
		if got[i] != want {
			t.Fatalf("%s: element [%d %d] is %x (%v), want %x (%v)", what, row, j, got[i], half(dtype, got[i]), want,
				half(dtype, want))
		}
	}
}

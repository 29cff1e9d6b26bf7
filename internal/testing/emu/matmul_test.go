//go:build emu && cgo && linux

package emu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// product is the struct of matmul.cu.
type product struct {
	c, a, b, bias                          Ptr
	m, n, k, cRow                          uint32
	aRow, aColumn, bRow, bColumn, biasStep int64
}

func TestMatMul(t *testing.T) {
	eachBuild(t, func(t *testing.T, d *Driver, r *rand.Rand) {
		for _, tile := range []int{32, 64, 128} {
			m, n, k := 1+r.IntN(2*tile), 1+r.IntN(2*tile), 1+r.IntN(80)
			if r.IntN(2) == 0 {
				k = 200 + r.IntN(500) // several chunks
			}
			if r.IntN(3) == 0 {
				m, n, k = (m+3)/4*4, (n+3)/4*4, (k+15)/16*16
			}
			if r.IntN(5) == 0 {
				m, n = tile*(1+r.IntN(2)), tile*(1+r.IntN(2)) // whole tiles
			}
			testMatMul(t, d, r, tile, m, n, k, 1+r.IntN(3)/2)
		}
		testMatMul(t, d, r, 32, 1, 1, 1, 1)
		testMatMul(t, d, r, 64, 1, 1, 1, 1)
		testMatMul(t, d, r, 128, 1, 1, 1, 1)
		testMatMul(t, d, r, 128, 3, 2, 0, 1)
	})
}

func testMatMul(t *testing.T, d *Driver, r *rand.Rand, tile, m, n, k, batch int) {
	t.Helper()
	a, aBatch := matrix(t, d, r, batch, m, k)
	b, bBatch := matrix(t, d, r, batch, k, n)
	y := contiguous(t, d, f32, []int{batch, m, n})
	p := product{y.ptr, a.first(), b.first(), 0, uint32(m), uint32(n), uint32(k), uint32(n),
		int64(a.arg.Strides[1]), int64(a.arg.Strides[2]), int64(b.arg.Strides[1]), int64(b.arg.Strides[2]), 0}
	var bias Ptr
	if batch == 1 && r.IntN(2) == 0 { // as a linear layer: B is transposed, and there is a bias
		step := r.IntN(3)
		added := place(t, d, f32, kernels.Layout{Shape: []int{n}, Strides: []int{step}},
			encode(random32(r, n*step+1, false), f32))
		bias = added.ptr
		p.bias, p.biasStep = bias, int64(step)
		x, w, to := a.arg, b.arg, y.arg
		x.Shape, x.Strides = x.Shape[1:], x.Strides[1:]
		w.Shape, w.Strides = []int{n, k}, []int{b.arg.Strides[2], b.arg.Strides[1]}
		to.Shape, to.Strides = to.Shape[1:], to.Strides[1:]
		cpu.Linear(&kernels.Launch{In: []kernels.Arg{x, w, added.arg}, Out: []kernels.Arg{to}})
	} else {
		cpu.MatMul(&kernels.Launch{In: []kernels.Arg{a.arg, b.arg}, Out: []kernels.Arg{y.arg}})
	}
	name, threads := "matmul_f32", uint32(256)
	switch tile {
	case 64:
		name, threads = "matmul_64_f32", 128
	case 128:
		name = "matmul_128_f32"
	}
	kernel := function(t, d, name)
	grid := [3]uint32{uint32((n + tile - 1) / tile * ((m + tile - 1) / tile) * batch), 1, 1}
	launch := func() {
		must(t, d.Launch(kernel, grid, [3]uint32{threads, 1, 1}, 0, 0, p,
			appendShape64(nil, []int{batch}, []int{aBatch}, []int{bBatch})))
	}
	if chunks := (k + 255) / 256; tile > 32 && chunks > 1 && r.IntN(2) == 0 { // a plane of results for each
		name += " and matmul_planes_f32"
		planes := contiguous(t, d, f32, []int{chunks, batch, m, n})
		p.c, p.bias = planes.ptr, 0
		grid[1] = uint32(chunks)
		launch()
		must(t, d.Launch(function(t, d, "matmul_planes_f32"), [3]uint32{uint32(batch*m*n+255) / 256, 1, 1},
			[3]uint32{256, 1, 1}, 0, 0, y.ptr, planes.ptr, bias, p.biasStep, uint64(batch*m*n), uint32(n),
			uint32(chunks), uint32(0)))
	} else {
		launch()
	}
	compare(t, d, fmt.Sprintf("%s of %dx%dx%d, %v by %v", name, m, n, k, a.arg.Layout, b.arg.Layout), y)
}

// matrix is a batch of matrices in a random layout, and the step of the batch. Now and then products underflow, so that
// the signs of zeros show.
func matrix(t *testing.T, d *Driver, r *rand.Rand, batch, rows, columns int) (tensor, int) {
	pad := r.IntN(2) * r.IntN(4)
	row, column := columns+pad, 1
	if r.IntN(2) == 0 {
		row, column = 1, rows+pad
	}
	if r.IntN(5) == 0 {
		gaps := 2 + r.IntN(3)
		row, column = row*gaps, column*gaps
	}
	size := max(0, rows-1)*row + max(0, columns-1)*column + 1
	step, offset := size, r.IntN(2)*r.IntN(4)
	if r.IntN(3) == 0 {
		step = 0
	}
	data := random32(r, offset+size*batch, false)
	if r.IntN(3) == 0 {
		for i := range data {
			data[i] *= 0x1p-75
		}
	}
	l := kernels.Layout{Shape: []int{batch, rows, columns}, Strides: []int{step, row, column}, Offset: offset}
	return place(t, d, f32, l, encode(data, f32)), step
}

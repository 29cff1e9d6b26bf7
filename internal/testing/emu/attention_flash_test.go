//go:build emu && cgo && linux

package emu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// heads and attention are the structs of attention.cuh.
type heads struct {
	data                     Ptr
	batch, head, row, column int64
}

type attention struct {
	q, k, v, y, g, dq, dk, dv, mask, kept  heads
	m, r, dot, scratch                     Ptr
	count                                  uint64
	heads, t, s, d, e, last, group, cached uint32
	first                                  int32
	factor                                 float64
	scale                                  float32
	_                                      uint32
}

// TestFlashSchedules: the bits of results do not depend on the order of threads and copies. Package ops compares them
// with float64.
func TestFlashSchedules(t *testing.T) {
	first := map[int][]uint16{}
	number := 0
	eachBuild(t, func(t *testing.T, d *Driver, _ *rand.Rand) {
		c := number % 9
		number++
		dtype := []kernels.DType{kernels.Float16, kernels.BFloat16}[c%2]
		z := []attention{{t: 130, s: 150, d: 64, last: 20}, {t: 40, s: 200, d: 128, last: 200},
			{t: 200, s: 70, d: 64, last: 70}, {t: 100, s: 100, d: 128}, {t: 140, s: 150, d: 32, last: 20},
			{t: 130, s: 150, d: 96, last: 20}, {t: 140, s: 90, d: 80, last: 90}, {t: 260, s: 610, d: 80, last: 350},
			{t: 330, s: 450, d: 128, last: 120}}[c]
		got := flash(t, d, dtype, &z)
		if first[c] == nil {
			first[c] = got
		}
		if i := slices.IndexFunc(got,
			func(x uint16) bool {
				return x&0x7c00 == 0x7c00 && dtype == kernels.Float16 ||
					x&0x7f80 == 0x7f80
			}); i >= 0 {
			t.Errorf("case %d: number %d is %#x", c, i, got[i])
		}
		if !slices.Equal(got, first[c]) {
			t.Errorf("case %d: results differ from those of another schedule", c)
		}
	})
}

// flash runs all kernels on one head, and returns y, dq, dk and dv.
func flash(t *testing.T, d *Driver, dtype kernels.DType, z *attention) (all []uint16) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	operand := func(rows uint32) heads {
		x := make([]uint16, rows*z.d)
		for i := range x {
			x[i] = rounded(dtype, float32(r.NormFloat64()))
		}
		return heads{upload(t, d, x), 0, 0, int64(z.d), 1}
	}
	numbers := func(n uint32) Ptr { return upload(t, d, make([]float32, n)) }
	padded := (z.t + 127) / 128 * 128
	words := padded + (padded/32+4)/4*4 + padded*z.d // dot, counters and sums
	z.q, z.k, z.v, z.y, z.g = operand(z.t), operand(z.s), operand(z.s), operand(z.t), operand(z.t)
	z.dq, z.dk, z.dv = operand(z.t), operand(z.s), operand(z.s)
	z.m, z.r, z.dot, z.scratch = numbers(z.t), numbers(z.t), numbers(words), numbers(padded)
	z.count, z.heads, z.e, z.scale = 1, 1, z.d, 0.125
	units, pitch, tiles := z.d/8, 2*int(z.d), 4*64
	switch z.d {
	case 80, 96:
		pitch += 16
	case 128:
		tiles = 4 * 32
	}
	threads := uint32(128)
	run := func(kind string, n, most uint32, shared int) {
		t.Helper()
		f := function(t, d, fmt.Sprint("flash_", kind, z.d,
			map[kernels.DType]string{kernels.Float16: "_f16", kernels.BFloat16: "_bf16"}[dtype]))
		must(t, d.Call("cuFuncSetAttribute", f, 8, shared))
		must(t, d.Launch(f, [3]uint32{(n + most - 1) / most, 1, 1}, [3]uint32{threads, 1, 1}, shared, 0, *z))
	}
	most := uint32(128)
	if z.d > 64 {
		most = 64
	}
	results := func(h heads, rows uint32) {
		all = append(all, download[uint16](t, d, h.data, int(rows*z.d))...)
	}
	own := 2 * int(most)
	run("", z.t, 128, pitch*(128+tiles)+4*tiles)
	run("dot_", padded, 128/(units&-units), 0)
	results(z.y, z.t)
	if z.d == 96 {
		tiles = 4 * 32
	}
	run("grad_turns_", z.s, most, pitch*(own+tiles)+4*tiles+own*tiles/4)
	results(z.dq, z.t)
	results(z.dk, z.s)
	results(z.dv, z.s)
	if z.d == 128 { // by wide blocks, with the same bits
		narrow := all[len(all)-int((z.t+2*z.s)*z.d):]
		run("dot_", padded, 128/(units&-units), 0) // which clears the counters
		threads, all = 256, nil
		run("grad_wide_", z.s, 128, pitch*(256+tiles)+4*tiles+256*tiles/4+tiles*int(z.d))
		results(z.dq, z.t)
		results(z.dk, z.s)
		results(z.dv, z.s)
		if !slices.Equal(all, narrow) {
			t.Errorf("%d rows and %d keys: wide blocks give other bits", z.t, z.s)
		}
	}
	if z.d%64 == 0 { // by wgmma, in blocks of two items
		threads = 128
		run("dot_", padded, 128/(units&-units), 0)
		threads = 384
		run("grad_hopper_", z.s, 256, map[uint32]int{64: 231680, 128: 197856}[z.d])
		results(z.dq, z.t)
		results(z.dk, z.s)
		results(z.dv, z.s)
	}
	return all
}

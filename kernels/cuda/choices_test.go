//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"math"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// Benchmarks of what plans choose between, for the constants by which they choose:
//
//	cuda.test -test.run - -test.bench Choices -test.benchtime 20x

// timeOf reports the time of a launch, and TFLOP/s.
func timeOf(b *testing.B, dev *Backend, l *kernels.Launch, flops float64) {
	launch := func() {
		if err := dev.Run(l); err != nil {
			b.Fatal(err)
		}
	}
	wait := func() {
		if err := dev.Synchronize(0); err != nil {
			b.Fatal(err)
		}
	}
	launch() // loads kernels
	wait()
	b.ResetTimer()
	for range b.N {
		launch()
	}
	wait()
	b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
}

// repeated is a contiguous operand: some random numbers again and again.
func repeated(b *testing.B, dev *Backend, d kernels.DType, shape ...int) kernels.Arg {
	a := kernels.Arg{DType: d,
		Layout: kernels.Layout{Shape: shape, Strides: kernels.RowMajor(make([]int, len(shape)), shape)}}
	size := a.Len() * d.Size()
	a.Buf = alloc(b, dev, size)
	b.Cleanup(func() { dev.Free(a.Buf) })
	data := newFuzz(1).contiguous(d, min(a.Len(), 1<<20)).data
	for at := 0; at < size; at += len(data) {
		if err := dev.CopyIn(0, a.Buf, at, data[:min(len(data), size-at)]); err != nil {
			b.Fatal(err)
		}
	}
	return a
}

// transposed is the same memory with the last two axes exchanged.
func transposed(a kernels.Arg) kernels.Arg {
	a.Shape, a.Strides = []int{a.Shape[1], a.Shape[0]}, []int{a.Strides[1], a.Strides[0]}
	return a
}

// For mmaTiles, hopperTiles and partTime: products in bfloat16 by all tiles, in parts of k.
func BenchmarkChoicesMatMul(b *testing.B) {
	dev := kernelDevice(b)
	mma, hopper, time, most := mmaTiles, hopperTiles, partTime, maxParts
	defer func() { mmaTiles, hopperTiles, partTime, maxParts = mma, hopper, time, most }()
	partTime = -1 << 30 // as many parts as there may be
	for _, c := range [][3]int{{4096, 4096, 4096}, {8192, 8192, 8192}, {32768, 768, 768}, {32768, 3072, 768},
		{32768, 768, 3072}, {768, 3072, 32768}, {768, 768, 32768}, {1024, 1024, 1024}, {2048, 2048, 2048},
		{128, 256, 4096}, {512, 512, 4096}, {4096, 768, 768}, {2048, 768, 3072}} {
		m, n, k := c[0], c[1], c[2]
		if testing.Short() {
			m, n, k = min(m, 128), min(n, 256), min(k, 512)
		}
		b.Run(fmt.Sprintf("%dx%dx%d", c[0], c[1], c[2]), func(b *testing.B) {
			operand := func(shape ...int) kernels.Arg { return repeated(b, dev, kernels.BFloat16, shape...) }
			x, y, xt, yt := operand(m, k), operand(k, n), transposed(operand(k, m)), transposed(operand(n, k))
			out := []kernels.Arg{operand(m, n)}
			for layout, in := range map[string][]kernels.Arg{"nn": {x, y}, "nt": {x, yt}, "tn": {xt, y}} {
				for _, parts := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
					if parts > 1 && (layout != "nn" || parts*128 > k || m*n > 1<<22) {
						continue
					}
					for _, tiles := range []string{"mma", "wgmma"} {
						mmaTiles, hopperTiles, maxParts = mma, hopper, parts
						if hopperTiles.fewest = math.MaxInt; tiles == "wgmma" {
							mmaTiles.wave = math.MaxInt32
							hopperTiles = halfTiles{hopperRows, hopperColumns, hopperSteps, hopperWarps, 1, 0, 0, 0}
						}
						b.Run(fmt.Sprintf("%s/%s/parts=%d", layout, tiles, parts), func(b *testing.B) {
							timeOf(b, dev, &kernels.Launch{Op: matmulOp, In: in, Out: out}, 2*float64(m*n)*float64(k))
						})
					}
				}
			}
		})
	}
}

// For the variables of plan_attention_flash.go: causal attention in bfloat16, 16 Ki rows of 768 numbers.
func BenchmarkChoicesFlash(b *testing.B) {
	dev := kernelDevice(b)
	wide, hopper, grad, three, cache := flashWide, flashHopper, flashHopperGrad, flashThree, flashCache
	defer func() {
		flashWide, flashHopper, flashHopperGrad, flashThree, flashCache = wide, hopper, grad, three, cache
	}()
	const never = math.MaxInt
	for _, d := range []int{64, 128} {
		for _, rows := range []int{128, 256, 512, 1024, 2048, 4096, 8192} {
			b.Run(fmt.Sprintf("D=%d/T=%d", d, rows), func(b *testing.B) {
				t, batch, heads := rows, 16384/rows, 768/d
				if testing.Short() {
					t, batch = min(t, 256), 1
				}
				number := func() kernels.Arg { return repeated(b, dev, kernels.Float32, batch, heads, t) }
				operand := func() kernels.Arg { return repeated(b, dev, kernels.BFloat16, batch, heads, t, d) }
				result := func() kernels.Arg { return repeated(b, dev, kernels.BFloat16, batch, t, heads, d) }
				l := &kernels.Launch{Op: hostOp("attention", cpu.Attention), Ints: []int{-t, 0},
					Floats: []float64{0.125, 0}, In: []kernels.Arg{operand(), operand(), operand()},
					Out: []kernels.Arg{result(), number(), number()}}
				flops := 2 * float64(batch*heads) * float64(t*t) * float64(d)
				for name, c := range map[string][3]int{"mma": {never, 0, 0}, "two, sorted": {1, never, never},
					"three, sorted": {1, 1, never}, "two, in pairs": {1, never, 0}, "three, in pairs": {1, 1, 0}} {
					flashHopper, flashThree, flashCache = c[0], c[1], c[2]
					b.Run("forward/"+name, func(b *testing.B) { timeOf(b, dev, l, flops) })
				}
				l = &kernels.Launch{Op: hostOp("attention_grad", cpu.AttentionGrad), Ints: l.Ints, Floats: l.Floats,
					In:  append(l.In, l.Out[0], l.Out[1], l.Out[2], operand()),
					Out: []kernels.Arg{result(), result(), result()}}
				for name, c := range map[string][2]int{"mma": {never, never}, "wide": {1, never}, "wgmma": {never, 1}} {
					flashWide, flashHopperGrad = c[0], c[1]
					b.Run("backward/"+name, func(b *testing.B) { timeOf(b, dev, l, 2.5*flops) })
				}
			})
		}
	}
}

package tensor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// TestPlainFolds compares the loops of integers, bools and float64 with the references, to the bit, on layouts at random.
func TestPlainFolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		rank := 1 + r.IntN(4)
		shape, strides := make([]int, rank), make([]int, rank)
		perm := r.Perm(rank)
		n := 1
		for _, p := range perm {
			shape[p] = r.IntN(6)
			if r.IntN(6) == 0 && n < 100 {
				shape[p] = 1100 + r.IntN(1000)
			}
			strides[p] = n
			if r.IntN(6) == 0 {
				strides[p] = 0
			}
			n *= max(1, shape[p]) * (1 + r.IntN(2))
		}
		var axes []int
		for a := range rank {
			if r.IntN(2) == 0 {
				axes = append(axes, a)
			}
		}
		for _, d := range kernels.DTypes() {
			for _, o := range []*Op{&sum, &prod, &amax, &amin, &mean, &anyOp, &allOp} {
				od := d
				switch o {
				case &sum, &prod:
					od = accumulated(d)
				case &mean:
					if d != Float64 {
						continue
					}
				case &anyOp, &allOp:
					od = Bool
				}
				if d.IsFloat() && d != Float64 && od != Bool || (o == &amax || o == &amin) && kernels.Count(shape) == 0 {
					continue
				}
				b := make([]byte, 8*n+64)
				if d == Float64 {
					v := make([]float64, n+1)
					for i := range v {
						v[i] = r.NormFloat64()
						if r.IntN(10) == 0 {
							v[i] = math.Copysign(0, -1)
						}
					}
					b = cpuBytes(v)
				} else {
					for i := range b {
						if r.IntN(3) > 0 {
							b[i] = byte(r.Uint32())
						}
						if d == Bool {
							b[i] &= 1
						} else if od == Bool && d.IsFloat() {
							b[i] &= 0x80
						}
					}
				}
				var oshape []int
				for a := range rank {
					if !slices.Contains(axes, a) {
						oshape = append(oshape, shape[a])
					}
				}
				cnt := kernels.Count(oshape)
				arg := kernels.Arg{Buf: cpu.Wrap(b), DType: d}
				arg.Shape, arg.Strides = shape, strides
				out := func() kernels.Arg {
					a := kernels.Arg{Buf: cpu.Wrap(make([]byte, 8*cnt+8)), DType: od}
					a.Shape, a.Strides = oshape, kernels.RowMajor(make([]int, len(oshape)), oshape)
					return a
				}
				y, z := out(), out()
				l := &kernels.Launch{Op: &o.Op, In: []kernels.Arg{arg}, Out: []kernels.Arg{y}, Ints: axes}
				if err := (cpu.Backend{}).Run(l); err != nil {
					t.Fatal(err)
				}
				ref := o.Op
				ref.CPU = nil
				l2 := *l
				l2.Op, l2.Out = &ref, []kernels.Arg{z}
				if err := (cpu.Backend{}).Run(&l2); err != nil {
					t.Fatal(err)
				}
				if string(y.Buf.(*cpu.Mem).Data()) != string(z.Buf.(*cpu.Mem).Data()) {
					t.Fatalf("%s %v %v %v axes %v\n%v\n%v", o.Op.Name, d, shape, strides, axes, y.Buf.(*cpu.Mem).Data()[:min(64, 8*cnt)], z.Buf.(*cpu.Mem).Data()[:min(64, 8*cnt)])
				}
			}
		}
	}
}

func cpuBytes(v []float64) []byte {
	b := make([]byte, 8*len(v))
	a := kernels.Arg{Buf: cpu.Wrap(b), DType: Float64}
	a.Shape, a.Strides = []int{len(v)}, []int{1}
	copy(cpu.Slice[float64](a), v)
	return b
}

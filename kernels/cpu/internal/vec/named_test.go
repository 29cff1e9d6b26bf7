package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// scalar evaluates instructions one by one: the definition of a fused kernel.
type scalar struct {
	instr map[string]*lane.Instr
	prog  map[string]*lane.Program
}

func newScalar() *scalar {
	s := &scalar{map[string]*lane.Instr{}, map[string]*lane.Program{}}
	for i := range lane.Instrs {
		in := &lane.Instrs[i]
		s.instr[in.Name], s.prog[in.Name] = in, in.Program()
	}
	return s
}

func (s *scalar) do(name string, x ...float32) float32 {
	x = append(x, 0, 0)
	return s.instr[name].Eval(s.prog[name], x[0], x[1], x[2])
}

// canonical is the reduction of x in the canonical order, written as the order is
// defined.
func canonical(x []float32, neutral float32, combine func(a, b float32) float32) float32 {
	var blocks []float32
	for lo := 0; lo == 0 || lo < len(x); lo += 2048 {
		l := make([]float32, 128)
		for i := range l {
			l[i] = neutral
		}
		for i, v := range x[lo:min(lo+2048, len(x))] {
			l[i%128] = combine(l[i%128], v)
		}
		for len(l) > 1 {
			for i := range len(l) / 2 {
				l[i] = combine(l[2*i], l[2*i+1])
			}
			l = l[:len(l)/2]
		}
		blocks = append(blocks, l[0])
	}
	if len(blocks) == 1 {
		return blocks[0]
	}
	return canonical(blocks, neutral, combine)
}

func canonicalSum(x []float32) float32 {
	return canonical(x, 0, func(a, b float32) float32 { return a + b })
}

// named describes a named kernel: its call on outputs o, inputs x and scalars u, and
// the value of output k, or of what result k sums, at one element.
type named struct {
	name         string
	outs, ins, u int
	results      int
	call         func(o, x [][]float32, u []float32) []float32
	element      func(s *scalar, x, u []float32) []float32
	neutral      float32
	combine      func(a, b float32) float32
}

func list(x ...float32) []float32 { return x }

// mapped describes a kernel of one output and no result.
func mapped(name string, ins, u int, call func(dst []float32, x [][]float32, u []float32),
	element func(s *scalar, x, u []float32) float32) named {
	return named{
		name: name, outs: 1, ins: ins, u: u,
		call:    func(o, x [][]float32, u []float32) []float32 { call(o[0], x, u); return nil },
		element: func(s *scalar, x, u []float32) []float32 { return list(element(s, x, u)) },
	}
}

// summed describes a kernel of one sum and no output.
func summed(name string, ins, u int, call func(x [][]float32, u []float32) float32,
	element func(s *scalar, x, u []float32) float32) named {
	return named{
		name: name, ins: ins, u: u, results: 1,
		call:    func(_, x [][]float32, u []float32) []float32 { return list(call(x, u)) },
		element: func(s *scalar, x, u []float32) []float32 { return list(element(s, x, u)) },
		combine: func(a, b float32) float32 { return a + b },
	}
}

func (n named) by(neutral float32, combine func(a, b float32) float32) named {
	n.neutral, n.combine = neutral, combine
	return n
}

var namedKernels = []named{
	mapped("Scale", 1, 1, func(d []float32, x [][]float32, u []float32) { Scale(d, x[0], u[0]) },
		func(s *scalar, x, u []float32) float32 { return x[0] * u[0] }),
	mapped("Axpy", 2, 1, func(d []float32, x [][]float32, u []float32) { Axpy(d, x[0], x[1], u[0]) },
		func(s *scalar, x, u []float32) float32 { return float32(u[0]*x[0]) + x[1] }),
	mapped("ExpSub", 1, 1, func(d []float32, x [][]float32, u []float32) { ExpSub(d, x[0], u[0]) },
		func(s *scalar, x, u []float32) float32 { return s.do("exp", x[0]-u[0]) }),
	mapped("SoftmaxGrad", 2, 1, func(d []float32, x [][]float32, u []float32) { SoftmaxGrad(d, x[0], x[1], u[0]) },
		func(s *scalar, x, u []float32) float32 { return x[0] * (x[1] - u[0]) }),
	mapped("SoftmaxGradNonTemporal", 2, 1, func(d []float32, x [][]float32, u []float32) {
		out := aligned(d)
		SoftmaxGradNonTemporal(out, x[0], x[1], u[0])
		copy(d, out)
	}, func(s *scalar, x, u []float32) float32 { return x[0] * (x[1] - u[0]) }),
	mapped("SubSub", 1, 2, func(d []float32, x [][]float32, u []float32) { SubSub(d, x[0], u[0], u[1]) },
		func(s *scalar, x, u []float32) float32 { return (x[0] - u[0]) - u[1] }),
	mapped("LogSoftmaxGrad", 2, 1,
		func(d []float32, x [][]float32, u []float32) { LogSoftmaxGrad(d, x[0], x[1], u[0]) },
		func(s *scalar, x, u []float32) float32 { return x[1] - float32(s.do("exp", x[0])*u[0]) }),
	mapped("CrossEntropyGrad", 1, 4,
		func(d []float32, x [][]float32, u []float32) { CrossEntropyGrad(d, x[0], u[0], u[1], u[2], u[3]) },
		func(s *scalar, x, u []float32) float32 {
			return (float32(s.do("exp", x[0]-u[0])*u[1]) - u[2]) * u[3]
		}),
	mapped("CrossEntropyGradOn", 4, 1,
		func(d []float32, x [][]float32, u []float32) { CrossEntropyGradOn(d, x[0], x[1], x[2], x[3], u[0]) },
		func(s *scalar, x, u []float32) float32 {
			return (float32(s.do("exp", x[0]-x[1])*x[2]) - u[0]) * x[3]
		}),
	mapped("Norm", 1, 2, func(d []float32, x [][]float32, u []float32) { Norm(d, x[0], u[0], u[1]) },
		func(s *scalar, x, u []float32) float32 { return (x[0] - u[0]) * u[1] }),
	mapped("NormWeight", 2, 2, func(d []float32, x [][]float32, u []float32) { NormWeight(d, x[0], x[1], u[0], u[1]) },
		func(s *scalar, x, u []float32) float32 { return (x[0] - u[0]) * u[1] * x[1] }),
	mapped("NormWeightBias", 3, 2,
		func(d []float32, x [][]float32, u []float32) { NormWeightBias(d, x[0], x[1], x[2], u[0], u[1]) },
		func(s *scalar, x, u []float32) float32 { return float32((x[0]-u[0])*u[1]*x[1]) + x[2] }),
	mapped("NormGrad", 2, 4, func(d []float32, x [][]float32,
		u []float32) {
		NormGrad(d, x[0], x[1], u[0], u[1], u[2], u[3])
	},
		func(s *scalar, x, u []float32) float32 {
			h := float32((x[1] - u[0]) * u[1])
			return (float32(x[0]-u[2]) - float32(h*u[3])) * u[1]
		}),
	mapped("NormWeightGrad", 3, 4, func(d []float32, x [][]float32, u []float32) {
		NormWeightGrad(d, x[0], x[1], x[2], u[0], u[1], u[2], u[3])
	}, func(s *scalar, x, u []float32) float32 {
		h := float32((x[1] - u[0]) * u[1])
		return (float32(float32(x[0]*x[2])-u[2]) - float32(h*u[3])) * u[1]
	}),
	mapped("AddNormProduct", 3, 2,
		func(d []float32, x [][]float32, u []float32) { AddNormProduct(d, x[0], x[1], x[2], u[0], u[1]) },
		func(s *scalar, x, u []float32) float32 { return x[0] + float32(x[1]*((x[2]-u[0])*u[1])) }),
	mapped("AddNormProducts", 4, 2, func(d []float32, x [][]float32, u []float32) {
		AddNormProducts(d, make([]float32, len(d)), x[0], x[1], x[2], x[3], u[0], u[1])
	}, func(s *scalar, x, u []float32) float32 { return x[0] + float32(x[2]*((x[3]-u[0])*u[1])) }),
	mapped("AddNormProducts", 4, 2, func(d []float32, x [][]float32, u []float32) {
		AddNormProducts(make([]float32, len(d)), d, x[0], x[1], x[2], x[3], u[0], u[1])
	}, func(s *scalar, x, u []float32) float32 { return x[1] + x[2] }),

	mapped("AddEight", 8, 1, func(d []float32, x [][]float32, u []float32) {
		AddEight(d, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], u[0])
	}, func(_ *scalar, x, u []float32) float32 {
		return u[0] + x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7]
	}),
	mapped("MulEight", 8, 1, func(d []float32, x [][]float32, u []float32) {
		MulEight(d, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], u[0])
	}, func(_ *scalar, x, u []float32) float32 {
		return u[0] * x[0] * x[1] * x[2] * x[3] * x[4] * x[5] * x[6] * x[7]
	}),
	mapped("MaxEight", 8, 1, func(d []float32, x [][]float32, u []float32) {
		MaxEight(d, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], u[0])
	}, func(_ *scalar, x, u []float32) float32 {
		return max(u[0], x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7])
	}),
	mapped("MinEight", 8, 1, func(d []float32, x [][]float32, u []float32) {
		MinEight(d, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], u[0])
	}, func(_ *scalar, x, u []float32) float32 {
		return min(u[0], x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7])
	}),

	summed("Sum", 1, 0, func(x [][]float32, u []float32) float32 { return Sum(x[0]) },
		func(s *scalar, x, u []float32) float32 { return x[0] }),
	summed("Prod", 1, 0, func(x [][]float32, u []float32) float32 { return Prod(x[0]) },
		func(s *scalar, x, u []float32) float32 { return x[0] }).by(1, func(a, b float32) float32 { return a * b }),
	summed("Max", 1, 0, func(x [][]float32, u []float32) float32 { return Max(x[0]) },
		func(s *scalar, x, u []float32) float32 { return x[0] }).by(float32(math.Inf(-1)),
		func(a, b float32) float32 { return max(a, b) }),
	summed("Min", 1, 0, func(x [][]float32, u []float32) float32 { return Min(x[0]) },
		func(s *scalar, x, u []float32) float32 { return x[0] }).by(float32(math.Inf(1)),
		func(a, b float32) float32 { return min(a, b) }),
	summed("AbsMax", 1, 0, func(x [][]float32, u []float32) float32 { return AbsMax(x[0]) },
		func(s *scalar, x, u []float32) float32 { return s.do("abs", x[0]) }).by(float32(math.Inf(-1)),
		func(a, b float32) float32 { return max(a, b) }),
	summed("Dot", 2, 0, func(x [][]float32, u []float32) float32 { return Dot(x[0], x[1]) },
		func(s *scalar, x, u []float32) float32 { return float32(x[0] * x[1]) }),
	summed("SumSquares", 1, 1, func(x [][]float32, u []float32) float32 { return SumSquares(x[0], u[0]) },
		func(s *scalar, x, u []float32) float32 { d := x[0] * u[0]; return float32(d * d) }),
	summed("SumSub", 1, 1, func(x [][]float32, u []float32) float32 { return SumSub(x[0], u[0]) },
		func(s *scalar, x, u []float32) float32 { return x[0] - u[0] }),
	summed("SumSquaresSub", 1, 1, func(x [][]float32, u []float32) float32 { return SumSquaresSub(x[0], u[0]) },
		func(s *scalar, x, u []float32) float32 { return float32((x[0] - u[0]) * (x[0] - u[0])) }),
	summed("SumExpSub", 1, 1, func(x [][]float32, u []float32) float32 { return SumExpSub(x[0], u[0]) },
		func(s *scalar, x, u []float32) float32 { return s.do("exp", x[0]-u[0]) }),
	{
		name: "ExpSubSum", outs: 1, ins: 1, u: 1, results: 1,
		call: func(o, x [][]float32, u []float32) []float32 { return list(ExpSubSum(o[0], x[0], u[0])) },
		element: func(s *scalar, x, u []float32) []float32 {
			e := s.do("exp", x[0]-u[0])
			return list(e, e)
		},
		combine: func(a, b float32) float32 { return a + b },
	},
	{
		name: "NormGradSums", ins: 2, u: 2, results: 2,
		call: func(_, x [][]float32, u []float32) []float32 {
			a, b := NormGradSums(x[0], x[1], u[0], u[1])
			return list(a, b)
		},
		element: func(s *scalar, x, u []float32) []float32 { return list(x[0], x[0]*((x[1]-u[0])*u[1])) },
		combine: func(a, b float32) float32 { return a + b },
	},
	{
		name: "NormWeightGradSums", ins: 3, u: 2, results: 2,
		call: func(_, x [][]float32, u []float32) []float32 {
			a, b := NormWeightGradSums(x[0], x[1], x[2], u[0], u[1])
			return list(a, b)
		},
		element: func(s *scalar, x, u []float32) []float32 {
			k := float32(x[0] * x[2])
			return list(k, k*((x[1]-u[0])*u[1]))
		},
		combine: func(a, b float32) float32 { return a + b },
	},
}

// TestNamed holds the named kernels to their definitions.
func TestNamed(t *testing.T) {
	tiers(t, func(t *testing.T) {
		s := newScalar()
		for _, k := range append(gradientsOfPairs(), namedKernels...) {
			t.Run(k.name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(5, 6))
				for n := range 200 {
					k.test(t, s, r, n, n%2 == 0)
				}
				for _, n := range []int{1000, 2047, 2048, 2049, 16384, 3*16384 + 77} {
					k.test(t, s, r, n, false)
				}
			})
		}
	})
}

// gradientsOfPairs are the kernels of two rows, with one output at a time. Their rows are aligned.
func gradientsOfPairs() (all []named) {
	for name, kernel := range map[string]func(d0, d1, s0, s1, g0, x0, g1, x1, w []float32,
		c0, r0, p0, q0, c1, r1, p1, q1 float32){
		"NormWeightGradAdd": NormWeightGradAdd, "NormWeightGradAddNonTemporal": NormWeightGradAddNonTemporal,
	} {
		for k := range 4 {
			all = append(all, mapped(name, 7, 8, func(d []float32, x [][]float32, u []float32) {
				out := [][]float32{aligned(d), aligned(d), aligned(x[5]), aligned(x[6])}
				kernel(out[0], out[1], out[2], out[3], x[0], x[1], x[2], x[3], x[4],
					u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7])
				copy(d, out[k])
			}, func(_ *scalar, x, u []float32) float32 {
				h0, h1 := float32((x[1]-u[0])*u[1]), float32((x[3]-u[4])*u[5])
				return list(
					(float32(float32(x[0]*x[4])-u[2])-float32(h0*u[3]))*u[1],
					(float32(float32(x[2]*x[4])-u[6])-float32(h1*u[7]))*u[5],
					x[5]+float32(x[0]*h0)+float32(x[2]*h1),
					x[6]+x[0]+x[2])[k]
			}))
		}
	}
	return all
}

// aligned is a copy of x that begins with a cache line.
func aligned(x []float32) []float32 {
	all := make([]float32, len(x)+16)
	for uintptr(unsafe.Pointer(unsafe.SliceData(all)))%64 != 0 {
		all = all[1:]
	}
	return append(all[:0], x...)
}

// values returns n operands: of all kinds if wild, else such that sums are finite and
// every rounding shows.
func values(r *rand.Rand, n int, wild bool) []float32 {
	if wild {
		return operand(r, n)
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func (k named) test(t *testing.T, s *scalar, r *rand.Rand, n int, wild bool) {
	t.Helper()
	x, u := make([][]float32, k.ins), make([]float32, k.u)
	for i := range x {
		_, x[i] = guarded(values(r, n, wild), 64+(n+i)%5)
	}
	for i := range u {
		u[i] = float32(r.NormFloat64())
	}
	want := make([][]float32, k.outs+k.results)
	at := make([]float32, k.ins)
	for i := range n {
		for j := range x {
			at[j] = x[j][i]
		}
		for j, v := range k.element(s, at, u) {
			want[j] = append(want[j], v)
		}
	}
	outs, all := make([][]float32, k.outs), make([][]float32, k.outs)
	for i := range outs {
		all[i], outs[i] = guarded(make([]float32, n), 65)
		if n%3 == 0 {
			outs[i] = x[0] // in place
			all[i] = nil
		}
	}
	got := k.call(outs, x, u)
	for j := range outs {
		for i := range outs[j] {
			if !same(outs[j][i], want[j][i]) {
				t.Fatalf("n=%d: element %d is %v, want %v", n, i, outs[j][i], want[j][i])
			}
		}
		if all[j] != nil && !intact(all[j], 65, n) {
			t.Fatalf("n=%d: wrote outside the output", n)
		}
	}
	for j, g := range got {
		if w := canonical(want[k.outs+j], k.neutral, k.combine); !same(g, w) {
			t.Fatalf("n=%d: result %d is %v, want %v", n, j, g, w)
		}
	}
}

// TestSumManyBlocks reaches the second and third level of blocks.
func TestSumManyBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	blocks := values(r, Block*2+100, false)
	var tot sumTotal
	for _, b := range blocks {
		tot.add(b)
	}
	if got, want := tot.value(), canonicalSum(blocks); got != want {
		t.Errorf("sum of %d block results is %v, want %v", len(blocks), got, want)
	}
	x := values(r, Block*70+5, false)
	tiers(t, func(t *testing.T) {
		if got, want := Sum(x), canonicalSum(x); got != want {
			t.Errorf("sum of %d elements is %v, want %v", len(x), got, want)
		}
	})
}

func TestLengthMismatch(t *testing.T) {
	defer func() {
		if s := fmt.Sprint(recover()); !strings.Contains(s, "ExpSub: slices of different lengths: 3 and 4") {
			t.Errorf("panic %q", s)
		}
	}()
	ExpSub(make([]float32, 3), make([]float32, 4), 0)
}

// BenchmarkNamed measures the kernels on 2^20 elements, which lie in the last cache.
func BenchmarkNamed(b *testing.B) {
	const n = 1 << 20
	for _, k := range namedKernels {
		b.Run(k.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			x, o, u := make([][]float32, k.ins), make([][]float32, k.outs), make([]float32, k.u)
			for i := range x {
				x[i] = values(r, n, false)
			}
			for i := range o {
				o[i] = make([]float32, n)
			}
			for i := range u {
				u[i] = 0.5
			}
			b.SetBytes(int64(4 * n * (k.ins + k.outs)))
			for b.Loop() {
				k.call(o, x, u)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/elem")
		})
	}
}

// A sum of so many blocks that their results are more than a block themselves.
func TestSumOfBlocksOfBlocks(t *testing.T) {
	x := values(rand.New(rand.NewPCG(7, 8)), 2048*2048+5000, false)
	if got, want := Sum(x), canonicalSum(x); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

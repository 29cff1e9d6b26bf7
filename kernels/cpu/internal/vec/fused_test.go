package vec_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
	"github.com/weft-ml/weft/kernels/expr"
	_ "github.com/weft-ml/weft/optim" // and tensor: what is fused
)

// TestFusionsHaveKernels: what asks for a kernel has one, and every kernel was asked for.
func TestFusionsHaveKernels(t *testing.T) {
	var asked []string
	for _, f := range expr.Fusions() {
		asked = append(asked, f.Name)
	}
	slices.Sort(asked)
	if made := vec.FusedNames(); !slices.Equal(asked, made) {
		t.Errorf("there are kernels of\n%v\nthe operations ask for those of\n%v\nrun make gen", made, asked)
	}
}

// eval computes the results at one element, instruction by instruction: the definition of a fused kernel.
func eval(f *expr.Func, do func(name string, x ...float32) float32, leaf func(n *expr.Node) float32) (out []float32) {
	values := map[*expr.Node]float32{}
	for _, n := range f.Order() {
		switch n.Op {
		case expr.Const:
			values[n] = float32(n.C)
		case expr.Arg, expr.Param, expr.Rand:
			values[n] = leaf(n)
		default:
			var x []float32
			for _, o := range n.Operands() {
				x = append(x, values[o])
			}
			values[n] = do(n.Op.String(), x...)
		}
	}
	for _, r := range f.Roots {
		out = append(out, values[r])
	}
	return out
}

// TestFused holds every kernel of a pointwise operation to the bits of its
// instructions, apart and with the outputs in the place of operands.
func TestFused(t *testing.T) {
	vec.EachTier(t, func(t *testing.T) {
		do := vec.Evaluator()
		for _, f := range expr.Fusions() {
			r := rand.New(rand.NewPCG(3, 4))
			for _, n := range []int{0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100} {
				for _, inPlace := range []bool{false, true} {
					testFused(t, f, do, r, n, inPlace)
				}
			}
		}
	})
}

func testFused(t *testing.T, f *expr.Fusion, do func(string, ...float32) float32, r *rand.Rand, n int, inPlace bool) {
	t.Helper()
	k := vec.Pointwise(f.Name)
	scalars := make([]float32, k.Scalars)
	for i := range scalars {
		scalars[i] = r.Float32()
		if r.IntN(20) == 0 {
			scalars[i] = vec.Special[r.IntN(len(vec.Special))]
		}
	}
	ins, guards := make([][]float32, k.Ins), make([][]float32, k.Ins)
	for i := range ins {
		guards[i], ins[i] = vec.Guarded(vec.Operand(r, n), 65+i)
	}
	// The operands are the vectors and the scalars after the parameters, the streams the vectors after them.
	vectors, uniforms := map[int]int{}, map[int]int{}
	for i := range f.Func.Args {
		if f.Uniform>>i&1 == 1 {
			uniforms[i] = len(f.Func.Params) + len(uniforms)
		} else {
			vectors[i] = len(vectors)
		}
	}
	want := make([][]float32, k.Outs)
	for i := range n {
		results := eval(f.Func, do, func(node *expr.Node) float32 {
			switch {
			case node.Op == expr.Param:
				return scalars[node.K]
			case node.Op == expr.Rand:
				return ins[len(vectors)+slices.Index(f.Func.Streams(), node.K)][i]
			case f.Uniform>>node.K&1 == 1:
				return scalars[uniforms[node.K]]
			}
			return ins[vectors[node.K]][i]
		})
		for k, x := range results {
			want[k] = append(want[k], x)
		}
	}
	outs, outGuards := make([][]float32, k.Outs), make([][]float32, k.Outs)
	for i := range outs {
		outGuards[i], outs[i] = vec.Guarded(make([]float32, n), 66+i)
		if inPlace && i < k.Ins {
			outGuards[i], outs[i] = guards[i], ins[i]
		}
	}
	k.Run(outs, ins, scalars)
	for j := range outs {
		for i := range outs[j] {
			if !vec.Same(outs[j][i], want[j][i]) {
				t.Fatalf("%s: n=%d in place %v: output %d, element %d: %v, want %v (scalars %v)", f.Name, n, inPlace, j,
					i,
					outs[j][i], want[j][i], scalars)
			}
		}
		offset := 66 + j
		if inPlace && j < k.Ins {
			offset = 65 + j
		}
		if !vec.Intact(outGuards[j], offset, n) {
			t.Fatalf("%s: n=%d: wrote outside output %d", f.Name, n, j)
		}
	}
}

// BenchmarkFused measures the kernels on 2^20 elements, which lie in the last cache.
func BenchmarkFused(b *testing.B) {
	const n = 1 << 20
	for _, name := range vec.FusedNames() {
		f := vec.Pointwise(name)
		b.Run(name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			x, o, u := make([][]float32, f.Ins), make([][]float32, f.Outs), make([]float32, f.Scalars)
			for i := range x {
				x[i] = vec.Values(r, n, false)
				if i == 3 { // a second moment
					for j, v := range x[i] {
						x[i][j] = v * v
					}
				}
			}
			for i := range o {
				o[i] = make([]float32, n)
			}
			for i := range u {
				u[i] = 0.5
			}
			b.SetBytes(int64(4 * n * (f.Ins + f.Outs)))
			for b.Loop() {
				f.Run(o, x, u)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/elem")
		})
	}
}

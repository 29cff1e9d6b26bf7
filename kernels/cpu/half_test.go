package cpu

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// roundTo is v in an element type and back.
func roundTo(d kernels.DType, v ...float64) []float64 {
	return elements(with(newTensor(d, len(v)), v...))
}

// TestWidened runs float32 loops on halves in all layouts, some with more elements than one thread converts: the
// results are those of float32 on the same numbers, rounded once; operands and results of other types are left alone.
func TestWidened(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	matmul := &kernels.Op{Name: "matmul", CPU: MatMul, Types: []kernels.DType{kernels.Float32, kernels.Float64}}
	norm := &kernels.Op{Name: "layer_norm", CPU: LayerNorm}
	gradient := &kernels.Op{Name: "layer_norm_grad", CPU: LayerNormGrad}
	selected := &kernels.Op{Name: "index_add", CPU: IndexAdd, Types: []kernels.DType{kernels.Float32}}
	var jobs []job
	add := func(l *kernels.Launch) {
		plain := *l
		plain.In, plain.Out = slices.Clone(l.In), slices.Clone(l.Out)
		for i, a := range l.In {
			if a.DType.IsHalf() {
				plain.In[i] = with(newTensor(kernels.Float32, a.Shape...), elements(a)...)
			}
		}
		for i, a := range l.Out {
			if a.DType.IsHalf() {
				plain.Out[i] = newTensor(kernels.Float32, a.Shape...)
			}
		}
		mustRun(t, &plain)
		j := job{kernel: func(l *kernels.Launch) { mustRun(t, l) }, l: l}
		for i, a := range plain.Out {
			j.want = append(j.want, roundTo(l.Out[i].DType, elements(a)...))
		}
		jobs = append(jobs, j)
	}
	for i, d := range []kernels.DType{kernels.Float16, kernels.BFloat16} {
		operand := func(name string, shape ...int) kernels.Arg { return normal(r, layouts[name](d, shape), false) }
		for j, name := range layoutNames {
			if testing.Short() && j%4 != i {
				continue
			}
			other := layoutNames[(3*j+i)%len(layoutNames)]
			for _, size := range [][3]int{{3, 5, 7}, {1, 9, 300}, {220, 330, 8}, {2, 3, 0}} {
				a, b := operand(name, 2, size[0], size[2]), operand(other, size[2], size[1])
				add(&kernels.Launch{Op: matmul, In: []kernels.Arg{a, b},
					Out: []kernels.Arg{newTensor(d, 2, size[0], size[1])}})
			}
			x, w := operand(name, 6, 70), operand(other, 70)
			y, mean, rstd := newTensor(d, 6, 70), newTensor(kernels.Float32, 6), newTensor(kernels.Float32, 6)
			add(&kernels.Launch{Op: norm, In: []kernels.Arg{x, w, w}, Out: []kernels.Arg{y, mean, rstd}, Ints: []int{1},
				Floats: []float64{1e-5}})
			statistics := []kernels.Arg{normal(r, layouts[name](kernels.Float32, []int{6}), false),
				normal(r, layouts[other](kernels.Float32, []int{6}), false)}
			add(&kernels.Launch{Op: gradient,
				In: []kernels.Arg{operand(other, 6, 70), x, statistics[0], statistics[1], w}, Ints: []int{1, 1, 1, 0},
				Out: []kernels.Arg{newTensor(d, 6, 70), newTensor(d, 70), newTensor(d, 0)}})
			add(&kernels.Launch{Op: selected,
				In: []kernels.Arg{operand(name, 4, 9), with(newTensor(kernels.Int64, 3), 2, 0, 2),
					operand(other, 3, 9)},
				Out: []kernels.Arg{newTensor(d, 4, 9)}, Ints: []int{0}})
		}
	}
	runJobs(t, jobs)
}

// Loops that have a half type of their own, and expressions, come before widening, and it before the reference; an
// error of the loops comes out.
func TestWidenedWhere(t *testing.T) {
	ran := ""
	loops := func(l *kernels.Launch) { ran += " loops on " + l.In[0].DType.String() }
	reference := func(l *kernels.Launch) { ran += " reference" }
	launch := func(op *kernels.Op) string {
		ran = ""
		op.Ref = reference
		mustRun(t, &kernels.Launch{Op: op, In: []kernels.Arg{newTensor(kernels.BFloat16, 1)},
			Out: []kernels.Arg{newTensor(kernels.BFloat16, 1)}})
		return ran
	}
	for want, op := range map[string]*kernels.Op{
		" loops on float32":  {CPU: loops},
		" loops on bfloat16": {CPU: loops, Types: []kernels.DType{kernels.Float32, kernels.BFloat16}},
		" reference":         {CPU: loops, Types: []kernels.DType{kernels.Float64}},
	} {
		if got := launch(op); got != want {
			t.Errorf("ran%s, want%s", got, want)
		}
	}
	fails := &kernels.Op{Name: "test",
		CPU: func(*kernels.Launch) { panic(kernels.Errorf(kernels.ErrIndex, "test", "index 5")) }}
	err := Backend{}.Run(&kernels.Launch{Op: fails, In: []kernels.Arg{newTensor(kernels.Float16, 3)},
		Out: []kernels.Arg{newTensor(kernels.Float16, 1)}})
	if !errors.Is(err, kernels.ErrIndex) {
		t.Errorf("error %v", err)
	}
}

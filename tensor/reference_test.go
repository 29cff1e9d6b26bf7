package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// TestAgainstReference runs every sample of every operation that has both on the loops of the CPU and on the reference,
// for each element type of the loops and in several layouts. Operations that only copy elements agree exactly.
func TestAgainstReference(t *testing.T) {
	checked := 0
	for _, op := range table {
		if op.CPU == nil || op.Ref == nil || op.draws > 0 {
			continue
		}
		types := op.Types
		if len(types) == 0 {
			types = []DType{Float32}
		}
		t.Run(op.Name, func(t *testing.T) {
			for _, s := range op.allSamples() {
				for _, dt := range types {
					for name, layout := range testLayouts(s) {
						compareWithReference(t, op, s, dt, name, layout)
						checked++
					}
				}
			}
		})
	}
	if checked < 500 {
		t.Errorf("only %d samples were compared", checked)
	}
}

// testLayouts are ways to lay out an operand without changing its values.
func testLayouts(s opSample) map[string]func(x *Tensor) *Tensor {
	all := map[string]func(x *Tensor) *Tensor{"contiguous": func(x *Tensor) *Tensor { return x }}
	if s.Fixed {
		return all
	}
	all["transposed"] = func(x *Tensor) *Tensor {
		if x.Rank() < 2 {
			return x
		}
		return x.Transpose(0, -1).Clone().Transpose(0, -1)
	}
	all["strided"] = func(x *Tensor) *Tensor { // every second element of a longer last axis
		if x.Rank() == 0 {
			return x
		}
		n := x.Dim(-1)
		return Stack(-1, x, x).Reshape(append(x.Shape()[:x.Rank()-1], 2*n)...).Slice(-1, 0, End, 2)
	}
	return all
}

func compareWithReference(t *testing.T, op *Op, s opSample, dt DType, layoutName string,
	layout func(x *Tensor) *Tensor) {
	t.Helper()
	in := make([]*Tensor, len(s.In))
	for i, a := range s.In {
		v := a.Values
		if v == nil {
			v = ToSlice[float64](Uniform(Seed(uint64(i)+1), a.Lo, a.Hi, a.Shape...))
		}
		own := a.DType
		if i == 0 || own == Float32 {
			own = dt
		}
		in[i] = layout(FromSlice(v, len(v)).To(own).Reshape(a.Shape...))
	}
	got := s.Call(in)
	cpu := op.CPU
	op.CPU = nil
	want := s.Call(in)
	op.CPU = cpu
	name := fmt.Sprintf("%s, %v, %s", s.Name, dt, layoutName)
	if got.dtype != want.dtype || !slices.Equal(got.Shape(), want.Shape()) {
		t.Errorf("%s: result %v, reference %v", name, got, want)
		return
	}
	tolerance := map[DType]float64{Float32: 2e-5, Float64: 1e-12, Float16: 4e-3, BFloat16: 3e-2}[dt]
	if len(op.Types) == len(kernels.DTypes()) {
		tolerance = 0
	}
	x, y := ToSlice[float64](got), ToSlice[float64](want)
	for i := range x {
		same := x[i] == y[i] || x[i] != x[i] && y[i] != y[i]
		if !same && !(math.Abs(x[i]-y[i]) <= tolerance*(1+math.Abs(y[i]))) {
			t.Errorf("%s: element %d is %v, the reference gives %v", name, i, x[i], y[i])
			return
		}
	}
}

// Positions of CTC that are on no way from the start to the end change neither the loss nor the gradient.
func TestCTCWithin(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		steps, classes := 1+r.IntN(12), 2+r.IntN(3)
		row := ctcRow{path: []int{0}, steps: steps, stride: classes, x: make([]float64, steps*classes)}
		for range r.IntN(7) {
			row.path = append(row.path, 1+r.IntN(classes-1), 0)
		}
		for i := range row.x {
			if row.x[i] = -r.ExpFloat64(); r.IntN(9) == 0 {
				row.x[i] = math.Inf(-1)
			}
		}
		a, b := row.forward(), row.backward()
		whole := row.likelihood(a)
		row.ordinary = true
		within, behind := row.forward(), row.backward()
		if got := row.likelihood(within); got != whole {
			t.Fatalf("%d steps, path %v: %v, want %v", steps, row.path, got, whole)
		}
		for i := range a {
			if got, want := within[i]+behind[i], a[i]+b[i]; got != want {
				t.Fatalf("%d steps, path %v, element %d: %v, want %v", steps, row.path, i, got, want)
			}
		}
	}
}

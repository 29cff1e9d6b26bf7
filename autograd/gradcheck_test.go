package autograd_test

import (
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

func open(t testing.TB, opts ...tensor.OpenOption) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open("cpu", append([]tensor.OpenOption{tensor.Seed(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// operand makes the host tensor that a Sample's Arg describes, with floating values in float64.
func operand(a seam.Arg, seed uint64) *tensor.Tensor {
	if a.Values != nil {
		v := tensor.FromSlice(append([]float64(nil), a.Values...), a.Shape...)
		if a.DType.IsFloat() {
			return v
		}
		return v.To(a.DType)
	}
	v := tensor.Uniform(tensor.Seed(seed), a.Lo, a.Hi, a.Shape...).To(tensor.Float64)
	if !a.DType.IsFloat() {
		return v.To(a.DType)
	}
	return v
}

// A layout turns a watched contiguous operand into one of the same values and another memory layout, on the tape.
type layout struct {
	name string
	of   func(x *tensor.Tensor) *tensor.Tensor
}

var layouts = []layout{
	{"contiguous", func(x *tensor.Tensor) *tensor.Tensor { return x }},
	{"transposed", func(x *tensor.Tensor) *tensor.Tensor {
		if x.Rank() < 2 {
			return x
		}
		return x.Transpose(0, -1).Clone().Transpose(0, -1)
	}},
	{"sliced", func(x *tensor.Tensor) *tensor.Tensor {
		if x.Rank() == 0 {
			return x
		}
		wide := tensor.Cat(-1, x, x)
		return wide.Slice(-1, 0, x.Dim(-1))
	}},
	{"expanded", func(x *tensor.Tensor) *tensor.Tensor { // a repeated axis of which one entry is taken
		return x.Unsqueeze(0).Expand(append([]int{3}, x.Shape()...)...).Select(0, 1)
	}},
}

// TestGradcheckOps compares the first and second derivatives of every operation with finite differences.
func TestGradcheckOps(t *testing.T) {
	dev := open(t)
	total, checked := 0, 0
	var missing []string
	for _, op := range engine.Ops() {
		if op.NoGrad != "" {
			continue
		}
		total++
		samples := engine.Samples(op)
		if len(samples) == 0 {
			missing = append(missing, op.Name)
			t.Errorf("operation %s has no samples", op.Name)
			continue
		}
		ok := t.Run(op.Name, func(t *testing.T) {
			for i, s := range samples {
				name := s.Name
				if name == "" {
					name = fmt.Sprint(shapes(s))
				}
				for j, l := range layouts {
					if s.Fixed && j > 0 {
						break
					}
					f := func(xs []*tensor.Tensor) *tensor.Tensor {
						ys := make([]*tensor.Tensor, len(xs))
						for k, x := range xs {
							ys[k] = l.of(x)
						}
						return s.Call(ys)
					}
					if err := autograd.Gradcheck(dev, f, operands(op, s)...); err != nil {
						t.Errorf("sample %d %s, %s: %v", i, name, l.name, err)
					}
					if j == 0 {
						if err := autograd.GradGradcheck(dev, f, operands(op, s)...); err != nil {
							t.Errorf("sample %d %s, second derivative: %v", i, name, err)
						}
					}
				}
			}
		})
		if ok {
			checked++
		}
	}
	fmt.Printf("ops %d, checked %d, missing %d\n", total, checked, len(missing))
}

func operands(op *tensor.Op, s seam.Sample[*tensor.Tensor]) []*tensor.Tensor {
	h := fnv.New64a()
	h.Write([]byte(op.Name + s.Name))
	seed := h.Sum64()
	var in []*tensor.Tensor
	for i, a := range s.In {
		in = append(in, operand(a, seed+uint64(i)))
	}
	return in
}

func shapes(s seam.Sample[*tensor.Tensor]) (all [][]int) {
	for _, a := range s.In {
		all = append(all, a.Shape)
	}
	return all
}

// A wrong derivative must be noticed.
func TestGradcheckCatches(t *testing.T) {
	dev := open(t)
	wrong := func(xs []*tensor.Tensor) *tensor.Tensor {
		return autograd.Custom("wrong", func(c *autograd.Ctx, x ...*tensor.Tensor) *tensor.Tensor {
			c.Save(x[0])
			return x[0].Square()
		}, func(c *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{g.Mul(c.Saved(0)).Scale(2.01)}
		}, xs[0])
	}
	x := tensor.FromSlice([]float64{1, 2, 3}, 3)
	if err := autograd.Gradcheck(dev, wrong, x); err == nil {
		t.Error("a derivative off by half a percent passes")
	}
	if err := autograd.Gradcheck(dev, func(xs []*tensor.Tensor) *tensor.Tensor { return xs[0].Square() },
		x); err != nil {
		t.Error(err)
	}
}

//go:build emu && cuda && cgo && linux

package ops

import (
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// A rowCase is an operation along rows.
type rowCase struct {
	name        string
	ints        []int
	floats      []float64
	differences bool                                    // results may be small differences of large terms
	operands    func(x *tensor.Tensor) []*tensor.Tensor // for rows x
}

// rowCases are the operations with exponentials, and the norms.
func rowCases() []rowCase {
	like := func(x *tensor.Tensor, seed uint64, lo, hi float64) *tensor.Tensor {
		return tensor.Uniform(tensor.Seed(seed), lo, hi, x.Shape()...).To(x.DType())
	}
	row := func(x *tensor.Tensor, seed uint64) *tensor.Tensor {
		return tensor.Uniform(tensor.Seed(seed), -1, 1, x.Dim(-1)).To(x.DType())
	}
	targets := func(x *tensor.Tensor) *tensor.Tensor {
		return tensor.FromSlice([]int64{0, int64(x.Dim(1) / 2), int64(x.Dim(1) - 1)}, 3)
	}
	// saved is what the operation on x saves of its rows, in float32 or double.
	saved := func(x, rows *tensor.Tensor) *tensor.Tensor {
		if x.DType().IsHalf() {
			return rows.To(tensor.Float32)
		}
		return rows
	}
	alone := func(x *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{x} }
	labelled := func(x *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{x, targets(x)} }
	const mean, none, ignored = 0, 2, -100
	return []rowCase{
		{"softmax", []int{1}, nil, false, alone},
		{"log_softmax", []int{1}, nil, false, alone},
		{"logsumexp", []int{1}, nil, false, alone},
		{"var", []int{1}, []float64{1}, false, alone},
		{"cross_entropy", []int{ignored, none}, []float64{0}, false, labelled},
		{"cross_entropy", []int{ignored, mean}, []float64{0.1}, false, labelled},
		{"softmax_grad", []int{1}, nil, true, func(x *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{like(x, 3, 0, 2/float64(x.Dim(1))), like(x, 4, -1, 1)}
		}},
		{"log_softmax_grad", []int{1}, nil, true, func(x *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{like(x, 3, -9, -1), like(x, 4, -1, 1)}
		}},
		{"cross_entropy_grad", []int{ignored, none}, []float64{0.1}, true, func(x *tensor.Tensor) []*tensor.Tensor {
			wide := x.To(tensor.Float64)
			most := wide.Max(-1)
			sum := wide.Sub(most.Unsqueeze(-1)).Exp().Sum(-1)
			return []*tensor.Tensor{x, targets(x), saved(x, most), saved(x, sum),
				tensor.Uniform(tensor.Seed(5), 0.5, 2, 3).To(x.DType())}
		}},
		{"layer_norm", []int{1}, []float64{1e-5}, true, func(x *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{x, row(x, 3), row(x, 4)}
		}},
		{"layer_norm_grad", []int{1, 1, 1, 1}, nil, true, func(x *tensor.Tensor) []*tensor.Tensor {
			wide := x.To(tensor.Float64)
			return []*tensor.Tensor{like(x, 3, -1, 1), x, saved(x, wide.Mean(-1)), saved(x, wide.Var(0, -1).Rsqrt()),
				row(x, 4)}
		}},
	}
}

// TestRowsAccuracy: results of half precision are within a unit in the last place of those of float64, rounded. One of
// 10,000 differences may be farther away: by 2^-20 of the largest result. Maxima, means and the like, which are saved
// in float32 for gradients, are within 2^-17; results of float64 within 2^-40, since the CPU adds up in another order.
// Rows are cached by warps and by blocks, or read again, with and without alignment.
func TestRowsAccuracy(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, c := range rowCases() {
		for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float64} {
			far, all := 0, 0
			for _, n := range []int{5, 130, 1024, 1025, 4096, 16388, 20001} {
				in := c.operands(tensor.Uniform(tensor.Seed(uint64(n)), -4, 4, 3, n).To(d))
				wide := make([]*tensor.Tensor, len(in))
				for k, x := range in {
					if wide[k] = x; x.DType().IsFloat() {
						wide[k] = x.To(tensor.Float64)
					}
				}
				got, types := c.on(t, gpu, in)
				want, _ := c.on(t, cpu, wide)
				for k, exact := range want {
					slack := 0.0
					if c.differences && d.IsHalf() {
						slack = 0x1p-20 * max(slices.Max(exact), -slices.Min(exact))
					}
					rounded := tensor.ToSlice[float64](tensor.FromSlice(exact,
						len(exact)).To(types[k]).To(tensor.Float64))
					for i, y := range got[k] {
						most := 0x1p-40 * max(1, math.Abs(exact[i]))
						switch {
						case types[k].IsHalf():
							most = ulp(d, exact[i])
						case types[k] == tensor.Float32:
							most *= 0x1p23
						}
						all++
						if math.Abs(y-rounded[i]) <= most {
							continue
						}
						if far++; !(math.Abs(y-exact[i]) <= slack) {
							t.Fatalf("%s in %v, rows of %d: element %d of result %d is %v, want %v within %v",
								c.name, d, n,
								i, k, y, rounded[i], max(most, slack))
						}
					}
				}
			}
			if 10_000*far > all {
				t.Errorf("%s in %v: %d of %d results are not within a unit in the last place", c.name, d, far, all)
			}
		}
	}
}

// on are the results of the operation on a device, and their types.
func (c *rowCase) on(t *testing.T, dev *tensor.Device, in []*tensor.Tensor) (out [][]float64, types []tensor.DType) {
	t.Helper()
	op := engine.Ops()[slices.IndexFunc(engine.Ops(), func(op *tensor.Op) bool { return op.Name == c.name })]
	must(t, dev.Step(func(s *tensor.Scope) error {
		var x []*tensor.Tensor
		for _, v := range in {
			x = append(x, s.In(v))
		}
		for _, y := range engine.ApplyAll(op, x, c.ints, c.floats) {
			out, types = append(out, tensor.ToSlice[float64](y.To(tensor.Float64))), append(types, y.DType())
		}
		return nil
	}))
	return out, types
}

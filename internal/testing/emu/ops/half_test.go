//go:build emu && cuda && cgo && linux

package ops

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// TestMatMulHalf: matrix products in half precision and their gradients, against float64 on the CPU. Each is off by its
// rounding, and by little of the sum of absolute values that it adds up.
func TestMatMulHalf(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		for _, c := range [][3][]int{
			{{33, 17}, {17, 40}, {33, 40}}, {{64, 32}, {32, 128}, {64, 128}}, {{2, 9, 24}, {24, 16}, {2, 9, 16}},
			{{3, 2, 8, 16}, {3, 2, 16, 8}, {3, 2, 8, 8}}, {{5}, {5, 3}, {3}},
		} {
			var in []*tensor.Tensor
			for k, shape := range c {
				in = append(in, tensor.Uniform(tensor.Seed(uint64(k)+1), -1, 1, shape...).To(d))
			}
			product := func(s *tensor.Scope, dtype tensor.DType,
				prepare func(x *tensor.Tensor) *tensor.Tensor) [][]float64 {
				a := autograd.Watch(s, s.In(prepare(in[0].To(dtype))))
				b := autograd.Watch(s, s.In(prepare(in[1].To(dtype))))
				y := a.MatMul(b)
				// A dot product, whose gradient for y is exactly the third operand.
				loss := y.Reshape(y.Len()).MatMul(s.In(prepare(in[2].To(dtype))).Reshape(y.Len()))
				var all [][]float64
				for _, v := range append(one(y), gradients(loss, a, b)...) {
					all = append(all, tensor.ToSlice[float64](v))
				}
				return all
			}
			var exact, sizes, got [][]float64
			must(t, cpu.Step(func(s *tensor.Scope) error {
				exact = product(s, tensor.Float64, func(x *tensor.Tensor) *tensor.Tensor { return x })
				sizes = product(s, tensor.Float64, (*tensor.Tensor).Abs)
				return nil
			}))
			must(t, gpu.Step(func(s *tensor.Scope) error {
				got = product(s, d, func(x *tensor.Tensor) *tensor.Tensor { return x })
				return nil
			}))
			ulp := 0x1p-11
			if d == tensor.BFloat16 {
				ulp = 0x1p-8
			}
			for k := range exact {
				for i, want := range exact[k] {
					if most := math.Abs(want)*ulp + sizes[k][i]*0x1p-16; !(math.Abs(got[k][i]-want) <= most) {
						t.Fatalf("%v %v: element %d of result %d is %v, want %v within %v", d, c, i, k, got[k][i], want,
							most)
					}
				}
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Errorf("step: %w", err))
	}
}

// TestIndexOutside: an index outside its axis is an error of its kind, with the caller's line and the CPU's words,
// which comes when the step reads; the next step works.
func TestIndexOutside(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	table := tensor.Uniform(tensor.Seed(1), -1, 1, 4, 3)
	for name, f := range map[string]func(s *tensor.Scope, ids *tensor.Tensor) *tensor.Tensor{
		"embedding": func(s *tensor.Scope, ids *tensor.Tensor) *tensor.Tensor { return s.In(table).Embedding(ids) },
		"index_add": func(s *tensor.Scope, ids *tensor.Tensor) *tensor.Tensor {
			return s.In(table).IndexAdd(0, ids, s.In(table))
		},
		"cross_entropy": func(s *tensor.Scope,
			ids *tensor.Tensor) *tensor.Tensor {
			return s.In(table).CrossEntropy(ids)
		},
		"max_unpool": func(s *tensor.Scope, ids *tensor.Tensor) *tensor.Tensor {
			return s.In(table).Select(1, 0).MaxUnpool(ids, 4)
		},
		"index_select": func(s *tensor.Scope, ids *tensor.Tensor) *tensor.Tensor { // the result is empty
			return s.In(table).Slice(1, 0, 0).IndexSelect(0, ids)
		},
	} {
		for wrong, ids := range map[bool]*tensor.Tensor{true: tensor.FromSlice([]int64{0, 1, 7, 9}, 4),
			false: tensor.FromSlice([]int64{0, 1, 2, 2}, 4)} {
			step := func(dev *tensor.Device) error {
				return dev.Step(func(s *tensor.Scope) error {
					tensor.ToSlice[float32](f(s, s.In(ids)))
					return dev.Synchronize()
				})
			}
			want, got := step(cpu), step(gpu)
			var e *tensor.Error
			switch {
			case !wrong && (want != nil || got != nil):
				t.Errorf("%s: errors %v and %v of right indices", name, want, got)
			case wrong && (!errors.Is(got, tensor.ErrIndex) || !errors.As(want, &e) ||
				!strings.Contains(got.Error(), ": "+name+": "+e.Msg)):
				t.Errorf("%s: error %v, want %v", name, got, want)
			case wrong && !strings.Contains(got.Error(), "half_test.go:"):
				t.Errorf("%s: error %v does not name the line", name, got)
			}
		}
	}
}

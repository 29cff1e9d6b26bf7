package linalg_test

import (
	"testing"

	"github.com/weft-ml/weft/linalg"
	"github.com/weft-ml/weft/tensor"
)

// A network of tensors that would be large from left to right, and products of heads.
func BenchmarkEinsum(b *testing.B) {
	dev := open(b)
	for _, c := range []struct {
		name, equation string
		shapes         [][]int
	}{
		{"network", "abc,bde,cef,dg,fh->agh", [][]int{{32, 32, 32}, {32, 32, 32}, {32, 32, 32}, {32, 32}, {32, 32}}},
		{"chain", "ab,bc,cd,de->ae", [][]int{{512, 512}, {512, 512}, {512, 512}, {512, 8}}},
		{"heads", "bqhd,bkhd->bhqk", [][]int{{8, 128, 8, 64}, {8, 128, 8, 64}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var x []*tensor.Tensor
			for i, shape := range c.shapes {
				x = append(x, tensor.Uniform(tensor.Seed(uint64(i)), -1, 1, shape...))
			}
			for b.Loop() {
				if err := dev.Eval(func(s *tensor.Scope) error {
					in := make([]*tensor.Tensor, len(x))
					for i := range x {
						in[i] = s.In(x[i])
					}
					linalg.Einsum(c.equation, in...)
					return nil
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

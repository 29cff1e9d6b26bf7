//go:build emu && cuda && cgo && linux

package ops

import (
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// TestComposed: what is composed of sorting, scattering and running sums, with sizes that depend on the data.
func TestComposed(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	x := tensor.Uniform(tensor.Seed(3), -3, 3, 5, 37)
	whole := x.Trunc().To(tensor.Int64).Abs()
	same(t, cpu, gpu, "composed", []*tensor.Tensor{x, whole}, func(in []*tensor.Tensor) []*tensor.Tensor {
		x, whole := in[0], in[1]
		positive := x.GreaterScalar(0)
		values, inverse, counts := whole.Unique()
		median, at := x.Median(1)
		rows := whole.Slice(0, 0, 2)
		return []*tensor.Tensor{
			positive.Nonzero(), x.MaskedSelect(positive), values, inverse, counts, median, at, whole.BinCount(nil, 3),
			x.Histc(7, -2, 2), x.Quantile([]float64{0.1, 0.5}, 1, "linear"), x.LogCumSumExp(1), x.Roll(1, 5),
			x.IndexPut([]*tensor.Tensor{rows, rows}, tensor.Of[float32](1), true), x.Diagonal(3, 0, 1), x.DiagEmbed(-1),
			x.ScatterReduce(1, whole, x, "mean", false),
		}
	})
}

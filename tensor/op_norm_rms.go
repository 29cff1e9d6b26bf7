package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var rmsNorm, rmsNormGrad Op

func init() {
	defineNorm(&rmsNorm, &rmsNormGrad, 1, entry{
		Op:    kernels.Op{Name: "rms_norm", CPU: cpu.RMSNorm},
		Doc:   "x / sqrt(mean(x^2) + eps) * weight over the last axes",
		Args:  []string{"x", "weight?"},
		Saves: []saves{saveIn(0, 1) | saveOut(1), saveIn(0) | saveOut(1)},
		Flops: perElement(5),
		Samples: func() []opSample {
			return normSamples(false, func(x, w, _ *Tensor) *Tensor { return x.RMSNorm(w, 1e-5) })
		},
		Bench: func() []benchmark {
			return rowBenchmarks(2, func(x *Tensor, _ int) *Tensor { return x.RMSNorm(nil, 1e-5) })
		},
	}, entry{
		Op:    kernels.Op{Name: "rms_norm_grad", CPU: cpu.RMSNormGrad},
		Doc:   "the gradients of rms_norm for x and weight",
		Args:  []string{"g", "x", "rstd", "weight?"},
		Ints:  []string{"axes", "for x", "for weight"},
		Flops: perElement(10),
	})
}

// RMSNorm divides the last axes by their root mean square and scales them: x / sqrt(mean(x^2) + eps) * weight (Zhang
// and Sennrich 2019). The normalised axes are those of weight; if that is nil, the last axis alone.
func (t *Tensor) RMSNorm(weight *Tensor, eps float64) *Tensor {
	if weight == nil {
		return apply(&rmsNorm, []*Tensor{t}, []int{1}, []float64{eps})
	}
	return apply(&rmsNorm, []*Tensor{t, weight}, []int{weight.Rank()}, []float64{eps})
}

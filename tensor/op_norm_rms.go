package tensor

import (
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var rmsNorm, rmsNormGrad Op

func init() {
	define(&rmsNorm, Op{
		Op:    kernels.Op{Name: "rms_norm", CPU: cpu.RMSNorm, Ref: rmsNormRef},
		Cast:  CastFull,
		Doc:   "x / sqrt(mean(x^2) + eps) * weight over the last axes",
		Args:  []string{"x", "weight"},
		Shape: normShape(1),
		VJP:   rmsNormVJP,
		Saves: []Saves{SaveIn(0, 1) | SaveOut(1), SaveIn(0) | SaveOut(1)},
		Flops: perElement(5),
		Samples: func() []Sample {
			return normSamples(false, func(x, w, _ *Tensor) *Tensor { return x.RMSNorm(w, 1e-5) })
		},
		Bench: func() []Benchmark {
			return rowBenchmarks(2, func(x *Tensor, _ int) *Tensor { return x.RMSNorm(nil, 1e-5) })
		},
	})
	define(&rmsNormGrad, Op{
		Op:     kernels.Op{Name: "rms_norm_grad", CPU: cpu.RMSNormGrad, Ref: rmsNormGradRef},
		Doc:    "the gradients of rms_norm for x and weight",
		Args:   []string{"g", "x", "rstd", "weight"},
		Shape:  normGradShape,
		Flops:  perElement(10),
		NoGrad: "with a graph, rms_norm composes its gradient",
	})
}

// RMSNorm divides the last axes by their root mean square and scales them: x / sqrt(mean(x^2) + eps) * weight (Zhang
// and Sennrich 2019). The normalised axes are those of weight; if that is nil, the last axis alone.
func (t *Tensor) RMSNorm(weight *Tensor, eps float64) *Tensor {
	if weight == nil {
		return Apply(&rmsNorm, []*Tensor{t}, []int{1}, []float64{eps})
	}
	return Apply(&rmsNorm, []*Tensor{t, weight}, []int{weight.Rank()}, []float64{eps})
}

func rmsNormVJP(c *Ctx, g *Tensor) []*Tensor {
	return c.normOf(c.In[0], c.In[0].needs, 1, &rmsNormGrad).vjp(g)
}

func rmsNormRef(l *kernels.Launch) {
	x, y, rstds := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0]), cpu.Slice[float64](l.Out[1])
	rows, n := normRows(l.In[0], l.Ints[0])
	for r := range rows {
		row := x[r*n : (r+1)*n]
		square := 0.0
		for _, v := range row {
			square += v * v / float64(n)
		}
		rstds[r] = 1 / math.Sqrt(square+l.Floats[0])
		for i, v := range row {
			y[r*n+i] = v * rstds[r]
			if len(l.In) > 1 {
				y[r*n+i] *= cpu.Slice[float64](l.In[1])[i]
			}
		}
	}
}

func rmsNormGradRef(l *kernels.Launch) {
	g, x, rstds := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.In[1]), cpu.Slice[float64](l.In[2])
	var weight []float64
	if len(l.In) > 3 {
		weight = cpu.Slice[float64](l.In[3])
	}
	normGradRef(l, g, x, weight, rstds, func(int) float64 { return 0 }, false)
}

package autograd_test

import (
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/tensor"
)

func init() {
	does(map[string]call{
		"erfinv": unary((*tensor.Tensor).ErfInv), "lgamma": unary((*tensor.Tensor).LGamma),
		"digamma": unary((*tensor.Tensor).Digamma), "sinc": unary((*tensor.Tensor).Sinc),
		"rad2deg": unary((*tensor.Tensor).Rad2Deg), "deg2rad": unary((*tensor.Tensor).Deg2Rad),
		"signbit": unary((*tensor.Tensor).SignBit), "fmax": binary((*tensor.Tensor).FMax),
		"fmin": binary((*tensor.Tensor).FMin), "copysign": binary((*tensor.Tensor).CopySign),
		"nextafter": binary((*tensor.Tensor).NextAfter),
		"heaviside": binary((*tensor.Tensor).Heaviside), "prelu": binary((*tensor.Tensor).PReLU),
		"swiglu": binary((*tensor.Tensor).SwiGLU), "geglu": binary((*tensor.Tensor).GEGLU),
		"glu":             axis((*tensor.Tensor).GLU),
		"threshold":       two("threshold", "value", (*tensor.Tensor).Threshold),
		"softplus_beta":   two("beta", "threshold", (*tensor.Tensor).SoftplusBeta),
		"hardtanh_within": two("min_val", "max_val", (*tensor.Tensor).HardtanhWithin),
		"nan_to_num": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			var values []float64
			for _, key := range []string{"nan", "posinf", "neginf"} {
				if c.Has(key) {
					values = append(values, c.Float(key))
				}
			}
			return one(x[0].NaNToNum(values...))
		},
		"isclose": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].IsClose(x[1], c.Float("rtol"), c.Float("atol")))
		},
		"addcmul": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].AddCMul(c.Float("value"), x[1], x[2]))
		},
		"addcdiv": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].AddCDiv(c.Float("value"), x[1], x[2]))
		},
		"lerp_scalar": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].LerpScalar(x[1], c.Float("w")))
		},
		"norm": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return reduction(func(x *tensor.Tensor, axes ...int) *tensor.Tensor {
				return x.Norm(c.Float("p"), axes...)
			})(c, x)
		},
		"cosine_similarity": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].CosineSimilarity(x[1], c.Int("axis"), c.Float("eps")))
		},
		"pairwise_distance": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].PairwiseDistance(x[1], c.Float("p"), c.Float("eps"), keepDims(c)...))
		},
		"cdist": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].Cdist(x[1], c.Float("p")))
		},
		"renorm": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return one(x[0].Renorm(c.Float("p"), c.Int("axis"), c.Float("maxnorm")))
		},
		"nansum": reduction((*tensor.Tensor).NaNSum), "nanmean": reduction((*tensor.Tensor).NaNMean),
		"var_mean": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			v, mean := x[0].VarMean(c.Int("correction"), append(c.Ints("axes"), keepDims(c)...)...)
			return []*tensor.Tensor{v, mean}
		},
		"std_mean": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			v, mean := x[0].StdMean(c.Int("correction"), append(c.Ints("axes"), keepDims(c)...)...)
			return []*tensor.Tensor{v, mean}
		},
		"aminmax": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			lo, hi := x[0].AMinMax(append([]int{c.Int("axis")}, keepDims(c)...)...)
			return []*tensor.Tensor{lo, hi}
		},
	})
}

// two is a function of a tensor and two numbers of the case.
func two(a, b string, f func(x *tensor.Tensor, a, b float64) *tensor.Tensor) call {
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor { return one(f(x[0], c.Float(a), c.Float(b))) }
}

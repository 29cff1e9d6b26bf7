package autograd_test

import (
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// twoOperands is a loss of two operands with the options of the case; a third holds weights of the given kind.
func twoOperands(f func(x, y *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor,
	weights func(w *tensor.Tensor) nn.LossOption, more ...nn.LossOption) call {
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return loss(func(x, y *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor {
			return f(x, y, append(append(opts, options(c)...), more...)...)
		}, weights)(c, x)
	}
}

// threeOperands is a loss of three operands with the options of the case.
func threeOperands(f func(x, y, z *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor, more ...nn.LossOption) call {
	return func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
		return twoOperands(func(a, b *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor {
			return f(a, b, x[2], opts...)
		}, nil, more...)(c, x[:2])
	}
}

// options are those of margins and likelihoods.
func options(c *golden.Case) (opts []nn.LossOption) {
	for key, option := range map[string]func(v float64) nn.LossOption{
		"margin": nn.Margin, "p": nn.Degree, "eps": nn.LossEps,
	} {
		if c.Has(key) {
			opts = append(opts, option(c.Float(key)))
		}
	}
	for key, option := range map[string]nn.LossOption{"full": nn.Full(), "swap": nn.Swap()} {
		if c.Has(key) {
			opts = append(opts, option)
		}
	}
	return opts
}

func init() {
	classAxis := nn.ClassAxis(1)
	cosine := nn.Distance(func(x, y *tensor.Tensor) *tensor.Tensor {
		return x.CosineSimilarity(y, -1, 1e-8).SubFrom(1)
	})
	for _, kind := range []string{"full", "rows", "columns"} {
		does(map[string]call{"gaussian_nll " + kind: threeOperands(nn.GaussianNLL)})
	}
	does(map[string]call{
		"cross_entropy_soft":          twoOperands(nn.CrossEntropy, nil),
		"cross_entropy_soft_weighted": twoOperands(nn.CrossEntropy, nn.ClassWeights),
		"cross_entropy_axis":          twoOperands(nn.CrossEntropy, nn.ClassWeights, classAxis),
		"cross_entropy_soft_axis":     twoOperands(nn.CrossEntropy, nil, classAxis),
		"nll_axis":                    twoOperands(nn.NLL, nn.ClassWeights, classAxis),
		"smooth_l1": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return loss(func(x, y *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor {
				return nn.SmoothL1(x, y, c.Float("beta"), opts...)
			}, nil)(c, x)
		},
		"sigmoid_focal": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return loss(func(x, y *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor {
				return nn.SigmoidFocal(x, y, c.Float("alpha"), c.Float("gamma"), opts...)
			}, nil)(c, x)
		},
		"ctc": func(c *golden.Case, x []*tensor.Tensor) []*tensor.Tensor {
			return loss(func(x, y *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor {
				if c.Has("blank") {
					opts = append(opts, nn.Blank(c.Int("blank")))
				}
				if c.Has("zero_infinity") {
					opts = append(opts, nn.ZeroInfinity())
				}
				return nn.CTC(x.LogSoftmax(-1), y, c.Ints("lengths"), c.Ints("target_lengths"), opts...)
			}, nil)(c, x)
		},
		"kl_div_log":                       twoOperands(nn.KLDiv, nil, nn.LogTarget()),
		"poisson_nll":                      twoOperands(nn.PoissonNLL, nil),
		"poisson_nll_rates":                twoOperands(nn.PoissonNLL, nil, nn.NoLogInput()),
		"gaussian_nll":                     threeOperands(nn.GaussianNLL),
		"margin_ranking":                   threeOperands(nn.MarginRanking),
		"cosine_embedding":                 threeOperands(nn.CosineEmbedding),
		"triplet_margin":                   threeOperands(nn.TripletMargin),
		"triplet_margin_distance":          threeOperands(nn.TripletMargin, cosine),
		"hinge_embedding":                  twoOperands(nn.HingeEmbedding, nil),
		"soft_margin":                      twoOperands(nn.SoftMargin, nil),
		"multi_margin":                     twoOperands(nn.MultiMargin, nil),
		"multi_margin_weighted":            twoOperands(nn.MultiMargin, nn.ClassWeights),
		"multi_label_margin":               twoOperands(nn.MultiLabelMargin, nil),
		"multi_label_soft_margin":          twoOperands(nn.MultiLabelSoftMargin, nil),
		"multi_label_soft_margin_weighted": twoOperands(nn.MultiLabelSoftMargin, nn.ClassWeights),
	})
}

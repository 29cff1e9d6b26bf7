package tensor

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// Batch norm in training and its gradient, in one pass over memory. Their definition is what package nn composes them
// of elsewhere: they have its bits, and its derivatives.

func init() {
	const composed = "a GPU runs the operations that it is composed of"
	define(&Op{}, entry{
		Op:     kernels.Op{Name: "batch_norm_train", CPU: cpu.BatchNorm},
		Doc:    "(x - mean(x)) / sqrt(var(x) + eps) * weight + bias over all axes but that of the channels",
		Args:   []string{"x", "weight", "bias"},
		Floats: []string{"eps"},
		NoGrad: composed, CPUOnly: composed, Flops: perElement(8),
		Shape: func(c *ctx) {
			c.result(Float32, c.shape(0)...)
			c.perChannel(c.In[0], c.In[1:])
		},
	})
	define(&Op{}, entry{
		Op:     kernels.Op{Name: "batch_norm_train_grad", CPU: cpu.BatchNormGrad},
		Doc:    "the gradients of batch_norm_train for x, weight and bias",
		Args:   []string{"x", "g", "mean", "variance", "weight"},
		Ints:   []string{"for x"},
		Floats: []string{"eps"},
		NoGrad: composed, CPUOnly: composed, Flops: perElement(12),
		Overwrites: saveIn(0), // all of a channel is read before
		Shape: func(c *ctx) {
			if !sameShape(c.In[0], c.In[1]) {
				c.fail(ErrShape, "x %v and g %v differ in shape", c.In[0], c.In[1])
			}
			if c.wantDType(1, Float32); c.Ints[0] == 1 {
				c.result(Float32, c.shape(0)...)
			} else {
				c.result(Float32, 0)
			}
			c.perChannel(c.In[0], c.In[2:])
		},
	})
}

// perChannel adds two results of one number for each channel of x [N C ...], as the parameters have. It fails unless
// planes have two elements and more, so that the sums are rows.
func (c *ctx) perChannel(x *Tensor, parameters []*Tensor) {
	c.wantDType(0, Float32)
	if c.wantRank(0, 3); x.Len() == 0 || kernels.Count(x.layout.Shape[2:]) == 1 {
		c.fail(ErrShape, "x %v has planes of less than two elements", x)
	}
	channels := x.layout.Shape[1:2]
	for i, p := range parameters {
		k := len(c.In) - len(parameters) + i
		if c.wantDType(k, Float32); !slices.Equal(p.layout.Shape, channels) {
			c.fail(ErrShape, "%s %v must have one number for each channel of x %v", c.argName(k), p, x)
		}
	}
	for range 2 {
		c.result(Float32, channels...)
	}
}

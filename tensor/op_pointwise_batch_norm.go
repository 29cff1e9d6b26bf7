package tensor

import "github.com/weft-ml/weft/internal/seam"

// What batch norm in package nn is made of: the operands beside x and the gradient g are one number for each channel.

var _ = pointwise{
	name: "batch_norm", expr: "(x - mean)*scale + bias", args: "x mean scale bias", cast: seam.CastFull, fused: true,
	uniform: "mean scale bias",
}.op()

// The sum of this over all but the channels is the gradient for 1/scale, and part of those for x and weight.
var _ = pointwise{
	name: "batch_norm_product", expr: "g*(x - mean)", args: "g x mean", cast: seam.CastFull, fused: true,
	uniform: "mean",
}.op()

var _ = pointwise{
	name: "batch_norm_grad", expr: "(g - shift - (x - mean)*slope)*scale", args: "g x mean shift slope scale",
	cast: seam.CastFull, fused: true, uniform: "mean shift slope scale",
}.op()

// The running statistics of norms: a step towards the values of a batch, of 1/count of the way.
var _ = pointwise{
	name: "running_average", expr: "old + (new - old)/count", args: "old new count", lo: 0.5, hi: 2,
}.op()

package nn

import (
	"fmt"
	"slices"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// Operations that norms are made of.
var (
	batchNorm          = engine.Op("batch_norm")
	batchNormProduct   = engine.Op("batch_norm_product")
	batchNormGrad      = engine.Op("batch_norm_grad")
	batchNormTrain     = engine.Op("batch_norm_train")
	batchNormTrainGrad = engine.Op("batch_norm_train_grad")
	runningAverage     = engine.Op("running_average")
	addScalar          = engine.Op("add_scalar")
)

// RunningStats are mean and variance of the channels of what a norm has seen in training. They move in steps with
// training behaviour, once for each Forward and in this order, when the step commits: a step that fails leaves them.
// Reading them later in the same step is an error.
type RunningStats struct {
	Mean       *tensor.Tensor `weft:"running_mean"`        // [C]; nil: none are kept
	Var        *tensor.Tensor `weft:"running_var"`         // [C], unbiased
	Batches    *tensor.Tensor `weft:"num_batches_tracked"` // [], int64; only batch norm counts
	Momentum   float64        // how much of the way they go
	Cumulative bool           // they are the mean over all batches, whatever Momentum says
}

func newRunningStats(channels int, c layerConfig) RunningStats {
	r := RunningStats{Momentum: c.momentum, Cumulative: c.cumulative}
	if c.statistics {
		r.Mean, r.Var, r.Batches = State(Zeros, channels), State(Ones, channels), engine.Counter()
	}
	return r
}

// move takes the statistics towards those of a batch, [C]. Nothing here reads what they are: the updates wait for the
// commit, one behind the other.
func (r *RunningStats) move(s *tensor.Scope, mean, variance *tensor.Tensor) {
	count := r.Batches
	if !r.Cumulative {
		count = engine.NewFull(mean, 1/r.Momentum, mean.DType())
	}
	update(s, runningAverage, r.Mean, nil, mean, count)
	update(s, runningAverage, r.Var, nil, variance, count)
}

// normed is x normalised by the statistics; what is of half precision in float32, and rounded once.
func (r *RunningStats) normed(x, weight, bias *tensor.Tensor, eps float64) *tensor.Tensor {
	s := x.Scope()
	in := []*tensor.Tensor{r.Mean, r.Var, weight, bias}
	for i, t := range in {
		if t != nil {
			in[i] = widened(s.In(t))
		}
	}
	scale := rsqrtOf(in[1], eps)
	if in[2] != nil {
		scale = scale.Mul(in[2])
	}
	y := scaleShift(widened(x), in[0], scale, in[3])
	if x.DType() == r.Mean.DType() && engine.Autocasting(s) == tensor.Float32 {
		y = y.To(x.DType())
	}
	return y
}

// update writes op of old and others to the state old when the step commits.
func update(s *tensor.Scope, op *tensor.Op, old *tensor.Tensor, floats []float64, others ...*tensor.Tensor) {
	engine.Update(s, op, 0, old.Len(), []*tensor.Tensor{old}, append([]*tensor.Tensor{old}, others...), floats)
}

// channels is the axes of x beside that of the channels, axis 1. It fails unless x belongs to a step and is what a norm
// of so many channels, with at least and at most so many spatial axes, takes.
func channels(op string, x *tensor.Tensor, least, most, want int) (others []int) {
	if n := x.Rank(); n < 2+least || n > 2+most {
		spatial := fmt.Sprint(least)
		if least < most {
			spatial += fmt.Sprint(" to ", most)
		}
		engine.Fail(tensor.ErrShape, op, "x %v has %d axes; [N C] and then %s spatial ones are needed", x, n, spatial)
	}
	if c := x.Dim(1); c != want {
		engine.Fail(tensor.ErrShape, op, "x %v has %d channels on axis 1, the norm %d", x, c, want)
	}
	if x.Scope() == nil {
		engine.Fail(tensor.ErrStep, op, "x %v belongs to no step; take it in with s.In", x)
	}
	if !x.DType().IsFloat() {
		engine.Fail(tensor.ErrDType, op, "x %v must hold floating numbers; x.To(tensor.Float32) converts", x)
	}
	for axis := range x.Rank() {
		if axis != 1 {
			others = append(others, axis)
		}
	}
	return others
}

// perChannel is v, [C], in the shape that broadcasts against x, [N C ...].
func perChannel(v, x *tensor.Tensor) *tensor.Tensor {
	shape := slices.Repeat([]int{1}, x.Rank()-1)
	shape[0] = v.Len()
	return v.Reshape(shape...)
}

// scaleShift is (x - mean)*scale + bias. The parts are for each channel, [C]; nil stands for 0, and for scale 1.
func scaleShift(x, mean, scale, bias *tensor.Tensor) *tensor.Tensor {
	in := []*tensor.Tensor{x, mean, scale, bias}
	for i, neutral := range []float64{1: 0, 2: 1, 3: 0} {
		switch {
		case i == 0:
		case in[i] == nil:
			in[i] = engine.NewFull(x, neutral, x.DType())
		default:
			in[i] = perChannel(in[i], x)
		}
	}
	return engine.Apply(batchNorm, in, nil, nil)
}

// rsqrtOf is 1/sqrt(variance + eps).
func rsqrtOf(variance *tensor.Tensor, eps float64) *tensor.Tensor {
	return variance.AddScalar(eps).Rsqrt()
}

// BatchNorm makes each channel of [N C ...] have mean 0 and variance 1 over all other axes, then scales and shifts it
// (Ioffe and Szegedy 2015). Steps with training behaviour normalise by the statistics of the batch and move the running
// ones; others normalise by these, if there are any.
type BatchNorm struct {
	Weight, Bias *tensor.Tensor // [C]; nil: none
	RunningStats
	Channels int
	Eps      float64

	least, most int // spatial axes
}

// NewBatchNorm1d declares a norm over the channels of [N C] or [N C L]. Options, with PyTorch's defaults: [Eps],
// [Momentum], [CumulativeAverage], [Affine] (true) and [TrackRunningStats] (true).
func NewBatchNorm1d(channels int, opts ...LayerOption) *BatchNorm {
	return newBatchNorm("batch_norm1d", channels, 0, 1, opts)
}

// NewBatchNorm2d is [NewBatchNorm1d] for [N C H W].
func NewBatchNorm2d(channels int, opts ...LayerOption) *BatchNorm {
	return newBatchNorm("batch_norm2d", channels, 2, 2, opts)
}

// NewBatchNorm3d is [NewBatchNorm1d] for [N C D H W].
func NewBatchNorm3d(channels int, opts ...LayerOption) *BatchNorm {
	return newBatchNorm("batch_norm3d", channels, 3, 3, opts)
}

func newBatchNorm(op string, channels, least, most int, opts []LayerOption) *BatchNorm {
	c := layerConfig{eps: 1e-5, momentum: 0.1, affine: true, statistics: true}.with(op, opts, "Eps", "Momentum",
		"CumulativeAverage", "Affine", "TrackRunningStats")
	weight, bias := c.channelParameters(channels)
	return &BatchNorm{Weight: weight, Bias: bias, RunningStats: newRunningStats(channels, c), Channels: channels,
		Eps: c.eps, least: least, most: most}
}

// channelParameters are the weight and bias of a norm, if it has them.
func (c layerConfig) channelParameters(channels int) (weight, bias *tensor.Tensor) {
	if !c.affine {
		return nil, nil
	}
	return Parameter(Ones, channels), Parameter(Zeros, channels)
}

// Forward keeps the shape [N C ...]. It fails for a batch of one element a channel if it normalises by the batch.
func (n *BatchNorm) Forward(x *tensor.Tensor) *tensor.Tensor {
	const op = "batch_norm"
	engine.Given(op, "the layer", n)
	others := channels(op, x, n.least, n.most, n.Channels)
	s := x.Scope()
	if !s.Training() && n.Mean != nil {
		return n.normed(x, n.Weight, n.Bias, n.Eps)
	}
	count := x.Len() / max(1, n.Channels)
	if count == 1 {
		engine.Fail(tensor.ErrShape, op, "x %v has one element in each channel, so no variance; a batch in training "+
			"needs more", x)
	}
	if x.Len() == 0 {
		return scaleShift(x, nil, n.Weight, n.Bias)
	}
	y, mean, variance := batchNormed(x, n.Weight, n.Bias, n.Eps, others)
	if s.Training() && n.Mean != nil {
		s.With(func() {
			update(s, addScalar, n.Batches, []float64{1})
			n.move(s, mean, variance.Scale(float64(count)/float64(count-1)))
		}, tensor.NoGrad())
	}
	return y
}

// batchNormed normalises x over the axes `others` than that of the channels; what is of half precision in float32, and
// rounded once. Mean and the biased variance are [C] and off the tape. With h = (x - mean)*rstd, and averages and sums
// over the other axes, the gradients are
//
//	dx      = (g - average(g) - h*average(g*h)) * rstd * weight
//	dweight = sum(g*h)
//	dbias   = sum(g)
func batchNormed(x, weight, bias *tensor.Tensor, eps float64, others []int) (y, mean, variance *tensor.Tensor) {
	s, shape := x.Scope(), []int{x.Dim(1)}
	if weight == nil {
		weight, bias = engine.NewFull(x, 1, x.DType(), shape...), engine.NewFull(x, 0, x.DType(), shape...)
	}
	y = autograd.CustomIn(tensor.Float32, "batch_norm",
		func(c *autograd.Ctx, in ...*tensor.Tensor) *tensor.Tensor {
			wide := allWidened(in...)
			if inOnePass(wide...) {
				out := engine.ApplyAll(batchNormTrain, wide, nil, []float64{eps})
				y, mean, variance = out[0], out[1], out[2]
			} else {
				mean, variance = wide[0].Mean(others...), wide[0].Var(0, others...)
				y = scaleShift(wide[0], mean, rsqrtOf(variance, eps).Mul(wide[1]), wide[2])
			}
			c.Save(append(in, mean, variance)...)
			if in[0].DType() == in[1].DType() {
				y = y.To(in[0].DType())
			}
			return y
		},
		func(c *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor {
			in, mean, variance := []*tensor.Tensor{c.Saved(0), c.Saved(1), c.Saved(2)}, c.Saved(3), c.Saved(4)
			wide := allWidened(append(in, g)...)
			x, weight, g := wide[0], wide[1], wide[3]
			if inOnePass(wide...) && !engine.Recording(s) {
				forX := 0
				if in[0].NeedsGrad() {
					forX = 1
				}
				grads := engine.ApplyAll(batchNormTrainGrad, []*tensor.Tensor{x, g, mean, variance, weight},
					[]int{forX}, []float64{eps})
				for i := range grads {
					grads[i] = grads[i].To(in[i].DType())
				}
				if forX == 0 {
					grads[0] = nil
				}
				return grads
			}
			if engine.Recording(s) { // the statistics are functions of x
				mean, variance = x.Mean(others...), x.Var(0, others...)
			}
			rstd := rsqrtOf(variance, eps)
			product := engine.Apply(batchNormProduct, []*tensor.Tensor{g, x, perChannel(mean, x)}, nil, nil)
			dbias, dweight := g.Sum(others...), product.Sum(others...).Mul(rstd)
			grads := []*tensor.Tensor{nil, dweight.To(in[1].DType()), dbias.To(in[2].DType())}
			if in[0].NeedsGrad() {
				share := float64(x.Dim(1)) / float64(x.Len())
				operands := []*tensor.Tensor{g, x}
				for _, v := range []*tensor.Tensor{mean, dbias.Scale(share), dweight.Mul(rstd).Scale(share),
					rstd.Mul(weight)} {
					operands = append(operands, perChannel(v, x))
				}
				grads[0] = engine.Apply(batchNormGrad, operands, nil, nil).To(in[0].DType())
			}
			return grads
		}, x, weight, bias)
	return y, mean, variance
}

// widened is t, of half precision in float32.
func widened(t *tensor.Tensor) *tensor.Tensor {
	if t.DType().IsHalf() {
		return t.To(tensor.Float32)
	}
	return t
}

// allWidened are tensors, each [widened].
func allWidened(in ...*tensor.Tensor) (wide []*tensor.Tensor) {
	for _, t := range in {
		wide = append(wide, widened(t))
	}
	return wide
}

// inOnePass tells whether one operation computes batch norm of x, the first of the operands, or its gradient: on the
// CPU, in float32, where the sums of channels are rows of the canonical order.
func inOnePass(in ...*tensor.Tensor) bool {
	x := in[0]
	other := func(t *tensor.Tensor) bool { return t.DType() != tensor.Float32 }
	return x.Device().Name() == "cpu" && x.Len() > x.Dim(0)*x.Dim(1) && !slices.ContainsFunc(in, other)
}

// InstanceNorm makes each channel of each element of a batch have mean 0 and variance 1 over the spatial axes, then
// scales and shifts it (Ulyanov et al. 2016). With running statistics it normalises by these in evaluation.
type InstanceNorm struct {
	Weight, Bias *tensor.Tensor // [C]; nil: none
	RunningStats
	Channels int
	Eps      float64

	axes int // spatial ones
}

// NewInstanceNorm1d declares a norm over [N C L]. Options, with PyTorch's defaults: [Eps], [Momentum], [Affine] (false)
// and [TrackRunningStats] (false).
func NewInstanceNorm1d(channels int, opts ...LayerOption) *InstanceNorm {
	return newInstanceNorm("instance_norm1d", channels, 1, opts)
}

// NewInstanceNorm2d is [NewInstanceNorm1d] for [N C H W].
func NewInstanceNorm2d(channels int, opts ...LayerOption) *InstanceNorm {
	return newInstanceNorm("instance_norm2d", channels, 2, opts)
}

// NewInstanceNorm3d is [NewInstanceNorm1d] for [N C D H W].
func NewInstanceNorm3d(channels int, opts ...LayerOption) *InstanceNorm {
	return newInstanceNorm("instance_norm3d", channels, 3, opts)
}

func newInstanceNorm(op string, channels, axes int, opts []LayerOption) *InstanceNorm {
	c := layerConfig{eps: 1e-5, momentum: 0.1}.with(op, opts, "Eps", "Momentum", "Affine", "TrackRunningStats")
	weight, bias := c.channelParameters(channels)
	return &InstanceNorm{Weight: weight, Bias: bias, RunningStats: newRunningStats(channels, c), Channels: channels,
		Eps: c.eps, axes: axes}
}

// Forward keeps the shape [N C ...]. It fails for one spatial element if it normalises by the instance.
func (n *InstanceNorm) Forward(x *tensor.Tensor) *tensor.Tensor {
	const op = "instance_norm"
	engine.Given(op, "the layer", n)
	others := channels(op, x, n.axes, n.axes, n.Channels)
	s, spatial := x.Scope(), others[1:]
	if !s.Training() && n.Mean != nil {
		return n.normed(x, n.Weight, n.Bias, n.Eps)
	}
	size := 1
	for _, axis := range spatial {
		size *= x.Dim(axis)
	}
	if size == 1 {
		engine.Fail(tensor.ErrShape, op, "x %v has one spatial element, so no variance", x)
	}
	if s.Training() && n.Mean != nil && x.Len() > 0 {
		s.With(func() {
			wide := widened(x)
			n.move(s, wide.Mean(others...), wide.Var(1, spatial...).Mean(0))
		}, tensor.NoGrad())
	}
	return groupNormed(x, n.Channels, n.Weight, n.Bias, n.Eps)
}

// GroupNorm makes each group of channels of each element of a batch have mean 0 and variance 1, then scales and shifts
// each channel (Wu and He 2018).
type GroupNorm struct {
	Weight, Bias     *tensor.Tensor // [C]; nil: none
	Groups, Channels int
	Eps              float64
}

// NewGroupNorm declares a norm over groups of channels of [N C ...], of which the number of groups is a divisor.
// Options, with PyTorch's defaults: [Eps] and [Affine] (true).
func NewGroupNorm(groups, channels int, opts ...LayerOption) *GroupNorm {
	wantGroups(groups, channels)
	c := layerConfig{eps: 1e-5, affine: true}.with("group_norm", opts, "Eps", "Affine")
	weight, bias := c.channelParameters(channels)
	return &GroupNorm{Weight: weight, Bias: bias, Groups: groups, Channels: channels, Eps: c.eps}
}

// wantGroups fails unless a number of groups divides channels.
func wantGroups(groups, channels int) {
	if groups <= 0 || channels <= 0 || channels%groups != 0 {
		engine.Fail(tensor.ErrValue, "group_norm", "%d channels are no multiple of %d groups", channels, groups)
	}
}

// Forward keeps the shape [N C ...].
func (n *GroupNorm) Forward(x *tensor.Tensor) *tensor.Tensor {
	const op = "group_norm"
	engine.Given(op, "the layer", n)
	wantGroups(n.Groups, n.Channels)
	channels(op, x, 0, x.Rank(), n.Channels)
	if x.Len() == n.Groups {
		engine.Fail(tensor.ErrShape, op, "x %v has one element in each of %d groups, so no variance", x, n.Groups)
	}
	return groupNormed(x, n.Groups, n.Weight, n.Bias, n.Eps)
}

// groupNormed normalises rows of the channels of a group.
func groupNormed(x *tensor.Tensor, groups int, weight, bias *tensor.Tensor, eps float64) *tensor.Tensor {
	if x.Len() > 0 {
		rows := x.Reshape(x.Dim(0), groups, x.Len()/(x.Dim(0)*groups))
		x = rows.LayerNorm(nil, nil, eps).Reshape(x.Shape()...)
	}
	if weight == nil {
		return x
	}
	return scaleShift(x, nil, weight, bias)
}

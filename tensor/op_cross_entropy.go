package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/expr/double"
)

var crossEntropy, crossEntropyGrad Op

func init() {
	define(&crossEntropy, Op{
		Op:    kernels.Op{Name: "cross_entropy", CPU: cpu.CrossEntropy, Ref: crossEntropyRef},
		Cast:  CastFull,
		Doc:   "-log softmax(x)[target] along the last axis, averaged, summed or one for each row",
		Args:  []string{"logits", "targets"},
		Shape: crossEntropyShape,
		VJP: func(c *Ctx, g *Tensor) []*Tensor {
			in := []*Tensor{c.In[0], c.In[1], c.Out[1], c.Out[2], g}
			return []*Tensor{Apply(&crossEntropyGrad, in, c.Ints, c.Floats), nil}
		},
		Saves:   []Saves{SaveIn(0, 1) | SaveOut(1, 2)},
		Flops:   perElement(10),
		Samples: crossEntropySamples,
		Bench: func() []Benchmark {
			all := rowBenchmarks(1, nil)
			for i, b := range all {
				shape := b.In[0].Shape
				all[i].In = append(b.In, Arg{Shape: shape[:1], DType: Int64, Lo: 0, Hi: float64(shape[1])})
				all[i].Call = func(x []*Tensor) *Tensor { return x[0].CrossEntropy(x[1]) }
			}
			return all
		},
	})
	define(&crossEntropyGrad, Op{
		Op:         kernels.Op{Name: "cross_entropy_grad", CPU: cpu.CrossEntropyGrad, Ref: crossEntropyGradRef},
		Doc:        "(softmax(x) - one-hot target) * g along the last axis",
		Args:       []string{"logits", "targets", "max", "sum", "g"},
		Shape:      sameFloats,
		Overwrites: SaveIn(0),
		Compose:    crossEntropyGradCompose,
		Flops:      perElement(10),
		Samples: func() []Sample {
			return []Sample{{
				Name: "mean", In: []Arg{{Shape: []int{3, 4}, Lo: -2, Hi: 2}, {Lo: 0.5, Hi: 2}},
				Call: func(x []*Tensor) *Tensor {
					targets := FromSlice([]int64{1, 3, 0}, 3)
					v := x[0].Detach()
					m := v.Max(-1, KeepDims)
					in := []*Tensor{x[0], targets, m.Squeeze(-1), v.Sub(m).Exp().Sum(-1), x[1]}
					return Apply(&crossEntropyGrad, in, []int{ignored, 0}, []float64{0})
				},
			}}
		},
	})
}

const ignored = -100

// CrossEntropy is -log softmax(t)[target], averaged over all rows. Logits t are [... C], with the classes on the last
// axis; targets [...] hold class indices of int64, int32 or uint8. Options ignore rows, smooth the targets, weigh the
// classes and choose another reduction. The mean over no rows is NaN.
//
// In Backward the gradient is written to the memory of the logits if the tape is their only owner: the region that made
// them has ended, and no other operation has saved them. This is so if logits and loss are made in one region that
// returns only the loss, as in autograd.Accumulate. With autograd.Retain and under [Observe] the gradient has its own
// memory.
func (t *Tensor) CrossEntropy(targets *Tensor, opts ...LossOption) *Tensor {
	l := LossOf("cross_entropy", opts, "ignore index", "label smoothing", "class weights")
	if l.ClassWeights != nil {
		return t.weightedCrossEntropy(targets, l)
	}
	return t.crossEntropy(targets, l)
}

func (t *Tensor) crossEntropy(targets *Tensor, l Loss) *Tensor {
	return Apply(&crossEntropy, []*Tensor{t, targets}, []int{l.IgnoreIndex, int(l.Reduction)},
		[]float64{l.LabelSmoothing})
}

// weightedCrossEntropy is, for a target y and smoothing e, the loss -(1-e) w[y] log p[y] - e sum(w log p)/C. The mean
// is divided by the sum of w[y].
func (t *Tensor) weightedCrossEntropy(targets *Tensor, l Loss) *Tensor {
	plain := Loss{Reduction: ReduceNone, IgnoreIndex: l.IgnoreIndex}
	losses := t.crossEntropy(targets, plain)
	classes := t.Dim(-1)
	weights, _ := l.Rows("cross_entropy", targets, classes, losses.dtype)
	losses = losses.Mul(weights)
	if e := l.LabelSmoothing; e > 0 {
		even := t.LogSoftmax(-1).Mul(l.ClassWeights.To(losses.dtype)).Sum(-1).Scale(-e / float64(classes))
		even = even.MaskedFill(targets.EqualScalar(float64(l.IgnoreIndex)), 0)
		losses = losses.Scale(1 - e).Add(even)
	}
	return l.Reduce(losses, weights)
}

func crossEntropyShape(c *Ctx) {
	c.wantFloat(0)
	c.wantRank(0, 1)
	c.wantDType(1, Int64, Int32, Uint8)
	rows := c.Shape(0)[:c.In[0].Rank()-1]
	if !slices.Equal(rows, c.Shape(1)) {
		c.Fail(ErrShape, "logits %v have rows %v, the last axis being the classes; "+
			"targets %v hold one class for each of %v", c.In[0], rows, c.In[1], c.Shape(1))
	}
	dt := c.In[0].dtype
	if Reduction(c.Ints[1]) == ReduceNone {
		c.Result(dt, rows...)
	} else {
		c.Result(dt)
	}
	for range 2 { // the largest logit of each row, and sum(exp(x - max))
		c.Result(statistic(dt), rows...)
	}
}

// statistic is the type of what a fused operation saves of each row for its gradient.
func statistic(dt DType) DType {
	if dt == Float64 {
		return dt
	}
	return Float32
}

// crossEntropyGradCompose is (softmax(x) - target) * g * weight, where targets are smoothed one-hot rows. The weight of
// a row is 0 if it is ignored, else 1, and for the mean 1 over the number of such rows.
func crossEntropyGradCompose(c *Ctx) *Tensor {
	x, targets, g := c.In[0], c.In[1].To(Int64), c.In[4]
	dt, classes := x.dtype, x.Dim(-1)
	rows := targets.Unsqueeze(-1)
	oneHot := rows.Equal(indexAlong([]int{classes}, 0)).To(dt)
	target := oneHot.Scale(1 - c.Floats[0]).AddScalar(c.Floats[0] / float64(classes))
	counts := rows.AddScalar(-float64(c.Ints[0])).To(Bool)
	weight := counts.To(dt)
	if Reduction(c.Ints[1]) == ReduceMean {
		weight = weight.Div(counts.Sum().Clamp(1, math.MaxInt32).To(dt))
	}
	if Reduction(c.Ints[1]) == ReduceNone {
		g = g.Unsqueeze(-1)
	}
	return x.Softmax(-1).Sub(target).Mul(weight.Mul(g))
}

func crossEntropyRef(l *kernels.Launch) {
	x, loss := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])[:l.Out[0].Len()]
	largest, sums := cpu.Slice[float64](l.Out[1]), cpu.Slice[float64](l.Out[2])
	classes := l.In[0].Shape[len(l.In[0].Shape)-1]
	targets, count := cpu.Targets(l, classes)
	smoothing := l.Floats[0]
	clear(loss)
	for r, target := range targets {
		row := x[r*classes : (r+1)*classes]
		m, exps := maxAndSum(row)
		distances := 0.0
		for _, v := range row {
			distances += v - m
		}
		largest[r], sums[r] = m, exps
		if target < 0 {
			continue
		}
		y := (1 - smoothing) * (double.Log(exps) - (row[target] - m))
		if smoothing > 0 {
			y += smoothing * (double.Log(exps) - distances/float64(classes))
		}
		if Reduction(l.Ints[1]) == ReduceNone {
			loss[r] = y
		} else {
			loss[0] += y
		}
	}
	if Reduction(l.Ints[1]) == ReduceMean {
		loss[0] /= float64(count)
	}
}

func crossEntropyGradRef(l *kernels.Launch) {
	x, dx := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])[:l.Out[0].Len()]
	largest, sums, g := cpu.Slice[float64](l.In[2]), cpu.Slice[float64](l.In[3]), cpu.Slice[float64](l.In[4])
	classes := l.In[0].Shape[len(l.In[0].Shape)-1]
	targets, count := cpu.Targets(l, classes)
	clear(dx)
	for r, target := range targets {
		if target < 0 {
			continue
		}
		scale := g[0]
		switch Reduction(l.Ints[1]) {
		case ReduceMean:
			scale /= float64(count)
		case ReduceNone:
			scale = g[r]
		}
		for k := range classes {
			i := r*classes + k
			want := l.Floats[0] / float64(classes)
			if k == target {
				want += 1 - l.Floats[0]
			}
			dx[i] = (double.Exp(x[i]-largest[r])/sums[r] - want) * scale
		}
	}
}

func crossEntropySamples() []Sample {
	sample := func(name string, shape []int, targets []float64, opts ...LossOption) Sample {
		return Sample{Name: name,
			In:   []Arg{{Shape: shape, Lo: -2, Hi: 2}, {Shape: shape[:len(shape)-1], DType: Int64, Values: targets}},
			Call: func(x []*Tensor) *Tensor { return x[0].CrossEntropy(x[1], opts...) }}
	}
	return []Sample{
		sample("one row", []int{4}, []float64{2}),
		sample("mean", []int{3, 4}, []float64{2, 0, 3}),
		sample("sum", []int{3, 4}, []float64{2, 0, 3}, ReduceSum),
		sample("none", []int{2, 2, 3}, []float64{2, 0, 1, 1}, ReduceNone),
		sample("ignore", []int{4, 3}, []float64{2, ignored, 0, ignored}),
		sample("smooth", []int{3, 4}, []float64{2, 1, 3}, LabelSmoothing(0.1), IgnoreIndex(1)),
		sample("no rows", []int{0, 3}, []float64{}, ReduceSum),
	}
}

package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/expr/double"
)

var crossEntropy, crossEntropyGrad Op

func init() {
	define(&crossEntropy, entry{
		Op:     kernels.Op{Name: "cross_entropy", CPU: cpu.CrossEntropy, Ref: crossEntropyRef},
		Cast:   seam.CastFull,
		Doc:    "-log softmax(x)[target] along the last axis, averaged, summed or one for each row",
		Args:   []string{"logits", "targets"},
		Ints:   []string{"ignored", "reduction"},
		Floats: []string{"smoothing"},
		Shape:  crossEntropyShape,
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			in := append([]*Tensor{c.In[0], c.In[1], c.Out[1], c.Out[2], g}, c.Out[3:]...)
			return []*Tensor{apply(&crossEntropyGrad, in, c.Ints, c.Floats), nil}
		},
		Saves:   []saves{saveIn(0, 1) | saveOut(1, 2, 3)},
		Flops:   perElement(10),
		Samples: crossEntropySamples,
		Bench: func() []benchmark {
			all := rowBenchmarks(1, nil)
			for i, b := range all {
				shape := b.In[0].Shape
				all[i].In = append(b.In, seam.Arg{Shape: shape[:1], DType: Int64, Lo: 0, Hi: float64(shape[1])})
				all[i].Call = func(x []*Tensor) *Tensor { return x[0].CrossEntropy(x[1]) }
			}
			return all
		},
	})
	define(&crossEntropyGrad, entry{
		Op:         kernels.Op{Name: "cross_entropy_grad", CPU: cpu.CrossEntropyGrad, Ref: crossEntropyGradRef},
		Doc:        "(softmax(x) - one-hot target) * g along the last axis",
		Args:       []string{"logits", "targets", "max", "sum", "g", "count?"},
		Ints:       []string{"ignored", "reduction"},
		Floats:     []string{"smoothing"},
		Shape:      crossEntropyGradShape,
		Overwrites: saveIn(0),
		Compose:    crossEntropyGradCompose,
		Flops:      perElement(10),
		Samples: func() []opSample {
			return []opSample{{
				Name: "mean", In: []seam.Arg{{Shape: []int{3, 4}, Lo: -2, Hi: 2}, {Lo: 0.5, Hi: 2}},
				Call: func(x []*Tensor) *Tensor {
					targets := FromSlice([]int64{1, 3, 0}, 3)
					v := x[0].Detach()
					m := v.Max(-1, KeepDims)
					count := FromSlice([]float64{3}).Reshape().To(statistic(v.dtype))
					in := []*Tensor{x[0], targets, m.Squeeze(-1), v.Sub(m).Exp().Sum(-1), x[1], count}
					return apply(&crossEntropyGrad, in, []int{seam.IgnoreIndex, seam.ReduceMean}, []float64{0})
				},
			}}
		},
	})
}

// CrossEntropy is -log softmax(t)[target], averaged over all rows. Logits t are [... C], with the classes on the last
// axis; targets [...] hold class indices of int64, int32 or uint8; rows with target -100 are left out. The mean over no
// rows is NaN. nn.CrossEntropy has options for other targets, weights and reductions.
//
// In Backward the gradient is written to the memory of the logits if the tape is their only owner: the region that made
// them has ended, and no other operation has saved them. This is so if logits and loss are made in one region that
// returns only the loss, as in autograd.Accumulate. With autograd.Retain the gradient has its own memory.
func (t *Tensor) CrossEntropy(targets *Tensor) *Tensor {
	return t.crossEntropy(targets, seam.IgnoreIndex, seam.ReduceMean, 0)
}

func (t *Tensor) crossEntropy(targets *Tensor, ignore, reduction int, smoothing float64) *Tensor {
	return apply(&crossEntropy, []*Tensor{t, targets}, []int{ignore, reduction}, []float64{smoothing})
}

func crossEntropyShape(c *ctx) {
	c.wantFloat(0)
	c.wantRank(0, 1)
	c.wantDType(1, Int64, Int32, Uint8)
	rows := c.shape(0)[:c.In[0].Rank()-1]
	if !slices.Equal(rows, c.shape(1)) {
		c.fail(ErrShape, "logits %v have rows %v, the last axis being the classes; "+
			"targets %v hold one class for each of %v", c.In[0], rows, c.In[1], c.shape(1))
	}
	dt := c.In[0].dtype
	if c.Ints[1] == seam.ReduceNone {
		c.result(dt, rows...)
	} else {
		c.result(dt)
	}
	for range 2 { // the largest logit of each row, and sum(exp(x - max))
		c.result(statistic(dt), rows...)
	}
	if c.Ints[1] == seam.ReduceMean { // the number of rows that are not left out
		c.result(statistic(dt))
	}
}

func crossEntropyGradShape(c *ctx) {
	sameFloats(c)
	if mean := c.Ints[1] == seam.ReduceMean; mean != (len(c.In) == 6) {
		c.fail(ErrValue, "there are %d operands, want 6 for the mean, the last one the number of rows, and 5 otherwise",
			len(c.In))
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
func crossEntropyGradCompose(c *ctx) *Tensor {
	x, targets, g := c.In[0], c.In[1].To(Int64), c.In[4]
	dt, classes := x.dtype, x.Dim(-1)
	rows := targets.Unsqueeze(-1)
	oneHot := rows.Equal(indexAlong([]int{classes}, 0)).To(dt)
	target := oneHot.Scale(1 - c.Floats[0]).AddScalar(c.Floats[0] / float64(classes))
	counts := rows.AddScalar(-float64(c.Ints[0])).To(Bool)
	weight := counts.To(dt)
	if c.Ints[1] == seam.ReduceMean {
		weight = weight.Div(counts.Sum().Clamp(1, math.MaxInt32).To(dt))
	}
	if c.Ints[1] == seam.ReduceNone {
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
		if l.Ints[1] == seam.ReduceNone {
			loss[r] = y
		} else {
			loss[0] += y
		}
	}
	if l.Ints[1] == seam.ReduceMean {
		loss[0] /= float64(count)
		cpu.Slice[float64](l.Out[3])[0] = float64(count)
	}
}

func crossEntropyGradRef(l *kernels.Launch) {
	x, dx := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])[:l.Out[0].Len()]
	largest, sums, g := cpu.Slice[float64](l.In[2]), cpu.Slice[float64](l.In[3]), cpu.Slice[float64](l.In[4])
	classes := l.In[0].Shape[len(l.In[0].Shape)-1]
	targets, _ := cpu.Targets(l, classes)
	clear(dx)
	for r, target := range targets {
		if target < 0 {
			continue
		}
		scale := g[0]
		switch l.Ints[1] {
		case seam.ReduceMean:
			scale /= cpu.Slice[float64](l.In[5])[0]
		case seam.ReduceNone:
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

func crossEntropySamples() []opSample {
	sample := func(name string, shape []int, targets []float64, ignore, reduction int, smoothing float64) opSample {
		in := []seam.Arg{{Shape: shape, Lo: -2, Hi: 2},
			{Shape: shape[:len(shape)-1], DType: Int64, Values: targets}}
		return opSample{Name: name, In: in, Call: func(x []*Tensor) *Tensor {
			return x[0].crossEntropy(x[1], ignore, reduction, smoothing)
		}}
	}
	const none = seam.IgnoreIndex
	return []opSample{
		sample("one row", []int{4}, []float64{2}, none, seam.ReduceMean, 0),
		sample("mean", []int{3, 4}, []float64{2, 0, 3}, none, seam.ReduceMean, 0),
		sample("sum", []int{3, 4}, []float64{2, 0, 3}, none, seam.ReduceSum, 0),
		sample("none", []int{2, 2, 3}, []float64{2, 0, 1, 1}, none, seam.ReduceNone, 0),
		sample("ignore", []int{4, 3}, []float64{2, none, 0, none}, none, seam.ReduceMean, 0),
		sample("smooth", []int{3, 4}, []float64{2, 1, 3}, 1, seam.ReduceMean, 0.1),
		sample("no rows", []int{0, 3}, []float64{}, none, seam.ReduceSum, 0),
	}
}

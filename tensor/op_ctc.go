package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/expr/double"
)

// The attributes of ctc are the blank, the lengths of all rows' inputs, and those of their targets.
var ctc, ctcGrad Op

func init() {
	define(&ctc, entry{
		Op:    kernels.Op{Name: "ctc", Ref: ctcRef},
		Cast:  seam.CastFull,
		Doc:   "-log of the sum over all alignments of target and input of the product of their probabilities",
		Args:  []string{"log_probs", "targets"},
		Ints:  []string{"blank", "lengths..."},
		Shape: func(c *ctx) { c.result(c.In[0].dtype, c.ctcRows()) },
		VJP: func(c *ctx, g *Tensor) []*Tensor {
			return []*Tensor{apply(&ctcGrad, []*Tensor{c.In[0], c.In[1], g}, c.Ints, nil), nil}
		},
		Saves:   []saves{saveIn(0, 1)},
		Flops:   perElement(30),
		Samples: ctcSamples,
	})
	define(&ctcGrad, entry{
		Op:   kernels.Op{Name: "ctc_grad", Ref: ctcGradRef},
		Doc:  "-g * the probability of each class at each step, given the target",
		Args: []string{"log_probs", "targets", "g"},
		Ints: []string{"blank", "lengths..."},
		Shape: func(c *ctx) {
			if n := c.ctcRows(); !slices.Equal(c.shape(2), []int{n}) {
				c.fail(ErrShape, "g %v must have shape [%d]", c.In[2], n)
			}
			c.result(c.In[0].dtype, c.shape(0)...)
		},
		Compose: ctcGradCompose,
		Flops:   perElement(60),
		Samples: func() []opSample {
			return []opSample{{
				Name: "batch",
				In:   []seam.Arg{{Shape: []int{4, 2, 3}, Lo: -2, Hi: 0}, {Shape: []int{2}, Lo: 0.5, Hi: 2}},
				Call: func(x []*Tensor) *Tensor {
					targets := FromSlice([]int64{1, 1, 2, 0}, 2, 2)
					return apply(&ctcGrad, []*Tensor{x[0], targets, x[1]}, []int{0, 4, 3, 2, 1}, nil)
				},
			}}
		},
	})
}

// CTC is connectionist temporal classification (Graves et al. 2006), a loss for each row of a batch: -log of the
// probability of all alignments that give the target once repetitions and then blanks are taken out. t is
// log-probabilities [steps rows classes], as of LogSoftmax(-1), and targets [rows length] class indices of int64, int32
// or uint8. Of row n the first inputLengths[n] steps and the first targetLengths[n] targets count. The loss of a target
// that no alignment gives is +Inf and its gradient NaN. Sums are in float64. nn.CTC has reductions.
func (t *Tensor) CTC(targets *Tensor, inputLengths, targetLengths []int, blank int) *Tensor {
	if len(inputLengths) != len(targetLengths) {
		fail(ErrShape, "ctc", "there are %d lengths of inputs and %d of targets", len(inputLengths),
			len(targetLengths))
	}
	return apply(&ctc, []*Tensor{t, targets}, slices.Concat([]int{blank}, inputLengths, targetLengths), nil)
}

// ctcRows checks the operands and returns the number of rows.
func (c *ctx) ctcRows() int {
	c.wantFloat(0)
	c.wantDType(1, Int64, Int32, Uint8)
	x, y := c.shape(0), c.shape(1)
	if len(x) != 3 || len(y) != 2 || x[1] != y[0] {
		c.fail(ErrShape, "log-probabilities %v must be [steps rows classes] and targets %v [rows length]", c.In[0],
			c.In[1])
	}
	rows, lengths := x[1], c.Ints[1:]
	if blank := c.Ints[0]; blank < 0 || blank >= x[2] {
		c.fail(ErrIndex, "the blank %d is outside the classes [0, %d)", blank, x[2])
	}
	if len(lengths) != 2*rows {
		c.fail(ErrShape, "there are lengths of %d rows, and %d rows", len(lengths)/2, rows)
	}
	for n := range rows {
		if steps := lengths[n]; steps < 0 || steps > x[0] {
			c.fail(ErrIndex, "the input length %d of row %d is outside [0, %d]", steps, n, x[0])
		}
		if length := lengths[rows+n]; length < 0 || length > y[1] {
			c.fail(ErrIndex, "the target length %d of row %d is outside [0, %d]", length, n, y[1])
		}
	}
	return rows
}

// A ctcRow is a row of the batch: its log-probabilities, and the path that alignments follow, which is the target with
// blanks before, between and behind.
type ctcRow struct {
	path                 []int
	steps, first, stride int // log-probability k of step t is element first + t*stride + k
	x                    []float64
	ordinary             bool // no x of the row is NaN or +Inf
}

// eachCTCRow calls f with each row n.
func eachCTCRow(l *kernels.Launch, f func(n int, r ctcRow)) {
	shape, length := l.In[0].Shape, l.In[1].Shape[1]
	rows, classes, blank := shape[1], shape[2], l.Ints[0]
	targets := integersOf(l.In[1])
	for n := range rows {
		r := ctcRow{path: []int{blank}, steps: l.Ints[1+n], first: n * classes, stride: rows * classes,
			x: cpu.Slice[float64](l.In[0])}
		for k := range l.Ints[1+rows+n] {
			target := targets[n*length+k]
			if target < 0 || target >= int64(classes) {
				panic(kernels.IndexError(l.Op.Name, l.In[1].Shape, n*length+k, int(target), classes, shape, 2))
			}
			r.path = append(r.path, int(target), blank)
		}
		r.ordinary = true
		for t := range r.steps {
			for _, x := range r.x[n*classes+t*r.stride:][:classes] {
				r.ordinary = r.ordinary && x <= math.MaxFloat64
			}
		}
		f(n, r)
	}
}

// within is the positions [lo, hi) that are on a way from the start to the end in step t: alignments go two further at
// most. Others have no part in the sums, unless numbers are not ordinary.
func (r *ctcRow) within(t int) (lo, hi int) {
	n := len(r.path)
	if !r.ordinary {
		return 0, n
	}
	return max(0, n-2*(r.steps-t)), min(n, 2*t+2)
}

// at is the log-probability of the class at position s of the path in step t.
func (r *ctcRow) at(t, s int) float64 { return r.x[r.first+t*r.stride+r.path[s]] }

// skips tells whether an alignment may go from position s-2 to s: past a blank, between classes that differ.
func (r *ctcRow) skips(s int) bool { return s >= 2 && s < len(r.path) && r.path[s] != r.path[s-2] }

// forward has for each step and position the log-probability of all ways to be there after the step.
func (r *ctcRow) forward() []float64 {
	n := len(r.path)
	all := slices.Repeat([]float64{math.Inf(-1)}, r.steps*n)
	for t := range r.steps {
		lo, hi := r.within(t)
		for s := lo; s < hi; s++ {
			switch v := 0.0; {
			case t > 0:
				last := all[(t-1)*n : t*n]
				v = last[s]
				if s > 0 {
					v = logAddExp(v, last[s-1])
				}
				if r.skips(s) {
					v = logAddExp(v, last[s-2])
				}
				all[t*n+s] = v + r.at(t, s)
			case s < 2:
				all[s] = r.at(0, s)
			}
		}
	}
	return all
}

// backward has for each step and position the log-probability of all ways from there, after the step, to the end.
func (r *ctcRow) backward() []float64 {
	n := len(r.path)
	all := slices.Repeat([]float64{math.Inf(-1)}, r.steps*n)
	for t := r.steps - 1; t >= 0; t-- {
		lo, hi := r.within(t)
		for s := lo; s < hi; s++ {
			if t == r.steps-1 {
				if s >= n-2 {
					all[t*n+s] = 0
				}
				continue
			}
			next := all[(t+1)*n : (t+2)*n]
			v := next[s] + r.at(t+1, s)
			if s+1 < n {
				v = logAddExp(v, next[s+1]+r.at(t+1, s+1))
			}
			if r.skips(s + 2) {
				v = logAddExp(v, next[s+2]+r.at(t+1, s+2))
			}
			all[t*n+s] = v
		}
	}
	return all
}

// likelihood is the log-probability of the whole target, from what forward returned. Without steps only the empty
// target is possible.
func (r *ctcRow) likelihood(forward []float64) float64 {
	n := len(r.path)
	switch {
	case r.steps == 0 && n == 1:
		return 0
	case r.steps == 0:
		return math.Inf(-1)
	case n == 1:
		return forward[len(forward)-1]
	}
	return logAddExp(forward[len(forward)-1], forward[len(forward)-2])
}

// logAddExp is log(e^a + e^b).
func logAddExp(a, b float64) float64 {
	if a == b {
		return a + math.Ln2
	}
	return max(a, b) + double.Log1p(double.Exp(-math.Abs(a-b)))
}

func ctcRef(l *kernels.Launch) {
	y := cpu.Slice[float64](l.Out[0])
	eachCTCRow(l, func(n int, r ctcRow) { y[n] = -r.likelihood(r.forward()) })
}

func ctcGradRef(l *kernels.Launch) {
	g, dx := cpu.Slice[float64](l.In[2]), cpu.Slice[float64](l.Out[0])[:l.Out[0].Len()]
	clear(dx)
	eachCTCRow(l, func(n int, r ctcRow) {
		if g[n] == 0 { // of a loss that was left out, which may be infinite
			return
		}
		a, b := r.forward(), r.backward()
		whole := r.likelihood(a)
		for i := range a {
			t, s := i/len(r.path), i%len(r.path)
			dx[r.first+t*r.stride+r.path[s]] -= g[n] * double.Exp(a[i]+b[i]-whole)
		}
	})
}

// ctcGradCompose is forward and backward of all rows at once. What is impossible has the logarithm low, so that no
// infinities meet. Half precision is computed in float32, as by the loops.
func ctcGradCompose(c *ctx) *Tensor {
	const low = -1e30
	dt := c.In[0].dtype
	if dt.IsHalf() {
		dt = Float32
	}
	x, g := c.In[0].To(dt), c.In[2].To(dt)
	steps, rows, blank := x.Dim(0), x.Dim(1), float64(c.Ints[0])
	if steps == 0 {
		return c.In[0]
	}
	lengths, width := c.Ints[1:], c.In[1].Dim(1)
	n := 2*width + 1
	padding := make([]bool, rows*width) // of the targets, which may be no classes
	for i := range padding {
		padding[i] = i%width >= lengths[rows+i/width]
	}
	labels := c.In[1].To(Int64).MaskedFill(FromSlice(padding, rows, width), blank)
	first := labels.Slice(1, 0, 0).Pad(blank, [2]int{}, [2]int{0, 1})
	path := Cat(1, first, Stack(2, labels, labels.Scale(0).AddScalar(blank)).Flatten(1, 2))
	all := path.Unsqueeze(0).Expand(steps, rows, n)
	shift := func(v *Tensor, by int, fill float64) *Tensor { // by positions to the right
		if by > 0 {
			return v.Slice(1, 0, n-by).Pad(fill, [2]int{}, [2]int{by, 0})
		}
		return v.Slice(1, -by, n).Pad(fill, [2]int{}, [2]int{0, -by})
	}
	e := x.Gather(2, all).Clamp(low, math.Inf(1)).Split(0, slices.Repeat([]int{1}, steps)...)
	masked := func(f func(r, s int) bool) *Tensor { // low where f is false
		v := make([]float64, rows*n)
		for i := range v {
			if !f(i/n, i%n) {
				v[i] = low
			}
		}
		return FromSlice(v, rows, n).To(dt)
	}
	skip := path.Equal(shift(path, 2, blank)).To(dt).Scale(low).Add(masked(func(_, s int) bool { return s >= 2 }))
	forward := make([]*Tensor, steps)
	for t := range steps {
		e[t] = e[t].Squeeze(0)
		if t == 0 {
			forward[0] = e[0].Add(masked(func(_, s int) bool { return s < 2 }))
			continue
		}
		last := forward[t-1]
		near := last.LogAddExp(shift(last, 1, low))
		forward[t] = near.LogAddExp(shift(last, 2, low).Add(skip)).Add(e[t])
	}
	ends := masked(func(r, s int) bool { return s == 2*lengths[rows+r] || s == 2*lengths[rows+r]-1 })
	var likelihood, after *Tensor
	parts := make([]*Tensor, steps)
	for t := steps - 1; t >= 0; t-- {
		b := ends
		if after != nil {
			last := masked(func(r, _ int) bool { return t == lengths[r]-1 }).EqualScalar(0)
			v := after.Add(e[t+1])
			b = v.LogAddExp(shift(v, -1, low)).LogAddExp(shift(v.Add(skip), -2, low))
			b = last.Where(ends, b)
		}
		after = b
		parts[t] = forward[t].Add(b)
		likelihood = parts[t].LogSumExp(-1, KeepDims)
	}
	for t := range parts {
		inside := masked(func(r, _ int) bool { return t < lengths[r] }).EqualScalar(0)
		parts[t] = inside.Where(parts[t].Sub(likelihood), FromSlice([]float64{low}).To(dt)).Exp()
	}
	total := c.scope.newFull(x, 0, dt, x.Shape()...).ScatterAdd(2, all, Stack(0, parts...))
	return total.Mul(g.Unsqueeze(-1)).Neg().To(c.In[0].dtype)
}

func ctcSamples() []opSample {
	sample := func(name string, shape []int, targets []float64, length int, blank int, lengths ...int) opSample {
		rows := shape[1]
		in := []seam.Arg{{Shape: shape, Lo: -2, Hi: 0}, indexArg([]int{rows, length}, targets...)}
		return opSample{Name: name, In: in,
			Call: func(x []*Tensor) *Tensor { return x[0].CTC(x[1], lengths[:rows], lengths[rows:], blank) }}
	}
	return []opSample{
		sample("batch", []int{5, 3, 4}, []float64{1, 2, 3, 3, 2, 0}, 2, 0, 5, 4, 3, 2, 2, 1),
		sample("repeated", []int{5, 1, 3}, []float64{1, 1, 2}, 3, 0, 5, 3),
		sample("blank last", []int{4, 1, 3}, []float64{0, 1}, 2, 2, 4, 2),
		sample("one step", []int{1, 1, 2}, []float64{1}, 1, 0, 1, 1),
		sample("empty target", []int{3, 2, 2}, []float64{1, 1}, 1, 0, 3, 2, 0, 1),
		sample("no rows", []int{3, 0, 2}, nil, 2, 0),
	}
}

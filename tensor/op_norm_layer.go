package tensor

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

var layerNorm, layerNormGrad Op

func init() {
	defineNorm(&layerNorm, &layerNormGrad, 2, entry{
		Op:    kernels.Op{Name: "layer_norm", CPU: cpu.LayerNorm},
		Doc:   "(x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last axes",
		Args:  []string{"x", "weight?", "bias?"},
		Saves: []saves{saveIn(0, 1) | saveOut(1, 2), saveIn(0) | saveOut(1, 2)},
		Flops: perElement(8),
		Samples: func() []opSample {
			return normSamples(true, func(x, w, b *Tensor) *Tensor { return x.LayerNorm(w, b, 1e-5) })
		},
		Bench: func() []benchmark {
			return rowBenchmarks(2, func(x *Tensor, _ int) *Tensor { return x.LayerNorm(nil, nil, 1e-5) })
		},
	}, entry{
		Op:    kernels.Op{Name: "layer_norm_grad", CPU: cpu.LayerNormGrad},
		Doc:   "the gradients of layer_norm for x, weight and bias",
		Args:  []string{"g", "x", "mean", "rstd", "weight?"},
		Ints:  []string{"axes", "for x", "for weight", "for bias"},
		Flops: perElement(12),
	})
}

// defineNorm fills in what norms, which have so many statistics, and their gradients have in common, and defines both.
func defineNorm(norm, grad *Op, statistics int, n, g entry) {
	n.Ref, n.Cast = normRef, seam.CastFull
	n.Ints, n.Floats = []string{"axes"}, []string{"eps"}
	n.Shape = func(c *ctx) {
		for i := range c.In {
			c.wantFloat(0, i)
		}
		c.normalized(c.In[0].dtype, c.In[1:], statistics)
	}
	n.VJP = func(c *ctx, g *Tensor) []*Tensor { return c.normOf(c.In[0], c.In[0].needs, 1, grad).vjp(g) }
	define(norm, n)
	g.Ref, g.Shape, g.NoGrad = normGradRef, normGradShape, "with a graph, "+n.Name+" composes its gradient"
	define(grad, g)
}

// LayerNorm makes the last axes have mean 0 and variance 1, then scales and shifts them:
// (x - mean) / sqrt(variance + eps) * weight + bias (Ba et al. 2016). The normalised axes are those of weight or bias;
// both may be nil, then it is the last axis alone.
func (t *Tensor) LayerNorm(weight, bias *Tensor, eps float64) *Tensor {
	switch {
	case weight == nil && bias == nil:
		return apply(&layerNorm, []*Tensor{t}, []int{1}, []float64{eps})
	case weight == nil:
		t.checkRow("layer_norm", "bias", bias)
		return apply(&layerNorm, []*Tensor{t}, []int{bias.Rank()}, []float64{eps}).Add(bias)
	case bias == nil:
		return apply(&layerNorm, []*Tensor{t, weight}, []int{weight.Rank()}, []float64{eps})
	}
	return apply(&layerNorm, []*Tensor{t, weight, bias}, []int{weight.Rank()}, []float64{eps})
}

// normalized adds the results of a norm of rows of In[0], of type dt; parameters are the last operands.
func (c *ctx) normalized(dt DType, parameters []*Tensor, statistics int) {
	x, first := c.In[0], len(c.In)-len(parameters)
	for i, p := range parameters {
		name := c.argName(first + i)
		x.checkRow(c.Op.Name, name, p)
		if p.Rank() != c.Ints[0] {
			c.fail(ErrShape, "%s %v and %s %v differ in shape", c.argName(first), parameters[0], name, p)
		}
	}
	c.wantRank(0, c.Ints[0])
	rows := x.layout.Shape[:x.Rank()-c.Ints[0]]
	c.result(dt, x.layout.Shape...)
	for range statistics {
		c.result(statistic(dt), rows...)
	}
}

// checkRow fails unless parameter p of a norm of t has the shape of the last axes of t.
func (t *Tensor) checkRow(op, name string, p *Tensor) {
	k := p.Rank()
	switch n := t.Rank(); {
	case k == 0:
		fail(ErrShape, op, "%s %v has no axes, so there is nothing to normalise", name, p)
	case k > n:
		fail(ErrShape, op, "%s %v has %d axes, x %v only %d", name, p, k, t, n)
	case !slices.Equal(p.layout.Shape, t.layout.Shape[n-k:]):
		fail(ErrShape, op, "%s %v must have the shape of the last axes of x %v, which is %v",
			name, p, t, t.layout.Shape[n-k:])
	}
}

// normGradShape is the shape rule of the gradients of norms: results for x, which is the second operand, and the
// parameters, without elements where Ints[1:] says that the gradient is not wanted. Where it is 2, a parameter has the
// sums of blocks of 64 rows, whose sums are the gradient.
func normGradShape(c *ctx) {
	x := c.In[1]
	for i, wanted := range c.Ints[1:] {
		shape := c.shape(1)
		switch {
		case wanted == 0:
			shape = []int{0}
		case i > 0:
			shape = shape[x.Rank()-c.Ints[0]:]
		}
		if wanted == 2 {
			shape = append([]int{normBlocks(x.Len() / max(1, kernels.Count(shape)))}, shape...)
		}
		c.result(x.dtype, shape...)
	}
}

// normBlocks is the blocks of so many rows: those of the canonical order of columns.
func normBlocks(rows int) int { return (rows + 63) / 64 }

// normed is one application of a norm to x.
type normed struct {
	c          *ctx
	x          *Tensor
	first      int       // operand of c that is a parameter
	parameters []*Tensor // weight and bias, as far as given
	statistics []*Tensor // mean, which RMS norm does not have, and rstd
	grad       *Op
	wanted     [3]bool // gradients: of x, weight and bias
}

// normOf describes the norm of x that c computed. Its parameters are operands from number first on, its statistics the
// outputs from there on.
func (c *ctx) normOf(x *Tensor, needs bool, first int, grad *Op) *normed {
	n := &normed{c: c, x: x, first: first, parameters: c.In[first:], statistics: c.Out[first:], grad: grad,
		wanted: [3]bool{needs}}
	for i, p := range n.parameters {
		n.wanted[1+i] = p.needs
	}
	return n
}

// vjp is the gradients for x and the parameters: that for bias alone is a sum, in canonical order; grad computes all
// others together.
func (n *normed) vjp(g *Tensor) []*Tensor {
	c := n.c
	grads := make([]*Tensor, 1+len(n.parameters))
	switch {
	case !n.wanted[0] && !n.wanted[1]:
	case c.scope.recording():
		n.compose(grads, g)
	default:
		in := append([]*Tensor{g, n.x}, n.statistics...)
		if n.wanted[0] {
			in = append(in, n.parameters[:min(1, len(n.parameters))]...)
		}
		ints := []int{c.Ints[0], 0, 0, 0}
		if !n.centred() { // there is no bias
			ints = ints[:3]
		}
		for i := range ints[1:] {
			if n.wanted[i] {
				ints[1+i] = 1
			}
			if i > 0 && n.wanted[i] && n.x.dtype == Float32 && n.x.Len() > 0 && c.late(n.first+i-1) {
				ints[1+i] = 2
			}
		}
		for i, d := range applyAll(n.grad, in, ints, nil) {
			switch ints[1+i] {
			case 1:
				grads[i] = d
			case 2:
				grads[i] = c.sumLater(n.first+i-1, d)
			}
		}
	}
	if n.wanted[2] && grads[2] == nil {
		grads[2] = c.sumLater(n.first+1, g)
	}
	return grads
}

// centred tells whether the norm subtracts the mean.
func (n *normed) centred() bool { return len(n.statistics) == 2 }

// compose computes the gradients for x and weight in differentiable operations. With h the normalised x and
// gw = g weight, dx = (gw - mean(gw) - h mean(gw h)) rstd; the term mean(gw) is missing if x was not centred.
func (n *normed) compose(grads []*Tensor, g *Tensor) {
	axes := []int{KeepDims}
	for i := range n.c.Ints[0] {
		axes = append(axes, -1-i)
	}
	d := n.x
	if n.centred() {
		d = d.Sub(d.Mean(axes...))
	}
	rstd := d.Square().Mean(axes...).AddScalar(n.c.Floats[0]).Rsqrt()
	h := d.Mul(rstd)
	if n.wanted[1] {
		grads[1] = g.Mul(h).SumTo(n.parameters[0].layout.Shape...)
	}
	if !n.wanted[0] {
		return
	}
	gw := g
	if len(n.parameters) > 0 {
		gw = g.Mul(n.parameters[0])
	}
	dx := gw.Sub(h.Mul(gw.Mul(h).Mean(axes...)))
	if n.centred() {
		dx = dx.Sub(gw.Mean(axes...))
	}
	grads[0] = dx.Mul(rstd)
}

// normRows is the number of rows and elements of a row when the last k axes of x are normalised.
func normRows(x kernels.Arg, k int) (rows, n int) {
	at := len(x.Shape) - k
	return kernels.Count(x.Shape[:at]), kernels.Count(x.Shape[at:])
}

// normRef is the reference of norms; RMS norm has no mean among its results, and no bias.
func normRef(l *kernels.Launch) {
	x, y := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.Out[0])
	statistics := l.Out[1:]
	rstds := cpu.Slice[float64](statistics[len(statistics)-1])
	rows, n := normRows(l.In[0], l.Ints[0])
	for r := range rows {
		row := x[r*n : (r+1)*n]
		mean, variance := 0.0, 0.0
		if len(statistics) == 2 {
			for _, v := range row {
				mean += v / float64(n)
			}
			cpu.Slice[float64](statistics[0])[r] = mean
		}
		for _, v := range row {
			variance += (v - mean) * (v - mean) / float64(n)
		}
		rstds[r] = 1 / math.Sqrt(variance+l.Floats[0])
		for i, v := range row {
			h := (v - mean) * rstds[r]
			if len(l.In) > 1 {
				h *= cpu.Slice[float64](l.In[1])[i]
			}
			if len(l.In) > 2 {
				h += cpu.Slice[float64](l.In[2])[i]
			}
			y[r*n+i] = h
		}
	}
}

// normGradRef is the reference of the gradients of norms for x and the parameters, as far as wanted. Layer norm has one
// for the bias, and a mean in front of rstd.
func normGradRef(l *kernels.Launch) {
	g, x, in := cpu.Slice[float64](l.In[0]), cpu.Slice[float64](l.In[1]), l.In[2:]
	rows, n := normRows(l.In[1], l.Ints[0])
	centred := len(l.Out) == 3
	means := make([]float64, rows)
	if centred {
		means, in = cpu.Slice[float64](in[0]), in[1:]
	}
	rstds := cpu.Slice[float64](in[0])
	dx, dw := cpu.Slice[float64](l.Out[0]), cpu.Slice[float64](l.Out[1])[:l.Out[1].Len()]
	clear(dw)
	var db []float64
	if centred && l.Ints[3] > 0 {
		db = cpu.Slice[float64](l.Out[2])[:l.Out[2].Len()]
		clear(db)
	}
	h, gw := make([]float64, n), make([]float64, n)
	for r := range rows {
		var meanGW, meanGWH float64
		for i := range n {
			h[i] = (x[r*n+i] - means[r]) * rstds[r]
			gw[i] = g[r*n+i]
			if len(in) > 1 {
				gw[i] *= cpu.Slice[float64](in[1])[i]
			}
			if centred {
				meanGW += gw[i] / float64(n)
			}
			meanGWH += gw[i] * h[i] / float64(n)
		}
		for i := range n {
			if l.Ints[1] == 1 {
				dx[r*n+i] = (gw[i] - meanGW - h[i]*meanGWH) * rstds[r]
			}
			if want := l.Ints[2]; want > 0 {
				dw[r/64*(want-1)*n+i] += g[r*n+i] * h[i]
			}
			if db != nil {
				db[r/64*(l.Ints[3]-1)*n+i] += g[r*n+i]
			}
		}
	}
}

// normSamples test a norm of x with and without its parameters.
func normSamples(bias bool, call func(x, w, b *Tensor) *Tensor) []opSample {
	sample := func(name string, k int, parameters int, shape ...int) opSample {
		s := opSample{Name: name, In: randomArgs(shape)}
		for range parameters {
			s.In = append(s.In, seam.Arg{Shape: shape[len(shape)-k:], Lo: 0.5, Hi: 1.5})
		}
		s.Call = func(x []*Tensor) *Tensor {
			p := append(slices.Clip(x[1:]), nil, nil)
			return call(x[0], p[0], p[1])
		}
		return s
	}
	samples := []opSample{
		sample("plain", 1, 0, 3, 5), sample("weight", 1, 1, 3, 5), sample("one row", 1, 1, 5),
		sample("two axes", 2, 1, 2, 2, 3), sample("no rows", 1, 1, 0, 3),
	}
	if bias {
		samples = append(samples, sample("bias", 1, 2, 2, 2, 4))
	}
	return samples
}

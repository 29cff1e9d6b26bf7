package tensor

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// eachTerm calls f for the offsets in contiguous x, weight and y of every term of a convolution that is within x: those
// of an element of y follow each other, in the order of channels and of the elements of the window.
func eachTerm(x, weight, y []int, ints []int, f func(x, w, y int)) {
	n := len(x) - 2
	stride, before, dilation, groups := ints[:n], ints[n:2*n], ints[2*n:3*n], ints[4*n]
	from := make([]int, n+2)
	eachIndex(y, func(offsetY int, at []int) {
		eachIndex(weight[1:], func(offsetW int, tap []int) {
			from[0], from[1] = at[0], at[1]/(weight[0]/groups)*weight[1]+tap[0]
			for d := range n {
				from[2+d] = at[2+d]*stride[d] - before[d] + tap[1+d]*dilation[d]
				if from[2+d] < 0 || from[2+d] >= x[2+d] {
					return
				}
			}
			f(offsetOf(x, from), at[1]*kernels.Count(weight[1:])+offsetW, offsetY)
		})
	})
}

func convRef(l *kernels.Launch) {
	x, w, out := l.In[0], l.In[1], l.Out[0]
	a, b, y := cpu.Slice[float64](x), cpu.Slice[float64](w), cpu.Slice[float64](out)[:out.Len()]
	clear(y)
	eachTerm(x.Shape, w.Shape, out.Shape, l.Ints, func(i, j, k int) { y[k] += float64(a[i] * b[j]) })
	addChannels(l)
}

func convTransposeRef(l *kernels.Launch) {
	y, w, out := l.In[0], l.In[1], l.Out[0]
	a, b, x := cpu.Slice[float64](y), cpu.Slice[float64](w), cpu.Slice[float64](out)[:out.Len()]
	clear(x)
	eachTerm(out.Shape, w.Shape, y.Shape, l.Ints, func(i, j, k int) { x[i] += float64(a[k] * b[j]) })
	addChannels(l)
}

func convWeightRef(l *kernels.Launch) {
	x, y, out := l.In[0], l.In[1], l.Out[0]
	a, b, w := cpu.Slice[float64](x), cpu.Slice[float64](y), cpu.Slice[float64](out)[:out.Len()]
	clear(w)
	eachTerm(x.Shape, out.Shape, y.Shape, l.Ints, func(i, j, k int) { w[j] += float64(a[i] * b[k]) })
}

// addChannels adds the bias, if there is one, to the channels of the result.
func addChannels(l *kernels.Launch) {
	if len(l.In) < 3 {
		return
	}
	bias, y := cpu.Slice[float64](l.In[2]), cpu.Slice[float64](l.Out[0])
	eachIndex(l.Out[0].Shape, func(i int, at []int) { y[i] += bias[at[1]] })
}

// A convSample is a convolution: shapes of x, the weight and y, and the window.
type convSample struct {
	x, weight, y []int
	w            Window
}

// ints are the attributes of the operation whose result has the shape like.
func (c *convSample) ints(like []int) []int {
	window := c.weight[2:]
	return convAttributes(c.w.along("conv", len(window), window, []int{1}), like[2:], max(c.w.Groups, 1))
}

// convSamples are calls for tests, with operands of the shapes that in returns.
func convSamples(in func(c *convSample) [][]int, call func(c *convSample, x []*Tensor) *Tensor) (all []opSample) {
	sample := func(name string, x, weight, y []int, w Window) {
		c := &convSample{x, weight, y, w}
		all = append(all, opSample{Name: name, In: randomArgs(in(c)...),
			Call: func(x []*Tensor) *Tensor { return call(c, x) }})
	}
	of := func(n ...int) []int { return n }
	sample("one axis", of(2, 3, 5), of(2, 3, 2), of(2, 2, 4), Window{})
	sample("padding, stride 2", of(1, 2, 5, 4), of(2, 2, 3, 2), of(1, 2, 3, 2),
		Window{Stride: of(2), Padding: of(1, 0)})
	sample("dilation, stride 3", of(1, 1, 7, 6), of(2, 1, 2, 3), of(1, 2, 2, 2),
		Window{Stride: of(3, 1), Dilation: of(2)})
	sample("same size", of(1, 1, 4), of(1, 1, 2), of(1, 1, 4), Window{Padding: of(0), PaddingEnd: of(1)})
	sample("three axes", of(1, 2, 3, 2, 3), of(1, 2, 2, 2, 2), of(1, 1, 2, 3, 2),
		Window{Padding: of(1), Stride: of(2, 1, 2)})
	sample("groups", of(2, 4, 3), of(6, 2, 2), of(2, 6, 2), Window{Groups: 2})
	sample("depthwise", of(1, 3, 4, 3), of(3, 1, 2, 3), of(1, 3, 5, 2),
		Window{Groups: 3, Padding: of(1), Stride: of(1, 2)})
	sample("size 1", of(1, 1, 1), of(1, 1, 1), of(1, 1, 1), Window{})
	sample("1x1", of(2, 3, 2, 2), of(2, 3, 1, 1), of(2, 2, 2, 2), Window{})
	sample("1x1, stride 2", of(1, 2, 3, 3), of(2, 2, 1, 1), of(1, 2, 2, 2), Window{Stride: of(2)})
	sample("no images", of(0, 2, 3), of(1, 2, 2), of(0, 1, 2), Window{})
	sample("no channels", of(1, 0, 3), of(2, 0, 2), of(1, 2, 2), Window{})
	sample("no results", of(1, 2, 3), of(0, 2, 2), of(1, 0, 2), Window{})
	return all
}

func convBench() []benchmark {
	bench := func(name string, x, weight []int, w Window) benchmark {
		positions := x[2] / max(1, append(w.Stride, 1)[0])
		y := x[0] * weight[0] * positions * positions
		return benchmark{Name: name, In: randomArgs(x, weight),
			Call:  func(x []*Tensor) *Tensor { return x[0].Conv(x[1], nil, w) },
			Flops: 2 * float64(y*kernels.Count(weight[1:])),
			Bytes: 4 * float64(kernels.Count(x)+kernels.Count(weight)+y)}
	}
	one := []int{1}
	return []benchmark{
		bench("3x3, 64 of 56x56", []int{16, 64, 56, 56}, []int{64, 64, 3, 3}, Window{Padding: one}),
		bench("3x3, 512 of 7x7", []int{16, 512, 7, 7}, []int{512, 512, 3, 3}, Window{Padding: one}),
		bench("depthwise 3x3", []int{16, 128, 56, 56}, []int{128, 1, 3, 3}, Window{Padding: one, Groups: 128}),
	}
}

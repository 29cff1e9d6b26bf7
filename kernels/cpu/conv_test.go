package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/matmul"
)

// A convCase is a convolution: sizes of x and of the weight, and the attributes for each spatial axis.
type convCase struct {
	x, w                            []int
	stride, before, after, dilation []int
	groups                          int
}

// attributes are those of the operation whose result has the given spatial sizes.
func (c *convCase) attributes(size []int) []int {
	return append(slices.Concat(c.stride, c.before, c.dilation, size), c.groups)
}

// y is the shape of the result.
func (c *convCase) y() []int {
	shape := []int{c.x[0], c.w[0]}
	for d := range c.stride {
		span := (c.w[2+d]-1)*c.dilation[d] + 1
		shape = append(shape, (c.x[2+d]+c.before[d]+c.after[d]-span)/c.stride[d]+1)
	}
	return shape
}

// offset is that of an element in row-major order, -1 outside of the shape.
func offset(shape, at []int) (o int32) {
	for d, i := range at {
		if i < 0 || i >= shape[d] {
			return -1
		}
		o = o*int32(shape[d]) + int32(i)
	}
	return o
}

// terms are those of each element of a result, in order: the offsets of their two factors. A factor at -1 is zero.
type terms [][][2]int32

// sums are the results for the values of the two factors.
func (t terms) sums(a, b []float64) (want []float64) {
	value := func(v []float64, at int32) float32 {
		if at < 0 {
			return 0
		}
		return float32(v[at])
	}
	for _, of := range t {
		want = append(want, float64(dot(len(of), func(k int) float32 { return value(a, of[k][0]) },
			func(k int) float32 { return value(b, of[k][1]) })))
	}
	return want
}

// eachIndex calls f for each index of a shape, in row-major order.
func eachIndex(shape []int, f func(at []int)) {
	at := make([]int, len(shape))
	for range kernels.Count(shape) {
		f(at)
		for d := len(at) - 1; d >= 0; d-- {
			if at[d]++; at[d] < shape[d] {
				break
			}
			at[d] = 0
		}
	}
}

// conv has the terms of conv by its definition: of the weight and x.
func (c *convCase) conv() (t terms) {
	eachIndex(c.y(), func(at []int) {
		var of [][2]int32
		from, which := make([]int, len(at)), make([]int, len(at))
		eachIndex(c.w[1:], func(tap []int) {
			from[0], from[1] = at[0], at[1]/(c.w[0]/c.groups)*c.w[1]+tap[0]
			for d := range c.stride {
				from[2+d] = at[2+d]*c.stride[d] - c.before[d] + tap[1+d]*c.dilation[d]
			}
			which[0] = at[1]
			copy(which[1:], tap)
			of = append(of, [2]int32{offset(c.w, which), offset(c.x, from)})
		})
		t = append(t, of)
	})
	return t
}

// transpose has those of conv_transpose: of the weight and y.
func (c *convCase) transpose() (t terms) {
	perGroup, y := c.w[0]/c.groups, c.y()
	eachIndex(c.x, func(at []int) {
		var of [][2]int32
		from, which := make([]int, len(at)), make([]int, len(at))
		eachIndex(append([]int{perGroup}, c.w[2:]...), func(tap []int) {
			from[0], from[1] = at[0], at[1]/c.w[1]*perGroup+tap[0]
			for d := range c.stride {
				i := at[2+d] + c.before[d] - tap[1+d]*c.dilation[d]
				if i%c.stride[d] != 0 {
					return
				}
				from[2+d] = i / c.stride[d]
			}
			which[0], which[1] = from[1], at[1]%c.w[1]
			copy(which[2:], tap[1:])
			of = append(of, [2]int32{offset(c.w, which), offset(y, from)})
		})
		t = append(t, of)
	})
	return t
}

// weight has those of conv_weight: of y and x.
func (c *convCase) weight() (t terms) {
	y := c.y()
	eachIndex(c.w, func(at []int) {
		var of [][2]int32
		from, which := make([]int, len(at)), make([]int, len(at))
		eachIndex(append([]int{y[0]}, y[2:]...), func(p []int) {
			from[0], from[1] = p[0], at[0]/(c.w[0]/c.groups)*c.w[1]+at[1]
			for d := range c.stride {
				from[2+d] = p[1+d]*c.stride[d] - c.before[d] + at[2+d]*c.dilation[d]
			}
			which[0], which[1] = p[0], at[0]
			copy(which[2:], p[1:])
			of = append(of, [2]int32{offset(y, which), offset(c.x, from)})
		})
		t = append(t, of)
	})
	return t
}

// runConvJobs is runJobs, also with terms of padding left out wherever there is some, and few images copied at a time.
func runConvJobs(t *testing.T, jobs []job) {
	t.Helper()
	runJobs(t, jobs)
	defer func(split [2]float64, limit int) { worthSplitting, copyLimit = split, limit }(worthSplitting, copyLimit)
	worthSplitting, copyLimit = [2]float64{1e6, 1e6}, 1
	runJobs(t, jobs)
}

// The results of all tiers and numbers of threads are those of the definitions, to the bit.
func TestConvCanonical(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	one, two, none, one3 := []int{1, 1}, []int{2, 2}, []int{0, 0}, []int{1, 1, 1}
	cases := []convCase{
		{[]int{2, 3, 9, 8}, []int{5, 3, 3, 3}, one, one, one, one, 1},                   // merged images
		{[]int{2, 2, 24, 25}, []int{3, 2, 3, 2}, one, one, one, one, 1},                 // directly into the result
		{[]int{1, 30, 6, 5}, []int{4, 30, 3, 3}, one, one, one, one, 1},                 // two chunks of terms
		{[]int{2, 3, 11, 10}, []int{4, 3, 4, 3}, two, []int{2, 1}, none, one, 1},        // phases of the stride
		{[]int{1, 2, 12, 13}, []int{3, 2, 2, 3}, []int{3, 2}, none, one, two, 1},        // of dilated windows
		{[]int{2, 4, 7, 6}, []int{6, 2, 3, 3}, []int{1, 2}, one, one, one, 2},           // groups
		{[]int{2, 3, 30, 41}, []int{3, 1, 3, 3}, one, one, one, one, 3},                 // depthwise, several blocks
		{[]int{3, 5, 7, 9}, []int{10, 1, 3, 2}, two, one, one, one, 5},                  // two results a channel
		{[]int{2, 5, 7, 9}, []int{5, 1, 3, 2}, two, one, none, one, 5},                  // depthwise with strides
		{[]int{4, 3, 9, 10}, []int{3, 1, 2, 2}, one, []int{3, 0}, none, []int{1, 2}, 3}, // and wide padding
		{[]int{2, 4, 6, 7}, []int{5, 4, 1, 1}, one, none, none, one, 1},                 // 1x1
		{[]int{2, 4, 26, 27}, []int{5, 4, 1, 1}, one, none, none, one, 1},               // 1x1 of large images
		{[]int{2, 4, 6, 7}, []int{5, 4, 1, 1}, []int{2, 3}, none, none, one, 1},         // not all of x is read
		{[]int{3, 2, 40}, []int{4, 2, 5}, []int{4}, []int{2}, []int{3}, []int{3}, 1},
		{[]int{1, 2, 3, 4, 5}, []int{3, 2, 2, 3, 2}, []int{1, 2, 1}, []int{1, 0, 1}, []int{0, 1, 1}, []int{1, 1, 2}, 1},
		{[]int{2, 2, 4, 3, 5}, []int{2, 1, 3, 1, 2}, []int{2, 1, 1}, []int{1, 0, 0}, []int{1, 0, 0}, []int{1, 1, 1}, 2},
		{[]int{9, 1, 8, 9}, []int{4, 1, 3, 3}, one, one, one, one, 1},   // images that end inside chunks
		{[]int{2, 3, 8, 9}, []int{100, 3, 3, 3}, one, one, one, one, 1}, // so many rows that all is packed
		{[]int{5, 3, 2, 2}, []int{4, 3, 3, 3}, one, one, one, one, 1},   // windows that see little but padding
		{[]int{3, 40, 1, 1}, []int{14, 40, 3, 3}, one, one, one, one, 1},
		{[]int{70, 3, 2, 1}, []int{4, 3, 3, 3}, two, one, one, one, 1},
		{[]int{2, 4, 3, 2}, []int{6, 2, 3, 3}, one, two, two, two, 2},
		{[]int{150, 2, 2}, []int{3, 2, 5}, []int{1}, []int{2}, []int{2}, []int{1}, 1},
		{[]int{2, 70, 9, 8}, []int{70, 1, 3, 4}, one, one, one, two, 70},        // channels of several vectors
		{[]int{2, 3, 3, 20}, []int{3, 1, 2, 9}, one, none, []int{0, 4}, one, 3}, // more taps than registers
		// Strides larger than windows, and padding, where groups have one or two channels of x.
		{[]int{2, 1, 5, 5}, []int{1, 1, 1, 1}, two, one, one, one, 1},
		{[]int{2, 4, 7, 8}, []int{6, 2, 2, 2}, []int{3, 4}, one, one, one, 2},
		{[]int{1, 2, 9, 7}, []int{2, 1, 3, 3}, two, []int{3, 3}, []int{3, 3}, one, 2},
		{[]int{1, 2, 3, 5, 4}, []int{2, 1, 1, 2, 1}, []int{2, 3, 2}, one3, one3, one3, 2},
		// No padding there, and where windows leave out much.
		{[]int{2, 2, 9, 8}, []int{2, 1, 3, 3}, one, none, none, one, 2},
		{[]int{2, 3, 9, 8}, []int{2, 3, 2, 3}, one, none, none, one, 1},
		{[]int{1, 2, 3, 5, 4}, []int{2, 1, 2, 1, 2}, []int{1, 7, 1}, make([]int, 3), make([]int, 3), one3, 2},
	}
	if matmul.PixelLanes() > 0 { // pixel by pixel
		cases = append(cases, []convCase{
			{[]int{14, 90, 15}, []int{32, 90, 3}, []int{1}, []int{1}, []int{1}, []int{1}, 1},
			{[]int{14, 33, 3, 5}, []int{10, 33, 3, 2}, two, one, one, one, 1}, // parts a step apart
			{[]int{7, 8, 4, 5}, []int{64, 4, 2, 2}, one, none, one, []int{1, 2}, 2},
			{[]int{14, 4, 2, 3, 4}, []int{32, 4, 2, 1, 2}, []int{2, 2, 1}, []int{1, 0, 1}, make([]int, 3), one3, 1},
			{[]int{14, 12, 2, 7}, []int{64, 12, 1, 1}, one, none, none, one, 1},                // in place
			{[]int{30, 1, 8, 9}, []int{33, 1, 3, 3}, one, one, one, one, 1},                    // many chunks
			{[]int{14, 2, 9, 11}, []int{64, 1, 2, 5}, []int{2, 1}, one, one, []int{2, 1}, 2},   // and groups
			{[]int{3, 1, 3, 9, 9}, []int{32, 1, 2, 3, 2}, one3, []int{1, 1, 0}, one3, one3, 1}, // and planes
		}...)
	}
	var jobs []job
	for i := range cases {
		c := &cases[i]
		conv, transpose, weight := c.conv(), c.transpose(), c.weight()
		for j := range layoutNames {
			x, w := normal(r, layout(i+j, c.x), false), normal(r, layout(i+2*j, c.w), false)
			y := normal(r, layout(3*i+j, c.y()), false)
			launch := func(size []int, result []int, in ...kernels.Arg) *kernels.Launch {
				return &kernels.Launch{In: in, Out: []kernels.Arg{newTensor(kernels.Float32, result...)},
					Ints: c.attributes(size)}
			}
			jobs = append(jobs,
				job{Conv, launch(c.y()[2:], c.y(), x, w), [][]float64{conv.sums(elements(w), elements(x))}},
				job{ConvTranspose, launch(c.x[2:], c.x, y, w), [][]float64{transpose.sums(elements(w), elements(y))}},
				job{ConvWeight, launch(c.w[2:], c.w, x, y), [][]float64{weight.sums(elements(y), elements(x))}})
		}
	}
	runConvJobs(t, jobs)
}

// The bias is added to the rounded sum, as in a linear layer.
func TestConvBias(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	made := func(shape []int) kernels.Arg { return normal(r, newTensor(kernels.Float32, shape...), false) }
	var jobs []job
	for _, c := range []convCase{
		{[]int{2, 3, 25, 24}, []int{4, 3, 2, 2}, []int{1, 1}, []int{0, 0}, []int{0, 0}, []int{1, 1}, 1},
		{[]int{2, 3, 5, 4}, []int{4, 3, 2, 2}, []int{2, 1}, []int{0, 1}, []int{0, 0}, []int{1, 1}, 1},
		{[]int{2, 3, 5, 4}, []int{3, 1, 2, 2}, []int{1, 2}, []int{0, 1}, []int{0, 0}, []int{1, 1}, 3},
		{[]int{2, 3, 9, 20}, []int{6, 1, 3, 3}, []int{1, 1}, []int{1, 0}, []int{1, 2}, []int{1, 1}, 3},
	} {
		x, w, y := made(c.x), made(c.w), made(c.y())
		added := func(want []float64, bias kernels.Arg, shape []int) [][]float64 {
			of, positions := elements(bias), kernels.Count(shape[2:])
			for i := range want {
				want[i] = float64(float32(want[i]) + float32(of[i/positions%shape[1]]))
			}
			return [][]float64{want}
		}
		out, in := made(c.y()[1:2]), made(c.x[1:2])
		jobs = append(jobs,
			job{Conv, &kernels.Launch{In: []kernels.Arg{x, w, out}, Ints: c.attributes(c.y()[2:]),
				Out: []kernels.Arg{newTensor(kernels.Float32, c.y()...)}},
				added(c.conv().sums(elements(w), elements(x)), out, c.y())},
			job{ConvTranspose, &kernels.Launch{In: []kernels.Arg{y, w, in}, Ints: c.attributes(c.x[2:]),
				Out: []kernels.Arg{newTensor(kernels.Float32, c.x...)}},
				added(c.transpose().sums(elements(w), elements(y)), in, c.x)})
	}
	runConvJobs(t, jobs)
}

// Where terms of padding are left out, the results are those of all terms: also where weights are not finite, and where
// sums are -0 because products are too small.
func TestConvPadding(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	one := []int{1, 1}
	var jobs []job
	for _, values := range [][]float64{{1, -2, math.Inf(1)}, {0.5, -1, math.NaN()}, {1e-30, -1e-30, 1e-25, 0},
		{-1e-30, 1e-30}, {math.Copysign(0, -1), 1e-30, -1e-25}} {
		for _, channels := range []int{2, 40} {
			c := convCase{[]int{3, channels, 2, 2}, []int{13, channels, 3, 3}, one, one, one, one, 1}
			made := func(shape []int, some []float64) kernels.Arg {
				v := make([]float64, kernels.Count(shape))
				for i := range v {
					v[i] = some[r.IntN(len(some))]
				}
				return with(newTensor(kernels.Float32, shape...), v...)
			}
			for i, same := range []bool{false, true, true} {
				if i == 2 { // depthwise
					c.w, c.groups = []int{channels, 1, 3, 3}, channels
				}
				others := []float64{1, -1, 0.5}
				if same {
					others = values
				}
				x, w, y, g := made(c.x, others), made(c.w, values), made(c.y(), others), made(c.y(), values)
				transposed := c.transpose().sums(elements(w), elements(y))
				launch := func(size, result []int, in ...kernels.Arg) *kernels.Launch {
					return &kernels.Launch{In: in, Out: []kernels.Arg{newTensor(kernels.Float32, result...)},
						Ints: c.attributes(size)}
				}
				jobs = append(jobs,
					job{Conv, launch(c.y()[2:], c.y(), x, w), [][]float64{c.conv().sums(elements(w), elements(x))}},
					job{ConvTranspose, launch(c.x[2:], c.x, y, w), [][]float64{transposed}},
					job{ConvWeight, launch(c.w[2:], c.w, x, g), [][]float64{c.weight().sums(elements(g), elements(x))}})
			}
		}
	}
	runConvJobs(t, jobs)
}

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

// next goes to the next index in row-major order; it tells whether there is one.
func next(at, shape []int) bool {
	for d := len(at) - 1; d >= 0; d-- {
		if at[d]++; at[d] < shape[d] {
			return true
		}
		at[d] = 0
	}
	return false
}

// valueAt is an element of a, zero outside of it.
func valueAt(v []float64, shape, at []int) float32 {
	offset := 0
	for d, i := range at {
		if i < 0 || i >= shape[d] {
			return 0
		}
		offset = offset*shape[d] + i
	}
	return float32(v[offset])
}

// terms are the factors of the terms of an element of the result, in order.
type terms [2][]float32

func (t *terms) add(a, b float32) { t[0], t[1] = append(t[0], a), append(t[1], b) }

func (t *terms) sum() float64 {
	return float64(dot(len(t[0]), func(k int) float32 { return t[0][k] }, func(k int) float32 { return t[1][k] }))
}

// wantConv is conv by its definition.
func (c *convCase) wantConv(x, w []float64) (want []float64) {
	y := c.y()
	if kernels.Count(y) == 0 {
		return nil
	}
	for at := make([]int, len(y)); ; {
		var sum terms
		if kernels.Count(c.w[1:]) > 0 {
			for tap := make([]int, len(y)-1); ; {
				from := []int{at[0], at[1]/(c.w[0]/c.groups)*c.w[1] + tap[0]}
				for d := range c.stride {
					from = append(from, at[2+d]*c.stride[d]-c.before[d]+tap[1+d]*c.dilation[d])
				}
				sum.add(valueAt(w, c.w, append([]int{at[1]}, tap...)), valueAt(x, c.x, from))
				if !next(tap, c.w[1:]) {
					break
				}
			}
		}
		want = append(want, sum.sum())
		if !next(at, y) {
			return want
		}
	}
}

// wantTranspose is conv_transpose by its definition.
func (c *convCase) wantTranspose(y, w []float64) (want []float64) {
	perGroup := c.w[0] / c.groups
	over := append([]int{perGroup}, c.w[2:]...)
	for at := make([]int, len(c.x)); ; {
		var sum terms
		group := at[1] / c.w[1]
		for tap := make([]int, len(over)); ; {
			from, reaches := []int{at[0], group*perGroup + tap[0]}, true
			for d := range c.stride {
				i := at[2+d] + c.before[d] - tap[1+d]*c.dilation[d]
				reaches = reaches && i%c.stride[d] == 0
				from = append(from, i/c.stride[d])
			}
			if reaches {
				which := append([]int{from[1], at[1] % c.w[1]}, tap[1:]...)
				sum.add(valueAt(w, c.w, which), valueAt(y, c.y(), from))
			}
			if !next(tap, over) {
				break
			}
		}
		want = append(want, sum.sum())
		if !next(at, c.x) {
			return want
		}
	}
}

// wantWeight is conv_weight by its definition.
func (c *convCase) wantWeight(x, y []float64) (want []float64) {
	shape := c.y()
	over := append([]int{shape[0]}, shape[2:]...)
	for at := make([]int, len(c.w)); ; {
		var sum terms
		for p := make([]int, len(over)); kernels.Count(over) > 0; {
			from := []int{p[0], at[0]/(c.w[0]/c.groups)*c.w[1] + at[1]}
			for d := range c.stride {
				from = append(from, p[1+d]*c.stride[d]-c.before[d]+at[2+d]*c.dilation[d])
			}
			sum.add(valueAt(y, shape, append([]int{p[0], at[0]}, p[1:]...)), valueAt(x, c.x, from))
			if !next(p, over) {
				break
			}
		}
		want = append(want, sum.sum())
		if !next(at, c.w) {
			return want
		}
	}
}

// runConvJobs is runJobs, also with terms of padding left out wherever there is some, and few images copied at a time.
func runConvJobs(t *testing.T, jobs []job) {
	t.Helper()
	runJobs(t, jobs)
	defer func(split float64, limit int) { worthSplitting, copyLimit = split, limit }(worthSplitting, copyLimit)
	worthSplitting, copyLimit = 1e6, 1
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
		for j := range layoutNames {
			x, w := normal(r, layout(i+j, c.x), false), normal(r, layout(i+2*j, c.w), false)
			y := normal(r, layout(3*i+j, c.y()), false)
			launch := func(size []int, result []int, in ...kernels.Arg) *kernels.Launch {
				return &kernels.Launch{In: in, Out: []kernels.Arg{newTensor(kernels.Float32, result...)},
					Ints: c.attributes(size)}
			}
			jobs = append(jobs,
				job{Conv, launch(c.y()[2:], c.y(), x, w), [][]float64{c.wantConv(elements(x), elements(w))}},
				job{ConvTranspose, launch(c.x[2:], c.x, y, w), [][]float64{c.wantTranspose(elements(y), elements(w))}},
				job{ConvWeight, launch(c.w[2:], c.w, x, y), [][]float64{c.wantWeight(elements(x), elements(y))}})
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
				added(c.wantConv(elements(x), elements(w)), out, c.y())},
			job{ConvTranspose, &kernels.Launch{In: []kernels.Arg{y, w, in}, Ints: c.attributes(c.x[2:]),
				Out: []kernels.Arg{newTensor(kernels.Float32, c.x...)}},
				added(c.wantTranspose(elements(y), elements(w)), in, c.x)})
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
				transposed := c.wantTranspose(elements(y), elements(w))
				launch := func(size, result []int, in ...kernels.Arg) *kernels.Launch {
					return &kernels.Launch{In: in, Out: []kernels.Arg{newTensor(kernels.Float32, result...)},
						Ints: c.attributes(size)}
				}
				jobs = append(jobs,
					job{Conv, launch(c.y()[2:], c.y(), x, w), [][]float64{c.wantConv(elements(x), elements(w))}},
					job{ConvTranspose, launch(c.x[2:], c.x, y, w), [][]float64{transposed}},
					job{ConvWeight, launch(c.w[2:], c.w, x, g), [][]float64{c.wantWeight(elements(x), elements(g))}})
			}
		}
	}
	runConvJobs(t, jobs)
}

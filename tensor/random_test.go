package tensor_test

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// drawIn runs f in the first step of a device with the given seed and returns what it drew.
func drawIn(t *testing.T, seed uint64, f func(s *tensor.Scope) *tensor.Tensor) (v []float64) {
	t.Helper()
	dev, err := tensor.Open("cpu", tensor.Seed(seed))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if err := dev.Step(func(s *tensor.Scope) error { v = tensor.ToSlice[float64](f(s)); return nil }); err != nil {
		t.Fatal(err)
	}
	return v
}

// moments are the mean and the variance.
func moments(v []float64) (mean, variance float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		variance += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, variance
}

// distance is that of Kolmogorov and Smirnov: the largest between the distribution of v and cdf, times sqrt(n). It is
// above 1.95 in one of a thousand samples.
func distance(v []float64, cdf func(x float64) float64) (d float64) {
	slices.Sort(v)
	n := float64(len(v))
	for i, x := range v {
		d = max(d, cdf(x)-float64(i)/n, float64(i+1)/n-cdf(x))
	}
	return d * math.Sqrt(n)
}

func TestRandomDistributions(t *testing.T) {
	const n = 100_000
	for _, c := range []struct {
		name           string
		draw           func(s *tensor.Scope) *tensor.Tensor
		mean, variance float64
		cdf            func(x float64) float64
	}{
		{"uniform", func(s *tensor.Scope) *tensor.Tensor { return s.Uniform(-1, 3, n) }, 1, 16. / 12,
			func(x float64) float64 { return (x + 1) / 4 }},
		{"randn", func(s *tensor.Scope) *tensor.Tensor { return s.Randn(n) }, 0, 1,
			func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }},
		{"small", func(s *tensor.Scope) *tensor.Tensor { return s.Uniform(0, 1, n).Log().Neg() }, 1, 1,
			func(x float64) float64 { return 1 - math.Exp(-x) }},
		{"rand_int", func(s *tensor.Scope) *tensor.Tensor { return s.RandInt(-3, 1<<32-3, n) }, 1 << 31, 1 << 62 / 3.,
			func(x float64) float64 { return (x + 3) / (1 << 32) }},
	} {
		for seed := range uint64(3) {
			v := drawIn(t, seed, c.draw)
			mean, variance := moments(v)
			if d := math.Abs(mean-c.mean) / math.Sqrt(c.variance/n); d > 4 {
				t.Errorf("%s: the mean is %v, %.1f standard errors from %v", c.name, mean, d, c.mean)
			}
			if math.Abs(variance/c.variance-1) > 0.04 {
				t.Errorf("%s: the variance is %v, want %v", c.name, variance, c.variance)
			}
			if d := distance(v, c.cdf); d > 1.95 {
				t.Errorf("%s: the distance from its distribution is %.2f", c.name, d)
			}
		}
	}
}

// The numbers of small ranges, of a mask and of weights come as often as they should: chi-squared with the degrees of
// freedom of its cells, less than it is in 999 of 1000 samples.
func TestRandomCounts(t *testing.T) {
	const n = 70_000
	weights := tensor.FromSlice([]float32{3, 0, 1, 2, 0}, 5)
	for _, c := range []struct {
		name  string
		draw  func(s *tensor.Scope) *tensor.Tensor
		lo    int
		p     []float64
		limit float64
	}{
		{"rand_int", func(s *tensor.Scope) *tensor.Tensor { return s.RandInt(-3, 4, 7, n/7) }, -3,
			[]float64{1. / 7, 1. / 7, 1. / 7, 1. / 7, 1. / 7, 1. / 7, 1. / 7}, 22.5},
		{"one", func(s *tensor.Scope) *tensor.Tensor { return s.RandInt(5, 6, n) }, 5, []float64{1}, 0},
		{"bernoulli", func(s *tensor.Scope) *tensor.Tensor { return s.Bernoulli(0.3, n) }, 0,
			[]float64{0.7, 0.3}, 10.8},
		{"never", func(s *tensor.Scope) *tensor.Tensor { return s.Bernoulli(0, n) }, 0, []float64{1}, 0},
		{"always", func(s *tensor.Scope) *tensor.Tensor { return s.Bernoulli(1, n) }, 1, []float64{1}, 0},
		{"multinomial", func(s *tensor.Scope) *tensor.Tensor { return s.Multinomial(weights, n, true) }, 0,
			[]float64{3. / 6, 0, 1. / 6, 2. / 6}, 13.8},
		{"without replacement", func(s *tensor.Scope) *tensor.Tensor {
			return s.Multinomial(weights.Expand(n, 5), 1, false)
		}, 0, []float64{3. / 6, 0, 1. / 6, 2. / 6}, 13.8},
		// The second of two is c after b in p(b) p(c)/(1 - p(b)) of the rows.
		{"second", func(s *tensor.Scope) *tensor.Tensor {
			return s.Multinomial(weights.Expand(n, 5), 2, false).Slice(1, 1, 2)
		}, 0, []float64{7. / 20, 0, 1. / 4, 2. / 5}, 13.8},
	} {
		count := make([]float64, len(c.p))
		for _, x := range drawIn(t, 1, c.draw) {
			i := int(x) - c.lo
			if i < 0 || i >= len(count) || c.p[i] == 0 {
				t.Fatalf("%s: drew %v", c.name, x)
			}
			count[i]++
		}
		chi := 0.0
		for i, p := range c.p {
			if p > 0 {
				chi += (count[i] - n*p) * (count[i] - n*p) / (n * p)
			}
		}
		if chi > c.limit {
			t.Errorf("%s: %v of %v, chi-squared is %.1f, over %v", c.name, count, c.p, chi, c.limit)
		}
	}
}

// Number i of Uniform has its upper bits from number i of the step's stream, and the others from that of a second one.
func TestUniformBits(t *testing.T) {
	const n, seed = 101, 7
	stream := philox.Source{Key: philox.DeriveN(seed, 3)} // of the first step
	second := philox.Source{Key: stream.Key, Stream: 1}
	upper, lower := make([]float32, n), make([]float32, n)
	philox.Uniform(upper, stream, 0)
	philox.Uniform(lower, second, 0)
	for i, v := range drawIn(t, seed, func(s *tensor.Scope) *tensor.Tensor { return s.Uniform(0, 2, n) }) {
		if want := 2 * (upper[i] + lower[i]/(1<<24)); float32(v) != want {
			t.Fatalf("number %d is %v, want %v", i, v, want)
		}
	}
}

// One hash on every processor.
func TestRandomHash(t *testing.T) {
	weights := tensor.Arange(tensor.Float32, 0, 9, 1)
	h := fnv.New64a()
	for _, v := range [][]float64{
		drawIn(t, 1, func(s *tensor.Scope) *tensor.Tensor { return s.Uniform(-1, 2, 1000) }),
		drawIn(t, 1, func(s *tensor.Scope) *tensor.Tensor { return s.Randn(10, 100) }),
		drawIn(t, 1, func(s *tensor.Scope) *tensor.Tensor { return s.RandInt(0, 1000, 1000) }),
		drawIn(t, 1, func(s *tensor.Scope) *tensor.Tensor { return s.Multinomial(weights, 1000, true) }),
		drawIn(t, 1, func(s *tensor.Scope) *tensor.Tensor { return s.Multinomial(weights.Expand(100, 9), 8, false) }),
	} {
		binary.Write(h, binary.LittleEndian, v)
	}
	if got := h.Sum64(); got != 0x15d2243da69ad557 {
		t.Errorf("the hash is %#x", got)
	}
}

// The same seed and step draw the same numbers, another step, another seed or a second call others; a step that fails
// gives its numbers back.
func TestRandomReproducible(t *testing.T) {
	dev := open(t)
	draw := func(dev *tensor.Device, fail error) (v []float64) {
		dev.Step(func(s *tensor.Scope) error {
			v = append(tensor.ToSlice[float64](s.Randn(5)), tensor.ToSlice[float64](s.Randn(5))...)
			return fail
		})
		return v
	}
	first := draw(dev, errors.New("no"))
	again, second := draw(dev, nil), draw(dev, nil)
	if !slices.Equal(first, again) || !slices.Equal(first, draw(open(t), nil)) {
		t.Errorf("the same step draws %v and %v", first, again)
	}
	other, err := tensor.Open("cpu", tensor.Seed(99))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for what, v := range map[string][]float64{"second step": second, "other seed": draw(other, nil),
		"second call": slices.Concat(first[5:], first[:5])} {
		for i := range v {
			if v[i] == first[i] {
				t.Errorf("%s: number %d is %v again", what, i, v[i])
			}
		}
	}
}

func TestRandomMisuse(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	of := func(v ...float32) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }
	type step = *tensor.Scope
	for _, c := range []struct {
		call  func(s step)
		kind  error
		parts string
	}{
		{func(s step) { s.Uniform(1, 0, 2) }, tensor.ErrValue, "uniform: [1, 0) is no range"},
		{func(s step) { s.Uniform(nan, 0, 2) }, tensor.ErrValue, "uniform: [NaN, 0)"},
		{func(s step) { s.Uniform(0, inf, 2) }, tensor.ErrValue, "uniform: [0, +Inf)"},
		{func(s step) { s.Uniform(-3e38, 3e38, 2) }, tensor.ErrValue, "is no range of float32"},
		{func(s step) { s.Randn(2, -1) }, tensor.ErrShape, "randn: shape [2 -1] has size -1"},
		{func(s step) { s.Randn(1<<40, 1<<40) }, tensor.ErrShape, "randn: shape"},
		{func(s step) { s.RandInt(3, 3, 2) }, tensor.ErrValue, "rand_int: [3, 3) must have an integer"},
		{func(s step) { s.RandInt(0, 1<<32+1, 2) }, tensor.ErrValue, "at most 2^32"},
		{func(s step) { s.RandInt(math.MinInt, math.MaxInt, 2) }, tensor.ErrValue, "2^53"},
		{func(s step) { s.Bernoulli(1.5, 2) }, tensor.ErrValue, "bernoulli: the probability 1.5 is outside [0, 1]"},
		{func(s step) { s.Bernoulli(nan, 2) }, tensor.ErrValue, "bernoulli: the probability NaN"},
		{func(s step) { s.Multinomial(of(1, -1, 2), 1, true) }, tensor.ErrValue,
			"multinomial: weights of float32[3] are negative"},
		{func(s step) { s.Multinomial(of(1, float32(nan)), 1, true) }, tensor.ErrValue, "infinite or NaN"},
		{func(s step) { s.Multinomial(of(1, float32(inf)), 1, true) }, tensor.ErrValue, "infinite or NaN"},
		{func(s step) { s.Multinomial(of(0, 0), 1, true) }, tensor.ErrValue, "0 weights above 0, too few to draw 1"},
		{func(s step) { s.Multinomial(of(0, 3, 1), 3, false) }, tensor.ErrValue, "2 weights above 0, too few"},
		{func(s step) { s.Multinomial(tensor.Zeros(tensor.Float32, 2, 0), 3, true) }, tensor.ErrValue, "no classes"},
		{func(s step) { s.Multinomial(of(1), -1, true) }, tensor.ErrShape, "-1 classes cannot be drawn"},
		{func(s step) { s.Multinomial(tensor.Of(float32(1)), 1, true) }, tensor.ErrShape, "along the last axis"},
		{func(s step) { s.Multinomial(nil, 1, true) }, tensor.ErrStep, "multinomial: an operand is nil"},
	} {
		err := open(t).Step(func(s step) error { c.call(s); return nil })
		wantError(t, err, c.kind, c.parts, "random_test.go:")
	}
	wantMisuse(t, func() { (*tensor.Scope)(nil).Randn(2) }, tensor.ErrStep, "randn: the scope is nil")
}

// Ends and shapes: equal ends, ends of float32, no elements, several axes, weights in half precision, of a parameter.
func TestRandomEdges(t *testing.T) {
	w := nn.ParameterOf("w", tensor.FromSlice([]float32{0, 1, 0, 0, 0, 1e-30}, 2, 3))
	if err := open(t).Step(func(s *tensor.Scope) error {
		wantTensor(t, "equal ends", s.Uniform(2, 2, 2), tensor.Float32, []int{2}, 2, 2)
		wantTensor(t, "no elements", s.Randn(0, 3), tensor.Float32, []int{0, 3})
		wantTensor(t, "largest", s.RandInt(1<<53-1, 1<<53, 1), tensor.Int64, []int{1}, 1<<53-1)
		wantTensor(t, "classes", s.Multinomial(w, 2, true), tensor.Int64, []int{2, 2}, 1, 1, 2, 2)
		wantTensor(t, "one each", s.Multinomial(w, 1, false), tensor.Int64, []int{2, 1}, 1, 2)
		wantTensor(t, "none", s.Multinomial(w, 0, false), tensor.Int64, []int{2, 0})
		wantTensor(t, "half", s.Multinomial(tensor.Eye(tensor.Float16, 2), 1, true), tensor.Int64, []int{2, 1}, 0, 1)
		wantTensor(t, "no rows", s.Multinomial(tensor.Zeros(tensor.Float32, 0, 3), 2, true), tensor.Int64, []int{0, 2})
		if x := s.Uniform(1, 1+0x1p-23, 1000); !x.AllEqual(s.Full(1, tensor.Float32, 1000)) {
			t.Error("a number is the upper end")
		}
		all := tensor.ToSlice[int64](s.Multinomial(s.Full(1, tensor.Float32, 50), 50, false))
		slices.Sort(all)
		for i, k := range all {
			if int(k) != i {
				t.Fatalf("without replacement drew %v", all)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Host data drawn from [lo, hi) are below hi, where float32 has few numbers in between, too.
func TestUniformIsBelow(t *testing.T) {
	for _, r := range [][2]float64{{1, 2}, {1, 1 + 0x1p-23}, {1, 1 + 0x1p-22}, {-0x1p-149, 0}, {-3, -3 + 0x1p-20},
		{0.1, 0.3}, {1 << 24, 1<<24 + 2}, {5, 5}} {
		lo, hi := float32(r[0]), float32(r[1])
		for i, v := range tensor.ToSlice[float32](tensor.Uniform(tensor.Seed(3), r[0], r[1], 4096)) {
			if v < lo || v >= hi && lo < hi || lo == hi && v != lo {
				t.Errorf("uniform of %v: element %d is %v", r, i, v)
				break
			}
		}
	}
	wantMisuse(t, func() { tensor.Uniform(tensor.Seed(1), 2, 1, 3) }, tensor.ErrValue, "uniform: [2, 1) is no range")
	wantMisuse(t, func() { tensor.Uniform(tensor.Seed(1), 0, math.NaN()) }, tensor.ErrValue, "uniform: [0, NaN)")
}

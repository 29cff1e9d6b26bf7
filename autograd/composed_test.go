package autograd_test

import (
	"math"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
	"github.com/x448/float16"
)

// normal is float64 host data.
func normal(seed uint64, shape ...int) *tensor.Tensor {
	return tensor.Randn(tensor.Seed(seed), shape...).To(tensor.Float64)
}

// First and second derivatives of methods that are made of operations.
func TestGradcheckComposed(t *testing.T) {
	dev := open(t)
	type tensors = []*tensor.Tensor
	rows := tensors{normal(1, 3, 4)}
	pair := tensors{normal(1, 3, 4), normal(2, 3, 4)}
	for name, c := range map[string]struct {
		f  func(x tensors) *tensor.Tensor
		in tensors
	}{
		"norm 1":    {func(x tensors) *tensor.Tensor { return x[0].Norm(1, 1) }, rows},
		"norm 2":    {func(x tensors) *tensor.Tensor { return x[0].Norm(2, 1) }, rows},
		"norm 3":    {func(x tensors) *tensor.Tensor { return x[0].Norm(3, 0, tensor.KeepDims) }, rows},
		"norm -1.5": {func(x tensors) *tensor.Tensor { return x[0].Norm(-1.5) }, rows},
		"norm inf":  {func(x tensors) *tensor.Tensor { return x[0].Norm(math.Inf(1), -1) }, rows},
		"cosine":    {func(x tensors) *tensor.Tensor { return x[0].CosineSimilarity(x[1], 1, 1e-8) }, pair},
		"distance":  {func(x tensors) *tensor.Tensor { return x[0].PairwiseDistance(x[1], 2, 1e-6) }, pair},
		"cdist":     {func(x tensors) *tensor.Tensor { return x[0].Cdist(x[1], 2) }, pair},
		"cdist of many": {func(x tensors) *tensor.Tensor { return x[0].Cdist(x[1], 2) },
			tensors{normal(1, 3, 2), normal(2, 26, 2)}},
		"renorm":  {func(x tensors) *tensor.Tensor { return x[0].Renorm(2, 0, 1.5) }, rows},
		"nanmean": {func(x tensors) *tensor.Tensor { return x[0].NaNMean(0) }, rows},
		"prelu": {func(x tensors) *tensor.Tensor { return x[0].PReLU(x[1]) },
			tensors{normal(1, 2, 3, 2), normal(2, 3)}},
		"gaussian nll": {func(x tensors) *tensor.Tensor { return nn.GaussianNLL(x[0], x[1], x[1].Square()) }, pair},
		"triplet": {func(x tensors) *tensor.Tensor { return nn.TripletMargin(x[0], x[1], x[0].Mul(x[1]), nn.Swap()) },
			pair},
		"soft cross-entropy": {func(x tensors) *tensor.Tensor { return nn.CrossEntropy(x[0], x[1].Softmax(1)) }, pair},
		"smooth l1":          {func(x tensors) *tensor.Tensor { return nn.SmoothL1(x[0], x[1], 0.5) }, pair},
		"focal": {func(x tensors) *tensor.Tensor { return nn.SigmoidFocal(x[0], x[1].Sigmoid(), 0.25, 2) },
			pair},
		"glu": {func(x tensors) *tensor.Tensor { return x[0].GLU(-1) }, rows},
	} {
		if err := autograd.Gradcheck(dev, c.f, c.in...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := autograd.GradGradcheck(dev, c.f, c.in...); err != nil {
			t.Errorf("%s, second derivative: %v", name, err)
		}
	}
}

// Distances of rows far from the origin, which a product of the rows themselves would lose.
func TestCdistFar(t *testing.T) {
	x := normal(1, 40, 3).To(tensor.Float32)
	y := normal(2, 30, 3).To(tensor.Float32)
	far := tensor.Of[float32](4096)
	x, y = x.Add(far), y.Add(far)
	got := x.Cdist(y, 2)
	want := x.To(tensor.Float64).Unsqueeze(1).Sub(y.To(tensor.Float64).Unsqueeze(0)).Norm(2, -1)
	if d := got.To(tensor.Float64).Sub(want).Abs().Max().Item(); !(d < 1e-4) {
		t.Errorf("distances are off by %v", d)
	}
}

// NaNToNum takes the numbers of the element type.
func TestNaNToNumTypes(t *testing.T) {
	odd := tensor.FromSlice([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 2}, 4)
	for dt, largest := range map[tensor.DType]float64{
		tensor.Float64: math.MaxFloat64, tensor.Float32: math.MaxFloat32, tensor.Float16: 65504,
		tensor.BFloat16: 0x1.fep127,
	} {
		got := tensor.ToSlice[float64](odd.To(dt).NaNToNum())
		if want := []float64{0, largest, -largest, 2}; !equal(got, want) {
			t.Errorf("%v: %v, want %v", dt, got, want)
		}
	}
	got := tensor.ToSlice[float64](odd.NaNToNum(3, 4, 5))
	if want := []float64{3, 4, 5, 2}; !equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestNextAfter compares with math.Nextafter in float64 and float32, and in half precision with the neighbours of every
// number.
func TestNextAfter(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	edges := []float64{0, math.Copysign(0, -1), 1, -1, 1.5, 3, 0.1, inf, -inf, nan}
	for _, x := range edges[2:7] { // ends of binades, of the subnormal numbers, and of all
		for _, scale := range []float64{0x1p-1074, 0x1p-1073, 0x1p-1022, 0x1p-1021, 0x1p-149, 0x1p-148, 0x1p-126,
			0x1p-125, 0x1p-24, 0x1p52, 0x1p127, 0x1p1023} {
			edges = append(edges, x*scale, math.Nextafter(x*scale, 0), math.Nextafter(x*scale, 9e9))
		}
	}
	edges = append(edges, math.MaxFloat64, -math.MaxFloat64, math.MaxFloat32, -math.MaxFloat32,
		float64(math.Nextafter32(1, 0)), float64(math.Nextafter32(0x1p-126, 0)), float64(math.Nextafter32(0x1p-125, 0)))
	x := tensor.FromSlice(edges, len(edges), 1)
	y := x.Reshape(1, -1)
	wide := tensor.ToSlice[float64](x.NextAfter(y))
	narrow := tensor.ToSlice[float32](x.To(tensor.Float32).NextAfter(y.To(tensor.Float32)))
	for k, got := range wide {
		a, b := edges[k/len(edges)], edges[k%len(edges)]
		want, want32 := math.Nextafter(a, b), math.Nextafter32(float32(a), float32(b))
		if a == b { // C returns the second number, Go the first
			want = b
		}
		if float32(a) == float32(b) {
			want32 = float32(b)
		}
		if math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) {
			t.Errorf("float64: behind %v towards %v is %v, want %v", a, b, got, want)
		}
		if g := narrow[k]; math.Float32bits(g) != math.Float32bits(want32) && (g == g || want32 == want32) {
			t.Errorf("float32: behind %v towards %v is %v, want %v", a, b, g, want32)
		}
	}
	for dt, infinity := range map[tensor.DType]int{tensor.Float16: 0x7c00, tensor.BFloat16: 0x7f80} {
		var all []float64 // from -Inf to +Inf
		for k := -infinity; k <= infinity; k++ {
			bits := uint16(max(k, -k))
			v := float64(float16.Frombits(bits).Float32())
			if dt == tensor.BFloat16 {
				v = float64(math.Float32frombits(uint32(bits) << 16))
			}
			all = append(all, math.Copysign(v, float64(2*k+1)))
		}
		x := tensor.FromSlice(all, len(all)).To(dt)
		up := tensor.ToSlice[float64](x.NextAfter(tensor.Of(inf).To(dt)))
		down := tensor.ToSlice[float64](x.NextAfter(tensor.Of(-inf).To(dt)))
		for k := range all {
			if want := all[min(k+1, len(all)-1)]; up[k] != want {
				t.Fatalf("%v: above %v is %v, want %v", dt, all[k], up[k], want)
			}
			if want := all[max(k-1, 0)]; down[k] != want {
				t.Fatalf("%v: below %v is %v, want %v", dt, all[k], down[k], want)
			}
		}
		if zero := up[infinity-1]; zero != 0 || !math.Signbit(zero) {
			t.Errorf("%v: above the greatest negative number is %v, want -0", dt, zero)
		}
	}
	got := tensor.FromSlice([]int32{5}, 1).NextAfter(tensor.FromSlice([]int32{6}, 1))
	if got.DType() != tensor.Float32 || got.Item() != float64(math.Nextafter32(5, 6)) {
		t.Errorf("of integers %v", got)
	}
}

func equal(a, b []float64) bool {
	for i := range b {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// RReLU draws slopes in training, of the whole range, and takes their mean elsewhere.
func TestRReLU(t *testing.T) {
	dev := open(t)
	x := tensor.Full(-1, tensor.Float64, 4096)
	slopes := func(run func(func(*tensor.Scope) error, ...tensor.Option) error) (all []float64) {
		if err := run(func(s *tensor.Scope) error {
			all = tensor.ToSlice[float64](s.In(x).RReLU(0.25, 0.75).Neg())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	lo, hi, sum := 1.0, 0.0, 0.0
	for _, v := range slopes(dev.Step) {
		lo, hi, sum = min(lo, v), max(hi, v), sum+v
	}
	if lo < 0.25 || lo > 0.26 || hi >= 0.75 || hi < 0.74 || math.Abs(sum/4096-0.5) > 0.01 {
		t.Errorf("slopes from %v to %v with mean %v", lo, hi, sum/4096)
	}
	for _, v := range slopes(dev.Eval) {
		if v != 0.5 {
			t.Fatalf("slope %v in evaluation, want 0.5", v)
		}
	}
}

func TestComposedMisuse(t *testing.T) {
	x := normal(1, 3, 4)
	for want, f := range map[string]func(){
		"norm: int64[2] must be of a floating type": func() { tensor.FromSlice([]int64{1, 2}, 2).Norm(2) },
		"norm: p is NaN": func() { x.Norm(math.NaN()) },
		"cdist: x float64[3 4] and y float64[2 3] must be":          func() { x.Cdist(normal(1, 2, 3), 2) },
		"cdist: p is -1, must be 0 or more":                         func() { x.Cdist(x, -1) },
		"renorm: float64[4] must have 2 axes or more":               func() { normal(1, 4).Renorm(2, 0, 1) },
		"glu: float64[3 4] has 3 elements along axis 0, which has":  func() { x.GLU(0) },
		"prelu: weight float64[3] must have shape [1] or [4]":       func() { x.PReLU(normal(1, 3)) },
		"nan_to_num: takes values for NaN, +Inf and -Inf, got [1 2": func() { x.NaNToNum(1, 2, 3, 4) },
		"rrelu: the bounds 1 and 0 must be in order":                func() { x.RReLU(1, 0) },
		"hardtanh: the bounds 1 and 0 must be in order":             func() { x.HardtanhWithin(1, 0) },
		"isclose: the tolerances -1 and 0 must not be negative":     func() { x.IsClose(x, -1, 0) },
		"cosine_similarity: shapes [3 4] and [5] do not broadcast":  func() { x.CosineSimilarity(normal(1, 5), 0, 0) },
	} {
		if err := engine.Try(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

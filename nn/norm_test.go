package nn_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// normLayers are norms over channels, of 4 channels, with operands that they take.
var normLayers = []struct {
	name  string
	make  func() nn.Module
	shape []int
}{
	{"batch1d", func() nn.Module { return nn.NewBatchNorm1d(4) }, []int{5, 4}},
	{"batch2d", func() nn.Module { return nn.NewBatchNorm2d(4) }, []int{2, 4, 3, 2}},
	{"batch plain", func() nn.Module { return nn.NewBatchNorm1d(4, nn.Affine(false)) }, []int{2, 4, 3}},
	{"instance", func() nn.Module { return nn.NewInstanceNorm1d(4, nn.Affine(true)) }, []int{2, 4, 3}},
	{"group", func() nn.Module { return nn.NewGroupNorm(2, 4) }, []int{2, 4, 3}},
}

// TestNormDerivatives compares first and second derivatives for operand and parameters with differences.
func TestNormDerivatives(t *testing.T) {
	for _, c := range normLayers {
		t.Run(c.name, func(t *testing.T) {
			dev := open(t)
			model := c.make()
			if err := nn.Init(dev, model, nn.DType(tensor.Float64)); err != nil {
				t.Fatal(err)
			}
			inputs := []*tensor.Tensor{tensor.Uniform(tensor.Seed(1), -2, 2, c.shape...).To(tensor.Float64)}
			for i := range nn.Parameters(model) {
				inputs = append(inputs, tensor.Uniform(tensor.Seed(uint64(2+i)), 0.5, 1.5, 4).To(tensor.Float64))
			}
			f := func(xs []*tensor.Tensor) *tensor.Tensor {
				n := c.make()
				setParameters(n, xs[1:])
				return n.Forward(xs[0])
			}
			if err := autograd.Gradcheck(dev, f, inputs...); err != nil {
				t.Error(err)
			}
			if err := autograd.GradGradcheck(dev, f, inputs...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBatchNormBits: batch norm in one pass has the bits of the operations that it is composed of.
func TestBatchNormBits(t *testing.T) {
	const eps = 1e-5
	dev := open(t)
	for _, shape := range [][]int{{3, 4, 2}, {5, 4, 7, 7}, {2, 4, 50, 41}} {
		var in []*tensor.Tensor
		for i, s := range [][]int{shape, {4}, {4}, shape} {
			in = append(in, tensor.Randn(tensor.Seed(uint64(i)), s...))
		}
		norm := nn.NewBatchNorm2d
		if len(shape) == 3 {
			norm = nn.NewBatchNorm1d
		}
		train := func(opts ...autograd.Option) (y *tensor.Tensor, grads []*tensor.Tensor) {
			if err := dev.Step(func(s *tensor.Scope) error {
				var xs []*tensor.Tensor
				for _, x := range in[:3] {
					xs = append(xs, autograd.Watch(s, x))
				}
				n := norm(4, nn.Eps(eps))
				setParameters(n, xs[1:])
				result := n.Forward(xs[0])
				opts = append(opts, autograd.GradOutput(s.In(in[3])))
				for _, g := range autograd.Grad(result, xs, opts...) {
					grads = append(grads, g.Keep())
				}
				y = result.Keep()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return y, grads
		}
		y, got := train()
		_, want := train(autograd.CreateGraph())
		for i := range want {
			if !got[i].AllEqual(want[i]) {
				t.Errorf("%v: gradient %d is %v, want %v", shape, i, got[i], want[i])
			}
		}
		others := []int{0}
		for axis := 2; axis < len(shape); axis++ {
			others = append(others, axis)
		}
		spread := func(v *tensor.Tensor) *tensor.Tensor {
			return v.Reshape(append([]int{4}, slices.Repeat([]int{1}, len(shape)-2)...)...)
		}
		x := in[0]
		rstd := x.Var(0, others...).AddScalar(eps).Rsqrt()
		composed := x.Sub(spread(x.Mean(others...))).Mul(spread(rstd.Mul(in[1]))).Add(spread(in[2]))
		if !y.AllEqual(composed) {
			t.Errorf("%v: y is %v, want %v", shape, y, composed)
		}
	}
}

// setParameters puts tensors in the place of weight and bias, and drops running statistics.
func setParameters(m nn.Module, p []*tensor.Tensor) {
	p = append(p, nil, nil)
	switch n := m.(type) {
	case *nn.BatchNorm:
		n.Weight, n.Bias, n.Mean = p[0], p[1], nil
	case *nn.InstanceNorm:
		n.Weight, n.Bias, n.Mean = p[0], p[1], nil
	case *nn.GroupNorm:
		n.Weight, n.Bias = p[0], p[1]
	}
}

// TestRunningStatsOfParts: in a step of several parts the statistics move once a part, in order, as in a step for each.
func TestRunningStatsOfParts(t *testing.T) {
	for _, opts := range [][]nn.LayerOption{nil, {nn.CumulativeAverage()}} {
		parts := []*tensor.Tensor{tensor.Uniform(tensor.Seed(1), -1, 1, 4, 3),
			tensor.Uniform(tensor.Seed(2), 0, 9, 4, 3), tensor.Uniform(tensor.Seed(3), -5, 1, 4, 3)}
		dev := open(t)
		var got [2][]float64
		for way := range 2 {
			n := nn.NewBatchNorm1d(3, opts...)
			if err := nn.Init(dev, n); err != nil {
				t.Fatal(err)
			}
			step := func(parts ...*tensor.Tensor) {
				if err := dev.Step(func(s *tensor.Scope) error {
					autograd.Accumulate(s, len(parts), 12, func(i int) *tensor.Tensor {
						return n.Forward(s.In(parts[i])).Square().Sum()
					})
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			if way == 0 {
				step(parts...)
			} else {
				for _, p := range parts {
					step(p)
				}
			}
			for _, x := range []*tensor.Tensor{n.Mean, n.Var, n.Batches} {
				got[way] = append(got[way], tensor.ToSlice[float64](x)...)
			}
		}
		if fmt.Sprint(got[0]) != fmt.Sprint(got[1]) || got[0][6] != 3 {
			t.Errorf("in one step %v, in three %v", got[0], got[1])
		}
	}
}

// TestBatchesAreCounted: batches are counted in int64 in models of any type, also in copies, and beyond what float16
// counts to.
func TestBatchesAreCounted(t *testing.T) {
	dev := open(t)
	n := nn.NewBatchNorm1d(2, nn.CumulativeAverage())
	if err := nn.Init(dev, n, nn.DType(tensor.Float16)); err != nil {
		t.Fatal(err)
	}
	n.Batches.Assign(tensor.Of[int64](1 << 40))
	n, err := nn.Clone(dev, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Step(func(s *tensor.Scope) error {
		n.Forward(s.In(tensor.Uniform(tensor.Seed(1), -1, 1, 3, 2).To(tensor.Float16)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if v := tensor.ToSlice[int64](n.Batches); v[0] != 1<<40+1 || n.Batches.DType() != tensor.Int64 ||
		n.Mean.DType() != tensor.Float16 {
		t.Errorf("%v is %v, the mean %v", n.Batches, v, n.Mean)
	}
}

// TestRunningStatsFailedStep: a step that fails leaves the statistics, and evaluation does not move them.
func TestRunningStatsFailedStep(t *testing.T) {
	dev := open(t)
	n := nn.NewBatchNorm2d(2)
	if err := nn.Init(dev, n); err != nil {
		t.Fatal(err)
	}
	x := tensor.Uniform(tensor.Seed(1), 2, 3, 3, 2, 2, 2)
	failed := errors.New("stop")
	if err := dev.Step(func(s *tensor.Scope) error { n.Forward(s.In(x)); return failed }); err != failed {
		t.Fatal(err)
	}
	if err := dev.Eval(func(s *tensor.Scope) error { n.Forward(s.In(x)); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tensor.ToSlice[float64](n.Mean), tensor.ToSlice[float64](n.Var)); got != "[0 0] [1 1]" {
		t.Errorf("the statistics moved to %s", got)
	}
	err := dev.Step(func(s *tensor.Scope) error {
		n.Forward(s.In(x))
		s.With(func() { n.Forward(s.In(x)) }, tensor.Inference())
		return nil
	})
	if !errors.Is(err, tensor.ErrVersion) {
		t.Errorf("evaluation in the step that moved the statistics: %v", err)
	}
}

// TestNormAutocast: under autocast norms over channels run in float32, and gradients have the types of the operands.
func TestNormAutocast(t *testing.T) {
	for _, c := range normLayers {
		dev := open(t)
		model := c.make()
		if err := nn.Init(dev, model); err != nil {
			t.Fatal(err)
		}
		err := dev.Step(func(s *tensor.Scope) error {
			x := autograd.Watch(s, s.In(tensor.Uniform(tensor.Seed(1), -2, 2, c.shape...)).To(tensor.BFloat16))
			y := model.Forward(x)
			if g := autograd.Grad(y.Square().Sum(), []*tensor.Tensor{x})[0]; y.DType() != tensor.Float32 ||
				g.DType() != tensor.BFloat16 {
				t.Errorf("%s: the result is %v, the gradient %v", c.name, y, g)
			}
			return nil
		}, amp.Autocast(tensor.BFloat16))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestNormMisuse: what a norm over channels cannot take is a typed error.
func TestNormMisuse(t *testing.T) {
	dev := open(t)
	for _, c := range []struct {
		layer nn.Module
		shape []int
		kind  error
	}{
		{nn.NewBatchNorm1d(4), []int{1, 4}, tensor.ErrShape},
		{nn.NewBatchNorm1d(4), []int{3, 5}, tensor.ErrShape},
		{nn.NewBatchNorm2d(4), []int{3, 4, 2}, tensor.ErrShape},
		{nn.NewBatchNorm1d(4), []int{4}, tensor.ErrShape},
		{nn.NewInstanceNorm1d(4), []int{2, 4, 1}, tensor.ErrShape},
		{nn.NewInstanceNorm2d(4), []int{2, 4, 1}, tensor.ErrShape},
		{nn.NewGroupNorm(4, 4), []int{1, 4}, tensor.ErrShape},
		{&nn.GroupNorm{Channels: 4}, []int{2, 4}, tensor.ErrValue},
		{nn.NewBatchNorm1d(4), []int{0, 4}, nil},
		{nn.NewInstanceNorm1d(4), []int{0, 4, 3}, nil},
		{nn.NewGroupNorm(2, 4), []int{2, 4, 0}, nil},
	} {
		if err := nn.Init(dev, c.layer); err != nil {
			t.Fatal(err)
		}
		err := dev.Step(func(s *tensor.Scope) error {
			if y := c.layer.Forward(s.In(tensor.Zeros(tensor.Float32, c.shape...))); fmt.Sprint(y.Shape()) !=
				fmt.Sprint(c.shape) {
				t.Errorf("%v of %v has shape %v", c.layer, c.shape, y.Shape())
			}
			return nil
		})
		if !errors.Is(err, c.kind) {
			t.Errorf("%v of %v: %v", c.layer, c.shape, err)
		}
	}
	for _, f := range []func(){
		func() { nn.NewGroupNorm(3, 4) }, func() { nn.NewBatchNorm1d(4, nn.Momentum(2)) },
		func() { nn.NewBatchNorm1d(4, nn.Eps(-1)) }, func() { nn.NewBatchNorm1d(4, nn.NoBias()) },
	} {
		func() {
			defer func() {
				if _, ok := recover().(*tensor.Error); !ok {
					t.Error("a constructor took what makes no sense")
				}
			}()
			f()
		}()
	}
}

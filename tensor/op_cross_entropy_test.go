package tensor_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// wantClose compares elements with a tolerance.
func wantClose(t *testing.T, name string, got []float64, tolerance float64, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %v, want %v", name, got, want)
		return
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
			t.Errorf("%s: element %d is %v, want %v", name, i, got[i], want[i])
		}
	}
}

// The losses of logits (0, 0), (0, log 3) and (log 3, 0) for class 1 are log 2, log 4/3 and log 4.
func TestCrossEntropyValues(t *testing.T) {
	ln := math.Log
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
		x := tensor.FromSlice([]float64{0, 0, 0, ln(3), ln(3), 0}, 3, 2).To(dt)
		tolerance := 1e-6
		if dt == tensor.Float64 {
			tolerance = 1e-14
		}
		ones := vector[int64](1, 1, 1)
		check := func(name string, y *tensor.Tensor, want ...float64) {
			t.Helper()
			if y.DType() != dt {
				t.Errorf("%s: loss %v of logits %v", name, y, x)
			}
			wantClose(t, name, tensor.ToSlice[float64](y), tolerance, want...)
		}
		a, b, c := ln(2), ln(4.0/3), ln(4)
		check("mean", x.CrossEntropy(ones), (a+b+c)/3)
		check("sum", nn.CrossEntropy(x, ones, nn.ReduceSum()), a+b+c)
		check("none", nn.CrossEntropy(x, ones, nn.ReduceNone()), a, b, c)
		check("int32", x.CrossEntropy(ones.To(tensor.Int32)), (a+b+c)/3)
		check("uint8", x.CrossEntropy(ones.To(tensor.Uint8)), (a+b+c)/3)
		some := vector[int64](1, -100, 1)
		check("ignored", x.CrossEntropy(some), (a+c)/2)
		check("ignored, sum", nn.CrossEntropy(x, some, nn.ReduceSum()), a+c)
		check("ignored, none", nn.CrossEntropy(x, some, nn.ReduceNone()), a, 0, c)
		check("another mark", nn.CrossEntropy(x, vector[int64](0, 1, 0), nn.IgnoreIndex(0)), b)
		check("smooth", nn.CrossEntropy(x, ones, nn.LabelSmoothing(0.5), nn.ReduceNone()), a, 0.75*b+0.25*c,
			0.75*c+0.25*b)
		check("one row", x.Select(0, 1).CrossEntropy(tensor.Of(int64(1))), b)
		rows := nn.CrossEntropy(x.Reshape(3, 1, 2), ones.Reshape(3, 1), nn.ReduceNone())
		wantTensor(t, "shape", rows.Greater(rows.Scale(2)), tensor.Bool, []int{3, 1}, 0, 0, 0)
		all := nn.CrossEntropy(x, vector[int64](7, 7, 7), nn.IgnoreIndex(7))
		wantTensor(t, "all ignored", all, dt, nil, nan)
		wantTensor(t, "no rows", nn.CrossEntropy(tensor.Zeros(dt, 0, 4), tensor.Zeros(tensor.Int64, 0), nn.ReduceSum()),
			dt, nil, 0)
	}
}

// Rows that are ignored have no gradient, even if all are.
func TestCrossEntropyIgnoredGradient(t *testing.T) {
	x := floats([]int{2, 2}, 1, 2, 3, 4)
	g := gradient(t, x, func(x *tensor.Tensor) *tensor.Tensor { return x.CrossEntropy(vector[int64](-100, -100)) })
	wantClose(t, "all ignored", g, 0, 0, 0, 0, 0)
	g = gradient(t, x, func(x *tensor.Tensor) *tensor.Tensor { return x.CrossEntropy(vector[int64](-100, 0)) })
	p := 1 / (1 + math.Exp(1))
	wantClose(t, "one ignored", g, 1e-6, 0, 0, p-1, 1-p)
}

// The second derivative of a fused gradient is that of its composition, with ignored rows, smoothing and all
// reductions.
func TestCrossEntropySecondDerivative(t *testing.T) {
	dev := open(t)
	x := tensor.Uniform(tensor.Seed(3), -2, 2, 4, 3).To(tensor.Float64)
	targets := vector[int64](2, 7, 0, 1)
	for r, reduction := range []nn.LossOption{nn.ReduceMean(), nn.ReduceSum(), nn.ReduceNone()} {
		err := autograd.GradGradcheck(dev, func(x []*tensor.Tensor) *tensor.Tensor {
			return nn.CrossEntropy(x[0], targets, nn.IgnoreIndex(7), nn.LabelSmoothing(0.2), reduction)
		}, x)
		if err != nil {
			t.Errorf("reduction %d: %v", r, err)
		}
	}
}

// lossIn computes logits f(w) and their loss in a region of their own, so that the tape is the logits' only owner.
func lossIn(s *tensor.Scope, f func() *tensor.Tensor) *tensor.Tensor {
	return s.Region("loss", func() []*tensor.Tensor { return []*tensor.Tensor{f()} })[0]
}

// The gradient takes the memory of the logits, and has the bits that it has in memory of its own.
func TestCrossEntropyGradInPlace(t *testing.T) {
	dev := open(t)
	const rows, classes = 300, 70
	v := make([]int64, rows)
	for r := range v {
		v[r] = int64(r * 37 % classes)
	}
	targets := tensor.FromSlice(v, rows)
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(3), rows, classes).To(dt))
		for r, reduction := range []nn.LossOption{nn.ReduceMean(), nn.ReduceSum(), nn.ReduceNone()} {
			for _, smoothing := range []float64{0, 0.1} {
				gradient := func(opts ...autograd.Option) (g []float64, blocks int) {
					step(t, dev, func(s *tensor.Scope) {
						y := lossIn(s, func() *tensor.Tensor {
							return nn.CrossEntropy(s.In(w).Scale(2), targets, reduction,
								nn.LabelSmoothing(smoothing), nn.IgnoreIndex(7))
						})
						opts = append(opts, autograd.GradOutput(tensor.Uniform(tensor.Seed(5), 0.5, 1.5,
							y.Shape()...).To(dt)))
						before := dev.Stats().Memory.Allocs
						autograd.Backward(y, opts...)
						blocks = dev.Stats().Memory.Allocs - before
					})
					g = tensor.ToSlice[float64](w.Grad())
					w.ClearGrads()
					return g, blocks
				}
				want, own := gradient(autograd.Retain())
				got, inPlace := gradient()
				if !slices.Equal(got, want) {
					t.Errorf("%v, reduction %d, smoothing %v: the gradient is another one in the memory of the logits",
						dt, r, smoothing)
				}
				if inPlace != own-2 { // that of the scaling takes the same memory
					t.Errorf("%v, reduction %d, smoothing %v: backward takes %d blocks from the pool, "+
						"%d with Retain, want two less", dt, r, smoothing, inPlace, own)
				}
			}
		}
	}
}

// Under autocast the loss saves a cast of the logits to float32, whose memory the gradient takes.
func TestCrossEntropyGradOfCast(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(3), 4, 16))
	lowered := engine.Autocast(tensor.BFloat16)
	var g [2][]float32
	var blocks [2]int
	for i, opts := range [][]autograd.Option{{autograd.Retain()}, nil} {
		err := dev.Step(func(s *tensor.Scope) error {
			y := lossIn(s, func() *tensor.Tensor {
				return s.In(w).To(tensor.BFloat16).CrossEntropy(vector[int64](3, 1,
					15, 0))
			})
			before := dev.Stats().Memory.Allocs
			autograd.Backward(y, opts...)
			blocks[i] = dev.Stats().Memory.Allocs - before
			return nil
		}, lowered)
		if err != nil {
			t.Fatal(err)
		}
		g[i] = tensor.ToSlice[float32](w.Grad())
		w.ClearGrads()
	}
	if !slices.Equal(g[0], g[1]) || blocks[1] != blocks[0]-1 {
		t.Errorf("the gradient is %v in %d blocks, want %v in one block less than %d", g[1], blocks[1], g[0], blocks[0])
	}
}

// A step has room for the logits once, not twice.
func TestCrossEntropyMemory(t *testing.T) {
	const rows, classes = 1 << 10, 1 << 14
	dev := openDevice(t, "null")
	w, err := engine.NewState(dev, "w", tensor.Float32, classes, 1)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(bytes int) {
		other, err := tensor.Open("null", tensor.MemoryLimit(bytes))
		if err != nil {
			t.Fatal(err)
		}
		other.Close()
	}
	limit(1)                                                    // gives back what is cached
	limit(dev.Stats().Memory.Reserved + 4*rows*classes + 4<<20) // the logits, and segments of small blocks
	defer limit(1 << 40)
	x, targets := tensor.Zeros(tensor.Float32, rows, 1), tensor.Zeros(tensor.Int64, rows)
	p := nn.ParameterOf("p", x)
	train := func(f func(s *tensor.Scope, loss func() *tensor.Tensor)) error {
		return dev.Step(func(s *tensor.Scope) error {
			f(s, func() *tensor.Tensor { return s.In(p).Linear(w, nil).CrossEntropy(targets) })
			return nil
		})
	}
	for i := range 2 {
		err := train(func(s *tensor.Scope, loss func() *tensor.Tensor) {
			if i == 0 {
				autograd.Backward(lossIn(s, loss))
			} else {
				autograd.Accumulate(s, 2, 2, func(int) *tensor.Tensor { return loss() })
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
	err = train(func(s *tensor.Scope, loss func() *tensor.Tensor) { autograd.Backward(loss()) })
	wantError(t, err, tensor.ErrMemory, "cross_entropy_grad")
}

// The logits keep their memory while anybody can read them.
func TestCrossEntropyGradElsewhere(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(3), 4, 16))
	targets := vector[int64](3, 1, 15, 0)
	loss := func(x *tensor.Tensor) *tensor.Tensor { return x.CrossEntropy(targets) }
	// gradient is that of f(w), by a pass that may take memory and by one that may not, which must agree.
	gradient := func(name string, f func(s *tensor.Scope) *tensor.Tensor) {
		t.Helper()
		var g [2][]float32
		var blocks [2]int
		for i, opts := range [][]autograd.Option{{autograd.Retain()}, nil} {
			before := dev.Stats().Memory.Allocs
			step(t, dev, func(s *tensor.Scope) {
				autograd.Backward(lossIn(s, func() *tensor.Tensor { return f(s) }), opts...)
			})
			blocks[i] = dev.Stats().Memory.Allocs - before
			g[i] = tensor.ToSlice[float32](w.Grad())
			w.ClearGrads()
		}
		if !slices.Equal(g[0], g[1]) {
			t.Errorf("%s: the gradient is %v, want %v", name, g[1], g[0])
		}
		if blocks[0]-1 != blocks[1] { // the pointwise operation before takes memory, the loss none
			t.Errorf("%s: the step takes %d blocks from the pool, want one less than %d", name, blocks[1], blocks[0])
		}
	}
	gradient("read by another operation, whose derivative comes later", func(s *tensor.Scope) *tensor.Tensor {
		x := s.In(w).Scale(2)
		square := x.Square()
		return loss(x).Add(square.Mean())
	})
	gradient("the result of a function whose derivative reads it",
		func(s *tensor.Scope) *tensor.Tensor { return loss(s.In(w).Tanh()) })
	gradient("half of a block", func(s *tensor.Scope) *tensor.Tensor {
		x := s.In(w).Scale(2).Reshape(8, 8)
		return x.Slice(0, 4, 8).CrossEntropy(vector[int64](3, 1, 7, 0))
	})
	gradient("transposed", func(s *tensor.Scope) *tensor.Tensor {
		return s.In(w).Scale(2).Reshape(16, 4).T().CrossEntropy(targets)
	})
}

// Logits that the step owns, that are kept, that are a parameter, or that an observer reads, are as they were after
// backward.
func TestCrossEntropyGradKeepsLogits(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(3), 4, 16))
	targets := vector[int64](3, 1, 15, 0)
	loss := func(x *tensor.Tensor) *tensor.Tensor { return x.CrossEntropy(targets) }
	step(t, dev, func(s *tensor.Scope) {
		x := s.In(w).Scale(2)
		before := tensor.ToSlice[float32](x)
		autograd.Backward(loss(x))
		if !slices.Equal(tensor.ToSlice[float32](x), before) {
			t.Error("backward changed logits that the step still owns")
		}
		var kept *tensor.Tensor
		y := lossIn(s, func() *tensor.Tensor {
			x := s.In(w).Scale(2)
			kept = x.Keep()
			return loss(x)
		})
		autograd.Backward(y)
		if !slices.Equal(tensor.ToSlice[float32](kept), before) {
			t.Error("backward changed logits that were kept")
		}
	})
	w.ClearGrads()

	p := nn.Parameter(func(v []float64, _ []int, r nn.Random) {
		for i := range v {
			v[i] = float64(i%5) / 4
		}
	}, 4, 16)
	if err := engine.Place(dev, "", []string{"p"}, []*tensor.Tensor{p}, tensor.Float32); err != nil {
		t.Fatal(err)
	}
	before := tensor.ToSlice[float32](p)
	step(t, dev, func(s *tensor.Scope) { autograd.Backward(lossIn(s, func() *tensor.Tensor { return loss(s.In(p)) })) })
	if !slices.Equal(tensor.ToSlice[float32](p), before) {
		t.Error("backward changed a parameter")
	}
	p.ClearGrads()

	// An observer sees the operands of an operation as they were.
	err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(lossIn(s, func() *tensor.Tensor { return loss(s.In(w).Scale(2)) }))
		return nil
	}, engine.Observe(func(_ string, c seam.Applied[*tensor.Op, *tensor.Tensor]) {
		for _, x := range c.In {
			tensor.ToSlice[float64](x)
		}
	}))
	if err != nil {
		t.Error(err)
	}
	w.ClearGrads()
}

// What is gone is not read: neither by a second pass, also after one that ended in between, nor by who still has a
// handle.
func TestCrossEntropyGradTakesOnce(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(3), 4, 16))
	step(t, dev, func(s *tensor.Scope) {
		var x *tensor.Tensor
		loss := func() *tensor.Tensor {
			return lossIn(s, func() *tensor.Tensor {
				x = s.In(w).Scale(2)
				return x.CrossEntropy(vector[int64](3, 1, 15, 0))
			})
		}
		y := loss()
		autograd.Backward(y, autograd.Retain())
		autograd.Backward(y)
		wantError(t, engine.Try(func() { autograd.Backward(y) }), tensor.ErrGrad,
			"the values that cross_entropy saved were freed", "autograd.Retain")
		wantError(t, engine.Try(func() { x.Sum() }), tensor.ErrStep,
			"float32[4 16], made by scale, was released when region loss ended")

		y = loss()
		tensor.InBackward(s, func() {
			one := s.Full(1, tensor.Float32)
			tensor.BackwardOf(y, one)
			err := engine.Try(func() { tensor.BackwardOf(y, one) })
			wantError(t, err, tensor.ErrGrad, "the values that cross_entropy saved were freed")
			wantError(t, engine.Try(func() { x.Sum() }), tensor.ErrStep, "was released when region loss ended")
		})
	})
	if n := dev.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live after the step", n)
	}
	w.ClearGrads()
}

func TestCrossEntropyErrors(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 2, 3, 5)
	targets := tensor.Zeros(tensor.Int64, 2, 3)
	for _, c := range []struct {
		f     func()
		kind  error
		parts []string
	}{
		{func() { x.CrossEntropy(tensor.FromSlice([]int64{0, 1, 2, 3, 4, 5}, 2, 3)) }, tensor.ErrIndex,
			[]string{"op_cross_entropy_test.go:",
				"cross_entropy: target [1 2] is 5, outside the classes [0, 5); -100 marks rows to ignore"}},
		{func() { x.To(tensor.Float64).CrossEntropy(tensor.FromSlice([]int64{0, -1, 2, 3, 4, 5}, 2, 3)) },
			tensor.ErrIndex,
			[]string{"cross_entropy: target [0 1] is -1, outside the classes [0, 5)"}},
		{func() { x.CrossEntropy(tensor.Zeros(tensor.Int64, 2, 5)) }, tensor.ErrShape,
			[]string{"cross_entropy: logits float32[2 3 5] have rows [2 3], the last axis being the classes; " +
				"targets int64[2 5] hold one class for each of [2 5]"}},
		{func() { x.CrossEntropy(tensor.Zeros(tensor.Float32, 2, 3)) }, tensor.ErrDType,
			[]string{"cross_entropy: targets float32[2 3] must be int64 or int32 or uint8"}},
		{func() { tensor.Zeros(tensor.Int64, 2, 3).CrossEntropy(targets) }, tensor.ErrDType,
			[]string{"cross_entropy: logits int64[2 3] must hold floating numbers"}},
		{func() { tensor.Of[float32](1).CrossEntropy(tensor.Of(int64(0))) }, tensor.ErrShape,
			[]string{"cross_entropy: logits float32[] has 0 axes, at least 1 are needed"}},
		{func() { nn.CrossEntropy(x, targets, nn.LabelSmoothing(1.5)) }, tensor.ErrValue,
			[]string{"cross_entropy: the label smoothing 1.5 is outside [0, 1]"}},
		{func() { nn.CrossEntropy(x, targets, nn.LabelSmoothing(nan)) }, tensor.ErrValue,
			[]string{"cross_entropy: the label smoothing NaN is outside [0, 1]"}},
		{func() { x.CrossEntropy(nil) }, tensor.ErrStep, []string{"cross_entropy: an operand is nil"}},
	} {
		wantError(t, engine.Try(c.f), c.kind, c.parts...)
	}
}

func ExampleTensor_CrossEntropy() {
	logits := tensor.FromSlice([]float32{0, 0, 10, -10}, 2, 2)
	targets := tensor.FromSlice([]int64{1, 0}, 2)
	fmt.Printf("%.4f\n", logits.CrossEntropy(targets).Item())
	fmt.Printf("%.4f\n", tensor.ToSlice[float32](nn.CrossEntropy(logits, targets, nn.ReduceNone())))
	fmt.Printf("%.4f\n", nn.CrossEntropy(logits, targets, nn.IgnoreIndex(1), nn.LabelSmoothing(0.1)).Item())
	// Output:
	// 0.3466
	// [0.6931 0.0000]
	// 1.0000
}

package tensor_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// matrix is a parameter with the values 1, 2, ...
func matrix(name string, rows, columns int) *tensor.Tensor {
	v := make([]float32, rows*columns)
	for i := range v {
		v[i] = float32(i + 1)
	}
	return nn.ParameterOf(name, tensor.FromSlice(v, rows, columns))
}

func wantFloats(t *testing.T, what string, got *tensor.Tensor, want ...float32) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s: nil", what)
	}
	if v := tensor.ToSlice[float32](got); !slices.Equal(v, want) {
		t.Errorf("%s: got %v, want %v", what, v, want)
	}
}

// step runs f as a step that must succeed.
func step(t *testing.T, dev *tensor.Device, f func(s *tensor.Scope)) {
	t.Helper()
	if err := dev.Step(func(s *tensor.Scope) error { f(s); return nil }); err != nil {
		t.Fatal(err)
	}
}

// squares adds the gradient 2w.
func squares(t *testing.T, dev *tensor.Device, w *tensor.Tensor) {
	t.Helper()
	step(t, dev, func(s *tensor.Scope) { autograd.Backward(s.In(w).Square().Sum()) })
}

func TestPoison(t *testing.T) {
	dev := open(t, tensor.Poison())
	step(t, dev, func(s *tensor.Scope) {
		s.Region("layer", func() []*tensor.Tensor { s.Full(1, tensor.Float32, 1000); return nil })
	})
	v := []float32{1, 2, 3}
	step(t, dev, func(s *tensor.Scope) { wantFloats(t, "squares", s.In(tensor.FromSlice(v, 3)).Square(), 1, 4, 9) })
	if n := dev.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live after the steps", n)
	}
}

// What an observer does with a result is its own business: it is neither recorded nor observed, and changes nothing.
func TestObserverRunsOperations(t *testing.T) {
	dev := open(t)
	var names []string
	err := dev.Step(func(s *tensor.Scope) error {
		x := s.Full(2, tensor.Float32, 3)
		wantFloats(t, "a sum", x.Add(x.Square()), 6, 6, 6)
		return nil
	}, engine.Observe(func(_ string, c seam.Applied[*tensor.Op, *tensor.Tensor]) {
		if c.Out[0].IsNaN().Any().Item() != 0 {
			t.Errorf("%s gives NaN", c.Op.Name)
		}
		names = append(names, c.Op.Name)
	}))
	if want := []string{"full", "square", "add"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("observed %v, want %v; error %v", names, want, err)
	}
}

// An error that Try has caught leaves no trace in the next one.
func TestPathAfterTry(t *testing.T) {
	dev := open(t)
	wrong := func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2).Add(s.Full(1, tensor.Float32, 3)) }
	var first error
	second := dev.Step(func(s *tensor.Scope) error {
		first = engine.Try(func() {
			s.Region("first", func() []*tensor.Tensor { wrong(s); return nil })
		})
		wrong(s)
		return nil
	})
	wantError(t, first, tensor.ErrShape, " in first")
	if e := second.(*tensor.Error); e.In != "" {
		t.Errorf("the second error is said to be in %q", e.In)
	}
}

func TestScopeAfterItsStep(t *testing.T) {
	dev := open(t)
	var s *tensor.Scope
	var x *tensor.Tensor
	step(t, dev, func(inside *tensor.Scope) { s, x = inside, inside.Full(1, tensor.Float32, 2) })
	for name, f := range map[string]func(){
		"region":  func() { s.Region("a", func() []*tensor.Tensor { return nil }) },
		"with":    func() { s.With(func() {}, tensor.NoGrad()) },
		"dropout": func() { x.Dropout(0.5) },
		"call":    func() { nn.Call("a", nn.GELU, x) },
		"in":      func() { s.In(tensor.Zeros(tensor.Float32)) },
	} {
		t.Run(name, func(t *testing.T) { wantError(t, engine.Try(f), tensor.ErrStep, "ended", "robust_test.go:") })
	}
	if !s.Training() || engine.Autocasting(s) != tensor.Float32 {
		t.Error("the modes are lost")
	}
}

func TestErrorSiteUnderManyFrames(t *testing.T) {
	var m nn.Module = nn.NewLayerNorm(3)
	for range 40 {
		m = nn.Sequential(m)
	}
	dev := open(t)
	err := dev.Step(func(s *tensor.Scope) error { m.Forward(s.Full(1, tensor.Int64, 2)); return nil })
	wantError(t, err, tensor.ErrStep, "layer_norm", "robust_test.go:", "0/chain/0/chain")
}

// Elements of a parameter that are overwritten are read before.
func TestAssignViewOfItself(t *testing.T) {
	dev := open(t)
	w := matrix("w", 3, 3)
	w.Assign(w.T())
	wantFloats(t, "transposed outside a step", w, 1, 4, 7, 2, 5, 8, 3, 6, 9)
	step(t, dev, func(s *tensor.Scope) { w.Assign(s.In(w).T()) })
	wantFloats(t, "transposed in a step", w, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	w.Assign(w.Detach().Slice(0, 1, 2))
	wantFloats(t, "rows", w, 4, 5, 6, 4, 5, 6, 4, 5, 6)
	w.Slice(0, 1, 3).Assign(w.Slice(0, 0, 2))
	wantFloats(t, "rows of its own", w, 4, 5, 6, 4, 5, 6, 4, 5, 6)
	w.T().Assign(w)
	wantFloats(t, "a transposed view", w, 4, 4, 4, 5, 5, 5, 6, 6, 6)

	kept := matrix("v", 2, 2)
	step(t, dev, func(s *tensor.Scope) { kept = nn.ParameterOf("kept", s.Full(1, tensor.Float32, 2).Keep()) })
	kept.Assign(tensor.FromSlice([]float32{3, 4}, 2))
	wantFloats(t, "a parameter of kept memory", kept, 3, 4)
}

// A kept gradient stays as it was, in a step and after it.
func TestKeepGradient(t *testing.T) {
	dev := open(t)
	w := matrix("w", 1, 2)
	var inStep []*tensor.Tensor
	stop := w.OnGrad(func(g *tensor.Tensor) { inStep = append(inStep, g.Keep()) })
	squares(t, dev, w)
	committed := w.Grad().Keep()
	squares(t, dev, w)
	stop()
	squares(t, dev, w)
	wantFloats(t, "committed", committed, 2, 4)
	wantFloats(t, "in the first step", inStep[0], 2, 4)
	wantFloats(t, "in the second step", inStep[1], 4, 8)
	wantFloats(t, "now", w.Grad(), 6, 12)
	inStep, committed = nil, nil
	runtime.GC() // would free the memory a second time
	squares(t, dev, w)
}

// The memory of gradients that nobody took ends with the parameters.
func TestForgottenGradients(t *testing.T) {
	dev := open(t)
	forget := func() {
		for range 8 {
			squares(t, dev, nn.ParameterOf("w", tensor.Zeros(tensor.Float32, 1<<18)))
		}
		runtime.GC()
	}
	forget()
	before := dev.Stats().Memory.Reserved
	for range 10 {
		forget()
	}
	// Eighty gradients of 1 MiB were made. The collector's cleanups run when they like, so some may be on their way.
	if after := dev.Stats().Memory.Reserved; after > before+40<<20 {
		t.Errorf("%d bytes reserved, then %d", before, after)
	}
}

func TestGradOfView(t *testing.T) {
	dev := open(t)
	w := matrix("w", 2, 3)
	squares(t, dev, w)
	wantFloats(t, "transposed", w.T().Grad(), 2, 8, 4, 10, 6, 12)
	wantFloats(t, "second row", w.Select(0, 1).Grad(), 8, 10, 12)
}

// A watched view of a parameter is a leaf of its own; the parameter itself stays itself.
func TestWatchParameter(t *testing.T) {
	dev := open(t)
	w := matrix("w", 2, 3)
	step(t, dev, func(s *tensor.Scope) {
		for _, x := range []*tensor.Tensor{autograd.Watch(s, w.T()), autograd.Watch(s, w.Slice(0, 1, 2))} {
			err := engine.Try(func() { autograd.Backward(x.Square().Sum()) })
			wantError(t, err, tensor.ErrGrad, "backward: float32[] depends on no parameter",
				"autograd.Grad gives those")
			wantFloats(t, "the gradient", autograd.Grad(x.Sum(), []*tensor.Tensor{x})[0],
				slices.Repeat([]float32{1}, x.Len())...)
		}
	})
	if w.Grad() != nil {
		t.Error("a gradient reached the parameter")
	}
	v := matrix("v", 2, 3)
	err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(w).Sum(), autograd.Only(v))
		return nil
	})
	wantError(t, err, tensor.ErrGrad, "backward: float32[] depends on no parameter that is to get a gradient")
	step(t, dev, func(s *tensor.Scope) { autograd.Backward(autograd.Watch(s, w).Mul(w).Sum()) })
	wantFloats(t, "the parameter", w.Grad(), 2, 4, 6, 8, 10, 12)
}

func TestParameterOfSlice(t *testing.T) {
	dev := open(t)
	data := tensor.FromSlice([]float32{1, 2, 3, 4}, 4)
	w := nn.ParameterOf("w", data.Slice(0, 2, 4))
	opt := optim.New(optim.SGD(0.25), w)
	step(t, dev, func(s *tensor.Scope) {
		autograd.Backward(s.In(w).Square().Sum())
		if err := opt.Step(s); err != nil {
			t.Error(err)
		}
	})
	wantFloats(t, "the data", data, 1, 2, 1.5, 2)
}

func TestClearGradsInStep(t *testing.T) {
	dev := open(t)
	w := matrix("w", 1, 2)
	squares(t, dev, w)
	step(t, dev, func(s *tensor.Scope) { w.ClearGrads(); autograd.Backward(s.In(w).Square().Sum()) })
	wantFloats(t, "cleared before", w.Grad(), 2, 4)
	err := dev.Step(func(s *tensor.Scope) error { autograd.Backward(s.In(w).Sum()); w.ClearGrads(); return nil })
	wantError(t, err, tensor.ErrBusy, "w float32[1 2]", "ClearGrads", "before Backward")
	opt := optim.New(optim.SGD(1e-3), w)
	step(t, dev, func(s *tensor.Scope) {
		autograd.Backward(s.In(w).Sum())
		if err := opt.Step(s); err != nil {
			t.Error(err)
		}
		w.ClearGrads() // there is nothing left
	})
}

// Memory of one device does not get into a step of another.
func TestDevicesDoNotMix(t *testing.T) {
	dev := open(t)
	null, err := tensor.Open("null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var kept *tensor.Tensor
	step(t, null, func(s *tensor.Scope) { kept = s.Full(1, tensor.Float32, 2).Keep() })
	layer := nn.NewLinear(2, 2)
	if err := nn.Init(null, layer); err != nil {
		t.Fatal(err)
	}
	step(t, null, func(s *tensor.Scope) { autograd.Backward(layer.Forward(s.In(kept).Reshape(1, 2)).Sum()) })
	for name, f := range map[string]func(s *tensor.Scope){
		"kept":      func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2).Add(kept) },
		"parameter": func(s *tensor.Scope) { layer.Forward(s.Full(1, tensor.Float32, 1, 2)) },
		"gradients": func(s *tensor.Scope) { optim.New(optim.SGD(1e-3), layer).Step(s) },
	} {
		t.Run(name, func(t *testing.T) {
			err := dev.Step(func(s *tensor.Scope) error { f(s); return nil })
			wantError(t, err, tensor.ErrStep, "null", "cpu", "robust_test.go:")
		})
	}
}

func TestMustPointwise(t *testing.T) {
	err := engine.Try(func() { tensor.MustPointwise("swish", "x*sigmoid(beta*x", []string{"x"}, "beta") })
	wantError(t, err, tensor.ErrValue, "swish", "x*sigmoid(beta*x")
}

// A derivative that fails does not leave its random numbers to the operations after it.
func TestMasksAfterFailedBackward(t *testing.T) {
	dev := open(t)
	noisy := tensor.MustPointwise("noisy", "where(rand(0) < 0.5, 0, x*x)", []string{"x"})
	step(t, dev, func(s *tensor.Scope) {
		y := engine.Apply(noisy, []*tensor.Tensor{autograd.Watch(s, tensor.Zeros(tensor.Float32, 64))}, nil, nil)
		err := engine.Try(func() { tensor.BackwardOf(y, s.Full(1, tensor.Float32, 3)) })
		wantError(t, err, tensor.ErrShape, "noisy_grad_x")
		ones := s.Full(1, tensor.Float32, 64)
		first, second := tensor.ToSlice[float32](ones.Dropout(0.5)), tensor.ToSlice[float32](ones.Dropout(0.5))
		if fmt.Sprint(first) == fmt.Sprint(second) {
			t.Error("two masks are equal")
		}
	})
}

func TestWalkParts(t *testing.T) {
	w := nn.Parameter(nil, 2, 3)
	if n := len(nn.Parameters([]any{w, w})); n != 1 {
		t.Errorf("a tied parameter behind an interface is visited %d times", n)
	}
	type model struct{ Body nn.Chain }
	var names []string
	nn.Walk(&model{*nn.Sequential(nn.NewLinear(3, 2))}, func(name string,
		_ *tensor.Tensor) {
		names = append(names, name)
	})
	if want := []string{"body.0.weight", "body.0.bias"}; !slices.Equal(names, want) {
		t.Errorf("a container held by value has %v, want %v", names, want)
	}
	dev := open(t)
	type twins struct {
		A *nn.Linear `weft:"x"`
		B *nn.Linear `weft:"x"`
	}
	wantError(t, nn.Init(dev, &twins{nn.NewLinear(1, 1), nn.NewLinear(1, 1)}), tensor.ErrValue, "x.weight",
		"two parameters")
	wantError(t, nn.Init(dev, w, nn.DType(tensor.Int64)), tensor.ErrDType, "int64")
}

func TestAbsurdSizes(t *testing.T) {
	const most = int(^uint(0) >> 1)
	x := tensor.Zeros(tensor.Float32, 2, 3)
	wantError(t, engine.Try(func() { x.Split(1, most, most, 5) }), tensor.ErrShape, "split")
	wantError(t, engine.Try(func() { x.Pad(0, [2]int{most, most}, [2]int{}) }), tensor.ErrShape, "pad")
	if n := len(x.Chunk(1, most)); n != 3 {
		t.Errorf("%d chunks, want 3", n)
	}
	var missing *tensor.Tensor
	for name, f := range map[string]func(){
		"T": func() { missing.T() }, "Permute": func() { missing.Permute(0) },
		"Dropout": func() { missing.Dropout(0.1) }, "Item": func() { missing.Item() },
	} {
		t.Run(name, func(t *testing.T) { wantError(t, engine.Try(f), tensor.ErrStep, "an operand is nil") })
	}
}

func TestCloseTwice(t *testing.T) {
	a, b := open(t), open(t)
	a.Close()
	a.Close()
	step(t, b, func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2).Square() })
}

// A step that ends in a panic or in Goexit gives the parameters free.
func TestAccessEndsWithTheGoroutine(t *testing.T) {
	dev := open(t)
	w := matrix("w", 1, 2)
	update := func(s *tensor.Scope) {
		s.In(w).Square()
		w.Assign(s.Full(1, tensor.Float32, 1, 2))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		dev.Step(func(s *tensor.Scope) error {
			s.Region("a", func() []*tensor.Tensor { update(s); runtime.Goexit(); return nil })
			return nil
		})
	})
	wg.Wait()
	step(t, dev, update)
	func() {
		defer func() {
			if r := recover(); r != "a bug" {
				t.Errorf("recovered %v", r)
			}
		}()
		dev.Step(func(s *tensor.Scope) error {
			s.Region("a", func() []*tensor.Tensor { update(s); panic("a bug") })
			return nil
		})
	}()
	step(t, dev, update)
	if n := dev.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live after the steps", n)
	}
}

// A kept tensor does not hold on to the records of its step.
func TestKeepLetsGoOfTheStep(t *testing.T) {
	dev := open(t)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var kept []*tensor.Tensor
	losses := func() {
		for range 20 {
			step(t, dev, func(s *tensor.Scope) {
				x := autograd.Watch(s, tensor.Zeros(tensor.Float32, 1))
				for range 1000 {
					x = x.Neg()
				}
				kept = append(kept, x.Keep())
			})
		}
	}
	losses()
	before := heap()
	losses()
	if grown := int(heap() - before); grown > 1<<20 {
		t.Errorf("20 kept numbers take %d bytes", grown)
	}
	runtime.KeepAlive(kept)
}

// A tensor larger than the machine's memory is an error, not the end of the process.
func TestAbsurdSize(t *testing.T) {
	dev := open(t)
	err := dev.Step(func(s *tensor.Scope) error {
		s.Full(1, tensor.Float64, 1<<42)
		return nil
	})
	wantError(t, err, tensor.ErrMemory, "full", "robust_test.go:")
}

// At the limit the pool takes back the memory of kept tensors that the program has dropped.
func TestKeptMemoryComesBack(t *testing.T) {
	dev := open(t)
	base := dev.Stats().Memory.Reserved
	limited, err := tensor.Open("cpu", tensor.MemoryLimit(base+8<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer limited.Close()
	for i := range 40 { // 40 MB in all
		if err := limited.Step(func(s *tensor.Scope) error {
			s.Full(1, tensor.Float32, 1<<18).Keep()
			return nil
		}); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

func TestStreamInsideStep(t *testing.T) {
	dev := open(t)
	err := dev.Step(func(s *tensor.Scope) error {
		s.With(func() {}, tensor.RandomStream(3))
		return nil
	})
	wantError(t, err, tensor.ErrValue, "with: RandomStream is an option of Step and Eval")
}

// An operation that writes behind its result is named, where memory is poisoned.
func TestGuardBand(t *testing.T) {
	careless := engine.NewOp(kernels.Op{Name: "careless", CPU: func(l *kernels.Launch) {
		n := l.Out[0].Len() * 4
		clear(l.Out[0].Buf.(*cpu.Mem).Data()[:n+8])
	}}, tensor.Float32, 3)
	dev := open(t, tensor.Poison())
	err := dev.Eval(func(s *tensor.Scope) error {
		engine.Apply(careless, []*tensor.Tensor{s.Full(1, tensor.Float32, 3)}, nil, nil)
		return nil
	})
	wantError(t, err, tensor.ErrDevice, "robust_test.go:",
		"careless: the kernel wrote 8 bytes behind the 12 bytes of its result")
}

// A negative limit is refused with its number; 0 is no limit.
func TestMemoryLimitRange(t *testing.T) {
	for _, bytes := range []int{-1, -1 << 40} {
		_, err := tensor.Open("cpu", tensor.MemoryLimit(bytes))
		wantError(t, err, tensor.ErrValue, "robust_test.go:", fmt.Sprint(bytes))
	}
	open(t, tensor.MemoryLimit(0))
}

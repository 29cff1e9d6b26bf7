package tensor_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func open(t testing.TB, opts ...tensor.OpenOption) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open("cpu", append([]tensor.OpenOption{tensor.Seed(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// wantError checks the kind of an error, and that its text has all parts.
func wantError(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v is not of kind %v", err, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

// wantMisuse checks the error of a call outside a step.
func wantMisuse(t *testing.T, call func(), kind error, parts ...string) {
	t.Helper()
	wantError(t, engine.Try(call), kind, parts...)
}

func TestStepBasics(t *testing.T) {
	dev := open(t)
	var kept *tensor.Tensor
	err := dev.Step(func(s *tensor.Scope) error {
		x := s.In(tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
		y := x.Add(x.T()).Scale(2)
		kept = y.Keep()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := tensor.ToSlice[float32](kept); got[0] != 4 || got[1] != 10 || got[2] != 10 || got[3] != 16 {
		t.Errorf("got %v", got)
	}
}

func TestUseAfterStep(t *testing.T) {
	dev := open(t)
	var leaked *tensor.Tensor
	dev.Step(func(s *tensor.Scope) error {
		leaked = s.In(tensor.FromSlice([]float32{1, 2}, 2)).Square()
		return nil
	})
	err := dev.Step(func(s *tensor.Scope) error {
		leaked.Add(leaked)
		return nil
	})
	wantError(t, err, tensor.ErrStep, "scope_test.go:", "ended", "Keep")
}

// What a region uses for the last time ends with it, unless it is returned or saved for backward.
func TestRegionEnds(t *testing.T) {
	dev := open(t)
	step(t, dev, func(s *tensor.Scope) {
		x := autograd.Watch(s, tensor.FromSlice([]float32{1, 2, -3}, 3))
		used, saved, kept := x.Scale(2), x.Scale(3), x.Scale(4)
		var y *tensor.Tensor
		s.Region("last", func() []*tensor.Tensor {
			y = used.Scale(2).Add(saved.Square()).Add(kept)
			return []*tensor.Tensor{y, kept}
		}, used, nil, saved, kept)
		for _, gone := range []*tensor.Tensor{used, saved} {
			wantError(t, engine.Try(func() { gone.Sum() }), tensor.ErrStep, "was released when region last ended")
		}
		g := autograd.Grad(y.Add(kept).Sum(), []*tensor.Tensor{x})[0] // of 4x + 9x^2 + 2 * 4x
		if got := tensor.ToSlice[float32](g); !slices.Equal(got, []float32{30, 48, -42}) {
			t.Errorf("the gradient is %v", got)
		}
	})
}

// Misuse inside a step comes back from the step, with the operation, the sizes and the caller's line.
func TestMisuseInStep(t *testing.T) {
	dev := open(t)
	for _, c := range []struct {
		name string
		f    func(s *tensor.Scope)
		kind error
		want []string
	}{
		{"broadcast", func(s *tensor.Scope) {
			s.Full(1, tensor.Float32, 2, 3).Add(s.Full(1, tensor.Float32, 4))
		}, tensor.ErrShape, []string{"add: shapes [2 3] and [4] do not broadcast", "axis 1 from the end has 3 and 4"}},
		{"axis", func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2, 3).Sum(2) },
			tensor.ErrShape, []string{"sum: axis 2 is outside [-2, 2)"}},
		{"reshape", func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2, 3).Reshape(4, 2) },
			tensor.ErrShape, []string{"reshape: float32[2 3] has 6 elements, shape [4 2] has 8"}},
		{"reshape -1 twice", func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2, 3).Reshape(-1, -1) },
			tensor.ErrShape, []string{"reshape: shape [-1 -1] of float32[2 3] has -1 more than once"}},
		{"reshape -1", func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2, 3).Reshape(4, -1) },
			tensor.ErrShape, []string{"-1 cannot be computed"}},
		{"permute", func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2, 3).Permute(0, 0) },
			tensor.ErrShape, []string{"permute: axis 0 is named twice"}},
		{"expand", func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2, 3).Expand(4, 3) },
			tensor.ErrShape, []string{"expand: shapes [2 3] and [4 3] do not broadcast", "has 2 and 4"}},
		{"integer scalar", func(s *tensor.Scope) { s.Full(1, tensor.Int64, 2).Scale(0.5) },
			tensor.ErrValue, []string{"scale: int64[2] holds integers and 0.5 is none", "To(tensor.Float32)"}},
		{"dropout", func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2).Dropout(1) },
			tensor.ErrValue, []string{"dropout: the probability 1 is outside [0, 1)"}},
		{"nil", func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2).Add(nil) },
			tensor.ErrStep, []string{"add: an operand is nil"}},
		{"watch integers", func(s *tensor.Scope) { autograd.Watch(s, tensor.FromSlice([]int64{1}, 1)) },
			tensor.ErrGrad, []string{"watch: int64[1] holds no floating numbers"}},
		{"item", func(s *tensor.Scope) { s.Full(1, tensor.Float32, 2).Item() },
			tensor.ErrShape, []string{"item: float32[2] has 2 elements"}},
		{"huge", func(s *tensor.Scope) { s.Full(1, tensor.Float32, 1<<40, 1<<40) },
			tensor.ErrShape, []string{"more than 281474976710656 elements"}},
		{"assign", func(s *tensor.Scope) { x := s.Full(1, tensor.Float32, 2); x.Assign(x) },
			tensor.ErrStep, []string{"assign", "no parameter or state"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := dev.Step(func(s *tensor.Scope) error { c.f(s); return nil })
			wantError(t, err, c.kind, append(c.want, "scope_test.go:")...)
		})
	}
}

func TestMisuseOutsideStep(t *testing.T) {
	err := engine.Try(func() { tensor.FromSlice([]float32{1, 2, 3}, 2, 2) })
	wantError(t, err, tensor.ErrShape, "from_slice: shape [2 2] has 4 elements, the slice has 3", "scope_test.go:")
	w := nn.ParameterOf("w", tensor.FromSlice([]float32{1, 2}, 2))
	err = engine.Try(func() { w.Square() })
	wantError(t, err, tensor.ErrStep, "square: a parameter meets no tensor of a step", "s.In")
	err = engine.Try(func() { nn.Parameter(nil, 2).Detach() })
	wantError(t, err, tensor.ErrStep, "nn.Init")
	if _, err := tensor.Open("tpu"); !errors.Is(err, tensor.ErrDevice) || !strings.Contains(err.Error(), `"tpu"`) {
		t.Errorf("opening an unknown device: %v", err)
	}
	if _, err := tensor.Open("cpu:3"); !errors.Is(err, tensor.ErrDevice) {
		t.Errorf("opening cpu:3: %v", err)
	}
}

func TestRegionPathInErrors(t *testing.T) {
	dev := open(t)
	err := dev.Step(func(s *tensor.Scope) error {
		s.Region("blocks.0", func() []*tensor.Tensor {
			s.Region("attn", func() []*tensor.Tensor {
				s.Full(1, tensor.Float32, 2).Add(s.Full(1, tensor.Float32, 3))
				return nil
			})
			return nil
		})
		return nil
	})
	wantError(t, err, tensor.ErrShape, ", in blocks.0/attn")
}

func TestRegionReleases(t *testing.T) {
	for _, size := range []int{1000, 1 << 18} { // of large tensors, and of poisoned ones, the line is known
		testRegionReleases(t, open(t), size, map[int]string{1000: "", 1 << 18: " at scope_test.go:188"}[size])
	}
	testRegionReleases(t, open(t, tensor.Poison()), 1000, " at scope_test.go:188")
}

func testRegionReleases(t *testing.T, dev *tensor.Device, size int, where string) {
	t.Helper()
	err := dev.Eval(func(s *tensor.Scope) error {
		var inner *tensor.Tensor
		out := s.Region("layer", func() []*tensor.Tensor {
			inner = s.Full(1, tensor.Float32, size)
			return []*tensor.Tensor{inner.Scale(2)}
		})
		if got := out[0].Sum().Item(); got != float64(2*size) {
			t.Errorf("the returned tensor sums to %v", got)
		}
		inner.Scale(2)
		return nil
	})
	wantError(t, err, tensor.ErrStep, fmt.Sprintf("float32[%d], made by full%s, was released when region layer ended",
		size, where), "Keep")
}

func TestUserBugStaysPanic(t *testing.T) {
	dev := open(t)
	defer func() {
		if r := recover(); fmt.Sprint(r) != "a bug" {
			t.Errorf("recovered %v", r)
		}
	}()
	dev.Step(func(s *tensor.Scope) error { panic("a bug") })
}

func TestMixedSteps(t *testing.T) {
	dev := open(t)
	err := dev.Step(func(s *tensor.Scope) error {
		x := s.Full(1, tensor.Float32, 2)
		return dev.Step(func(s2 *tensor.Scope) error {
			s2.Full(1, tensor.Float32, 2).Add(x)
			return nil
		})
	})
	wantError(t, err, tensor.ErrStep, "belongs to another step", "Keep")
}

// A second goroutine is refused while an operation of the first runs, and breaks nothing but the step.
func TestTwoGoroutinesInOneStep(t *testing.T) {
	dev := open(t)
	running, end := make(chan bool), make(chan bool)
	slow := engine.NewOp(kernels.Op{Name: "slow", CPU: func(*kernels.Launch) { running <- true; <-end }},
		tensor.Float32, 2)
	err := dev.Step(func(s *tensor.Scope) error {
		x := s.Full(1, tensor.Float32, 2)
		var wg sync.WaitGroup
		wg.Go(func() { engine.Apply(slow, []*tensor.Tensor{x}, nil, nil) })
		<-running
		for range 2 {
			err := engine.Try(func() { x.Scale(2) })
			wantError(t, err, tensor.ErrBusy, "two goroutines use one step")
		}
		end <- true
		wg.Wait()
		wantFloats(t, "after both", x.Scale(2), 2, 2)
		return nil
	})
	wantError(t, err, tensor.ErrBusy, "two goroutines use one step", "scope_test.go:")
}

func TestEvaluationBesideUpdate(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.FromSlice([]float32{1, 2}, 2))
	reading, updated := make(chan bool), make(chan bool)
	var wg sync.WaitGroup
	wg.Go(func() {
		dev.Eval(func(s *tensor.Scope) error {
			s.In(w).Square()
			reading <- true
			<-updated
			return nil
		})
	})
	<-reading
	err := dev.Step(func(s *tensor.Scope) error { w.Assign(s.Full(0, tensor.Float32, 2)); return nil })
	updated <- true
	wg.Wait()
	wantError(t, err, tensor.ErrBusy, "w float32[2]", "evaluat")
	if got := tensor.ToSlice[float32](w); got[0] != 1 {
		t.Errorf("the refused update changed the parameter to %v", got)
	}
	if err := dev.Step(func(s *tensor.Scope) error { w.Assign(s.Full(0, tensor.Float32, 2)); return nil }); err != nil {
		t.Errorf("the update after the evaluation: %v", err)
	}
}

func TestParallelEval(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.FromSlice([]float32{1, 2}, 2))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				err := dev.Eval(func(s *tensor.Scope) error {
					if got := s.In(w).Square().Sum().Item(); got != 5 {
						t.Errorf("got %v", got)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestOutOfMemory(t *testing.T) {
	dev := open(t)
	base := dev.Stats().Memory.Reserved
	limited, err := tensor.Open("cpu", tensor.MemoryLimit(base+1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer limited.Close()
	before := dev.Stats().Memory
	err = limited.Step(func(s *tensor.Scope) error {
		s.Region("big", func() []*tensor.Tensor { return []*tensor.Tensor{s.Full(1, tensor.Float32, 1<<26)} })
		return nil
	})
	wantError(t, err, tensor.ErrMemory, "full", "limit", "scope_test.go:", " in big")
	if after := dev.Stats().Memory; after.Blocks != before.Blocks {
		t.Errorf("%d blocks live before, %d after the failure", before.Blocks, after.Blocks)
	}
	if err := limited.Step(func(s *tensor.Scope) error { s.Full(1, tensor.Float32, 1<<10); return nil }); err != nil {
		t.Errorf("a small step after the failure: %v", err)
	}
}

// Random numbers depend on the seed and the number of the step, not on what ran between.
func TestRandomStreams(t *testing.T) {
	draw := func(dev *tensor.Device, opts ...tensor.Option) (v []float32) {
		if err := dev.Step(func(s *tensor.Scope) error {
			v = tensor.ToSlice[float32](s.Full(1, tensor.Float32, 64).Dropout(0.5))
			return nil
		}, opts...); err != nil {
			t.Fatal(err)
		}
		return v
	}
	a, b := open(t), open(t)
	a1 := draw(a)
	b.Eval(func(s *tensor.Scope) error { return nil })
	if fmt.Sprint(a1) != fmt.Sprint(draw(b)) {
		t.Error("an evaluation changed the random numbers of training")
	}
	if fmt.Sprint(a1) == fmt.Sprint(draw(a)) {
		t.Error("two steps drew the same numbers")
	}
	if fmt.Sprint(draw(a, tensor.RandomStream(7))) != fmt.Sprint(draw(b, tensor.RandomStream(7))) {
		t.Error("a fixed stream differs")
	}
	zeros := 0
	for _, v := range a1 {
		if v == 0 {
			zeros++
		} else if v != 2 {
			t.Fatalf("dropout made %v of 1", v)
		}
	}
	if zeros < 16 || zeros > 48 {
		t.Errorf("%d of 64 dropped at p = 0.5", zeros)
	}
}

// Dropout's gradient uses the mask of the forward pass.
func TestDropoutMask(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.Uniform(tensor.Seed(1), 1, 2, 1000))
	var y []float32
	if err := dev.Step(func(s *tensor.Scope) error {
		d := s.In(w).Dropout(0.3)
		y = tensor.ToSlice[float32](d)
		s.Full(1, tensor.Float32, 1000).Dropout(0.5) // draws from the stream, too
		autograd.Backward(d.Sum())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, g := range tensor.ToSlice[float32](w.Grad()) {
		if (g == 0) != (y[i] == 0) {
			t.Fatalf("element %d: forward %v, gradient %v", i, y[i], g)
		}
	}
}

func TestKeepOutlivesStep(t *testing.T) {
	dev := open(t)
	var kept, view *tensor.Tensor
	if err := dev.Step(func(s *tensor.Scope) error {
		x := s.Full(3, tensor.Float32, 4, 4)
		kept, view = x.Keep(), x.T().Keep()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for range 20 { // would overwrite the memory if it had gone back
		dev.Step(func(s *tensor.Scope) error { s.Full(9, tensor.Float32, 4, 4); return nil })
	}
	for _, k := range []*tensor.Tensor{kept, view} {
		if got := k.Sum().Item(); got != 48 {
			t.Errorf("kept tensor sums to %v, want 48", got)
		}
	}
}

// Ten thousand training steps use no more memory than the first few.
func TestFlatMemory(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(1), 8, 8))
	x := tensor.Randn(tensor.Seed(2), 4, 8)
	step := func() {
		if err := dev.Step(func(s *tensor.Scope) error {
			y := s.Region("layer", func() []*tensor.Tensor {
				return []*tensor.Tensor{s.In(x).MatMul(w).GELU().Dropout(0.1)}
			})
			autograd.Backward(y[0].Square().Mean())
			w.Assign(s.In(w).Detach().Scale(0.999))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.ClearGrads()
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range 100 {
		step()
	}
	before, h := dev.Stats().Memory, heap()
	for range 10_000 {
		step()
	}
	after := dev.Stats().Memory
	if after.Reserved != before.Reserved || after.Allocated > before.Allocated {
		t.Errorf("device memory grew: %+v, then %+v", before, after)
	}
	if g := heap(); g > h+256<<10 {
		t.Errorf("the Go heap grew from %d to %d bytes", h, g)
	}
	if n := runtime.NumGoroutine(); n > 50 {
		t.Errorf("%d goroutines", n)
	}
}

package amp_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// tiny is the factor of the loss in the planted task: its gradients are below the smallest float16, 2^-24, and within
// its range once 65536 multiplies them.
const tiny = 0x1p-26

// A run is a small regression with gradients of the size of tiny.
type run struct {
	lower   tensor.DType
	scaler  *amp.GradScaler
	spoiled map[int]float64 // factors of the inputs, by step
}

// train returns the loss at the start and at the end, in float32, without the factor.
func (r run) train(t *testing.T) (first, last float64) {
	t.Helper()
	const steps = 150
	dev := open(t)
	model := nn.Sequential(nn.NewLinear(2, 16), nn.Tanh, nn.NewLinear(16, 1))
	must(t, nn.Init(dev, model))
	opt := optim.New(optim.SGD(0.1/tiny, optim.Momentum(0.9)), model)
	x := tensor.Uniform(tensor.Seed(1), -1, 1, 32, 2)
	in, out := tensor.ToSlice[float32](x), make([]float32, 32)
	y := tensor.FromSlice(out, 32, 1)
	for i := range out {
		out[i] = in[2*i] * in[2*i+1]
	}
	loss := func() (l float64) {
		must(t, dev.Eval(func(s *tensor.Scope) error {
			l = nn.MSE(model.Forward(s.In(x)), s.In(y)).Item()
			return nil
		}))
		return l
	}
	first = loss()
	for k := range steps {
		must(t, dev.Step(func(s *tensor.Scope) error {
			x := s.In(x)
			if by := r.spoiled[k]; by != 0 {
				x = x.Scale(by)
			}
			autograd.Backward(r.scaler.Scale(nn.MSE(model.Forward(x), s.In(y)).Scale(tiny)))
			return r.scaler.Step(s, opt)
		}, amp.Autocast(r.lower)))
	}
	return first, loss()
}

// Float16 without a scaler learns nothing where gradients underflow; with one it comes to the loss of float32, also if
// the first scale is far too large or inputs overflow in between.
func TestUnderflow(t *testing.T) {
	long(t)
	off := func() *amp.GradScaler { return amp.NewGradScaler(amp.Enabled(false)) }
	first, want := run{lower: tensor.Float32, scaler: off()}.train(t)
	if !(want < first/10) {
		t.Fatalf("float32 takes the loss from %v to %v", first, want)
	}
	t.Logf("loss %.5g at the start, %.5g after float32", first, want)
	if _, last := (run{lower: tensor.Float16, scaler: off()}).train(t); last != first {
		t.Errorf("without a scaler float16 takes the loss from %v to %v: the task does not underflow", first, last)
	}
	for _, c := range []struct {
		name    string
		lower   tensor.DType
		scaler  *amp.GradScaler
		spoiled map[int]float64
		skipped int
	}{
		{"float16", tensor.Float16, amp.NewGradScaler(), nil, 0},
		{"float16, scale too large", tensor.Float16, amp.NewGradScaler(amp.InitScale(0x1p60)), nil, -1},
		{"float16, overflow", tensor.Float16, amp.NewGradScaler(amp.Growth(2, 20)),
			map[int]float64{30: math.Inf(1), 31: math.NaN(), 100: math.Inf(-1)}, 3},
		{"bfloat16", tensor.BFloat16, off(), nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, last := run{c.lower, c.scaler, c.spoiled}.train(t)
			if math.Abs(last-want) > 0.1*want {
				t.Errorf("the loss is %v at the end, that of float32 %v", last, want)
			}
			st := c.scaler.State()
			if st.Skipped != c.skipped && !(c.skipped < 0 && st.Skipped > 10) || st.SkippedInRow != 0 {
				t.Errorf("%+v, want %d skipped updates", st, c.skipped)
			}
			t.Logf("loss %.5g, in float32 %.5g; scale %g, %d skipped", last, want, st.Scale, st.Skipped)
		})
	}
}

// Ten thousand steps take no more memory than a hundred.
func TestFlatMemory(t *testing.T) {
	long(t)
	const steps = 10_000
	dev := open(t)
	model := nn.Sequential(nn.NewLinear(3, 2), nn.GELU)
	must(t, nn.Init(dev, model))
	opt := optim.New(optim.AdamW(1e-3), model)
	scaler := amp.NewGradScaler(amp.Growth(2, 3)) // overflows now and then
	x, y := tensor.Randn(tensor.Seed(3), 2, 3), tensor.FromSlice([]int64{0, 1}, 2)
	step := func(k int) {
		must(t, dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(scaler.Scale(nn.CrossEntropy(model.Forward(s.In(x)), y)))
			if k%4 == 0 {
				scaler.Unscale(s, opt)
			}
			return scaler.Step(s, opt)
		}, amp.Autocast(tensor.Float16)))
	}
	used := func() (device, heap int) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return dev.Stats().Memory.Active, int(m.HeapAlloc)
	}
	for k := range 100 {
		step(k)
	}
	device, heap := used()
	for k := range steps - 100 {
		step(k)
	}
	deviceLater, heapLater := used()
	st := scaler.State()
	if st.Skipped < steps/20 {
		t.Errorf("only %d of %d updates were skipped: %+v", st.Skipped, steps, st)
	}
	if deviceLater != device {
		t.Errorf("%d bytes of the device in use after 100 steps, %d after %d", device, deviceLater, steps)
	}
	if heapLater > heap+64<<10 {
		t.Errorf("%d bytes on the heap after 100 steps, %d after %d", heap, heapLater, steps)
	}
}

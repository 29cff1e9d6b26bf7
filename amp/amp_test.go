package amp_test

import (
	"errors"
	"math"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A parameter that is used first under NoGrad still gets its gradient, and all uses share one cast.
func TestCastOnce(t *testing.T) {
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	check(t, err)
	defer dev.Close()
	l := nn.NewLinear(4, 4)
	check(t, nn.Init(dev, l))
	x := tensor.FromSlice([]float32{1, 2, 3, 4}, 1, 4)
	casts := 0
	count := tensor.Observe(func(_ string, c *tensor.Ctx) {
		if c.Op.Name == "cast" && c.In[0].Origin() == l.Weight {
			casts++
		}
	})
	check(t, dev.Step(func(s *tensor.Scope) error {
		var y *tensor.Tensor
		s.With(func() { y = l.Forward(s.In(x)) }, tensor.NoGrad)
		if y.DType() != tensor.BFloat16 {
			t.Errorf("the result is %v", y)
		}
		autograd.Backward(l.Forward(l.Forward(s.In(x))).Sum())
		return nil
	}, amp.Autocast(tensor.BFloat16), count))
	if g := l.Weight.Grad(); g == nil || g.DType() != tensor.Float32 {
		t.Errorf("the gradient of the weight is %v", g)
	}
	if casts != 1 {
		t.Errorf("the weight was cast %d times", casts)
	}
}

// A skipped update leaves everything as it was, to the bit; the scale follows PyTorch's rule.
func TestSkip(t *testing.T) {
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	check(t, err)
	defer dev.Close()
	w := nn.NewLinear(3, 2)
	check(t, nn.Init(dev, w))
	opt := optim.New(optim.AdamW{}, w, optim.Clip(1))
	scaler := amp.NewGradScaler(amp.Growth(2, 2), amp.MaxSkips(3))
	step := func(by float64) error {
		return dev.Step(func(s *tensor.Scope) error {
			x := s.In(tensor.FromSlice([]float32{1, 2, 3}, 1, 3))
			autograd.Backward(scaler.Scale(w.Forward(x).Square().Mean().Scale(by)))
			return scaler.Step(s, opt)
		})
	}
	check(t, step(1))
	before := opt.Hash()
	check(t, step(math.Inf(1)))
	if opt.Hash() != before {
		t.Error("a skipped update changed parameters or state")
	}
	if st := scaler.State(); st.Scale != 32768 || st.Skipped != 1 || st.SkippedInRow != 1 || st.Tracker != 0 {
		t.Errorf("%+v", st)
	}
	check(t, step(1))
	check(t, step(1))
	if st := scaler.State(); st.Scale != 65536 || st.Skipped != 1 || st.SkippedInRow != 0 {
		t.Errorf("%+v", st)
	}
	for range 4 {
		check(t, step(math.NaN()))
	}
	err = step(1)
	if !errors.Is(err, amp.ErrOverflow) {
		t.Error(err)
	}
}

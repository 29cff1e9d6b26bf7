package amp_test

import (
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// A parameter that is used first under NoGrad still gets its gradient, and all uses share one cast.
func TestCastOnce(t *testing.T) {
	dev := open(t)
	l := nn.NewLinear(4, 4)
	must(t, nn.Init(dev, l))
	x := tensor.FromSlice([]float32{1, 2, 3, 4}, 1, 4)
	casts := 0
	count := tensor.Observe(func(_ string, c *tensor.Ctx) {
		if c.Op.Name == "cast" && c.In[0].Origin() == l.Weight {
			casts++
		}
	})
	must(t, dev.Step(func(s *tensor.Scope) error {
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

package nn_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// TestPaddingIndex: the padded row starts at zero, and an empty bag is zero. Values and gradients are compared with
// PyTorch's in autograd.TestGolden.
func TestPaddingIndex(t *testing.T) {
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	table, bag := nn.NewEmbedding(4, 3, 1, nn.PaddingIndex(2)), nn.NewEmbeddingBag(4, 3, "max", nn.PaddingIndex(2))
	for _, m := range []nn.Module{table, bag} {
		if err := nn.Init(dev, m); err != nil {
			t.Fatal(err)
		}
	}
	for name, w := range map[string]*tensor.Tensor{"embedding": table.Weight, "bag": bag.Weight} {
		v := tensor.ToSlice[float32](w)
		for i, x := range v {
			if (x == 0) != (i/3 == 2) {
				t.Errorf("%s: the weight is %v, row 2 alone must be zero", name, v)
			}
		}
	}
	err = dev.Eval(func(s *tensor.Scope) error {
		y := bag.Bags(s.In(tensor.FromSlice([]int64{1, 2, 2}, 3)), tensor.FromSlice([]int64{0, 1, 1}, 3), nil)
		if v := tensor.ToSlice[float32](y.Slice(0, 1, tensor.End).Abs().Sum()); v[0] != 0 {
			t.Errorf("an empty bag and one of padding have the sum %v", v)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestEmbeddingBagMisuse(t *testing.T) {
	bag, two := nn.NewEmbeddingBag(4, 3, "mean"), tensor.Zeros(tensor.Int64, 2)
	for _, c := range []struct {
		f     func()
		kind  error
		words string
	}{
		{func() { nn.NewEmbeddingBag(4, 3, "median") }, tensor.ErrValue, `mode "median" is none of sum, mean, max`},
		{func() { nn.NewEmbedding(4, 3, 1, nn.PaddingIndex(4)) }, tensor.ErrIndex, "padding index 4 is outside [0, 4)"},
		{func() { nn.NewEmbeddingBag(4, 3, "sum", nn.NoBias()) }, tensor.ErrValue, "takes no option NoBias"},
		{func() { bag.Forward(two) }, tensor.ErrShape, "[bags n]"},
		{func() { bag.Bags(two, two, two) }, tensor.ErrValue, `mode "mean" takes no weights`},
		{func() { bag.Bags(two.Reshape(1, 2), two, nil) }, tensor.ErrShape, "one axis"},
	} {
		var e *tensor.Error
		func() {
			defer func() { e, _ = recover().(*tensor.Error) }()
			c.f()
		}()
		if e == nil || !errors.Is(e, c.kind) || !strings.Contains(fmt.Sprint(e), c.words) {
			t.Errorf("got %v, want an error of kind %v with %q", e, c.kind, c.words)
		}
	}
}

package tensor_test

import (
	"fmt"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

func TestAllClose(t *testing.T) {
	a := vector(1, 100.0)
	for _, c := range []struct {
		what       string
		a, b       *tensor.Tensor
		rtol, atol float64
		want       bool
	}{
		{"equal", a, vector(1, 100.0), 0, 0, true},
		{"types", a, vector[float32](1, 100), 0, 0, true},
		{"atol", a, vector(1.5, 100.5), 0, 0.5, true},
		{"beyond atol", a, vector(1.5, 100.5), 0, 0.49, false},
		{"rtol of b", a, vector(2.0, 100), 0.5, 0, true},
		{"not of a", vector(2.0, 100), a, 0.5, 0, false},
		{"negative", vector(-2.0), vector(-2.25), 0.125, 0, true},
		{"nan", vector(nan), vector(nan), 1, 1, false},
		{"inf", vector(inf, -inf), vector(inf, -inf), 0, 0, true},
		{"signs of inf", vector(inf), vector(-inf), 1, 1, false},
		{"inf and a number", vector(1.0), vector(inf), 1, 1, false},
		{"inf beside a number", vector(inf), vector(1.0), 1, 1, false},
		{"shape", vector(1.0, 1), tensor.Of(1.0), 1, 1, false},
		{"size 1", vector(1.0), tensor.Of(1.0), 1, 1, false},
		{"empty", vector[float64](), vector[float64](), 0, 0, true},
		{"strides", floats([]int{2, 2}, 1, 2, 3, 4).T(), floats([]int{2, 2}, 1, 3, 2, 4), 0, 0, true},
	} {
		if got := c.a.AllClose(c.b, c.rtol, c.atol); got != c.want {
			t.Errorf("%s: %v and %v: %v", c.what, c.a, c.b, got)
		}
	}
	if err := engine.Try(func() { nilTensor.AllClose(nilTensor, 0, 0) }); err == nil {
		t.Error("nil is no error")
	}
}

func TestAllEqual(t *testing.T) {
	const big = 1 << 60
	for _, c := range []struct {
		what string
		a, b *tensor.Tensor
		want bool
	}{
		{"equal", vector(1, 2.5), vector(1, 2.5), true},
		{"type", vector(1.0), vector[float32](1), false},
		{"shape", vector(1.0), tensor.Of(1.0), false},
		{"one differs", vector(1, 2.5), vector(1, 2.75), false},
		{"nan", vector(nan), vector(nan), false},
		{"large integers", vector[int64](big), vector[int64](big + 1), false},
		{"bools", vector(true, false), vector(true, false), true},
	} {
		if got := c.a.AllEqual(c.b); got != c.want {
			t.Errorf("%s: %v and %v: %v", c.what, c.a, c.b, got)
		}
	}
	err := open(t).Eval(func(s *tensor.Scope) error {
		if x := s.Full(2, tensor.Float32, 3); !x.AllEqual(x.Clone()) || x.AllEqual(x.Scale(2)) {
			t.Error("wrong in a step")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func ExampleTensor_AllClose() {
	x := tensor.FromSlice([]float32{0.1, 0.2}, 2)
	y := x.Scale(3).Scale(1.0 / 3)
	fmt.Println(x.AllClose(y, 1e-6, 0), x.AllEqual(y))
	// Output:
	// true false
}

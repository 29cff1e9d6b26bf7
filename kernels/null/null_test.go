package null

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

func arg(bytes int, offset int, shape ...int) kernels.Arg {
	return kernels.Arg{Buf: &buffer{bytes},
		Layout: kernels.Layout{Shape: shape, Strides: kernels.RowMajor(make([]int, len(shape)), shape), Offset: offset}}
}

func TestRun(t *testing.T) {
	add := &kernels.Op{Name: "add", Expr: expr.Must("x+y", []string{"x", "y"}, nil)}
	for _, c := range []struct {
		what string
		l    kernels.Launch
		ok   bool
	}{
		{"fits", kernels.Launch{Op: add, In: []kernels.Arg{arg(24, 0, 2, 3), arg(28, 1, 2, 3)},
			Out: []kernels.Arg{arg(24, 0, 2, 3)}}, true},
		{"outside", kernels.Launch{Op: add, In: []kernels.Arg{arg(24, 0, 2, 3), arg(24, 1, 2, 3)},
			Out: []kernels.Arg{arg(24, 0, 2, 3)}}, false},
		{"shapes", kernels.Launch{Op: add, In: []kernels.Arg{arg(24, 0, 2, 3), arg(24, 0, 3)},
			Out: []kernels.Arg{arg(24, 0, 2, 3)}}, false},
		{"operands", kernels.Launch{Op: add, In: []kernels.Arg{arg(24, 0, 2, 3)}, Out: []kernels.Arg{arg(24, 0, 2, 3)}},
			false},
		{"empty", kernels.Launch{Op: add, In: []kernels.Arg{arg(0, 0, 0, 3), arg(0, 0, 0, 3)},
			Out: []kernels.Arg{arg(0, 0, 0, 3)}}, true},
	} {
		err := new(Backend).Run(&c.l)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
		var e *kernels.Error
		if err != nil && !errors.As(err, &e) {
			t.Errorf("%s: %T", c.what, err)
		}
	}
}

func Example() {
	dev, err := kernels.Open("null")
	fmt.Println(dev.Name(), err)
	// Output: null <nil>
}

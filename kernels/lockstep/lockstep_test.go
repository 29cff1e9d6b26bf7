package lockstep_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// crooked is a CPU, or the device that WEFT_LOCKSTEP names, of which one launch, counted from 1, changes a bit of a
// result.
type crooked struct {
	kernels.Backend
	n, wrong, bit int
	op            string // of that launch
}

var planted crooked

func init() {
	inner := cmp.Or(os.Getenv("WEFT_LOCKSTEP"), "cpu")
	os.Setenv("WEFT_LOCKSTEP", "crooked")
	kernels.Register("crooked", func(int) (b kernels.Backend, err error) {
		planted.Backend, err = kernels.Open(inner)
		return &planted, err
	})
}

func (c *crooked) Name() string { return "crooked" }

func (c *crooked) Run(l *kernels.Launch) error {
	err := c.Backend.Run(l)
	if c.n++; c.n == c.wrong && l.Out[0].Len() > 0 {
		c.op = l.Op.Name
		p, at := make([]byte, 1), l.Out[0].Offset*l.Out[0].DType.Size()
		c.Read(l.Stream, p, l.Out[0].Buf, at)
		p[0] ^= 1 << c.bit
		c.CopyIn(l.Stream, l.Out[0].Buf, at, p)
	}
	return err
}

// train runs three steps on a device and returns the hash of the optimizer.
func train(device string, opts ...tensor.Option) (string, error) {
	dev, err := tensor.Open(device, tensor.Seed(1))
	if err != nil {
		return "", err
	}
	defer dev.Close()
	model := nn.Sequential(nn.NewLinear(3, 8), nn.GELU, nn.NewLinear(8, 2))
	if err := nn.Init(dev, model); err != nil {
		return "", err
	}
	opt := optim.New(optim.AdamW(0.1), model)
	x, y := tensor.Randn(tensor.Seed(2), 5, 3), tensor.FromSlice([]int64{0, 1, 1, 0, 1}, 5)
	for range 3 {
		err := dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), s.In(y)))
			return opt.Step(s)
		}, opts...)
		if err != nil {
			return "", err
		}
	}
	return opt.Hash(), nil
}

func Example() {
	dev, err := tensor.Open("lockstep") // beside the GPU, or here beside the device that WEFT_LOCKSTEP names
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	err = dev.Eval(func(s *tensor.Scope) error {
		fmt.Println(s.In(tensor.Of(float32(3))).Square().Item())
		return nil
	})
	fmt.Println(err) // such as: square: launch 1: result 0, float32[], element [] is 9.5 on cuda:0 and 9 on the CPU
	// Output:
	// 9
	// <nil>
}

// Two devices that agree train to the CPU's hash. One bit that is wrong, in any of the launches, is found in that
// launch, with the line of the program.
func TestLockstep(t *testing.T) {
	planted = crooked{}
	want, err := train("cpu")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := train("lockstep"); err != nil || got != want {
		t.Fatalf("hash %s, %v, want %s", got, err, want)
	}
	launches := planted.n
	if launches < 30 {
		t.Fatalf("only %d launches", launches)
	}
	for n := 1; n <= launches; n += 3 {
		planted = crooked{wrong: n}
		_, err := train("lockstep")
		var e *tensor.Error
		if !errors.As(err, &e) || !errors.Is(err, tensor.ErrDevice) || e.Op != planted.op ||
			!strings.Contains(err.Error(), fmt.Sprintf("launch %d: result 0", n)) || e.Site == "" {
			t.Errorf("launch %d of %s: %v", n, planted.op, err)
		}
	}
	t.Logf("%d launches", launches)
}

// Half precision may differ in the last bit, as sums on tensor cores do, and not by half.
func TestHalf(t *testing.T) {
	for bit, wrong := range map[int]bool{0: false, 6: true} {
		planted = crooked{wrong: 1, bit: bit}
		dev, err := tensor.Open("lockstep")
		if err != nil {
			t.Fatal(err)
		}
		x := tensor.Full(1.25, tensor.BFloat16, 2, 3)
		var got float64
		err = dev.Eval(func(s *tensor.Scope) error {
			got = s.In(x).Add(s.In(x)).Add(s.In(x)).Sum().Item()
			return nil
		})
		if planted.op == "" || (err != nil) != wrong {
			t.Errorf("bit %d of %q: %v, %v", bit, planted.op, got, err)
		}
		dev.Close()
	}
}

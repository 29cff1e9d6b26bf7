package autograd_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// part runs a part of a model: as it is, or in a checkpoint.
type part func(f func(x *tensor.Tensor) *tensor.Tensor, x *tensor.Tensor) *tensor.Tensor

func direct(f func(x *tensor.Tensor) *tensor.Tensor, x *tensor.Tensor) *tensor.Tensor { return f(x) }

// hashOf is the hash of the values of tensors, of which some may be nil.
func hashOf(ts ...*tensor.Tensor) string {
	h := sha256.New()
	for _, x := range ts {
		if x == nil {
			fmt.Fprint(h, "nil ")
			continue
		}
		fmt.Fprintf(h, "%v %x ", x.Shape(), tensor.ToSlice[float64](x))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// sameBits runs f plain and with checkpoints, on memory that is poisoned when it is free, and compares what it returns.
func sameBits(t *testing.T, f func(t *testing.T, dev *tensor.Device, p part) string) {
	t.Helper()
	var got [2]string
	for i, p := range []part{direct, autograd.Checkpoint} {
		dev := open(t, tensor.Poison())
		live := dev.Stats().Memory.Blocks
		got[i] = f(t, dev, p)
		if n := dev.Stats().Memory.Blocks; n != live {
			t.Errorf("%d blocks are live after the steps, %d before", n, live)
		}
	}
	if got[0] != got[1] {
		t.Error("a checkpoint changes bits")
	}
}


// train trains a network, whose blocks go through p, for some steps.
func trained(t *testing.T, dev *tensor.Device, p part, opts ...tensor.Option) string {
	t.Helper()
	norm := nn.NewBatchNorm1d(16)
	first, second, last := nn.NewLinear(16, 16), nn.NewLinear(16, 16), nn.NewLinear(16, 4)
	model := []any{norm, first, second, last}
	if err := nn.Init(dev, model); err != nil {
		t.Fatal(err)
	}
	opt, scaler := optim.New(optim.AdamW(1e-2), model), amp.NewGradScaler()
	x := tensor.Randn(tensor.Seed(3), 8, 16)
	y := tensor.FromSlice([]int64{0, 1, 2, 3, 3, 2, 1, 0}, 8)
	var losses []*tensor.Tensor
	for range 3 {
		if err := dev.Step(func(s *tensor.Scope) error {
			block := func(x *tensor.Tensor) *tensor.Tensor {
				return x.Add(second.Forward(norm.Forward(first.Forward(x).GELU())).Dropout(0.3))
			}
			h := s.In(x)
			for range 2 { // twice: gradients of shared parameters are added in the order of the tape
				h = p(block, h)
			}
			loss := nn.CrossEntropy(last.Forward(h), y)
			losses = append(losses, loss.Keep())
			autograd.Backward(scaler.Scale(loss))
			return scaler.Step(s, opt)
		}, opts...); err != nil {
			t.Fatal(err)
		}
	}
	return opt.Hash() + hashOf(append(losses, norm.Mean, norm.Var, norm.Batches)...)
}

func TestCheckpointTraining(t *testing.T) {
	for name, opts := range map[string][]tensor.Option{
		"float32": nil, "bfloat16": {amp.Autocast(tensor.BFloat16)}, "float16": {amp.Autocast(tensor.Float16)},
	} {
		t.Run(name, func(t *testing.T) {
			sameBits(t, func(t *testing.T, dev *tensor.Device, p part) string { return trained(t, dev, p, opts...) })
		})
	}
}

// TestCheckpointOps: every operation between others, whose values a checkpoint makes again.
func TestCheckpointOps(t *testing.T) {
	for _, op := range engine.Ops() {
		if op.NoGrad != "" {
			continue
		}
		for _, s := range engine.Samples(op) {
			sameBits(t, func(t *testing.T, dev *tensor.Device, p part) (hash string) {
				err := inStep(dev, func(scope *tensor.Scope) {
					var xs []*tensor.Tensor
					for _, x := range operands(op, s) {
						if x = scope.In(x); x.DType().IsFloat() {
							x = autograd.Watch(scope, x)
						}
						xs = append(xs, x)
					}
					y := p(func(*tensor.Tensor) *tensor.Tensor {
						inner := make([]*tensor.Tensor, len(xs))
						for i, x := range xs {
							if inner[i] = x; x.DType().IsFloat() {
								inner[i] = x.Scale(1).Clone()
							}
						}
						y := s.Call(inner)
						return y.Mul(y)
					}, xs[0])
					var wanted []*tensor.Tensor
					for _, x := range xs {
						if x.DType().IsFloat() {
							wanted = append(wanted, x)
						}
					}
					if !y.NeedsGrad() {
						return
					}
					first := autograd.Grad(y.Sum(), wanted, autograd.AllowUnused(), autograd.CreateGraph())
					all := append([]*tensor.Tensor{y}, first...)
					if g := first[0]; g != nil && g.NeedsGrad() {
						all = append(all, autograd.Grad(g.Square().Sum(), wanted, autograd.AllowUnused())...)
					}
					hash = hashOf(all...)
				})
				if err != nil {
					t.Fatalf("%s, sample %s: %v", op.Name, s.Name, err)
				}
				return hash
			})
			if t.Failed() {
				t.Fatalf("%s, sample %s", op.Name, s.Name)
			}
		}
	}
}

// TestCheckpointNested: checkpoints in checkpoints, with what they use from outside, in regions and out of them, and
// passes that retain.
func TestCheckpointNested(t *testing.T) {
	sameBits(t, func(t *testing.T, dev *tensor.Device, p part) (hash string) {
		w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(1), 4, 4))
		err := inStep(dev, func(s *tensor.Scope) {
			x := autograd.Watch(s, tensor.Randn(tensor.Seed(2), 3, 4))
			mask := x.Scale(2).Sigmoid() // used inside, and on the tape
			layer := func(x *tensor.Tensor) *tensor.Tensor { return x.MatMul(w).Tanh().Mul(mask).Dropout(0.2) }
			pair := func(x *tensor.Tensor) *tensor.Tensor {
				outer := x.Exp()
				return p(func(x *tensor.Tensor) *tensor.Tensor {
					return p(layer, nn.Call("layer", nn.Func(layer), x).Mul(outer))
				}, p(layer, x)).Mul(x).Softmax(-1)
			}
			y := p(func(x *tensor.Tensor) *tensor.Tensor { return nn.Call("pair", nn.Func(pair), p(pair, x)) }, x)
			y = p(pair, y).Sum()
			g := autograd.Grad(y, []*tensor.Tensor{x, w})
			again := autograd.Grad(y, []*tensor.Tensor{x}, autograd.CreateGraph())
			penalty := again[0].Square().Sum()
			all := append(g, again[0], autograd.Grad(penalty, []*tensor.Tensor{x})[0])
			hash = hashOf(all...)
			autograd.Backward(y.Add(penalty), autograd.Retain())
			autograd.Backward(y.Scale(2))
		})
		if err != nil {
			t.Fatal(err)
		}
		hash += hashOf(w.Grad())
		w.ClearGrads()
		return hash
	})
}

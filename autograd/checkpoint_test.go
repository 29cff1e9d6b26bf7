package autograd_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
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

// sameBits runs f plain, with checkpoints, and with what these keep in other memory, on memory that is poisoned when it
// is free, and compares what it returns.
func sameBits(t *testing.T, f func(t *testing.T, dev *tensor.Device, p part) string) {
	t.Helper()
	var got [3]string
	for i, p := range []part{direct, autograd.Checkpoint, offloaded} {
		dev := open(t, tensor.Poison())
		if i == 2 {
			var err error
			if dev, err = tensor.Open("late", tensor.Seed(1), tensor.Poison()); err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			theLate.copies = 0
		}
		live := dev.Stats().Memory.Blocks
		got[i] = f(t, dev, p)
		if s := dev.Stats(); s.Memory.Blocks != live || s.Pinned.Blocks != 0 {
			t.Errorf("%d blocks are live after the steps, %d before; %d are offloaded", s.Memory.Blocks, live,
				s.Pinned.Blocks)
		}
	}
	if got[0] != got[1] || got[0] != got[2] {
		t.Errorf("a checkpoint changes bits: %v", got)
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
			if theLate.copies != 3*2*2 {
				t.Errorf("%d copies of what 2 checkpoints keep in 3 steps", theLate.copies)
			}
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
					y := p(func(first *tensor.Tensor) *tensor.Tensor {
						inner := make([]*tensor.Tensor, len(xs))
						for i, x := range append([]*tensor.Tensor{first}, xs[1:]...) {
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
			y = s.Region("ends", func() []*tensor.Tensor {
				short := y.Cos() // used inside, and gone when the region ends
				z := p(func(x *tensor.Tensor) *tensor.Tensor { return layer(x.Mul(short)) }, y.Sin())
				return []*tensor.Tensor{z}
			})[0]
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

// TestCheckpointOnce: the function runs once, hooks inside see the gradient once, and gradients inside it work.
func TestCheckpointOnce(t *testing.T) {
	var calls, hooks int
	sameBits(t, func(t *testing.T, dev *tensor.Device, p part) string {
		calls, hooks = 0, 0
		w := param("w", 1, -2, 3)
		var seen []*tensor.Tensor
		err := inStep(dev, func(s *tensor.Scope) {
			y := p(func(x *tensor.Tensor) *tensor.Tensor {
				calls++
				h := x.Mul(w).Exp()
				autograd.Hook(h, func(g *tensor.Tensor) *tensor.Tensor {
					hooks++
					seen = append(seen, g.Clone().Keep())
					return g.Scale(0.5)
				})
				slope := autograd.Grad(h.Sum(), []*tensor.Tensor{x}, autograd.CreateGraph())[0]
				return h.Tanh().Mul(slope.Square())
			}, autograd.Watch(s, param("x", 0.1, 0.2, 0.3)))
			autograd.Backward(y.Sum())
		})
		if err != nil {
			t.Fatal(err)
		}
		hash := hashOf(append(seen, w.Grad())...)
		w.ClearGrads()
		return hash
	})
	if calls != 1 || hooks != 2 { // one of them for the slope
		t.Errorf("%d calls, %d of the hook", calls, hooks)
	}
}

// TestCheckpointAccumulates: what a checkpoint keeps goes with the backward pass, not with the step.
func TestCheckpointAccumulates(t *testing.T) {
	var live []int
	sameBits(t, func(t *testing.T, dev *tensor.Device, p part) string {
		w := nn.ParameterOf("w", tensor.Randn(tensor.Seed(1), 64, 64))
		defer w.ClearGrads()
		err := inStep(dev, func(s *tensor.Scope) {
			autograd.Accumulate(s, 4, 1, func(int) *tensor.Tensor {
				m := dev.Stats().Memory
				live = append(live, m.InSteps()) // what is kept goes when Go collects garbage
				x := s.Full(0.01, tensor.Float32, 64, 64)
				for range 3 {
					x = p(func(x *tensor.Tensor) *tensor.Tensor {
						return p(func(x *tensor.Tensor) *tensor.Tensor { return x.MatMul(w).Tanh() }, x).Sin()
					}, x)
				}
				return x.Sum()
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return hashOf(w.Grad())
	})
	if live[3]-live[1] != live[7]-live[5] {
		t.Errorf("%v bytes are live before each part, then with checkpoints", live)
	}
}

func TestCheckpointErrors(t *testing.T) {
	dev := open(t)
	w := param("w", 1, 2)
	block := func(x *tensor.Tensor) *tensor.Tensor { return x.Mul(w).Exp() }
	for _, c := range []struct {
		name  string
		kind  error
		parts []string
		f     func(s *tensor.Scope)
	}{
		{"no step", tensor.ErrStep, []string{"s.In"}, func(*tensor.Scope) { autograd.Checkpoint(block, w) }},
		{"no function", tensor.ErrValue, []string{"function"}, func(s *tensor.Scope) {
			autograd.Checkpoint(nil, s.In(w))
		}},
		{"no result", tensor.ErrValue, []string{"result"}, func(s *tensor.Scope) {
			autograd.Checkpoint(func(*tensor.Tensor) *tensor.Tensor { return nil }, s.In(w))
		}},
		{"inside", tensor.ErrShape, []string{"checkpoint_test.go", "in a"}, func(s *tensor.Scope) {
			s.Region("a", func() []*tensor.Tensor {
				autograd.Checkpoint(func(x *tensor.Tensor) *tensor.Tensor {
					return x.Mul(tensor.Zeros(tensor.Float64, 3))
				}, s.In(w))
				return nil
			})
		}},
		{"a second pass", tensor.ErrGrad, []string{"exp", "autograd.Retain"}, func(s *tensor.Scope) {
			y := autograd.Checkpoint(block, s.In(w)).Sum()
			autograd.Backward(y)
			autograd.Backward(y)
		}},
		{"assigned between", tensor.ErrVersion, []string{"w", "version"}, func(s *tensor.Scope) {
			y := autograd.Checkpoint(block, autograd.Watch(s, param("x", 1, 1))).Sum()
			w.Assign(s.In(tensor.Zeros(tensor.Float64, 2)))
			autograd.Backward(y)
		}},
		{"written over inside", tensor.ErrGrad, []string{"checkpoint"}, func(s *tensor.Scope) {
			autograd.Checkpoint(func(x *tensor.Tensor) *tensor.Tensor {
				y := x.Exp()
				engine.Update(s, engine.Op("square"), 0, 2, []*tensor.Tensor{y}, []*tensor.Tensor{y}, nil)
				return y
			}, s.In(w))
		}},
		{"after its region", tensor.ErrStep, []string{"exp"}, func(s *tensor.Scope) {
			var inside *tensor.Tensor
			y := autograd.Checkpoint(func(x *tensor.Tensor) *tensor.Tensor {
				inside = x.Exp()
				return inside.Sin()
			}, s.In(w))
			autograd.Backward(y.Sum(), autograd.Retain())
			inside.Sin()
		}},
	} {
		err := inStep(dev, c.f)
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		wantError(t, err, c.kind, c.parts...)
		if n := dev.Stats().Memory.Blocks; n != 0 {
			t.Errorf("%s: %d blocks are live afterwards", c.name, n)
		}
	}
	err := dev.Step(func(s *tensor.Scope) error {
		y := autograd.Checkpoint(func(x *tensor.Tensor) *tensor.Tensor { return x.Sub(w).Sqrt() }, s.In(w))
		autograd.Backward(y.Scale(0).Sum())
		return nil
	}, tensor.Anomaly())
	wantError(t, err, tensor.ErrValue, "gradient of sqrt at checkpoint_test.go")
}

// TestCheckpointMemory: nothing is left of a block but its operand, and each block is made again by itself.
func TestCheckpointMemory(t *testing.T) {
	peak := func(n int, p part) int {
		dev, err := tensor.Open("null")
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		most := 0
		err = dev.Step(func(s *tensor.Scope) error {
			x := autograd.Watch(s, s.Full(1, tensor.Float32, 1<<16))
			for range n {
				x = p(func(x *tensor.Tensor) *tensor.Tensor {
					for range 8 {
						x = x.Exp()
					}
					return x
				}, x)
			}
			autograd.Grad(x.Sum(), []*tensor.Tensor{x})
			return nil
		}, engine.Observe(func(string, seam.Applied[*tensor.Op, *tensor.Tensor]) {
			most = max(most, dev.Stats().Memory.Active)
		}))
		if err != nil {
			t.Fatal(err)
		}
		return most >> 18
	}
	if all, less := peak(8, direct), peak(8, autograd.Checkpoint); all < 64 || less > 8+8+5 {
		t.Errorf("8 blocks of 8 operations have %d tensors at the peak, with checkpoints %d", all, less)
	}
}

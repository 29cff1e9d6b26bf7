package nn_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// beginner is what the programs of mistakes work with.
type beginner struct {
	t         *testing.T
	dev       *tensor.Device
	s         *tensor.Scope  // of the step that the mistake is made in
	x         *tensor.Tensor // float32[4 3], of the step
	y         *tensor.Tensor // int64[4], classes 0 and 1, of the step
	old, kept *tensor.Tensor // float32[4 3], of a step before, and kept from it
	w         *tensor.Tensor // float32[3], a parameter
	model     nn.Module      // layers 3 to 8 and 8 to 2
	opt       *optim.Optimizer
	line      int // of the mistake; 0: where its function begins; or returned
}

func newModel() nn.Module { return nn.Sequential(nn.NewLinear(3, 8), nn.Tanh, nn.NewLinear(8, 2)) }

// returned are errors that functions return, without a line.
const returned = -1

// next says that the mistake is on the next line.
func (b *beginner) next() {
	_, _, line, _ := runtime.Caller(1)
	b.line = line + 1
}

func (b *beginner) loss() *tensor.Tensor { return nn.CrossEntropy(b.model.Forward(b.x), b.y) }

// step is another step.
func (b *beginner) step(f func(s *tensor.Scope)) error {
	return b.dev.Step(func(s *tensor.Scope) error { f(s); return nil })
}

// hidden has a parameter where Init does not reach it.
type hidden struct{ layer *nn.Linear }

// halves are labels between 0 and 1.
func halves(n int) *tensor.Tensor { return tensor.Full(0.5, tensor.Float32, n) }

// mistakes are made in a step. What is said of one may end with a space, before what differs from run to run.
var mistakes = []struct {
	program func(b *beginner)
	says    string
}{
	// Shapes.
	{func(b *beginner) { b.x.MatMul(b.x) },
		"matmul: inner sizes differ: a [4 3] has 3 on axis 1, b [4 3] has 4 on axis 0; b transposed would fit"},
	{func(b *beginner) { b.x.Add(b.y.Reshape(2, 2)) },
		"add: shapes [4 3] and [2 2] do not broadcast: axis 1 from the end has 3 and 2"},
	{func(b *beginner) { b.model.Forward(b.x.T()) },
		"linear: inner sizes differ: x [3 4] has 4 on axis 1, weight [8 3] has 3 on axis 1, in 0/linear"},
	{func(b *beginner) { nn.Call("head", b.model, b.x.T()) },
		"linear: inner sizes differ: x [3 4] has 4 on axis 1, weight [8 3] has 3 on axis 1, in head/0/linear"},
	{func(b *beginner) { b.x.Reshape(5, 2) }, "reshape: float32[4 3] has 12 elements, shape [5 2] has 10"},
	{func(b *beginner) { b.x.Reshape(-1, -1) },
		"reshape: shape [-1 -1] of float32[4 3] has -1 more than once; only one size can be computed"},
	{func(b *beginner) { b.x.Reshape(-1, 5) },
		"reshape: the size -1 cannot be computed: float32[4 3] has 12 elements, the other sizes of [-1 5] make 5"},
	{func(b *beginner) { b.x.Sum(2) }, "sum: axis 2 is outside [-2, 2): float32[4 3] has 2 axes"},
	{func(b *beginner) { b.x.Squeeze(1) }, "squeeze: axis 1 of float32[4 3] has size 3, not 1"},
	{func(b *beginner) { tensor.Cat(0, b.x, b.x.T()) },
		"cat: only axis 0 may differ: operand 0 [4 3] has 3 on axis 1, operand 1 [3 4] has 4"},
	{func(b *beginner) { b.x.Select(0, 4) }, "select: index 4 is outside [-4, 4): axis 0 of float32[4 3]"},
	{func(b *beginner) { nn.MSE(b.x.Slice(1, 0, 1), tensor.Zeros(tensor.Float32, 4)) },
		"mse: prediction float32[4 1] and target float32[4] differ in shape"},
	{func(b *beginner) { nn.CrossEntropy(b.x, tensor.Zeros(tensor.Float32, 4, 2)) },
		"cross_entropy: prediction float32[4 3] and target float32[4 2] differ in shape"},
	{func(b *beginner) { nn.CrossEntropy(b.x, b.y.Reshape(4, 1)) },
		"cross_entropy: logits float32[4 3] have rows [4], the last axis being the classes; targets int64[4 1] " +
			"hold one class for each of [4 1]"},
	{func(b *beginner) { nn.BCEWithLogits(b.x, b.y.To(tensor.Float32)) },
		"bce_with_logits: prediction float32[4 3] and target float32[4] differ in shape"},
	{func(b *beginner) { b.x.Item() }, "item: float32[4 3] has 12 elements, Item wants one"},
	{func(b *beginner) { b.w.Assign(b.x) }, "assign: float32[4 3] does not fit into w float32[3]"},
	// Types.
	{func(b *beginner) { b.model.Forward(b.x.To(tensor.Float64)) },
		"linear: x is float64[4 3], weight is 0.weight float32[8 3]; x.To(...) converts, in 0/linear"},
	{func(b *beginner) { b.model.Forward(b.x.To(tensor.Int64)) },
		"linear: x int64[4 3] must hold floating numbers; x.To(tensor.Float32) converts, in 0/linear"},
	{func(b *beginner) { nn.CrossEntropy(b.x, halves(4)) },
		"cross_entropy: targets float32[4] must be int64 or int32 or uint8; x.To(...) converts"},
	{func(b *beginner) { nn.NLL(b.x, halves(4)) },
		"nll: targets float32[4] must be int64 or int32 or uint8; x.To(...) converts"},
	{func(b *beginner) { b.y.Scale(0.5) },
		"scale: int64[4] holds integers and 0.5 is none; x.To(tensor.Float32) converts"},
	{func(b *beginner) { autograd.Watch(b.s, b.y) },
		"watch: int64[4] holds no floating numbers, so no gradient can flow to it"},
	// Indices.
	{func(b *beginner) { nn.CrossEntropy(b.x, b.y.AddScalar(3)) },
		"cross_entropy: target [0] is 3, outside the classes [0, 3); -100 marks rows to ignore"},
	{func(b *beginner) { nn.NLL(b.x, b.y.AddScalar(3)) },
		"nll: the index at [0 0] is 3, outside [0, 3), axis 1 of [4 3]"},
	{func(b *beginner) { b.x.Embedding(b.y.AddScalar(-1)) },
		"embedding: the index at [0] is -1, outside [0, 4), axis 0 of [4 3]"},
	{func(b *beginner) { b.y.AddScalar(1).OneHot(1) }, "one_hot: the index at [0] is 1, outside [0, 1)"},
	// The rule of s.In, Init, and the ends of steps.
	{func(b *beginner) { b.w.Mul(tensor.Ones(tensor.Float32, 3)) },
		"mul: a parameter meets no tensor of a step, so none would record this; take an operand in with s.In, " +
			"or use Detach for values alone"},
	{func(b *beginner) { newModel().Forward(b.x) },
		"linear: parameter float32[8 3] has no values yet: call nn.Init(dev, model) first, in 0/linear"},
	{func(b *beginner) { optim.New(optim.SGD(0.1), newModel()) },
		"sgd: parameter float32[8 3] has no values yet: call nn.Init(dev, model) first"},
	{func(b *beginner) { b.x.Add(b.old) },
		"add: float32[4 3], made by full, was released when its step at mistakes_test.go:50 ended; return it from " +
			"there, or Keep it"},
	{func(b *beginner) { b.kept.Add(b.w) },
		"add: a parameter meets no tensor of a step, so none would record this; take an operand in with s.In, " +
			"or use Detach for values alone"},
	{func(b *beginner) {
		var h *tensor.Tensor
		b.s.Region("encoder", func() []*tensor.Tensor { h = b.x.Square(); return nil })
		b.next()
		b.x.Add(h)
	}, "add: float32[4 3], made by square, was released when region encoder ended; return it from there, or Keep it"},
	{func(b *beginner) {
		panicIf(b.step(func(s *tensor.Scope) {
			b.next()
			s.In(b.w).Add(b.x)
		}))
	}, "add: float32[4 3] belongs to another step; Keep it there, then it may be used in any step"},
	{func(b *beginner) {
		b.next()
		panicIf(b.dev.Step(b.opt.Step))
	}, "sgd: no parameter has a gradient; call autograd.Backward first"},
	{func(b *beginner) {
		other := panicOr(tensor.Open("null"))
		defer other.Close()
		b.next()
		b.x.Add(b.s.Full(1, tensor.Float32).To(other))
	}, "add: operands on two devices: float32[] is on null, another one on cpu; x.To(dev) moves x"},
	// Gradients and updates.
	{func(b *beginner) { autograd.Backward(b.model.Forward(b.x)) },
		"backward: float32[4 2] has 8 elements; reduce it to one, as with Mean, or give autograd.GradOutput"},
	{func(b *beginner) { autograd.Backward(b.x.Sum()) },
		"backward: float32[] has no path to a parameter: it was made under NoGrad or in Eval, from detached " +
			"tensors, or from data alone"},
	{func(b *beginner) { autograd.Backward(b.loss().Detach()) },
		"backward: float32[] has no path to a parameter: it was made under NoGrad or in Eval, from detached " +
			"tensors, or from data alone"},
	{func(b *beginner) {
		loss := b.loss()
		autograd.Backward(loss)
		b.next()
		autograd.Backward(loss)
	}, "backward: the values that cross_entropy saved were freed by an earlier backward pass; give that one " +
		"autograd.Retain, in cross_entropy backward"},
	{func(b *beginner) { autograd.Backward(b.loss().Log().Scale(math.Inf(1)), autograd.Finite()) },
		"backward: float32[] is not finite: it has 0 NaN and 1 infinite of 1 elements, the first at position " +
			"0; tensor.Anomaly finds where that begins"},
	{func(b *beginner) {
		b.s.With(func() {
			b.next()
			autograd.Backward(b.loss())
		}, tensor.NoGrad())
	}, "backward: float32[] has no path to a parameter: it was made under NoGrad or in Eval, from detached " +
		"tensors, or from data alone"},
	{func(b *beginner) {
		panicIf(b.dev.Eval(func(s *tensor.Scope) error {
			b.x = s.In(b.kept)
			b.y = tensor.Zeros(tensor.Int64, 4)
			b.next()
			autograd.Backward(b.loss())
			return nil
		}))
	}, "backward: float32[] has no path to a parameter: it was made under NoGrad or in Eval, from detached " +
		"tensors, or from data alone"},
	{func(b *beginner) { panicIf(b.opt.Step(b.s)) }, "sgd: no parameter has a gradient; call autograd.Backward first"},
	{func(b *beginner) {
		autograd.Backward(b.loss())
		panicIf(b.opt.Step(b.s))
		b.next()
		b.model.Forward(b.x)
	}, "linear: 0.weight float32[8 3] was updated in this step, which writes it when its function has " +
		"returned: until then it has its old value; read it before the update, or take two steps, in 0/linear"},
	{func(b *beginner) {
		autograd.Backward(b.loss())
		panicIf(b.opt.Step(b.s))
		b.next()
		panicIf(b.opt.Step(b.s))
	}, "sgd: no parameter has a gradient; call autograd.Backward first"},
	{func(b *beginner) {
		loss := b.s.In(b.w).Square().Sum()
		b.w.Assign(b.x.Select(0, 0))
		b.next()
		autograd.Backward(loss)
	}, "square: w float32[3] is at version 2, backward needs version 1: it was assigned after the forward " +
		"saved it; assign after Backward, in square backward"},
	{func(b *beginner) { panicIf(amp.NewGradScaler().Step(b.s, b.opt)) },
		"grad_scaler: Step before Scale; Backward must start from scaler.Scale(loss)"},
	// Numbers out of range.
	{func(b *beginner) { optim.SGD(-0.1) }, "sgd: LR is -0.1, which in float64 is outside [0, +Inf)"},
	{func(b *beginner) { optim.AdamW(math.NaN()) }, "adamw: LR is NaN, which in float64 is outside [0, +Inf)"},
	{func(b *beginner) { optim.Clip(0) }, "clip: the norm is 0; it must be positive and finite"},
	{func(b *beginner) { nn.NewDropout(1.5) }, "dropout: P is 1.5, outside [0, 1)"},
	{func(b *beginner) { nn.NewCausalAttention(10, 3) }, "attention: width 10 is no multiple of 3 heads"},
	{func(b *beginner) { b.s.With(func() {}, amp.Autocast(tensor.Int64)) },
		"autocast: int64 is no type to lower operations to; take tensor.Float16 or tensor.BFloat16, or " +
			"tensor.Float32 for none"},
	// Outside of steps.
	{func(b *beginner) { tensor.FromSlice([]float32{1, 2, 3}, 2, 2) },
		"from_slice: shape [2 2] has 4 elements, the slice has 3"},
	{func(b *beginner) { tensor.FromSlice([]int64{1, 2, 3}) },
		"from_slice: shape [] has 1 elements, the slice has 3; the shape follows the slice: FromSlice(v, len(v)) " +
			"is a vector"},
	{func(b *beginner) { autograd.Watch(b.s, b.x).Grad() },
		"grad: float32[4 3] is no parameter; the gradient of another tensor, made a leaf by autograd.Watch, is what " +
			"autograd.Grad returns"},
	{func(b *beginner) { b.x.Split(0, 2) },
		"split: sizes [2], those of all parts, add up to 2, axis 0 of float32[4 3] has 4"},
	{func(b *beginner) { b.x.ClearGrads() }, "clear_grads: float32[4 3] is no parameter; the gradient of another " +
		"tensor, made a leaf by autograd.Watch, is what autograd.Grad returns"},
	{func(b *beginner) { nn.NewBatchNorm2d(3).Forward(b.x) },
		"batch_norm: x float32[4 3] has 2 axes; [N C] and then 2 spatial ones are needed"},
	{func(b *beginner) { nn.NewBatchNorm1d(3).Forward(b.x.Reshape(1, 1, 4, 3)) },
		"batch_norm: x float32[1 1 4 3] has 4 axes; [N C] and then 0 to 1 spatial ones are needed"},
	{func(b *beginner) {
		q := b.x.Reshape(1, 1, 4, 3)
		b.next()
		nn.ScaledDotProductAttention(q, q, q, nn.KeyPadding(tensor.Zeros(tensor.Bool, 4, 1)))
	}, "attention: the mask of key padding bool[4 1] must be [1 4]: batch, keys"},
	{func(b *beginner) { tensor.FromNested([][]float32{{1, 2}, {3}}) },
		"from_nested: the slice at [1] has 1 elements, that at [0] has 2: all slices of one level have one length"},
	{func(b *beginner) { tensor.Zeros(tensor.Float32, 1<<20, 1<<20) }, "zeros: 4398046511104 bytes requested; "},
	{func(b *beginner) { b.line = returned; panicOr(tensor.Open("gpu")) },
		"open: no device kind \"gpu\" in this program; there are cpu, "},
	{func(b *beginner) { panicIf(nn.Init(b.dev, hidden{nn.NewLinear(3, 2)})) },
		"init: unexported fields hold parameters that nobody can name: layer.bias, layer.weight; export these " +
			"fields"},
	{func(b *beginner) { panicIf(nn.Init(nil, b.model)) }, "place: the device is nil; tensor.Open opens one"},
	{func(b *beginner) {
		b.line = returned
		panicOr(data.NewArrays([]float32{1, 2, 3}, []int{2}, []int64{0}, nil))
	}, "data: x: 3 values are not a whole number of examples of shape [2], 2 values each"},
	{func(b *beginner) {
		b.line = returned
		panicOr(data.NewArrays([]float32{1, 2, 3, 4}, []int{2, 2}, []int64{0, 1}, nil))
	}, "data: x holds 1 examples of shape [2 2], y holds 2 of shape []: the numbers must agree; the shapes are those " +
		"of one example"},
	{func(b *beginner) {
		b.line = returned
		for _, err := range (&data.Loader{Dataset: digits()}).Batches(context.Background()) {
			panicIf(err)
		}
	}, "data: loader: BatchSize is 0, want at least 1"},
	{func(b *beginner) {
		const path = "model.safetensors"
		b.t.Chdir(b.t.TempDir())
		panicIf(checkpoint.SaveModel(path, b.model))
		other := nn.Sequential(nn.NewLinear(3, 9), nn.Tanh, nn.NewLinear(9, 2))
		panicIf(nn.Init(b.dev, other))
		b.line = returned
		panicIf(checkpoint.Load(other, path))
	}, "checkpoint: model.safetensors does not fit to the model; 3 are different: 0.weight has shape [8 3] in " +
		"the file, want [9 3], "},
}

func panicOr[T any](v T, err error) T { panicIf(err); return v }

func digits() data.Dataset {
	train, _, err := data.Digits(1)
	panicIf(err)
	return train
}

// TestMistakes makes the mistakes of somebody who begins, and reads what is answered: the line and the message, which
// says what is wrong, with shapes and names, and the way out where that is certain.
func TestMistakes(t *testing.T) {
	dev := open(t)
	for _, m := range mistakes {
		b := &beginner{t: t, dev: dev, w: nn.Parameter(nil, 3), model: newModel()}
		panicIf(engine.Place(dev, "", []string{"w"}, []*tensor.Tensor{b.w}, tensor.Float32))
		panicIf(nn.Init(dev, b.model))
		b.opt = optim.New(optim.SGD(0.1), b.model)
		panicIf(b.step(func(s *tensor.Scope) {
			b.old = s.Full(1, tensor.Float32, 4, 3)
			b.kept = b.old.Clone().Keep()
		}))
		err := dev.Step(func(s *tensor.Scope) (err error) {
			defer func() {
				if e := recover(); e != nil {
					err = e.(error)
				}
			}()
			b.s, b.x, b.y = s, s.Full(1, tensor.Float32, 4, 3), s.Full(0, tensor.Int64, 4)
			m.program(b)
			return nil
		})
		f := runtime.FuncForPC(reflect.ValueOf(m.program).Pointer())
		if _, line := f.FileLine(f.Entry()); b.line == 0 {
			b.line = line
		}
		want := fmt.Sprintf("mistakes_test.go:%d: %s", b.line, m.says)
		if b.line == returned {
			want = m.says
		}
		whole := !strings.HasSuffix(want, " ")
		if err == nil || whole && err.Error() != want || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	t.Logf("%d mistakes", len(mistakes))
}

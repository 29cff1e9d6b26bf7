package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

// logitsOf has its largest value in each row at the given class.
func logitsOf(classes int, guesses ...int64) *tensor.Tensor {
	return tensor.FromNested(guesses).OneHot(classes).To(tensor.Float32).Scale(3).AddScalar(-1)
}

func TestConfusionMatrix(t *testing.T) {
	var m train.ConfusionMatrix
	if !math.IsNaN(m.Accuracy()) {
		t.Errorf("the accuracy of nothing is %v", m.Accuracy())
	}
	// Targets 0 0 0 1 1 2 of three classes, in two batches; the second one has two axes.
	m.Add(logitsOf(3, 0, 0, 1, 1), tensor.FromNested([]int64{0, 0, 0, 1}))
	m.Add(logitsOf(3, 2, 2).Reshape(1, 2, 3), tensor.FromSlice([]int32{1, 2}, 1, 2))
	for target, row := range [3][3]int{{2, 1, 0}, {0, 1, 1}, {0, 0, 1}} {
		for guess, want := range row {
			if got := m.Count(target, guess); got != want {
				t.Errorf("count(%d, %d) is %d, want %d", target, guess, got, want)
			}
		}
	}
	for class, want := range [3][3]float64{{1, 2. / 3, 0.8}, {0.5, 0.5, 0.5}, {0.5, 1, 2. / 3}} {
		got := [3]float64{m.Precision(class), m.Recall(class), m.F1(class)}
		if got != want {
			t.Errorf("class %d: precision, recall, F1 %v, want %v", class, got, want)
		}
	}
	if m.Total() != 6 || m.Accuracy() != 4./6 {
		t.Errorf("accuracy %v of %d", m.Accuracy(), m.Total())
	}
	if n := m.F1(3); !math.IsNaN(n) {
		t.Errorf("F1 of no class is %v", n)
	}
	m.Add(logitsOf(41, 40), tensor.FromNested([]int64{40}))
	if text := m.String(); text != "accuracy 0.7143 of 7" {
		t.Errorf("of 41 classes:\n%s", text)
	}
}

// In a step on a device the answer is that of host data.
func TestAccuracy(t *testing.T) {
	logits, targets := logitsOf(4, 3, 2, 1, 0), tensor.FromNested([]int64{3, 2, 0, 0})
	if got := train.Accuracy(logits, targets); got != 0.75 {
		t.Errorf("accuracy %v", got)
	}
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	err = dev.Eval(func(s *tensor.Scope) error {
		if got := train.Accuracy(s.In(logits).Softmax(-1), s.In(targets)); got != 0.75 {
			t.Errorf("in a step: accuracy %v", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What does not fit is a typed error with the line of the caller, and counts nothing.
func TestMetricErrors(t *testing.T) {
	var m train.ConfusionMatrix
	for _, c := range []struct {
		logits, targets *tensor.Tensor
		kind            error
		says            string
	}{
		{nil, tensor.Of(int64(0)), tensor.ErrValue, "logits is nil"},
		{logitsOf(3, 0), nil, tensor.ErrValue, "targets is nil"},
		{tensor.Of(float32(1)), tensor.Of(int64(0)), tensor.ErrShape, "logits float32[]"},
		{logitsOf(3, 0, 1), tensor.FromNested([]int64{0, 1, 2}), tensor.ErrShape, "float32[2 3]"},
		{logitsOf(3, 0), tensor.FromNested([]float32{0}), tensor.ErrDType, "float32[1], not integers"},
		{logitsOf(3, 0, 0), tensor.FromNested([]int64{0, 3}), tensor.ErrIndex, "target 1 is 3, there are 3 classes"},
		{logitsOf(3, 0, 0), tensor.FromNested([]int64{0, -1}), tensor.ErrIndex, "target 1 is -1"},
	} {
		err := engine.Try(func() { m.Add(c.logits, c.targets) })
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) ||
			!strings.HasPrefix(err.Error(), "metrics_test.go:") {
			t.Errorf("%v, want %v, %q", err, c.kind, c.says)
		}
		err = engine.Try(func() { train.Accuracy(c.logits, c.targets) })
		if err == nil || !strings.Contains(err.Error(), ": accuracy: ") {
			t.Errorf("accuracy: %v", err)
		}
	}
	if m.Total() != 0 {
		t.Errorf("%d were counted", m.Total())
	}
}

func TestEarlyStopping(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		stop   train.EarlyStopping
		values []float64
		better string // an x for each value that is better, an S for Done
		best   float64
	}{
		"falls":         {train.EarlyStopping{Patience: 2}, []float64{3, 2, 1, 0, -1}, "xxxxx", -1},
		"stops":         {train.EarlyStopping{Patience: 2}, []float64{3, 2, 2, 2.5}, "xx.S", 2},
		"recovers":      {train.EarlyStopping{Patience: 2}, []float64{3, 4, 2, 2, 2}, "x.x.S", 2},
		"small steps":   {train.EarlyStopping{Patience: 3, MinDelta: 1}, []float64{3, 2.5, 2.2, 1.9}, "x..x", 1.9},
		"NaN first":     {train.EarlyStopping{Patience: 2}, []float64{nan, 5, nan, 4}, ".x.x", 4},
		"NaN only":      {train.EarlyStopping{Patience: 2}, []float64{nan, nan}, ".S", 0},
		"infinity":      {train.EarlyStopping{Patience: 3}, []float64{math.Inf(1), 1e300}, ".x", 1e300},
		"goes on after": {train.EarlyStopping{Patience: 1, Best: 2, Count: 7, Since: 0}, []float64{2, 1}, "Sx", 1},
	} {
		var got strings.Builder
		for _, v := range c.values {
			switch better := c.stop.Better(v); {
			case better && !c.stop.Done():
				got.WriteByte('x')
			case c.stop.Done():
				got.WriteByte('S')
			default:
				got.WriteByte('.')
			}
		}
		if got.String() != c.better || c.stop.Best != c.best {
			t.Errorf("%s: %s, best %v; want %s, %v", name, got.String(), c.stop.Best, c.better, c.best)
		}
	}
	if (&train.EarlyStopping{}).Done() {
		t.Error("done before the first value")
	}
}

// The program of a whole run. "program -steps 500 -log json -hash" is one way to start it.
func ExampleMain() {
	learn := func(ctx context.Context, r *train.Run) error {
		dev, err := r.Open()
		if err != nil {
			return err
		}
		defer dev.Close()
		model := nn.NewLinear(3, 1)
		if err := nn.Init(dev, model); err != nil {
			return err
		}
		opt := optim.New(optim.SGD(0.1), model)
		r.Expect(r.Steps, "examples")
		var loss float64
		for step := 0; step < r.Steps && ctx.Err() == nil; step++ {
			err := dev.Step(func(s *tensor.Scope) error {
				x := s.Randn(32, 3)
				l := nn.MSE(model.Forward(x), x.Sum(1, tensor.KeepDims))
				autograd.Backward(l)
				loss = l.Item()
				return opt.Step(s)
			}, r.Mode()...)
			if err != nil {
				return err
			}
			r.Step(loss, 32)
		}
		r.Metric("last_loss", loss)
		if r.Hash {
			r.Metric("hash", opt.Hash())
		}
		return nil
	}
	os.Exit(train.Main(train.Options{Steps: 200, Seed: 42}, learn))
}

func ExampleConfusionMatrix() {
	m := train.ConfusionMatrix{Names: []string{"cat", "dog", "owl"}}
	logits := tensor.FromNested([][]float32{{2, 1, 0}, {0, 1, 0}, {0, 3, 1}, {1, 0, 5}})
	m.Add(logits, tensor.FromNested([]int64{0, 0, 1, 2}))
	fmt.Println(&m)
	// Output:
	//   cat  dog  owl  recall
	//   cat    1    1    0   0.500
	//   dog    0    1    0   1.000
	//   owl    0    0    1   1.000
	// accuracy 0.7500 of 4
}

func ExampleEarlyStopping() {
	stop := train.EarlyStopping{Patience: 2}
	for epoch, loss := range []float64{0.9, 0.5, 0.4, 0.45, 0.41, 0.3} {
		if stop.Better(loss) {
			fmt.Println("epoch", epoch, "is the best so far")
		}
		if stop.Done() {
			fmt.Println("stopped after epoch", epoch)
			break
		}
	}
	// Output:
	// epoch 0 is the best so far
	// epoch 1 is the best so far
	// epoch 2 is the best so far
	// stopped after epoch 4
}

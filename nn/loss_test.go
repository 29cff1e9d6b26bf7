package nn_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// What no golden shows: other types of targets, options that a loss has no use for, operands that do not fit.
func TestLossOptions(t *testing.T) {
	logits := tensor.FromNested([][]float64{{1, 2, 3}, {1, 2, 3}, {0, 0, 0}})
	w := tensor.FromNested([]float64{1, 2, 3})
	targets := tensor.FromSlice([]int{0, 2, 1}, 3)
	want := nn.CrossEntropy(logits, targets, nn.ClassWeights(w)).Item()
	lse := 3 + math.Log(1+math.Exp(-1)+math.Exp(-2))
	if by := (lse - 1 + 3*(lse-3) + 2*math.Log(3)) / 6; !near(want, by) {
		t.Errorf("weighted cross-entropy is %v, want %v", want, by)
	}
	for _, dt := range []tensor.DType{tensor.Int32, tensor.Uint8} {
		for _, loss := range []float64{
			nn.CrossEntropy(logits, targets.To(dt), nn.ClassWeights(w)).Item(),
			nn.NLL(logits.LogSoftmax(-1), targets.To(dt), nn.ClassWeights(w)).Item(),
		} {
			if !near(loss, want) {
				t.Errorf("%v: %v, want %v", dt, loss, want)
			}
		}
	}
	// Rows that are ignored count nothing, whatever they hold.
	broken := logits.MaskedFill(tensor.FromNested([][]bool{{true}, {false}, {false}}), math.Inf(-1))
	marked := tensor.FromSlice([]int{-100, 2, 1}, 3)
	if got := nn.NLL(broken, marked, nn.ClassWeights(w)).Item(); !near(got, -9./5) {
		t.Errorf("nll with an ignored row is %v, want %v", got, -9./5)
	}

	x := tensor.Zeros(tensor.Float32, 2, 3)
	for name, f := range map[string]func(){
		"mse: this loss takes no ignore index":      func() { nn.MSE(x, x, nn.IgnoreIndex(1)) },
		"l1: this loss takes no label smoothing":    func() { nn.L1(x, x, nn.LabelSmoothing(0.1)) },
		"huber: this loss takes no class weights":   func() { nn.Huber(x, x, 1, nn.ClassWeights(w)) },
		"bce: this loss takes no pos weight":        func() { nn.BCE(x, x, nn.PosWeight(w)) },
		"kl_div: this loss takes no weights":        func() { nn.KLDiv(x, x, nn.Weights(w)) },
		"nll: this loss takes no label smoothing":   func() { nn.NLL(x, targets, nn.LabelSmoothing(0.1)) },
		"cross_entropy: this loss takes no weights": func() { nn.CrossEntropy(x, targets, nn.Weights(w)) },
		"class weights: the tensor is nil":          func() { nn.NLL(x, targets, nn.ClassWeights(nil)) },
		"mse: weights float32[2] do not broadcast to": func() {
			nn.MSE(x, x, nn.Weights(tensor.Zeros(tensor.Float32, 2)))
		},
		"cross_entropy: class weights float32[2] must have shape [3]": func() {
			nn.CrossEntropy(logits, targets, nn.ClassWeights(tensor.Zeros(tensor.Float32, 2)))
		},
		"bce_with_logits: pos weight float32[2 2 3] do not broadcast to float32[2 3]": func() {
			nn.BCEWithLogits(x, x, nn.PosWeight(tensor.Zeros(tensor.Float32, 2, 2, 3)))
		},
		"nll: log-probabilities float32[2 3] have the classes on the last axis": func() { nn.NLL(x, targets) },
		"nll: the index at [1 0] is 3, outside [0, 3), axis 1 of [3 3]": func() {
			nn.NLL(logits, tensor.FromSlice([]int{0, 3, 1}, 3))
		},
		"nll: the index at [1] is 3, outside [0, 3), axis 0 of [3]": func() {
			nn.NLL(logits, tensor.FromSlice([]int{0, 3, 1}, 3), nn.ClassWeights(w))
		},
		"cross_entropy: target [1] is 3, outside the classes [0, 3)": func() {
			nn.CrossEntropy(logits, tensor.FromSlice([]int{0, 3, 1}, 3), nn.ClassWeights(w))
		},
	} {
		if err := engine.Try(f); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v lacks %q", err, name)
		}
	}
}

func ExampleCrossEntropy() {
	logits := tensor.FromNested([][]float32{{2, 0, 0}, {0, 1, 0}, {0, 0, 1}})
	targets := tensor.FromSlice([]int{0, 1, 1}, 3)
	rare := tensor.FromNested([]float32{1, 1, 5})
	fmt.Printf("%.3f\n", nn.CrossEntropy(logits, targets))
	fmt.Printf("%.3f\n", nn.CrossEntropy(logits, targets, nn.ClassWeights(rare), nn.ReduceNone()))
	// Output:
	// float32[] 0.781
	// float32[3] [0.240 0.551 1.551]
}

func ExampleBCEWithLogits() {
	logits := tensor.FromNested([]float32{0, 2, -2})
	targets := tensor.FromNested([]float32{1, 0, 0})
	fmt.Printf("%.3f\n", nn.BCEWithLogits(logits, targets))
	fmt.Printf("%.3f\n", nn.BCEWithLogits(logits, targets, nn.PosWeight(tensor.Of[float32](3)), nn.ReduceSum()))
	// Output:
	// float32[] 0.982
	// float32[] 4.333
}

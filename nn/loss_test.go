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
		"cross_entropy: prediction float32[2 3] and target float32[3 2] differ in shape": func() {
			nn.CrossEntropy(x, x.T())
		},
		"cross_entropy: targets that are probabilities, float32[2 3], have no index to ignore": func() {
			nn.CrossEntropy(x, x, nn.IgnoreIndex(0))
		},
		"cross_entropy: the class axis 2 is outside [-2, 2): float32[2 3] has 2 axes": func() {
			nn.CrossEntropy(x, targets, nn.ClassAxis(2))
		},
		"smooth_l1: beta is -1, outside [0, +Inf)":      func() { nn.SmoothL1(x, x, -1) },
		"sigmoid_focal: alpha is 2, outside":            func() { nn.SigmoidFocal(x, x, 2, 2) },
		"soft_margin: this loss takes no margin":        func() { nn.SoftMargin(x, x, nn.Margin(1)) },
		"multi_margin: the degree is 3, outside {1, 2}": func() { nn.MultiMargin(logits, targets, nn.Degree(3)) },
		"multi_margin: targets float32[2] must be int64": func() {
			nn.MultiMargin(x, tensor.Zeros(tensor.Float32, 2))
		},
		"multi_margin: targets int64[3] do not fit float32[2 3": func() { nn.MultiMargin(x, targets) },
		"multi_margin: the index at [1 0] is 3, outside [0, 3)": func() {
			nn.MultiMargin(logits, tensor.FromSlice([]int{0, 3, 1}, 3))
		},
		"multi_label_margin: targets int64[3] do not fit float32[2 3]": func() {
			nn.MultiLabelMargin(x, targets)
		},
		"multi_label_margin: the index at [0 1] is 5, outside [0, 3)": func() {
			nn.MultiLabelMargin(logits, tensor.FromSlice([]int{0, 5, 1, 0, 0, 0, 1, 1, 1}, 3, 3))
		},
		"margin_ranking: target float32[3 3] do not broadcast to float32[2 3]": func() {
			nn.MarginRanking(x, x, tensor.Zeros(tensor.Float32, 3, 3))
		},
		"cosine_embedding: the target float32[2 3] must hold one number for each row": func() {
			nn.CosineEmbedding(x, x, x)
		},
		"gaussian_nll: variance float32[3 1] do not broadcast to float32[2 3]": func() {
			nn.GaussianNLL(x, x, tensor.Zeros(tensor.Float32, 3, 1))
		},
		"triplet_margin: prediction float32[2 3] and target float32[3 2] differ in shape": func() {
			nn.TripletMargin(x, x, x.T())
		},
		"multi_label_soft_margin: class weights float64[3] must have shape [4]": func() {
			y := tensor.Zeros(tensor.Float32, 2, 4)
			nn.MultiLabelSoftMargin(y, y, nn.ClassWeights(w))
		},
		"distance: the function is nil": func() { nn.TripletMargin(x, x, x, nn.Distance(nil)) },
	} {
		if err := engine.Try(f); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v lacks %q", err, name)
		}
	}
}

// Rows that are all targets, or have none, cost nothing.
func TestMultiLabelMarginEnds(t *testing.T) {
	x := tensor.FromNested([][]float64{{1, 2, 3}, {3, 2, 1}})
	none := tensor.FromSlice([]int32{-1, 0, 1, 2, 0, 1}, 2, 3)
	if got := nn.MultiLabelMargin(x, none).Item(); got != 0 {
		t.Errorf("loss %v, want 0", got)
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

package main

import "fmt"

// predicted is what lines are expected to reach on an H200, as a share of a copy's bandwidth: what the model of
// internal/tools/kernelc/predict.go says of their kernels (docs/STATUS.md has the table). A line that is far from it
// shows where the model is wrong, and with it what was tuned by the model.
var predicted = map[string]float64{
	"layer_norm 1024 bfloat16": 0.97, "layer_norm backward 1024 bfloat16": 0.92,
	"layer_norm backward 2048 bfloat16": 0.74, "layer_norm backward 4096 bfloat16": 0.74,
	"residual 1024 bfloat16": 0.99, "softmax 1024 bfloat16": 0.97, "softmax 8192 bfloat16": 0.94,
	"cross_entropy 50304 bfloat16": 0.97, "cross_entropy backward 50304 bfloat16": 0.97,
}

// far is by which factor a line may be from its prediction before the summary says so.
const far = 1.5

// expected is the prediction of a line for the summary, "" if there is none.
func (f figure) expected() string {
	switch {
	case f.Predicted == 0:
		return ""
	case f.Copy > 0 && (f.Copy*far < f.Predicted || f.Copy > far*f.Predicted):
		return fmt.Sprintf("%.2f, FAR", f.Predicted)
	}
	return fmt.Sprintf("%.2f", f.Predicted)
}

package main

import (
	"fmt"

	"github.com/weft-ml/weft/kernels/cuda/images"
)

// predicted is what lines are expected to reach on an H200, as a share of a copy's bandwidth. A line that is far from
// it shows where the model is wrong, and with it what was tuned by the model.
var predicted = images.Predicted()

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

package images

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed predictions.txt
var predictions string

// Predicted is the share of a copy's bandwidth that lines of internal/tools/gpucheck are expected to reach on an H200,
// by their names: the fields expect of predictions.txt, which kernelc holds against its model.
func Predicted() map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(predictions) {
		parts := strings.Split(strings.TrimSpace(line), " : ")
		if len(parts) < 3 {
			continue
		}
		for _, field := range strings.Fields(parts[0]) {
			if value, ok := strings.CutPrefix(field, "expect="); ok {
				share, _ := strconv.ParseFloat(value, 64) // kernelc refuses what is no number
				for _, name := range strings.Split(parts[2], ", ") {
					all[name] = share
				}
			}
		}
	}
	return all
}

package nn

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// Layer is a line of a [Report]: a region of the forward pass, with the regions inside it.
type Layer struct {
	Path       string // region names, such as "blocks.0/attn"; "" is the whole model
	Output     []int  // shape of the last result in the region
	Parameters int    // trainable elements used for the first time in the region
	Bytes      int    // of those parameters
	FLOPs      float64
}

// Report describes a model: one line for each layer in order of execution, and the total.
type Report struct {
	Layers []Layer
	Total  Layer
}

// Summary runs a model once on x in evaluation and reports layers, output shapes, parameters, bytes and floating-point
// operations. Layers are the regions that [Call] opens; a layer's figures include those of the layers inside it.
func Summary(dev *tensor.Device, model Module, x *tensor.Tensor) (*Report, error) {
	r := &Report{}
	index := map[string]int{}
	seen := map[*tensor.Tensor]bool{}
	add := func(path string, c seam.Applied[*tensor.Op, *tensor.Tensor]) {
		params, bytes := 0, 0
		for _, t := range c.In {
			if p := t.Origin(); p != nil && p.Trainable() && !seen[p] {
				seen[p] = true
				params, bytes = params+p.Len(), bytes+p.Len()*p.DType().Size()
			}
		}
		count := func(l *Layer) {
			l.Output = c.Out[0].Shape()
			l.Parameters += params
			l.Bytes += bytes
			l.FLOPs += c.Flops
		}
		count(&r.Total)
		for end := range len(path) + 1 {
			if end < len(path) && path[end] != '/' || end == 0 {
				continue
			}
			i, ok := index[path[:end]]
			if !ok {
				i = len(r.Layers)
				index[path[:end]] = i
				r.Layers = append(r.Layers, Layer{Path: path[:end]})
			}
			count(&r.Layers[i])
		}
	}
	err := dev.Eval(func(s *tensor.Scope) error {
		engine.Given("summary", "the model", model)
		model.Forward(s.In(x))
		return nil
	}, engine.Observe(add))
	return r, err
}

// WriteTo writes the report as a table.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	engine.Given("summary", "the writer", w)
	n, err := io.WriteString(w, r.String())
	return int64(n), err
}

// String is the table.
func (r *Report) String() string {
	engine.Given("summary", "the report", r)
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "layer\toutput\tparameters\tbytes\tFLOPs\t")
	line := func(l Layer) {
		fmt.Fprintf(t, "%s\t%v\t%d\t%d\t%.4g\t\n", l.Path, l.Output, l.Parameters, l.Bytes, l.FLOPs)
	}
	for _, l := range r.Layers {
		line(l)
	}
	total := r.Total
	total.Path = "total"
	line(total)
	t.Flush()
	return b.String()
}

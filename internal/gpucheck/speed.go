package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A line is one operation to be timed.
type line struct {
	name         string
	bytes, flops float64
	operands     func() []*tensor.Tensor
	call         func(x []*tensor.Tensor) *tensor.Tensor
	backward     bool // time the backward pass alone: that of both less the forward
}

// A family is measured by one process.
type family struct {
	name  string
	lines func(n int) []line // n scales the elements of operands
}

var families = []family{
	{"pointwise", pointwiseLines}, {"rows", rowLines}, {"reductions", reductionLines},
	{"matmul", matmulLines}, {"attention", attentionLines}, {"optimizer", nil}, {"copies", nil}, {"launch", nil}, {"startup", nil},
}

func float(dt tensor.DType, shape ...int) func() []*tensor.Tensor {
	return func() []*tensor.Tensor { return []*tensor.Tensor{tensor.Uniform(1, -1, 1, shape...).To(dt)} }
}

var halves = []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float16}

func pointwiseLines(n int) (ls []line) {
	for _, dt := range halves {
		size := float64(n * dt.Size())
		unary := map[string]func(x *tensor.Tensor) *tensor.Tensor{
			"copy": (*tensor.Tensor).Clone, "relu": (*tensor.Tensor).ReLU, "gelu": (*tensor.Tensor).GELU, "silu": (*tensor.Tensor).SiLU, "tanh": (*tensor.Tensor).Tanh,
		}
		for _, name := range []string{"copy", "relu", "gelu", "silu", "tanh"} {
			f := unary[name]
			ls = append(ls, line{name: fmt.Sprint(name, " ", dt), bytes: 2 * size, operands: float(dt, n), call: func(x []*tensor.Tensor) *tensor.Tensor { return f(x[0]) }})
		}
		two := func() []*tensor.Tensor { return append(float(dt, n)(), float(dt, n)()...) }
		ls = append(ls,
			line{name: fmt.Sprint("add ", dt), bytes: 3 * size, operands: two, call: func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Add(x[1]) }},
			line{name: fmt.Sprint("mul ", dt), bytes: 3 * size, operands: two, call: func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Mul(x[1]) }})
	}
	return append(ls, line{name: "cast float32 to bfloat16", bytes: 6 * float64(n), operands: float(tensor.Float32, n),
		call: func(x []*tensor.Tensor) *tensor.Tensor { return x[0].To(tensor.BFloat16) }})
}

func rowLines(n int) (ls []line) {
	const columns = 1024
	rows := n / columns
	for _, dt := range halves {
		size := float64(n * dt.Size())
		norm := func() []*tensor.Tensor {
			return append(float(dt, rows, columns)(), append(float(dt, columns)(), float(dt, columns)()...)...)
		}
		layer := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].LayerNorm(x[1], x[2], 1e-5) }
		soft := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Softmax(-1) }
		targets := func() []*tensor.Tensor {
			return append(float(dt, rows, columns)(), tensor.FromSlice(make([]int64, rows), rows))
		}
		loss := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].CrossEntropy(x[1]) }
		for _, l := range []line{
			{name: "layer_norm", bytes: 2 * size, operands: norm, call: layer},
			{name: "layer_norm backward", bytes: 3 * size, operands: norm, call: layer, backward: true},
			{name: "softmax", bytes: 2 * size, operands: float(dt, rows, columns), call: soft},
			{name: "softmax backward", bytes: 3 * size, operands: float(dt, rows, columns), call: soft, backward: true},
			{name: "cross_entropy", bytes: size, operands: targets, call: loss},
			{name: "cross_entropy backward", bytes: 2 * size, operands: targets, call: loss, backward: true},
		} {
			l.name += " " + dt.String()
			ls = append(ls, l)
		}
	}
	return ls
}

func reductionLines(n int) (ls []line) {
	rows := n / 1024
	for name, axes := range map[string][]int{"sum": nil, "sum of rows": {1}, "sum of columns": {0}} {
		ls = append(ls, line{name: name, bytes: 4 * float64(n), operands: float(tensor.Float32, rows, 1024),
			call: func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Sum(axes...) }})
	}
	slices.SortFunc(ls, func(a, b line) int { return len(a.name) - len(b.name) })
	return ls
}

func matmulLines(n int) (ls []line) {
	sizes := [][3]int{{4096, 4096, 4096}, {8192, 8192, 8192}, {32768, 768, 768}, {32768, 3072, 768}, {32768, 768, 3072}, {768, 3072, 32768}}
	if n < 1<<20 {
		sizes = [][3]int{{64, 48, 40}}
	}
	for _, dt := range halves {
		for _, s := range sizes {
			if dt == tensor.Float32 && s[0] == 8192 {
				continue
			}
			ls = append(ls, line{name: fmt.Sprint("matmul ", s, " ", dt), flops: 2 * float64(s[0]) * float64(s[1]) * float64(s[2]),
				operands: func() []*tensor.Tensor { return append(float(dt, s[0], s[2])(), float(dt, s[2], s[1])()...) },
				call:     func(x []*tensor.Tensor) *tensor.Tensor { return x[0].MatMul(x[1]) }})
		}
	}
	return ls
}

func attentionLines(n int) (ls []line) {
	batch, heads, length := 8, 12, 1024
	if n < 1<<20 {
		batch, heads, length = 1, 2, 40
	}
	for _, dt := range halves {
		for _, d := range []int{64, 128} {
			forward := 2 * float64(batch*heads) * float64(length*length) * float64(d) // half of the products are masked
			call := func(x []*tensor.Tensor) *tensor.Tensor { return tensor.AttentionPacked(x[0], heads, true, 0.125) }
			operands := float(dt, batch, length, 3*heads*d)
			ls = append(ls, line{name: fmt.Sprintf("attention causal D=%d %v", d, dt), flops: forward, operands: operands, call: call},
				line{name: fmt.Sprintf("attention causal D=%d %v backward", d, dt), flops: 2.5 * forward, operands: operands, call: call, backward: true})
		}
	}
	return ls
}

// measure prints the figures of a family as lines, and all of them as one JSON object at the end.
func measure(name, device string, small bool) error {
	i := slices.IndexFunc(families, func(f family) bool { return f.name == name })
	if i < 0 {
		return fmt.Errorf("there is no family %q", name)
	}
	start := time.Now()
	dev, err := tensor.Open(device, tensor.Seed(1))
	if err != nil {
		return err
	}
	defer dev.Close()
	opened := time.Since(start)
	n, times := 1<<26, 20
	if small {
		n, times = 1<<12, 2
	}
	values := map[string]any{"device": dev.String(), "family": name, "elements": n}
	switch name {
	case "optimizer":
		err = optimizer(dev, n, times, values)
	case "copies":
		err = copies(dev, n, times, values)
	case "launch":
		err = launches(dev, values)
	case "startup":
		values["open"] = map[string]any{"us": 1e6 * opened.Seconds()}
		err = first(dev, values)
	default:
		err = timeLines(dev, families[i].lines(n), n, times, values)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(values)
}

// seconds is the median time of f, of several runs of `times` calls each, with all queued work done.
func seconds(dev *tensor.Device, times int, f func(s *tensor.Scope)) (float64, error) {
	var all []float64
	for range 6 {
		err := dev.Step(func(s *tensor.Scope) error {
			if err := dev.Synchronize(); err != nil {
				return err
			}
			start := time.Now()
			for range times {
				s.Region("", func() []*tensor.Tensor { f(s); return nil })
			}
			err := dev.Synchronize()
			all = append(all, time.Since(start).Seconds()/float64(times))
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	all = all[1:] // the first warms up
	slices.Sort(all)
	return all[len(all)/2], nil
}

func timeLines(dev *tensor.Device, ls []line, n, times int, values map[string]any) error {
	for _, l := range ls {
		var kept []*tensor.Tensor
		if err := dev.Eval(func(s *tensor.Scope) error {
			for _, t := range l.operands() {
				kept = append(kept, s.In(t).Keep())
			}
			return nil
		}); err != nil {
			return err
		}
		forward, err := seconds(dev, times, func(s *tensor.Scope) { s.With(func() { l.call(in(s, kept, false)) }, tensor.NoGrad) })
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		t := forward
		if l.backward {
			both, err := seconds(dev, times, func(s *tensor.Scope) {
				x := in(s, kept, true)
				y := l.call(x)
				autograd.Grad(y, watched(x), autograd.Seed(y.Detach()))
			})
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			t = both - forward
		}
		figure := map[string]any{"us": 1e6 * t}
		if l.bytes > 0 {
			figure["GB/s"] = l.bytes / t / 1e9
		}
		if l.flops > 0 {
			figure["TFLOP/s"] = l.flops / t / 1e12
		}
		values[l.name] = figure
		fmt.Println(l.name, figure)
	}
	return nil
}

// in takes kept operands into the step, watched if their gradient is wanted.
func in(s *tensor.Scope, kept []*tensor.Tensor, watch bool) []*tensor.Tensor {
	x := make([]*tensor.Tensor, len(kept))
	for i, t := range kept {
		if x[i] = s.In(t); watch && t.DType().IsFloat() {
			x[i] = s.Watch(t)
		}
	}
	return x
}

func watched(x []*tensor.Tensor) (w []*tensor.Tensor) {
	for _, t := range x {
		if t.NeedsGrad() {
			w = append(w, t)
		}
	}
	return w
}

// optimizer times AdamW over one flat parameter: 28 bytes an element, and 4 more for the norm.
func optimizer(dev *tensor.Device, n, times int, values map[string]any) error {
	p := tensor.Parameter(nil, n)
	if err := dev.Place([]string{"p"}, []*tensor.Tensor{p}, tensor.Float32); err != nil {
		return err
	}
	for name, opts := range map[string][]optim.Option{"adamw": nil, "adamw and clip": {optim.Clip(1)}} {
		opt := optim.New(optim.AdamW{}, p, opts...)
		bytes := 28 * float64(n)
		if opts != nil {
			bytes += 4 * float64(n)
		}
		var failed error
		add := func(s *tensor.Scope) { s.AddGrad(p, s.Full(1e-3, tensor.Float32).Expand(n)) }
		without, err := seconds(dev, times, add)
		if err != nil {
			return err
		}
		with, err := seconds(dev, times, func(s *tensor.Scope) {
			add(s)
			if err := opt.Step(s); err != nil {
				failed = err
			}
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		values[name] = map[string]any{"us": 1e6 * (with - without), "GB/s": bytes / (with - without) / 1e9}
		p.ClearGrads()
	}
	return nil
}

// copies times copies to the device, products that do not need them, and both: no longer than the longer of the two where a
// copy goes by the side of kernels.
func copies(dev *tensor.Device, n, times int, values map[string]any) error {
	width := 2048
	if n < 1<<20 {
		width = 64
	}
	var x *tensor.Tensor
	if err := dev.Eval(func(s *tensor.Scope) error {
		x = s.In(tensor.Uniform(1, -1, 1, width, width)).Keep()
		return nil
	}); err != nil {
		return err
	}
	product := func(s *tensor.Scope) { s.With(func() { s.In(x).MatMul(s.In(x)) }, tensor.NoGrad) }
	alone, err := seconds(dev, times, product)
	if err != nil {
		return err
	}
	values["product"] = map[string]any{"us": 1e6 * alone}
	for bytes := n >> 10; bytes <= n>>2; bytes *= 4 {
		data := make([]float32, bytes/4)
		upload := func(s *tensor.Scope) { s.In(tensor.FromSlice(data, len(data))) } // a step copies a tensor once
		alone, err := seconds(dev, times, upload)
		if err != nil {
			return err
		}
		both, err := seconds(dev, times, func(s *tensor.Scope) { upload(s); product(s) })
		if err != nil {
			return err
		}
		values[fmt.Sprint("copy of ", bytes)] = map[string]any{"us": 1e6 * alone, "GB/s": float64(bytes) / alone / 1e9, "us with product": 1e6 * both}
	}
	return nil
}

// launches times an operation that does next to nothing: the host's side and the driver's.
func launches(dev *tensor.Device, values map[string]any) error {
	var kept *tensor.Tensor
	if err := dev.Eval(func(s *tensor.Scope) error { kept = s.Full(1, tensor.Float32, 32).Keep(); return nil }); err != nil {
		return err
	}
	t, err := seconds(dev, 1000, func(s *tensor.Scope) { s.With(func() { s.In(kept).Neg() }, tensor.NoGrad) })
	values["launch"] = map[string]any{"us": 1e6 * t}
	return err
}

// first times the first launch of kernels in this process, with the loading of their images.
func first(dev *tensor.Device, values map[string]any) error {
	return dev.Eval(func(s *tensor.Scope) error {
		x := s.Full(1, tensor.Float32, 32, 32)
		if err := dev.Synchronize(); err != nil {
			return err
		}
		for _, l := range []struct {
			name string
			call func() *tensor.Tensor
		}{
			{"add", func() *tensor.Tensor { return x.Add(x) }}, {"softmax", func() *tensor.Tensor { return x.Softmax(-1) }},
			{"matmul", func() *tensor.Tensor { return x.MatMul(x) }}, {"softmax again", func() *tensor.Tensor { return x.Softmax(-1) }},
		} {
			start := time.Now()
			l.call()
			if err := dev.Synchronize(); err != nil {
				return err
			}
			values["first "+l.name] = map[string]any{"us": 1e6 * time.Since(start).Seconds()}
		}
		return nil
	})
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

var engine = tensor.Engine(seam.Key{})

// A line is one operation to be timed.
type line struct {
	name         string
	dtype        tensor.DType // of the copy that it is compared with, if bytes are counted
	bytes, flops float64
	operands     func(random source) []*tensor.Tensor
	call         func(x []*tensor.Tensor) *tensor.Tensor
	backward     bool // time the backward pass: that of both passes less the forward pass
	target       target
}

// A source makes a random tensor in memory of its own.
type source func(dt tensor.DType, shape ...int) *tensor.Tensor

// A target is the speed that a line should reach.
type target struct {
	least float64
	of    string // "copy": bandwidth beside that of a copy; "vendor": speed beside the vendor's; "TFLOP/s"
}

// A figure is what was measured of a line.
type figure struct {
	Time   float64 `json:"us"`
	GBs    float64 `json:"GB/s,omitempty"`
	TFLOPs float64 `json:"TFLOP/s,omitempty"`
	Copy   float64 `json:"of copy,omitempty"`
	Vendor float64 `json:"of vendor,omitempty"`
	Target float64 `json:"target,omitempty"`
	// Predicted is the share of a copy's bandwidth that the model of kernels expects.
	Predicted float64 `json:"predicted of copy,omitempty"`
	Met       *bool   `json:"met,omitempty"`
}

// report prints the figure of a line and adds it to values. A call takes the given seconds, and a copy of n elements
// takes copied seconds, 0 if there is none.
func (l *line) report(values map[string]any, seconds, copied float64, n int) error {
	f := figure{Time: 1e6 * seconds, GBs: l.bytes / seconds / 1e9, TFLOPs: l.flops / seconds / 1e12}
	if copied > 0 {
		f.Copy = l.bytes / seconds / (2 * float64(n*l.dtype.Size()) / copied)
	}
	f = f.compare(l.target)
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	fmt.Println(l.name, string(text))
	values[l.name] = f
	return nil
}

// compare sets whether the target is met, if that is known.
func (f figure) compare(t target) figure {
	reached := map[string]float64{"copy": f.Copy, "vendor": f.Vendor, "TFLOP/s": f.TFLOPs}[t.of]
	if f.Target = t.least; reached != 0 {
		met := reached >= t.least
		f.Met = &met
	}
	return f
}

// A family is measured by one process.
type family struct {
	name  string
	lines func(n int) []line // n scales the elements of operands
	peer  bool               // gpu-peer.py measures it too
}

var families = []family{
	{"pointwise", pointwiseLines, true}, {"rows", rowLines, true}, {"reductions", reductionLines, true},
	{"matmul", matmulLines, true}, {"attention", attentionLines, true}, {"optimizer", optimizerLines, true},
	{"copies", nil, true}, {"launch", nil, false}, {"startup", nil, false},
}

// operandsOf makes operands of the same type and shape.
func operandsOf(count int, dt tensor.DType, shape ...int) func(source) []*tensor.Tensor {
	return func(random source) (x []*tensor.Tensor) {
		for range count {
			x = append(x, random(dt, shape...))
		}
		return x
	}
}

var types = []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float16}

func pointwiseLines(n int) (ls []line) {
	for _, dt := range types {
		activation := target{0.85, "copy"}
		if dt == tensor.Float32 {
			activation = target{} // bound by arithmetic
		}
		for _, op := range []struct {
			name   string
			call   func(x []*tensor.Tensor) *tensor.Tensor
			in     int
			target target
		}{
			{"copy", func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Clone() }, 1, target{}},
			{"relu", func(x []*tensor.Tensor) *tensor.Tensor { return x[0].ReLU() }, 1, target{0.93, "copy"}},
			{"gelu", func(x []*tensor.Tensor) *tensor.Tensor { return x[0].GELU() }, 1, activation},
			{"silu", func(x []*tensor.Tensor) *tensor.Tensor { return x[0].SiLU() }, 1, activation},
			{"tanh", func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Tanh() }, 1, activation},
			{"add", func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Add(x[1]) }, 2, target{0.93, "copy"}},
			{"mul", func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Mul(x[1]) }, 2, target{0.93, "copy"}},
		} {
			ls = append(ls, line{name: fmt.Sprint(op.name, " ", dt), dtype: dt,
				bytes: float64((op.in + 1) * n * dt.Size()), target: op.target,
				operands: operandsOf(op.in, dt, n), call: op.call})
		}
	}
	for _, to := range types[1:] {
		for _, c := range [][2]tensor.DType{{tensor.Float32, to}, {to, tensor.Float32}} {
			ls = append(ls, line{name: fmt.Sprint("cast ", c[0], " to ", c[1]), dtype: tensor.Float32,
				bytes: 6 * float64(n), target: target{0.93, "copy"},
				operands: operandsOf(1, c[0], n),
				call:     func(x []*tensor.Tensor) *tensor.Tensor { return x[0].To(c[1]) }})
		}
	}
	return ls
}

// rowLines are operations along rows of 1024 elements in all types, of more elements in two, and losses of GPT-2's
// classes.
func rowLines(n int) (ls []line) {
	for _, columns := range []int{1024, 2048, 4096, 8192, 50304} {
		rows := max(1, n/columns)
		for _, dt := range types {
			if dt == tensor.Float16 && columns > 1024 {
				continue
			}
			size := float64(rows * columns * dt.Size())
			x := operandsOf(1, dt, rows, columns)
			with := func(random source, weights int) []*tensor.Tensor {
				return append(x(random), operandsOf(weights, dt, columns)(random)...)
			}
			layers := func(random source) []*tensor.Tensor { return with(random, 2) }
			scales := func(random source) []*tensor.Tensor { return with(random, 1) }
			layer := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].LayerNorm(x[1], x[2], 1e-5) }
			rms := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].RMSNorm(x[1], 1e-5) }
			soft := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].Softmax(-1) }
			targets := func(random source) []*tensor.Tensor {
				return append(x(random), tensor.FromSlice(make([]int64, rows), rows))
			}
			loss := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].CrossEntropy(x[1]) }
			all := []line{
				{name: "cross_entropy", bytes: size, operands: targets, call: loss, target: target{0.88, "copy"}},
				{name: "cross_entropy backward", bytes: 2 * size, operands: targets, call: loss, backward: true,
					target: target{0.88, "copy"}},
				{name: "softmax", bytes: 2 * size, operands: x, call: soft, target: target{0.88, "copy"}},
				{name: "softmax backward", bytes: 3 * size, operands: x, call: soft, backward: true,
					target: target{0.88, "copy"}},
				{name: "layer_norm", bytes: 2 * size, operands: layers, call: layer, target: target{0.90, "copy"}},
				{name: "layer_norm backward", bytes: 3 * size, operands: layers, call: layer, backward: true,
					target: target{0.97, "vendor"}},
				{name: "rms_norm", bytes: 2 * size, operands: scales, call: rms, target: target{0.90, "copy"}},
				{name: "rms_norm backward", bytes: 3 * size, operands: scales, call: rms, backward: true,
					target: target{0.97, "vendor"}},
				// one kernel, which writes the sum too
				{name: "residual", bytes: 4 * size, target: target{0.93, "copy"},
					operands: func(random source) []*tensor.Tensor { return append(layers(random), x(random)...) },
					call: func(x []*tensor.Tensor) *tensor.Tensor {
						_, norm := x[0].AddLayerNorm(x[3], x[1], x[2], 1e-5)
						return norm
					}},
			}
			if columns > 8192 {
				all = all[:2]
			}
			for _, l := range all {
				l.name, l.dtype = fmt.Sprint(l.name, " ", columns, " ", dt), dt
				ls = append(ls, l)
			}
		}
	}
	return ls
}

func reductionLines(n int) (ls []line) {
	rows := max(1, n/1024)
	for _, dt := range types[:2] {
		for _, op := range []struct {
			name string
			call func(x *tensor.Tensor) *tensor.Tensor
		}{
			{"sum", func(x *tensor.Tensor) *tensor.Tensor { return x.Sum() }},
			{"sum of rows", func(x *tensor.Tensor) *tensor.Tensor { return x.Sum(1) }},
			{"sum of columns", func(x *tensor.Tensor) *tensor.Tensor { return x.Sum(0) }},
			{"max", func(x *tensor.Tensor) *tensor.Tensor { return x.Max() }},
			{"max of rows", func(x *tensor.Tensor) *tensor.Tensor { return x.Max(1) }},
			{"max of columns", func(x *tensor.Tensor) *tensor.Tensor { return x.Max(0) }},
			{"argmax of rows", func(x *tensor.Tensor) *tensor.Tensor { return x.ArgMax(1) }},
			{"argmax of columns", func(x *tensor.Tensor) *tensor.Tensor { return x.ArgMax(0) }},
		} {
			ls = append(ls, line{name: fmt.Sprint(op.name, " ", dt), dtype: dt, bytes: float64(rows * 1024 * dt.Size()),
				target:   target{0.95, "copy"},
				operands: operandsOf(1, dt, rows, 1024),
				call:     func(x []*tensor.Tensor) *tensor.Tensor { return op.call(x[0]) }})
		}
	}
	return ls
}

func matmulLines(n int) (ls []line) {
	sizes := [][3]int{{4096, 4096, 4096}, {8192, 8192, 8192}, {32768, 768, 768}, {32768, 3072, 768}, {32768, 768, 3072},
		{768, 3072, 32768}, {768, 768, 32768}}
	if n < 1<<20 {
		sizes = [][3]int{{64, 48, 40}}
	}
	for _, dt := range types {
		for _, s := range sizes {
			if dt == tensor.Float32 && s[0] == 8192 {
				continue
			}
			ls = append(ls, line{name: fmt.Sprint("matmul ", s, " ", dt),
				flops: 2 * float64(s[0]) * float64(s[1]) * float64(s[2]),
				operands: func(random source) []*tensor.Tensor {
					return []*tensor.Tensor{random(dt, s[0], s[2]), random(dt, s[2], s[1])}
				},
				call: func(x []*tensor.Tensor) *tensor.Tensor { return x[0].MatMul(x[1]) }})
		}
	}
	return ls
}

func attentionLines(n int) (ls []line) {
	batch, heads, length := 8, 12, 1024
	if n < 1<<20 {
		batch, heads, length = 1, 2, 40
	}
	for _, dt := range types {
		for _, d := range []int{32, 64, 80, 96, 128} {
			forward := 2 * float64(batch*heads) * float64(length*length) * float64(d) // half of the products are masked
			call := func(x []*tensor.Tensor) *tensor.Tensor { return x[0].AttentionPacked(heads, true, 0.125) }
			operands := operandsOf(1, dt, batch, length, 3*heads*d)
			var flash target
			if d == 64 && dt != tensor.Float32 {
				flash = target{170, "TFLOP/s"}
			}
			ls = append(ls, line{name: fmt.Sprintf("attention causal D=%d %v", d, dt), flops: forward,
				operands: operands, call: call, target: flash},
				line{name: fmt.Sprintf("attention causal D=%d backward %v", d, dt), flops: 2.5 * forward,
					operands: operands, call: call, backward: true, target: flash})
		}
	}
	return ls
}

// optimizerLines are AdamW over one flat parameter; the norm of its gradient reads that once more.
func optimizerLines(n int) []line {
	return []line{
		{name: "adamw", dtype: tensor.Float32, bytes: 28 * float64(n), target: target{0.90, "copy"}},
		{name: "adamw and clip", dtype: tensor.Float32, bytes: 32 * float64(n), target: target{0.90, "copy"}},
	}
}

// sizes are the number of elements of operands and of calls in a run.
func sizes(small bool) (n, times int) {
	if small {
		return 1 << 12, 2
	}
	return 1 << 26, 20
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
	n, times := sizes(small)
	values := map[string]any{"device": dev.String(), "family": name, "elements": n}
	switch name {
	case "optimizer":
		err = optimizer(dev, n, times, values)
	case "copies":
		err = copies(dev, n, times, values)
	case "launch":
		err = launches(dev, values)
	case "startup":
		values["open"] = figure{Time: 1e6 * opened.Seconds()}
		err = firstLaunches(dev, values)
	default:
		err = timeLines(dev, families[i].lines(n), n, times, values)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(values)
}

// seconds times contenders in turn, in runs of `times` calls each: the median time of a call until it is queued, and
// until it is done.
func seconds(dev *tensor.Device, times int, contenders ...func(s *tensor.Scope)) (queued, done []float64, err error) {
	const runs = 6
	q, d := make([][]float64, len(contenders)), make([][]float64, len(contenders))
	for range runs {
		for i, f := range contenders {
			err := dev.Step(func(s *tensor.Scope) error {
				if err := dev.Synchronize(); err != nil {
					return err
				}
				start := time.Now()
				for range times {
					s.Region("", func() []*tensor.Tensor { f(s); return nil })
				}
				q[i] = append(q[i], time.Since(start).Seconds()/float64(times))
				err := dev.Synchronize()
				d[i] = append(d[i], time.Since(start).Seconds()/float64(times))
				return err
			})
			if err != nil {
				return nil, nil, err
			}
		}
	}
	for i := range contenders {
		queued, done = append(queued, median(q[i][1:])), append(done, median(d[i][1:])) // the first warms up
	}
	return queued, done, nil
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// keep makes tensors on the device that outlive the step.
func keep(dev *tensor.Device, f func(s *tensor.Scope) []*tensor.Tensor) (kept []*tensor.Tensor, err error) {
	err = dev.Eval(func(s *tensor.Scope) error {
		for _, t := range f(s) {
			kept = append(kept, s.In(t).Keep())
		}
		return nil
	})
	return kept, err
}

// copyOf returns a contender that copies n elements of a type.
func copyOf(dev *tensor.Device, dt tensor.DType, n int) (func(s *tensor.Scope), error) {
	x, err := keep(dev, func(s *tensor.Scope) []*tensor.Tensor { return []*tensor.Tensor{s.Full(1, dt, n)} })
	return func(s *tensor.Scope) { s.With(func() { s.In(x[0]).Clone() }, tensor.NoGrad()) }, err
}

func timeLines(dev *tensor.Device, ls []line, n, times int, values map[string]any) error {
	base, err := keep(dev, func(s *tensor.Scope) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.Uniform(tensor.Seed(1), -1, 1, n)}
	})
	if err != nil {
		return err
	}
	for _, l := range ls {
		kept, err := keep(dev, func(s *tensor.Scope) []*tensor.Tensor {
			return l.operands(func(dt tensor.DType, shape ...int) *tensor.Tensor {
				count := 1
				for _, d := range shape {
					count *= d
				}
				times := (count + n - 1) / n
				x := s.In(base[0]).Expand(times, n).Reshape(times*n).Slice(0, 0, count)
				return x.Scale(0.5).To(dt).Reshape(shape...)
			})
		})
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		forward := func(s *tensor.Scope) { s.With(func() { l.call(in(s, kept, false)) }, tensor.NoGrad()) }
		contenders := []func(s *tensor.Scope){forward}
		if l.backward {
			contenders = []func(s *tensor.Scope){func(s *tensor.Scope) {
				x := in(s, kept, true)
				y := l.call(x)
				autograd.Grad(y, watched(x), autograd.GradOutput(y.Detach()))
			}, forward}
		}
		if l.bytes > 0 {
			c, err := copyOf(dev, l.dtype, n)
			if err != nil {
				return err
			}
			contenders = append(contenders, c)
		}
		_, done, err := seconds(dev, times, contenders...)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		t, copied := done[0], 0.0
		if l.backward {
			t -= done[1]
		}
		if l.bytes > 0 {
			copied = done[len(done)-1]
		}
		if err := l.report(values, t, copied, n); err != nil {
			return err
		}
	}
	return nil
}

// in takes kept operands into the step; with watch they get gradients.
func in(s *tensor.Scope, kept []*tensor.Tensor, watch bool) []*tensor.Tensor {
	x := make([]*tensor.Tensor, len(kept))
	for i, t := range kept {
		if x[i] = s.In(t); watch && t.DType().IsFloat() {
			x[i] = autograd.Watch(s, t)
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

// optimizer times AdamW, less the pass that writes its gradient.
func optimizer(dev *tensor.Device, n, times int, values map[string]any) error {
	p := nn.Parameter(nil, n)
	if err := engine.Place(dev, "", []string{"p"}, []*tensor.Tensor{p}, tensor.Float32); err != nil {
		return err
	}
	for i, l := range optimizerLines(n) {
		opt := optim.New(optim.AdamW(1e-3), p, [][]optim.Option{nil, {optim.Clip(1)}}[i]...)
		var failed error
		g := func(s *tensor.Scope) *tensor.Tensor { return s.Full(1e-3, tensor.Float32).Expand(n) }
		c, err := copyOf(dev, l.dtype, n)
		if err != nil {
			return err
		}
		_, done, err := seconds(dev, times, func(*tensor.Scope) { // an update is written at the end of its step
			failed = errors.Join(failed, dev.Step(func(s *tensor.Scope) error {
				autograd.Backward(s.In(p), autograd.GradOutput(g(s)))
				return opt.Step(s)
			}))
		}, func(s *tensor.Scope) { g(s).Clone() }, c)
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		if err := l.report(values, done[0]-done[1], done[2], n); err != nil {
			return err
		}
	}
	return nil
}

// copies times copies to the device, products that do not depend on them, and both: where the copy stream overlaps with
// kernels, both take as long as the longer one.
func copies(dev *tensor.Device, n, times int, values map[string]any) error {
	width := 2048
	if n < 1<<20 {
		width = 64
	}
	x, err := keep(dev, func(s *tensor.Scope) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.Uniform(tensor.Seed(1), -1, 1, width, width)}
	})
	if err != nil {
		return err
	}
	product := func(s *tensor.Scope) { s.With(func() { s.In(x[0]).MatMul(s.In(x[0])) }, tensor.NoGrad()) }
	for bytes := n >> 10; bytes <= n>>2; bytes *= 4 {
		data := make([]float32, bytes/4)
		upload := func(s *tensor.Scope) { s.In(tensor.FromSlice(data, len(data))) } // a step copies a tensor once
		_, t, err := seconds(dev, times, upload, product, func(s *tensor.Scope) { upload(s); product(s) })
		if err != nil {
			return err
		}
		values[fmt.Sprint("upload of ", bytes)] = map[string]any{"us": 1e6 * t[0], "GB/s": float64(bytes) / t[0] / 1e9,
			"us of product": 1e6 * t[1], "us of both": 1e6 * t[2]}
	}
	return nil
}

// launches times an operation on 32 elements: until it is done, and until the host has queued it.
func launches(dev *tensor.Device, values map[string]any) error {
	x, err := keep(dev, func(s *tensor.Scope) []*tensor.Tensor {
		return []*tensor.Tensor{s.Full(1, tensor.Float32, 32)}
	})
	if err != nil {
		return err
	}
	// the driver queues some 1000
	queued, done, err := seconds(dev, 500, func(s *tensor.Scope) {
		s.With(func() { s.In(x[0]).Neg() }, tensor.NoGrad())
	})
	if err != nil {
		return err
	}
	values["launch"] = map[string]any{"us": 1e6 * done[0], "us to queue": 1e6 * queued[0]}
	return nil
}

// firstLaunches times the first launch of kernels in this process, with the loading of their images.
func firstLaunches(dev *tensor.Device, values map[string]any) error {
	return dev.Eval(func(s *tensor.Scope) error {
		x := s.Full(1, tensor.Float32, 32, 32)
		if err := dev.Synchronize(); err != nil {
			return err
		}
		for _, l := range []struct {
			name string
			call func() *tensor.Tensor
		}{
			{"add", func() *tensor.Tensor { return x.Add(x) }},
			{"softmax", func() *tensor.Tensor { return x.Softmax(-1) }},
			{"matmul", func() *tensor.Tensor { return x.MatMul(x) }},
			{"softmax again", func() *tensor.Tensor { return x.Softmax(-1) }},
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

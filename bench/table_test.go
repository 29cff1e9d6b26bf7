package bench

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

var fashionDir = flag.String("fashion", "/usr/share/datasets/fashion-mnist",
	"directory of the IDX files of Fashion-MNIST; without them images are random")

// A workload is one line of the speed table.
type workload struct {
	name  string
	want  string // what it must reach
	note  func() string
	flops float64 // of a call: 2 for each multiply-add, 0 for the rest
	bytes float64 // of a call: those that must be read and written at least

	weft  func(dev *tensor.Device) call
	half  func(dev *tensor.Device, dt tensor.DType) call // the same in float16 and bfloat16, for comparison
	count func(dev *tensor.Device) float64               // Go allocations of a call

	peer      map[string]any // request to peer.py; nil: there is no peer
	reuses    bool           // PyTorch can reuse outputs
	tiers     []string       // other tiers of Weft, for comparison
	yardstick func() call    // gonum
}

// BenchmarkTable measures every line with one thread and, where there are two cores, with two.
func BenchmarkTable(b *testing.B) {
	for i := range workloads {
		w := &workloads[i]
		for threads := 1; threads <= min(2, runtime.NumCPU()); threads++ {
			if w.count != nil && threads > 1 {
				continue // the host's cost is that of one goroutine
			}
			b.Run(fmt.Sprintf("%s/threads=%d", w.name, threads), func(b *testing.B) { measure(b, w, threads) })
		}
	}
}

// contenders are the others at a line. Those that cannot run are reported as skipped.
func (w *workload) contenders(threads int) []*contender {
	var all []*contender
	for _, name := range w.tiers {
		if p, err := tier(name); err != nil {
			skip("Weft, "+name, err)
		} else if p.facts.Tier != cpu.Tier() {
			all = append(all, remote("Weft, "+p.facts.Tier, p, map[string]any{"bench": w.name}, threads))
		}
	}
	if w.yardstick != nil {
		run := w.yardstick()
		all = append(all, &contender{name: "gonum", version: "gonum", run: func(warmup, reps int) ([]float64, error) {
			return repeat(run, warmup, reps), nil
		}})
	}
	if w.peer != nil {
		all = append(all, w.torches(threads)...)
		all = append(all, w.jaxes(threads)...)
	}
	return all
}

// jaxes are the variants of JAX, at the lines that peer_jax.py has.
func (w *workload) jaxes(threads int) (all []*contender) {
	for _, flags := range [][]string{nil, {"--keep-memory"}} {
		p, err := jax(threads, flags...)
		if err != nil {
			skip(jaxName, err)
			return nil
		}
		if !slices.Contains(p.facts.Benches, w.peer["bench"].(string)) {
			return nil
		}
		name := strings.Join(append([]string{jaxName}, flags...), " ")
		all = append(all, remote(name, p, w.peer, threads))
		if w.peer["bench"] == "fashion" && flags == nil {
			request := maps.Clone(w.peer)
			request["scan"] = false
			all = append(all, remote(name+" scan=false", p, request, threads))
		}
	}
	return all
}

// torches are the variants of PyTorch. Which is the fastest differs from line to line, even from process to process, so
// Weft is compared with the fastest of all.
func (w *workload) torches(threads int) (all []*contender) {
	own, err := torch("")
	if err != nil {
		skip(pyTorch, err)
		return nil
	}
	capabilities := []string{""}
	if own.facts.Capability != "AVX512" && slices.Contains(strings.Fields(processor("flags")), "avx512f") {
		capabilities = append(capabilities, "avx512")
	}
	flags := [][]string{nil, {"--keep-memory"}}
	if threads > 1 {
		flags = [][]string{nil, {"--passive"}, {"--keep-memory", "--passive"}}
	}
	for _, capability := range capabilities {
		for _, f := range flags {
			p, err := torch(capability, f...)
			if err != nil {
				skip(pyTorch+", "+capability, err)
				continue
			}
			name := strings.Join(append([]string{pyTorch, p.facts.Capability}, f...), " ")
			all = append(all, remote(name, p, w.peer, threads))
			if w.reuses && f == nil {
				request := maps.Clone(w.peer)
				request["out"] = "reuse"
				all = append(all, remote(name+" out=reuse", p, request, threads))
			}
		}
	}
	return all
}

const pyTorch, jaxName = "PyTorch", "JAX"

// ceiling is the highest rate of the machine at this moment, in flops or bytes a second as the line needs; 0 if
// unknown.
func (w *workload) ceiling(threads int) float64 {
	switch {
	case w.flops > 0:
		return peak(threads)
	case w.bytes > 0:
		return copyRate(threads, int(w.bytes)/8)
	}
	return 0
}

var workloads = table()

func table() (ws []workload) {
	for _, n := range []int{512, 1024, 2048} {
		ws = append(ws, sgemm(n))
	}
	ws = append(ws, fashion(), chargpt(), chargptCasts())
	for _, n := range []int{1_000_000, 16_000_000} {
		ws = append(ws,
			pointwise("gelu", n, (*tensor.Tensor).GELU, 8),
			backward("gelu", n, (*tensor.Tensor).GELU),
			pointwise("gelu_tanh", n, (*tensor.Tensor).GELUTanh, 8),
			backward("gelu_tanh", n, (*tensor.Tensor).GELUTanh),
			pointwise("exp", n, (*tensor.Tensor).Exp, 8),
			backward("exp", n, (*tensor.Tensor).Exp),
			pointwise("softmax", rows(n)*rowLen, softmax, 8),
			backward("softmax", rows(n)*rowLen, softmax),
			layerNorm(n), layerNormBackward(n), crossEntropy(n), adamw(n), clipped(n))
	}
	ws = append(ws, layerTable()...)
	return append(ws, operation(), recordedOperation())
}

// rowLen is the length of the rows of softmax, layer norm and cross-entropy, as in peer.py.
const rowLen = 1024

func rows(n int) int { return n / rowLen }

const perOp = "0.8x of PyTorch's speed"

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// timed is a call that is timed as a whole.
func timed(f func()) call {
	return func() time.Duration {
		begin := time.Now()
		f()
		return time.Since(begin)
	}
}

func normal(n int) []float32 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func randn(shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return tensor.FromSlice(normal(n), shape...)
}

// onDevice copies x to memory of the device.
func onDevice(dev *tensor.Device, x *tensor.Tensor) (y *tensor.Tensor) {
	must(dev.Eval(func(s *tensor.Scope) error {
		y = s.In(x).Add(s.Full(0, x.DType())).Keep()
		return nil
	}))
	return y
}

// matrixOf is a random tensor of n elements, a matrix of rows of rowLen if n is a multiple of that.
func matrixOf(dev *tensor.Device, n int) *tensor.Tensor {
	if n%rowLen == 0 {
		return onDevice(dev, randn(rows(n), rowLen))
	}
	return onDevice(dev, randn(n))
}

func classes(n, count int) *tensor.Tensor {
	r := rand.New(rand.NewPCG(2, uint64(n)))
	y := make([]int64, n)
	for i := range y {
		y[i] = r.Int64N(int64(count))
	}
	return tensor.FromSlice(y, n)
}

func sgemm(n int) workload {
	matmul := func(dev *tensor.Device, dt tensor.DType) call {
		a, b := onDevice(dev, randn(n, n).To(dt)), onDevice(dev, randn(n, n).To(dt))
		return timed(func() {
			must(dev.Eval(func(s *tensor.Scope) error {
				s.In(a).MatMul(b)
				return nil
			}))
		})
	}
	return workload{
		name:  fmt.Sprintf("sgemm/n=%d", n),
		want:  "0.85 of peak, AVX2 0.80, two threads 0.92 of the peaks' ratio",
		flops: 2 * float64(n) * float64(n) * float64(n),
		tiers: []string{"avx2"},
		peer:  map[string]any{"bench": "sgemm", "n": n},
		weft:  func(dev *tensor.Device) call { return matmul(dev, tensor.Float32) },
		half:  matmul,
		yardstick: func() call {
			a, b, c := normal(n*n), normal(n*n), make([]float32, n*n)
			return timed(func() {
				gonum.Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, a, n, b, n, 0, c, n)
			})
		},
	}
}

// train is one training step.
func train(s *tensor.Scope, model nn.Module, opt *optim.Optimizer, x, y *tensor.Tensor) error {
	autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), s.In(y)))
	return opt.Step(s)
}

// products are the flops of training a chain of linear layers of the given widths on rows inputs: three products
// for each layer but the first, which needs no gradient of its input.
func products(rows int, widths ...int) (flops float64) {
	for i, in := range widths[:len(widths)-1] {
		times := 6.0
		if i == 0 {
			times = 4
		}
		flops += times * float64(rows) * float64(in) * float64(widths[i+1])
	}
	return flops
}

// fashionImages are the images to train with, and a note if they are random.
var fashionImages = sync.OnceValues(func() (*data.Images, string) {
	images, _, err := data.FashionMNIST(*fashionDir)
	if err == nil {
		return images, ""
	}
	const n = 60_000
	r := rand.NewChaCha8([32]byte{})
	pixels, labels := make([]uint8, n*784), make([]uint8, n)
	r.Read(pixels)
	for i := range labels {
		labels[i] = uint8(i % 10)
	}
	images, err = data.NewImages(pixels, 784, labels, 255, 10)
	must(err)
	return images, "random images: no Fashion-MNIST in " + *fashionDir
})

func fashion() workload {
	return workload{
		name:  "fashion epoch",
		want:  "1.2x PyTorch's speed",
		flops: products(60_000, 784, 256, 128, 10),
		peer:  map[string]any{"bench": "fashion"},
		note: func() string {
			_, note := fashionImages()
			return note
		},
		weft: func(dev *tensor.Device) call {
			images, _ := fashionImages()
			model := nn.Sequential(nn.NewLinear(784, 256), nn.GELU, nn.NewLinear(256, 128), nn.GELU,
				nn.NewLinear(128, 10))
			must(nn.Init(dev, model))
			opt := optim.New(optim.AdamW(1e-3), model)
			loader := &data.Loader{Dataset: images.Bytes(), BatchSize: 128, Shuffle: true, Epochs: 1}
			return timed(func() {
				for b, err := range loader.Batches(context.Background()) {
					must(err)
					must(dev.Step(func(s *tensor.Scope) error {
						return train(s, model, opt, images.Scale(s.In(b.X)), b.Y)
					}))
				}
			})
		},
	}
}

// The sizes of chargpt.
const vocab, layers, width, heads, length, batch = 91, 4, 128, 4, 64, 16

func newGPT(dev *tensor.Device) *nn.GPT {
	model := nn.NewGPT(nn.GPTConfig{Vocab: vocab, Context: length, Width: width, Heads: heads, Layers: layers})
	must(nn.Init(dev, model))
	return model
}

func chargpt() workload {
	const tokens = batch * length
	steps := func(dev *tensor.Device, dt tensor.DType) call {
		model := newGPT(dev)
		opt := optim.New(optim.AdamW(1e-3), model)
		x, y := classes(tokens, vocab).Reshape(batch, length), classes(tokens, vocab).Reshape(batch, length)
		return timed(func() {
			must(dev.Step(func(s *tensor.Scope) error { return train(s, model, opt, x, y) }, amp.Autocast(dt)))
		})
	}
	return workload{
		name: "chargpt step",
		want: "1.1x PyTorch's speed",
		flops: 6*tokens*(layers*12*width*width+width*vocab) +
			12*layers*tokens*length*width, // scores and their use, all positions
		peer: map[string]any{"bench": "chargpt"},
		weft: func(dev *tensor.Device) call { return steps(dev, tensor.Float32) },
		half: steps,
	}
}

// chargptCasts casts all parameters to bfloat16; in mixed precision a step of chargpt casts most of them once.
func chargptCasts() workload {
	w := workload{name: "chargpt casts", want: "0.01 of a step"}
	w.weft = func(dev *tensor.Device) call {
		model := newGPT(dev)
		return timed(func() {
			must(dev.Eval(func(s *tensor.Scope) error {
				for _, p := range nn.Parameters(model) {
					s.In(p).To(tensor.BFloat16)
				}
				return nil
			}))
		})
	}
	return w
}

// line is what the operations on n elements have in common; bytes are for each element.
func line(bench, pass string, n int, bytes float64) workload {
	name := bench
	w := workload{
		want:   perOp,
		bytes:  bytes * float64(n),
		peer:   map[string]any{"bench": bench, "n": n},
		reuses: bench != "layer_norm" && bench != "adamw",
	}
	if pass != "" {
		w.peer["pass"] = pass
		name += " " + pass
	}
	w.name = fmt.Sprintf("%s/n=%.2g", name, float64(n))
	return w
}

func pointwise(bench string, n int, f func(*tensor.Tensor) *tensor.Tensor, bytes float64) workload {
	w := line(bench, "forward", n, bytes)
	w.weft = func(dev *tensor.Device) call { return forward(dev, f, matrixOf(dev, n)) }
	return w
}

// forward is f on x; the memory of the result is freed.
func forward(dev *tensor.Device, f func(*tensor.Tensor) *tensor.Tensor, x *tensor.Tensor) call {
	return timed(func() {
		must(dev.Eval(func(s *tensor.Scope) error {
			f(s.In(x))
			return nil
		}))
	})
}

func backward(bench string, n int, f func(*tensor.Tensor) *tensor.Tensor) workload {
	w := line(bench, "backward", n, 12)
	w.weft = func(dev *tensor.Device) call {
		return gradients(dev, func(x []*tensor.Tensor) *tensor.Tensor { return f(x[0]) }, matrixOf(dev, n))
	}
	return w
}

// gradients is the backward pass of f with respect to all of xs. The peers repeat it alone, so a pass that is not
// measured goes before each that is, lest the caches have what the forward pass wrote in place of what this one reads.
func gradients(dev *tensor.Device, f func(xs []*tensor.Tensor) *tensor.Tensor, xs ...*tensor.Tensor) call {
	g := onDevice(dev, randn(xs[0].Shape()...))
	return func() (d time.Duration) {
		must(dev.Step(func(s *tensor.Scope) error {
			watched := make([]*tensor.Tensor, len(xs))
			for i, x := range xs {
				watched[i] = autograd.Watch(s, x)
			}
			y := f(watched)
			seed := s.In(g)
			for range 2 {
				s.Region("", func() []*tensor.Tensor {
					begin := time.Now()
					autograd.Grad(y, watched, autograd.GradOutput(seed))
					d = time.Since(begin)
					return nil
				})
			}
			return nil
		}))
		return d
	}
}

func softmax(x *tensor.Tensor) *tensor.Tensor { return x.Softmax(-1) }

func layerNorm(n int) workload {
	n = rows(n) * rowLen
	w := line("layer_norm", "forward", n, 8)
	w.weft = func(dev *tensor.Device) call {
		weight, bias := randn(rowLen), randn(rowLen)
		return forward(dev, func(x *tensor.Tensor) *tensor.Tensor { return x.LayerNorm(weight, bias, 1e-5) },
			matrixOf(dev, n))
	}
	return w
}

func layerNormBackward(n int) workload {
	n = rows(n) * rowLen
	w := line("layer_norm", "backward", n, 12)
	w.weft = func(dev *tensor.Device) call {
		return gradients(dev, func(x []*tensor.Tensor) *tensor.Tensor { return x[0].LayerNorm(x[1], x[2], 1e-5) },
			matrixOf(dev, n), randn(rowLen), randn(rowLen))
	}
	return w
}

// crossEntropy is forward and backward: the logits are read in both.
func crossEntropy(n int) workload {
	n = rows(n) * rowLen
	w := line("cross_entropy", "", n, 12)
	w.weft = func(dev *tensor.Device) call {
		x, y := matrixOf(dev, n), classes(rows(n), rowLen)
		return timed(func() {
			must(dev.Step(func(s *tensor.Scope) error {
				logits := autograd.Watch(s, x)
				autograd.Grad(nn.CrossEntropy(logits, s.In(y)), []*tensor.Tensor{logits})
				return nil
			}))
		})
	}
	return w
}

// adamw reads parameter, gradient and two moments, and writes all but the gradient.
func adamw(n int) workload {
	w := line("adamw", "", n, 28)
	w.weft = func(dev *tensor.Device) call { return update(dev, n) }
	return w
}

// clipped reads the gradient once more, for its norm.
func clipped(n int) workload {
	w := line("adamw, clipped", "", n, 32)
	w.weft = func(dev *tensor.Device) call { return update(dev, n, optim.Clip(1)) }
	w.peer, w.want = nil, "the share of adamw"
	return w
}

// update is a step of AdamW over one parameter.
func update(dev *tensor.Device, n int, opts ...optim.Option) call {
	p := nn.Parameter(nn.Normal(0, 1), n)
	must(nn.Init(dev, []*tensor.Tensor{p}))
	opt := optim.New(optim.AdamW(1e-3), []*tensor.Tensor{p}, opts...)
	g := onDevice(dev, randn(n))
	return func() time.Duration {
		var begin time.Time
		must(dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(s.In(p), autograd.GradOutput(s.In(g)))
			begin = time.Now()
			return opt.Step(s) // writes when the step ends
		}))
		return time.Since(begin)
	}
}

// operations in a step whose host cost is measured.
const operations = 1000

// operation is the host's cost of an operation: exp of eight elements, evaluated.
func operation() workload {
	x := tensor.FromSlice(normal(8), 8)
	w := workload{name: "operation, evaluated", want: "3 allocations", peer: map[string]any{"bench": "exp", "n": 8}}
	w.weft = func(dev *tensor.Device) call { return hostCost(dev.Eval, x) }
	w.count = func(dev *tensor.Device) float64 { return allocations(dev.Eval, x) }
	return w
}

// recordedOperation is the same on the tape.
func recordedOperation() workload {
	x := nn.ParameterOf("x", tensor.FromSlice(normal(8), 8))
	w := workload{name: "operation, recorded", want: "6 allocations"}
	w.weft = func(dev *tensor.Device) call { return hostCost(dev.Step, x) }
	w.count = func(dev *tensor.Device) float64 { return allocations(dev.Step, x) }
	return w
}

// A run is Device.Eval or Device.Step.
type run = func(func(*tensor.Scope) error, ...tensor.Option) error

func hostCost(step run, operand *tensor.Tensor) call {
	return func() (d time.Duration) {
		must(step(func(s *tensor.Scope) error {
			x := s.In(operand)
			begin := time.Now()
			for range operations {
				x.Exp()
			}
			d = time.Since(begin) / operations
			return nil
		}))
		return d
	}
}

func allocations(step run, operand *tensor.Tensor) (n float64) {
	must(step(func(s *tensor.Scope) error {
		x := s.In(operand)
		n = testing.AllocsPerRun(operations, func() { x.Exp() })
		return nil
	}))
	return n
}

//go:build emu && cuda && cgo && linux

package traffic

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/fft"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/images"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

var update = flag.Bool("update", false, "write the golden file anew; reasons stay where they are needed")

// driver is the checked build of the emulator, which counts.
var driver *emu.Driver

func TestMain(m *testing.M) {
	emu.UseOrExit(emu.Checked)
	var err error
	if driver, err = emu.Load(os.Getenv("WEFT_CUDA_DRIVER")); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	kernels.Register("meter", func(n int) (kernels.Backend, error) {
		b, err := kernels.Open(fmt.Sprint("cuda:", n))
		measured.Backend = b
		return &measured, err
	})
	os.Exit(m.Run())
}

// A meter is a device that counts what each launch moves.
type meter struct {
	kernels.Backend
	moved []traffic
}

var measured meter

// traffic is what one launch moved in global memory, in bytes.
type traffic struct {
	op       string // with the element type of the first operand
	kernels  []string
	least    int // each operand read once, each result written once
	moved    int // whole sectors, of all requests of warps
	wanted   int // the least that these requests could move
	requests int
	element  int         // bytes of an element of the first operand
	widths   map[int]int // bytes used, by the bytes that a thread accesses at once
	conflict [2]int      // wavefronts of shared memory, and the least for the same requests
}

// hash is that of an expression in the name of its kernel, which changes with every digit of a polynomial.
var hash = regexp.MustCompile("_[0-9a-f]{6}_")

// Run launches, waits and counts.
func (m *meter) Run(l *kernels.Launch) error {
	driver.Statistics()
	if err := m.Backend.Run(l); err != nil {
		return err
	}
	if err := m.Synchronize(l.Stream); err != nil {
		return err
	}
	first := l.Out[0]
	if len(l.In) > 0 {
		first = l.In[0]
	}
	t := traffic{op: fmt.Sprint(l.Op.Name, "_", first.DType), element: first.DType.Size(), widths: map[int]int{}}
	for _, a := range slices.Concat(l.In, l.Out) {
		t.least += extent(&a)
	}
	t.count(driver.Statistics())
	m.moved = append(m.moved, t)
	return nil
}

// count adds what the emulator has counted (src/statistics.h).
func (t *traffic) count(statistics string) {
	for line := range strings.Lines(statistics) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[2] == "shared" {
			t.conflict[0] += number(f[7])
			t.conflict[1] += number(f[8])
			continue
		}
		if name := hash.ReplaceAllString(f[0], "_"); !slices.Contains(t.kernels, name) {
			t.kernels = append(t.kernels, name)
		}
		t.widths[number(f[4])] += number(f[6])
		t.requests += number(f[5])
		t.moved += 32 * number(f[7])
		t.wanted += 32 * number(f[8])
	}
}

// width is such that half of the bytes move in accesses of so many, or more.
func (t *traffic) width() int {
	all, sum := 0, 0
	for _, bytes := range t.widths {
		all += bytes
	}
	for _, width := range slices.Backward(slices.Sorted(maps.Keys(t.widths))) {
		if sum += t.widths[width]; 2*sum >= all {
			return width
		}
	}
	return 0
}

// columns are those of the golden file behind the operation.
func (t *traffic) columns() string {
	conflict := "-"
	if t.conflict[1] > 0 {
		conflict = fmt.Sprintf("%.2f", float64(t.conflict[0])/float64(t.conflict[1]))
	}
	return fmt.Sprintf("%s\t%.3f\t%.2f\t%.2f\t%d\t%s", strings.Join(t.kernels, " "),
		float64(t.moved)/float64(t.least), float64(t.moved)/32/float64(t.requests),
		float64(t.wanted)/32/float64(t.requests), t.width(), conflict)
}

// wasteful says what needs a reason; it is empty for a launch that moves each byte once and by wide accesses.
func (t *traffic) wasteful() string {
	ratio, each := float64(t.moved)/float64(t.least), float64(t.moved)/float64(t.wanted)
	if ratio > 1.05 || each > 1.05 {
		return fmt.Sprintf("moves %.3f times the least bytes, and its requests %.3f times the least sectors: more "+
			"than 1.05", ratio, each)
	}
	if least := min(16, 4*t.element); t.width() < least {
		return fmt.Sprintf("accesses %d bytes at once, and %d would be four elements", t.width(), least)
	}
	return ""
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err) // src/statistics.h
	}
	return n
}

// extent is the bytes of the elements of an operand, those that repeat counted once.
func extent(a *kernels.Arg) int {
	n := a.DType.Size()
	for d, size := range a.Shape {
		if a.Strides[d] != 0 {
			n *= size
		}
	}
	return n
}

// Sizes are multiples of all tiles and vectors, and as small as bytes of weights and results allow.
const rows, width = 64, 1024

// cases are operations whose time on a GPU is that of memory, on contiguous operands.
var cases = []struct {
	name string
	run  func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor
}{
	{"add", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Add(y) }},
	{"gelu", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.GELU() }},
	{"where", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.Greater(x).Where(x, y) }},
	{"broadcast", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Add(y.Select(0, 0)) }},
	{"sum of slices", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Slice(1, 0, width/2).Add(y.Slice(1, width/2, width))
	}},
	{"sum of heads", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Reshape(rows, 16, width/16).Transpose(0, 1).Add(y.Reshape(16, rows, width/16))
	}},
	{"adamw", stepOf(optim.AdamW(1e-3))},
	{"sgd", stepOf(optim.SGD(1e-3, optim.Momentum(0.9)))},
	{"lion", stepOf(optim.Lion(1e-4))},
	{"relu", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.ReLU() }},
	{"dropout", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Dropout(0.1) }},
	{"cast", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.To(tensor.Float16) }},
	{"cast to bfloat16", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.To(tensor.BFloat16) }},
	{"fill", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return s.Full(2, tensor.Float32, rows, width)
	}},
	{"copies", copies(tensor.Float32)},
	{"copies to bfloat16", copies(tensor.BFloat16)},
	{"copy of columns",
		func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Slice(1, 0, width/2).Contiguous() }},
	{"copy of every other column",
		func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Slice(1, 0, width, 2).Contiguous() }},
	{"transpose", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Transpose(0, 1).Contiguous() }},
	{"cat", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return tensor.Cat(1, x, y) }},
	{"pad", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Pad(0, [2]int{0, 0}, [2]int{8, 8}) }},
	{"tril", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Tril(width) }},
	{"flip", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Flip(0) }},
	{"one_hot", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return places(s, rows).OneHot(width) }},
	{"embedding", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Embedding(places(s, rows)) }},
	{"gather", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Gather(0, places(s, rows).Unsqueeze(1).Expand(rows, width))
	}},
	{"gather in short lines", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Reshape(rows/8, 8, width).Gather(1, places(s, 8).Reshape(1, 8, 1).Expand(rows/8, 8, width))
	}},
	{"scatter", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Detach().Scatter(0, places(s, rows).Unsqueeze(1).Expand(rows, width), y)
	}},
	{"scatter_reduce", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Detach().ScatterReduce(0, places(s, rows).Unsqueeze(1).Expand(rows, width), y, "amax", true)
	}},
	{"scatter_add along lines", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.ScatterAdd(1, places(s, width).Expand(rows, width), y)
	}},
	{"scatter_add of a few", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return y.Reshape(1, rows*width).Expand(2, rows*width).Contiguous().ScatterAdd(0,
			s.Full(1, tensor.Int64, 1, rows*width), x.Reshape(1, rows*width))
	}},
	{"conv 3x3", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Reshape(4, 16, 32, 32).Conv(weight(s, y, 16, 16, 3, 3), nil, tensor.Window{Padding: []int{1}})
	}},
	{"conv 1x1", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		bias := y.Select(0, 0).Slice(0, 0, 16)
		return x.Reshape(4, 16, 32, 32).Conv(weight(s, y, 16, 16, 1, 1), bias, tensor.Window{})
	}},
	{"conv_transpose", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Reshape(4, 16, 32, 32).ConvTranspose(weight(s, y, 16, 4, 3, 3), nil, tensor.Window{Stride: []int{2}})
	}},
	{"max_pool", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Reshape(64, 32, 32).MaxPool(tensor.Window{Size: []int{2, 2}})
	}},
	{"resample", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Detach().Reshape(64, 32, 32).Resample(1, 64, "linear", 0, false, false)
	}},
	{"unfold", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Unfold(1, 4, 2).Contiguous() }},
	{"sort", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { v, _ := x.Sort(1, false); return v }},
	{"long sort", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { v, _ := x.Sort(1, false); return v }},
	{"topk", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { v, _ := x.TopK(256, 1, true); return v }},
	{"searchsorted", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.SearchSorted(x, false) }},
	{"cumprod", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.CumProd(1) }},
	{"cummax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { v, _ := x.CumMax(1); return v }},
	{"fft", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return fft.FFT(x.Reshape(rows, width/2, 2)) }},
	{"fft of columns", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return fft.FFT(x.Reshape(rows, width/2, 2), fft.Axes(0))
	}},
	{"masked attention", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		q, k := x.Slice(0, 0, 16).Reshape(1, 4, 64, 64), y.Slice(0, 0, 16).Reshape(1, 4, 64, 64)
		return q.MaskedAttention(k, k, y.Slice(0, 0, 4).Reshape(64, 64), -40, 0, 0, 0.125)
	}},
	{"sum", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Sum() }},
	{"sum of rows", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Sum(1) }},
	{"sum of columns", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Sum(0) }},
	{"sum of outer axes", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return y.Reshape(8, rows/8, width).Sum(0, 2)
	}},
	{"max of rows", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.Max(1) }},
	{"max of columns", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.Max(0) }},
	{"min of rows", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.Min(1) }},
	{"min of columns", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.Min(0) }},
	{"prod of rows", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Prod(1) }},
	{"prod of columns", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.Prod(0) }},
	{"any of rows", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.Any(1) }},
	{"any of columns", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.Any(0) }},
	{"all of rows", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.All(1) }},
	{"all of columns", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.All(0) }},
	{"sum of squares", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.SumSquares(nil) }},
	{"sum of squares of columns",
		func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.SumSquares(nil, 0) }},
	{"var", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Var(1, 1) }},
	{"long var", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Var(1, 1) }},
	{"longest var", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.Var(1, 1) }},
	{"argmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.ArgMax(1) }},
	{"columns argmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.ArgMax(0) }},
	{"columns argmin", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.ArgMin(0) }},
	{"long argmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.ArgMax(1) }},
	{"longest argmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.ArgMax(1) }},
	{"argmin", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.ArgMin(1) }},
	{"long argmin", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.ArgMin(1) }},
	{"logsumexp", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.LogSumExp(1) }},
	{"long logsumexp", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.LogSumExp(1) }},
	{"longest logsumexp", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.LogSumExp(1) }},
	{"cumsum", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.CumSum(1) }},
	{"softmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Softmax(1) }},
	{"long softmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Softmax(1) }},
	{"longest softmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Softmax(1) }},
	{"log_softmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.LogSoftmax(1) }},
	{"long log_softmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.LogSoftmax(1) }},
	{"longest log_softmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.LogSoftmax(1) }},
	{"layer_norm", layerNorm},
	{"long layer_norm", layerNorm},
	{"longer layer_norm", layerNorm},
	{"longest layer_norm",
		func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.LayerNorm(nil, nil, 1e-5) }},
	{"residual", residual},
	{"long residual", residual},
	{"rms_norm", rmsNorm},
	{"long rms_norm", rmsNorm},
	{"longer rms_norm", rmsNorm},
	{"longest rms_norm", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return y.RMSNorm(nil, 1e-5) }},
	{"cross_entropy", crossEntropy},
	{"long cross_entropy", crossEntropy},
	{"longest cross_entropy", crossEntropy},
}

// weight is numbers of y as a weight that has a gradient.
func weight(s *tensor.Scope, y *tensor.Tensor, shape ...int) *tensor.Tensor {
	n := kernels.Count(shape)
	watch = autograd.Watch(s, y.Reshape(y.Len()).Slice(0, 0, n).Reshape(shape...))
	return watch
}

// watch is an operand beside the first whose gradient is measured, too.
var watch *tensor.Tensor

func layerNorm(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
	w := autograd.Watch(s, y.Select(0, 0))
	return x.LayerNorm(w, w, 1e-5)
}

func residual(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
	w := autograd.Watch(s, y.Select(0, 0))
	_, norm := x.AddLayerNorm(y, w, w, 1e-5)
	return norm
}

func crossEntropy(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
	return x.CrossEntropy(places(s, x.Shape()[0]))
}

func rmsNorm(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
	return x.RMSNorm(autograd.Watch(s, y.Select(0, 0)), 1e-5)
}

// stepOf is a step of an optimizer, whose single numbers are all 1.
func stepOf(rule optim.Rule) func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
	op := optim.Operation(rule)
	return func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		all := slices.Repeat([]*tensor.Tensor{y.Reshape(y.Len())}, 2+len(rule.State)) // parameter, gradient and state
		in := all
		for len(in) < len(op.Args) {
			in = append(in, s.Full(1, tensor.Float32))
		}
		engine.Update(s, op, 0, y.Len(), all[1:], in, make([]float64, len(op.Expr.Params)))
		return y
	}
}

// sizes are rows and width of cases whose names begin with these words: long rows are kept by blocks, longer ones not
// for gradients of norms, the longest by nothing.
var sizes = map[string][2]int{"long": {rows, 2048}, "longer": {72, 4608}, "longest": {4, 9216}}

// many are the rows of cases whose kernels read weights once for several: as many for the one multiprocessor that the
// emulated device has here as a batch of 16 x 1024 has for each of an H200.
const many = 128

var manyRows = []string{"layer_norm", "long layer_norm", "residual", "long residual", "rms_norm", "long rms_norm"}

// half are the cases of bfloat16.
var half = []string{"add", "gelu", "sum of rows", "sum of columns", "softmax", "layer_norm", "long layer_norm",
	"longer layer_norm", "residual", "long residual", "rms_norm",
	"embedding", "gather", "cross_entropy", "long cross_entropy", "conv 3x3", "conv 1x1", "scatter_add along lines"}

// places are the numbers below n from the last one down, as indices.
func places(s *tensor.Scope, n int) *tensor.Tensor {
	x := make([]int64, n)
	for i := range x {
		x[i] = int64(n - 1 - i)
	}
	return s.In(tensor.FromSlice(x, n))
}

// measure runs a case and its gradient on elements of a type.
func measure(t *testing.T, dev *tensor.Device, name string, d tensor.DType,
	run func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor) []traffic {
	t.Helper()
	count, length := rows, width
	kind, _, _ := strings.Cut(name, " ")
	if size, found := sizes[kind]; found {
		count, length = size[0], size[1]
	}
	if slices.Contains(manyRows, name) {
		count = many
	}
	x, y := tensor.Randn(tensor.Seed(1), count, length).To(d), tensor.Randn(tensor.Seed(2), count, length).To(d)
	measured.moved, watch = nil, nil
	err := dev.Step(func(s *tensor.Scope) error {
		a, b := autograd.Watch(s, s.In(x)), s.In(y)
		z := run(s, a, b)
		if z.NeedsGrad() {
			g := s.In(tensor.Randn(tensor.Seed(3), z.Shape()...).To(d))
			wanted := []*tensor.Tensor{a}
			if watch != nil {
				wanted = append(wanted, watch)
			}
			autograd.Grad(z, wanted, autograd.GradOutput(g))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s of %v: %v", name, d, err)
	}
	return measured.moved
}

// copies is the operation that converts gradients and parameters, here of one operand.
func copies(dt tensor.DType) func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
	return func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		op := tensor.Engine(seam.Key{}).NewOp(kernels.Op{Name: "copies", Kernel: "copies"}, dt, rows, width)
		return tensor.Engine(seam.Key{}).Apply(op, []*tensor.Tensor{y}, nil, nil)
	}
}

// exceptions are kernels that need not be in the golden file, as patterns, and why.
var exceptions = map[string]string{
	"matmul_half_*":       "arithmetic bounds it",
	"matmul*":             "arithmetic bounds it",
	"flash_*":             "arithmetic bounds it",
	"*_strided_*":         "the layout decides what it reads; sum_strided_rows is there",
	"index_add_*_vector":  "as those of float32 and bfloat16, which are there",
	"cross_entropy_count": "more rows than here; a number for each beside all its logits",
	"cross_entropy_mean":  "the same",
	"probe_*":             "no operation uses it",
	"index_add":           "as scatter, which is there: single elements by sorted indices",
	"max_unpool*":         "each element once, and its index of 8 bytes twice",
	"scatter_add_lines":   "short lines of long axes; as many accesses as elements",
	"scatter_prod":        "as scatter_max, which is there",
	"scatter_min":         "as scatter_max, which is there",
	"ctc_*":               "a few numbers for each step and position",
}

var ending = regexp.MustCompile(`(_(f32|f64|f16|bf16|integer|bool|i64|i32|u8|b\d+))+$`)

// familyOf is the name of a kernel without element type, and of a pointwise one without expression.
func familyOf(kernel string) string {
	if strings.HasPrefix(kernel, "pointwise_") {
		return "pointwise" + kernel[strings.LastIndex(kernel, "_"):]
	}
	return ending.ReplaceAllString(kernel, "")
}

// unmeasured says which kernels of this build are neither launched nor exceptions, and which exceptions there need not
// be.
func unmeasured(launched map[string]bool) (faults []string) {
	families, needed := map[string]bool{}, map[string]bool{}
	for _, m := range images.All() {
		for _, symbol := range m.Symbols {
			families[familyOf(symbol)] = true
		}
	}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		if launched[family] {
			continue
		}
		found := false
		for pattern := range exceptions {
			if ok, err := path.Match(pattern, family); ok || err != nil {
				found, needed[pattern] = true, true
			}
		}
		if !found {
			faults = append(faults, fmt.Sprintf("no case launches %s, and it is no exception", family))
		}
	}
	for pattern := range exceptions {
		if !needed[pattern] {
			faults = append(faults, fmt.Sprintf("the exception %s is of no kernel, or of kernels that cases launch",
				pattern))
		}
	}
	return faults
}

const golden = "testdata/traffic.txt"

const head = `# Bytes that kernels move, counted by the emulator over contiguous operands of 64 x 1024 elements, of long
# rows 64 x 2048, of longer ones 72 x 4608, of the longest 4 x 9216; for norms 128 rows, on a device of one
# multiprocessor.
# TestTraffic explains the columns, and its flag -update writes this file anew. What exceeds 1.05 of the least, or
# accesses less than 16 bytes or four elements at once, has a reason.
#
# case, operation, kernels, bytes moved / least, sectors per request, the least for it, bytes of an access,
# wavefronts of shared memory / least, reason
`

// TestTraffic compares what each launch moves with a golden file, and with the least: each operand read once and each
// result written once; and no more sectors for a request of a warp than its elements fill. A kernel may exceed that by
// 5 % and no more, unless the golden file has a reason: caches may serve what is read again, and nothing else. Most
// bytes move by 16, or by four elements of fewer bytes, a thread. Each family of kernels of the build is launched, or
// is an exception.
func TestTraffic(t *testing.T) {
	for name, value := range map[string]string{"count": "1", "order": "fifo", "multiprocessors": "1"} {
		if err := driver.Call("emu_set", name, value); err != nil {
			t.Fatal(err)
		}
	}
	dev, err := tensor.Open("meter")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	text, err := os.ReadFile(golden)
	if err != nil && !*update {
		t.Fatal(err)
	}
	want, reasons, measuredAs, launched := map[string]string{}, map[string]string{}, map[string]string{},
		map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) > 2 {
			want[f[0]+" "+f[1]], reasons[f[0]+" "+f[1]] = strings.Join(f[:len(f)-1], "\t"), f[len(f)-1]
		}
	}
	var lines strings.Builder
	for _, c := range cases {
		for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			if d == tensor.BFloat16 && !slices.Contains(half, c.name) {
				continue
			}
			for _, m := range measure(t, dev, c.name, d, c.run) {
				if m.requests == 0 || m.least < 4*rows*width/8 {
					continue // a copy by the driver, or a few numbers
				}
				key := c.name + " " + m.op
				line := fmt.Sprintf("%s\t%s\t%s", c.name, m.op, m.columns())
				if line == measuredAs[key] {
					continue // the gradient is the same operation
				}
				measuredAs[key] = line
				for _, k := range m.kernels {
					launched[familyOf(k)] = true
				}
				reason, waste := cmp.Or(reasons[key], "-"), m.wasteful()
				if *update && waste == "" {
					reason = "-"
				}
				fmt.Fprintf(&lines, "%s\t%s\n", line, reason)
				if reason == "-" && waste != "" {
					t.Errorf("%s: %s %s, and %s has no reason", c.name, m.op, waste, golden)
				}
				if reason != "-" && waste == "" {
					t.Errorf("%s: %s needs no reason in %s", c.name, m.op, golden)
				}
				if !*update && line != want[key] {
					t.Errorf("%s moves\n%s, in %s\n%s", key, line, golden, want[key])
				}
				delete(want, key)
			}
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(head+lines.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, fault := range unmeasured(launched) {
		t.Error(fault)
	}
	for key := range want {
		t.Errorf("%s is in %s and was not launched", key, golden)
	}
}

// TestWasteful plants copies of 64 bfloat16 by two warps: by 2 bytes a thread, by every other element, and twice.
func TestWasteful(t *testing.T) {
	const good = "copy\tcopy.cu:1\tglobal\tread\t8\t1\t128\t4\t4\ncopy\tcopy.cu:2\tglobal\twrite\t8\t1\t128\t4\t4\n"
	for _, c := range []struct{ statistics, columns, want string }{
		{good, "copy\t1.000\t4.00\t4.00\t8\t-", ""},
		{strings.ReplaceAll(good, "\t8\t1\t128\t4\t4", "\t2\t2\t128\t4\t4"), "copy\t1.000\t2.00\t2.00\t2\t-",
			"accesses 2 bytes at once, and 8 would be four elements"},
		{strings.Replace(good, "\t128\t4\t4", "\t128\t8\t4", 1), "copy\t1.500\t6.00\t4.00\t8\t-",
			"moves 1.500 times the least bytes, and its requests 1.500 times the least sectors: more than 1.05"},
		{good + good, "copy\t2.000\t4.00\t4.00\t8\t-",
			"moves 2.000 times the least bytes, and its requests 1.000 times the least sectors: more than 1.05"},
		{good + "copy\tcopy.cu:3\tshared\tread\t4\t1\t128\t3\t1\n", "copy\t1.000\t4.00\t4.00\t8\t3.00", ""},
	} {
		m := traffic{least: 256, element: 2, widths: map[int]int{}}
		m.count(c.statistics)
		if got := m.columns(); got != c.columns {
			t.Errorf("columns %q, want %q", got, c.columns)
		}
		if got := m.wasteful(); got != c.want {
			t.Errorf("%q: found %q, want %q", c.statistics, got, c.want)
		}
	}
}

//go:build emu && cuda && cgo && linux

package traffic

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/emu"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/tensor"
)

var update = flag.Bool("update", false, "write the golden file anew; reasons stay")

// driver is the checked build of the emulator, which counts.
var driver *emu.Driver

func TestMain(m *testing.M) {
	err := emu.Use(emu.Checked)
	if errors.Is(err, emu.ErrNoCompiler) {
		fmt.Println("SKIPPED emu:", err)
		os.Exit(0)
	}
	if err == nil {
		driver, err = emu.Load(os.Getenv("WEFT_CUDA_DRIVER"))
	}
	if err != nil {
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
	moved  []traffic
	joined bool            // sums are counted together with what follows
	sum    *kernels.Launch // such a sum
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
}

// hash is that of an expression in the name of its kernel, which changes with every digit of a polynomial.
var hash = regexp.MustCompile("_[0-9a-f]{6}_")

// Run launches, waits and counts.
func (m *meter) Run(l *kernels.Launch) error {
	if m.joined && l.Op.Name == "add" {
		m.sum = l.Clone()
		return m.Backend.Run(l)
	}
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
	t := traffic{op: fmt.Sprint(l.Op.Name, "_", first.DType)}
	for _, a := range slices.Concat(l.In, l.Out) {
		t.least += extent(&a)
	}
	if m.sum != nil { // it is written, and need not be read
		t.least -= extent(&l.In[0])
		for _, a := range slices.Concat(m.sum.In, m.sum.Out) {
			t.least += extent(&a)
		}
		m.sum = nil
	}
	for line := range strings.Lines(driver.Statistics()) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[2] != "global" {
			continue
		}
		if name := hash.ReplaceAllString(f[0], "_"); !slices.Contains(t.kernels, name) {
			t.kernels = append(t.kernels, name)
		}
		t.requests += number(f[5])
		t.moved += 32 * number(f[7])
		t.wanted += 32 * number(f[8])
	}
	m.moved = append(m.moved, t)
	return nil
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

// cases are operations whose time on a GPU is that of memory, on operands without gaps.
var cases = []struct {
	name string
	run  func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor
}{
	{"add", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Add(y) }},
	{"gelu", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.GELU() }},
	{"relu", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.ReLU() }},
	{"dropout", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Dropout(0.1) }},
	{"cast", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.To(tensor.Float16) }},
	{"fill", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return s.Full(2, tensor.Float32, rows, width)
	}},
	{"copy of columns", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Slice(1, 0, width/2).Contiguous() }},
	{"transpose", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Transpose(0, 1).Contiguous() }},
	{"cat", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return tensor.Cat(1, x, y) }},
	{"pad", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Pad(0, [2]int{0, 0}, [2]int{8, 8}) }},
	{"tril", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Tril(width) }},
	{"flip", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Flip(0) }},
	{"embedding", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Embedding(places(s, rows)) }},
	{"gather", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
		return x.Gather(0, places(s, rows).Unsqueeze(1).Expand(rows, width))
	}},
	{"sum", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Sum() }},
	{"sum of rows", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Sum(1) }},
	{"sum of columns", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Sum(0) }},
	{"sum of squares", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.SumSquares(nil) }},
	{"var", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Var(1, 1) }},
	{"long var", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Var(1, 1) }},
	{"argmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.ArgMax(1) }},
	{"long argmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.ArgMax(1) }},
	{"logsumexp", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.LogSumExp(1) }},
	{"long logsumexp", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.LogSumExp(1) }},
	{"cumsum", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.CumSum(1) }},
	{"softmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Softmax(1) }},
	{"long softmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.Softmax(1) }},
	{"log_softmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.LogSoftmax(1) }},
	{"long log_softmax", func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return x.LogSoftmax(1) }},
	{"layer_norm", layerNorm},
	{"long layer_norm", layerNorm},
	{"residual", residual},
	{"long residual", residual},
	{"rms_norm", rmsNorm},
	{"long rms_norm", rmsNorm},
	{"cross_entropy", crossEntropy},
	{"long cross_entropy", crossEntropy},
}

func layerNorm(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
	w := s.Watch(y.Select(0, 0))
	return x.LayerNorm(w, w, 1e-5)
}

func residual(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor { return layerNorm(s, x.Add(y), y) }

func crossEntropy(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
	return x.CrossEntropy(places(s, rows))
}

func rmsNorm(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor {
	return x.RMSNorm(s.Watch(y.Select(0, 0)), 1e-5)
}

// long is the width of cases whose names begin with this word.
const long = 2048

// many are the rows of cases whose kernels read weights once for several: as many for the one multiprocessor that the
// emulated device has here as a batch of 16 x 1024 has for each of an H200.
const many = 128

var manyRows = []string{"layer_norm", "residual", "rms_norm"}

// half are the cases of bfloat16.
var half = []string{"add", "gelu", "sum of rows", "sum of columns", "softmax", "layer_norm", "long layer_norm", "residual", "long residual", "rms_norm"}

// places are the numbers below n from the last one down, as indices.
func places(s *tensor.Scope, n int) *tensor.Tensor {
	x := make([]int64, n)
	for i := range x {
		x[i] = int64(n - 1 - i)
	}
	return s.In(tensor.FromSlice(x, n))
}

// measure runs a case and its gradient on elements of a type.
func measure(t *testing.T, dev *tensor.Device, name string, d tensor.DType, run func(s *tensor.Scope, x, y *tensor.Tensor) *tensor.Tensor) []traffic {
	t.Helper()
	count, length := rows, width
	short, isLong := strings.CutPrefix(name, "long ")
	if isLong {
		length = long
	}
	if slices.Contains(manyRows, short) {
		count = many
	}
	x, y := tensor.Randn(1, count, length).To(d), tensor.Randn(2, count, length).To(d)
	measured.moved, measured.joined = nil, strings.HasSuffix(name, "residual")
	err := dev.Step(func(s *tensor.Scope) error {
		a, b := s.Watch(s.In(x)), s.In(y)
		z := run(s, a, b)
		if z.NeedsGrad() {
			autograd.Grad(z, []*tensor.Tensor{a}, autograd.Seed(s.In(tensor.Randn(3, z.Shape()...).To(d))))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s of %v: %v", name, d, err)
	}
	return measured.moved
}

const golden = "testdata/traffic.txt"

const head = `# Bytes that kernels move, counted by the emulator over operands of 64 x 1024 elements without gaps, of long rows
# 64 x 2048; for norms 128 rows, on a device of one multiprocessor. TestTraffic explains the columns, and its flag -update
# writes this file anew. What exceeds 1.05 of the least has a reason.
#
# case, operation, kernels, bytes moved / least, sectors per request, the least for it, reason
`

// TestTraffic compares what each launch moves with a golden file, and with the least: each operand read once and each
// result written once; and no more sectors for a request of a warp than its elements fill. A kernel may exceed that by 5 %
// and no more, unless the golden file has a reason: caches may serve what is read again, and nothing else.
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
	want, reasons, measuredAs := map[string]string{}, map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 7 {
			want[f[0]+" "+f[1]], reasons[f[0]+" "+f[1]] = strings.Join(f[:6], "\t"), f[6]
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
				ratio, each := float64(m.moved)/float64(m.least), float64(m.moved)/float64(m.wanted)
				line := fmt.Sprintf("%s\t%s\t%s\t%.3f\t%.2f\t%.2f", c.name, m.op, strings.Join(m.kernels, " "), ratio,
					float64(m.moved)/32/float64(m.requests), float64(m.wanted)/32/float64(m.requests))
				if line == measuredAs[key] {
					continue // the gradient is the same operation
				}
				measuredAs[key] = line
				reason := cmp.Or(reasons[key], "-")
				fmt.Fprintf(&lines, "%s\t%s\n", line, reason)
				if reason == "-" && (ratio > 1.05 || each > 1.05) {
					t.Errorf("%s: %s moves %.3f times the least bytes, and its requests %.3f times the least sectors: more than 1.05, and %s has no reason",
						c.name, m.op, ratio, each, golden)
				}
				if reason != "-" && ratio <= 1.05 && each <= 1.05 {
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
	for key := range want {
		t.Errorf("%s is in %s and was not launched", key, golden)
	}
}

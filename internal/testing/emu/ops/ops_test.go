//go:build emu && cuda && cgo && linux

package ops

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// emulated tells whether the driver is the emulator: WEFT_CUDA_DRIVER may name a GPU's.
var emulated bool

// TestMain chooses the emulator as the driver: its plain build, or the checked one if WEFT_EMU_BUILD is check.
func TestMain(m *testing.M) {
	given := os.Getenv("WEFT_CUDA_DRIVER") != ""
	flavour := emu.Plain
	if os.Getenv("WEFT_EMU_BUILD") == "check" {
		flavour = emu.Checked
	}
	emu.UseOrExit(flavour)
	driver, err := emu.Load(os.Getenv("WEFT_CUDA_DRIVER"))
	if err == nil {
		if emulated = driver.Emulated(); !emulated && !given {
			err = errors.New("the driver that was built is not the emulator")
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func open(t *testing.T, name string) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open(name, tensor.Seed(7))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// values are the results of a computation, as the bits of their elements; NaNs count as one.
type values [][]uint64

// run computes f on a device, with operands made from host data.
func run(dev *tensor.Device, in []*tensor.Tensor, f func(x []*tensor.Tensor) []*tensor.Tensor) (v values, err error) {
	err = dev.Step(func(s *tensor.Scope) error {
		var x []*tensor.Tensor
		for _, t := range in {
			x = append(x, s.In(t))
		}
		for _, y := range f(x) {
			v = append(v, bits(y))
		}
		return nil
	})
	return v, err
}

func bits(y *tensor.Tensor) (v []uint64) {
	switch y.DType() {
	case tensor.Float32:
		for _, x := range tensor.ToSlice[float32](y) {
			if x != x {
				x = float32(math.NaN())
			}
			v = append(v, uint64(math.Float32bits(x)))
		}
	case tensor.Float64:
		for _, x := range tensor.ToSlice[float64](y) {
			if x != x {
				x = math.NaN()
			}
			v = append(v, math.Float64bits(x))
		}
	case tensor.Int64:
		for _, x := range tensor.ToSlice[int64](y) {
			v = append(v, uint64(x))
		}
	case tensor.Int32, tensor.Uint8:
		return bits(y.To(tensor.Int64))
	case tensor.Bool:
		for _, x := range tensor.ToSlice[bool](y) {
			if x {
				v = append(v, 1)
			} else {
				v = append(v, 0)
			}
		}
	case tensor.Float16, tensor.BFloat16:
		return bits(y.To(tensor.Float32))
	default:
		panic(fmt.Sprint("results of type ", y.DType()))
	}
	return v
}

// same fails unless both devices give the same bits.
func same(t *testing.T, cpu, gpu *tensor.Device, what string, in []*tensor.Tensor,
	f func(x []*tensor.Tensor) []*tensor.Tensor) {
	t.Helper()
	want, err := run(cpu, in, f)
	if err != nil {
		t.Errorf("%s on the CPU: %v", what, err)
		return
	}
	got, err := run(gpu, in, f)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	for k := range want {
		if len(got[k]) != len(want[k]) {
			t.Errorf("%s: result %d has %d elements, want %d", what, k, len(got[k]), len(want[k]))
			continue
		}
		for i, w := range want[k] {
			if got[k][i] != w {
				t.Errorf("%s: element %d of result %d is %#x (%v), want %#x (%v)", what, i, k,
					got[k][i], math.Float32frombits(uint32(got[k][i])), w, math.Float32frombits(uint32(w)))
				break
			}
		}
	}
}

func one(y *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{y} }

func TestAddSum(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, n := range []int{0, 1, 3, 4, 63, 64, 65, 1000, 16384, 16385, 50001} {
		in := []*tensor.Tensor{tensor.Uniform(tensor.Seed(1), -2, 2, n), tensor.Uniform(tensor.Seed(2), -2, 2, n)}
		same(t, cpu, gpu, fmt.Sprint("x + y and its sum, n = ", n), in, func(x []*tensor.Tensor) []*tensor.Tensor {
			z := x[0].Add(x[1])
			return []*tensor.Tensor{z, z.Sum()}
		})
	}
}

// data makes the operands of a sample.
func data(s seam.Sample[*tensor.Tensor]) []*tensor.Tensor {
	var in []*tensor.Tensor
	for k, a := range s.In {
		x := tensor.Uniform(tensor.Seed(uint64(k)+1), a.Lo, a.Hi, a.Shape...)
		if a.Values != nil {
			x = tensor.FromSlice(a.Values, a.Shape...).To(tensor.Float32)
		}
		in = append(in, x.To(a.DType))
	}
	return in
}

// elsewhere are the rows with operands but without samples, and where they are tested.
var elsewhere = map[string]string{
	"any": "TestReductions", "all": "TestReductions", "layer_norm_grad": "the samples of layer_norm",
	"rms_norm_grad": "the samples of rms_norm", "batch_norm_train": "TestBatchNorm of kernels/cpu",
	"batch_norm_train_grad": "TestBatchNorm of kernels/cpu",
}

// often are the expressions that small models use.
var often = []string{"add", "mul", "relu", "gelu", "where", "less", "dropout"}

// TestSamples: the samples of every operation and, where there are, their gradients for random ones of the
// results.
//
// In short mode a row has two samples: the first, and another that its name draws. Expressions are few there, because a
// compiler makes the kernels of each: TestPointwiseTypes of kernels/cuda has all their instructions, compiled at once.
func TestSamples(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, op := range engine.Ops() {
		all := engine.Samples(op)
		if (len(all) == 0) != (len(op.Args) == 0 && op.Expr != nil || elsewhere[op.Name] != "") {
			t.Errorf("%s has %d samples", op.Name, len(all))
		}
		if op.CPUOnly != "" || testing.Short() && op.Expr != nil && !slices.Contains(often, op.Name) {
			continue
		}
		h := fnv.New64a()
		h.Write([]byte(op.Name))
		drawn := 1 + int(h.Sum64()%uint64(max(1, len(all)-1)))
		for k, s := range all {
			if testing.Short() && k != 0 && k != drawn {
				continue
			}
			f := func(x []*tensor.Tensor) []*tensor.Tensor {
				var wanted []*tensor.Tensor
				for i := range x {
					if x[i].DType().IsFloat() {
						x[i] = autograd.Watch(x[i].Scope(), x[i])
						wanted = append(wanted, x[i])
					}
				}
				y := s.Call(x)
				if !y.NeedsGrad() {
					return one(y)
				}
				g := y.Scope().In(tensor.Uniform(tensor.Seed(100), -1, 1, y.Shape()...))
				return append(one(y), gradients(y.Mul(g).Sum(), wanted...)...)
			}
			what := fmt.Sprint(op.Name, " ", k, " ", s.Name)
			same(t, cpu, gpu, what, data(s), f)
		}
	}
}

// shapes are sizes around those at which kernels and canonical sums change their ways.
var shapes = [][]int{{3, 31}, {70, 33}, {1, 16385}, {1, 1}, {2, 65}, {2, 1025}, {2, 16385}}

// some is all cases, or in short mode the first n, which say most.
func some[T any](n int, all ...T) []T {
	if testing.Short() {
		return all[:n]
	}
	return all
}

// TestProdGrad: the gradient of products with and without zeros.
func TestProdGrad(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		for _, shape := range [][]int{{1, 1}, {3, 31}, {150, 5}, {2, 1025}} {
			x := tensor.Uniform(tensor.Seed(4), -2, 2, shape...)
			zeros := x.Mul(tensor.Uniform(tensor.Seed(5), -1, 3, shape...).ReLU())
			same(t, cpu, gpu, fmt.Sprint("gradient of prod of ", d, shape), []*tensor.Tensor{x.To(d), zeros.To(d)},
				func(x []*tensor.Tensor) []*tensor.Tensor {
					var all []*tensor.Tensor
					for _, v := range x {
						v = autograd.Watch(v.Scope(), v)
						all = append(all, gradients(v.Prod(1).Sum().Add(v.Transpose(0, 1).Prod(1).Sum()).Add(v.Prod()),
							v)...)
					}
					return all
				})
		}
	}
}

// TestReductions: reductions that only slow definitions compute on the CPU, of random shapes, along any axes in any
// order and with gaps: any and all of every type, and the gradient of prod with zeros here and there.
func TestReductions(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	floats := []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16}
	integers := []tensor.DType{tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool}
	count := 200
	if testing.Short() {
		count = 40 // 20 of them with gradients
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range count {
		shape := []int{1 + r.IntN(5), 1 + r.IntN(40), 1 + r.IntN(5), 1 + r.IntN(200)}[r.IntN(4):]
		order := r.Perm(len(shape))
		axes := r.Perm(len(shape))[:1+r.IntN(len(shape))]
		step := 1 + r.IntN(2)
		x := make([]float32, kernels.Count(shape))
		for k := range x {
			if r.IntN(100) > 0 {
				x[k] = float32(math.Exp(0.3 * r.NormFloat64()))
			}
		}
		d, whole := floats[i%4], integers[i/4%4]
		what := fmt.Sprint("reductions of ", d, shape, " in the order ", order, " along ", axes, " by steps of ", step)
		same(t, cpu, gpu, what, []*tensor.Tensor{tensor.FromSlice(x, shape...).To(d)},
			func(x []*tensor.Tensor) []*tensor.Tensor {
				leaf := autograd.Watch(x[0].Scope(), x[0])
				v := leaf.Permute(order...)
				v = v.Slice(0, 0, v.Shape()[0], step)
				w := v.To(whole)
				all := []*tensor.Tensor{v.Any(axes...), v.All(axes...), w.Any(axes...), w.All(axes...)}
				return append(all, gradients(v.Prod(axes...).Sum(), leaf)...)
			})
	}
}

// TestRows: operations along rows and columns, of contiguous and of transposed operands.
func TestRows(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for name, f := range map[string]func(x *tensor.Tensor, axis int) *tensor.Tensor{
		"sum": func(x *tensor.Tensor, axis int) *tensor.Tensor { return x.Sum(axis) },
		"sum_squares": func(x *tensor.Tensor, axis int) *tensor.Tensor {
			return x.SumSquares(x.Scope().Full(0.7, tensor.Float32), axis)
		},
		"mean":        func(x *tensor.Tensor, axis int) *tensor.Tensor { return x.Mean(axis) },
		"max":         func(x *tensor.Tensor, axis int) *tensor.Tensor { return x.Max(axis) },
		"min":         func(x *tensor.Tensor, axis int) *tensor.Tensor { return x.Min(axis) },
		"prod":        func(x *tensor.Tensor, axis int) *tensor.Tensor { return x.Prod(axis) },
		"logsumexp":   func(x *tensor.Tensor, axis int) *tensor.Tensor { return x.LogSumExp(axis) },
		"softmax":     (*tensor.Tensor).Softmax,
		"log_softmax": (*tensor.Tensor).LogSoftmax,
		"argmax":      func(x *tensor.Tensor, axis int) *tensor.Tensor { return x.ArgMax(axis) },
		"argmin":      func(x *tensor.Tensor, axis int) *tensor.Tensor { return x.ArgMin(axis) },
	} {
		for _, shape := range some(3, shapes...) {
			in := []*tensor.Tensor{tensor.Uniform(tensor.Seed(3), -2, 2, shape...)}
			for axis := range 2 {
				same(t, cpu, gpu, fmt.Sprint(name, " of ", shape, " along ", axis), in,
					func(x []*tensor.Tensor) []*tensor.Tensor {
						return []*tensor.Tensor{f(x[0], axis), f(x[0].Transpose(0, 1), axis),
							f(x[0].Unsqueeze(0).Expand(2, shape[0], shape[1]), 1+axis)}
					})
			}
		}
	}
}

// alongRows are operations whose gradients are fused.
var alongRows = map[string]func(x, w *tensor.Tensor) *tensor.Tensor{
	"softmax":     func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Softmax(-1) },
	"log_softmax": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.LogSoftmax(-1) },
	"layer_norm":  func(x, w *tensor.Tensor) *tensor.Tensor { return x.LayerNorm(w, w, 1e-5) },
	"rms_norm":    func(x, w *tensor.Tensor) *tensor.Tensor { return x.RMSNorm(w, 1e-5) },
	"no weight":   func(x, _ *tensor.Tensor) *tensor.Tensor { return x.LayerNorm(nil, nil, 1e-5) },
	"logsumexp":   func(x, _ *tensor.Tensor) *tensor.Tensor { return x.LogSumExp(-1).Unsqueeze(-1) },
	"var":         func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Var(1, -1).Unsqueeze(-1) },
	"max":         func(x, _ *tensor.Tensor) *tensor.Tensor { v, _ := x.MaxIndex(-1); return v.Unsqueeze(-1) },
	"cross_entropy": func(x, _ *tensor.Tensor) *tensor.Tensor {
		return nn.CrossEntropy(x, x.ArgMin(-1), nn.ReduceNone()).Unsqueeze(-1)
	},
}

// rowsAndGradients is an operation of x[0] and the weight x[1] with its gradients, of which x[2] is that of the result.
func rowsAndGradients(f func(x, w *tensor.Tensor) *tensor.Tensor) func(x []*tensor.Tensor) []*tensor.Tensor {
	return func(x []*tensor.Tensor) []*tensor.Tensor {
		a, w := autograd.Watch(x[0].Scope(), x[0]), autograd.Watch(x[1].Scope(), x[1])
		y := f(a, w)
		return append([]*tensor.Tensor{y}, gradients(y.Mul(x[2]).Sum(), a, w)...)
	}
}

// TestRowGradients: the gradients of what has fused ones.
func TestRowGradients(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for name, f := range alongRows {
		for _, shape := range some(3, append(shapes, []int{16500, 3})...) {
			in := []*tensor.Tensor{tensor.Uniform(tensor.Seed(3), -2, 2, shape...),
				tensor.Uniform(tensor.Seed(4), 0.5, 2, shape[1]),
				tensor.Uniform(tensor.Seed(5), -1, 1, shape...)}
			same(t, cpu, gpu, fmt.Sprint(name, " of ", shape), in, rowsAndGradients(f))
		}
	}
}

// TestFloat64RowGradients: the same on float64, for rows that a warp keeps, a block keeps, and none.
func TestFloat64RowGradients(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for name, f := range alongRows {
		for _, shape := range some(2, []int{67, 513}, []int{9, 512}, []int{3, 2048}, []int{2, 2049}, []int{1, 4097}) {
			in := []*tensor.Tensor{tensor.Uniform(tensor.Seed(3), -2, 2, shape...),
				tensor.Uniform(tensor.Seed(4), 0.5, 2, shape[1]),
				tensor.Uniform(tensor.Seed(5), -1, 1, shape...)}
			for i, x := range in {
				in[i] = x.To(tensor.Float64)
			}
			alike(t, cpu, gpu, fmt.Sprint(name, " of ", shape), 0x1p-46, in, rowsAndGradients(f))
		}
	}
}

// gradients are those of y for the tensors that it depends on.
func gradients(y *tensor.Tensor, x ...*tensor.Tensor) (g []*tensor.Tensor) {
	for _, d := range autograd.Grad(y, x, autograd.AllowUnused()) {
		if d != nil {
			g = append(g, d)
		}
	}
	return g
}

// TestCrossEntropy: losses and gradients, with ignored rows and smoothing, of several axes and index types.
func TestCrossEntropy(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, shape := range some(3, []int{64, 10}, []int{3, 2, 65}, []int{1, 16390}, []int{1, 1}, []int{5, 10},
		[]int{16500, 3}) {
		last := len(shape) - 1
		classes := shape[last]
		places := tensor.Uniform(tensor.Seed(9), -0.49, float64(classes)-0.51, shape[:last]...).Round().Abs()
		in := []*tensor.Tensor{tensor.Uniform(tensor.Seed(8), -4, 4, shape...), places.To(tensor.Int64)}
		for _, r := range []nn.LossOption{nn.ReduceMean(), nn.ReduceSum(), nn.ReduceNone()} {
			for _, smoothing := range []float64{0, 0.1} {
				what := fmt.Sprint("cross_entropy of ", shape, " reduction ", r, " smoothing ", smoothing)
				same(t, cpu, gpu, what, in, func(x []*tensor.Tensor) []*tensor.Tensor {
					a := autograd.Watch(x[0].Scope(), x[0])
					y := nn.CrossEntropy(a, x[1], nn.IgnoreIndex(0), nn.LabelSmoothing(smoothing), r)
					return append([]*tensor.Tensor{y}, gradients(y.Sum(), a)...)
				})
			}
		}
	}
}

// reductions are the operations along axes that integers and bools have.
var reductions = map[string]func(x *tensor.Tensor, axes ...int) *tensor.Tensor{
	"sum": (*tensor.Tensor).Sum, "mean": (*tensor.Tensor).Mean, "prod": (*tensor.Tensor).Prod,
	"max": (*tensor.Tensor).Max, "min": (*tensor.Tensor).Min, "any": (*tensor.Tensor).Any, "all": (*tensor.Tensor).All,
	"argmax": func(x *tensor.Tensor, axes ...int) *tensor.Tensor { return x.ArgMax(axes[0]) },
	"argmin": func(x *tensor.Tensor, axes ...int) *tensor.Tensor { return x.ArgMin(axes[0]) },
	"cumsum": func(x *tensor.Tensor, axes ...int) *tensor.Tensor { return x.CumSum(axes[0]) },
	"max_index": func(x *tensor.Tensor, axes ...int) *tensor.Tensor {
		v, i := x.MaxIndex(axes[0])
		return v.To(tensor.Int64).Scale(100000).Add(i)
	},
}

// TestIntegerReductions: rows, columns and everything, of integers and bools; any, all, argmax and argmin of every
// type.
func TestIntegerReductions(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	all := []tensor.DType{tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool, tensor.Float32, tensor.Float64,
		tensor.Float16, tensor.BFloat16}
	for _, shape := range some(2, []int{3, 37}, []int{70, 33}, []int{70, 40}, []int{1, 1}, []int{2, 16400}) {
		x := tensor.Uniform(tensor.Seed(3), -2, 2, shape...).Mul(tensor.Uniform(tensor.Seed(4), 0, 60,
			shape...)).Trunc()
		for _, d := range all {
			in := []*tensor.Tensor{x.Abs().To(d)}
			if d != tensor.Uint8 {
				in[0] = x.To(d)
			}
			for name, f := range reductions {
				if d.IsFloat() && name != "any" && name != "all" && !strings.HasPrefix(name, "arg") {
					continue
				}
				same(t, cpu, gpu, fmt.Sprint(name, " of ", d, " ", shape), in,
					func(x []*tensor.Tensor) []*tensor.Tensor {
						y := []*tensor.Tensor{f(x[0], 0), f(x[0], 1), f(x[0].Transpose(0, 1), 0)}
						switch name {
						case "argmax", "argmin", "max_index", "cumsum":
							return y
						}
						return append(y, f(x[0]), f(x[0].Slice(1, 0, shape[1], 2)))
					})
			}
		}
	}
}

// TestIntegerSamples: the samples of all structured operations on integers and bools, where an operation takes them.
func TestIntegerSamples(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, op := range engine.Ops() {
		if op.Kernel == "" || op.Compose != nil { // gradients are floating
			continue
		}
		for k, s := range engine.Samples(op) {
			f := func(x []*tensor.Tensor) []*tensor.Tensor { return one(s.Call(x)) }
			for _, d := range []tensor.DType{tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool} {
				in := data(s)
				for i, x := range in {
					if x.DType().IsFloat() {
						in[i] = x.To(d)
					}
				}
				if _, err := run(cpu, in, f); !errors.Is(err, tensor.ErrDType) {
					same(t, cpu, gpu, fmt.Sprint(op.Name, " ", k, " ", s.Name, " of ", d), in, f)
				}
			}
		}
	}
}

// TestFloat64Rows: the samples of all structured operations on float64. Sums have another order there, and functions
// are CUDA's own.
func TestFloat64Rows(t *testing.T) {
	cpu, gpu := open(t, "cpu"), open(t, "cuda")
	for _, op := range engine.Ops() {
		if op.Kernel == "" {
			continue
		}
		for k, s := range engine.Samples(op) {
			in := data(s)
			for i, x := range in {
				if x.DType() == tensor.Float32 {
					in[i] = x.To(tensor.Float64)
				}
			}
			bound := 0x1p-48
			if op.Name == "dft" { // errors are relative to the norm of a line, of up to 67 numbers
				bound *= 8
			}
			alike(t, cpu, gpu, fmt.Sprint(op.Name, " ", k, " ", s.Name), bound, in,
				func(x []*tensor.Tensor) []*tensor.Tensor { return one(s.Call(x)) })
		}
	}
}

// alike fails unless results on float64 differ by no more than the bound, relative above 1 and absolute below. Sums of
// a few terms of size 1 and functions are a few units of 2^-52 off.
func alike(t *testing.T, cpu, gpu *tensor.Device, what string, bound float64, in []*tensor.Tensor,
	f func(x []*tensor.Tensor) []*tensor.Tensor) {
	t.Helper()
	var results [2][][]float64
	for i, dev := range []*tensor.Device{cpu, gpu} {
		err := dev.Step(func(s *tensor.Scope) error {
			var x []*tensor.Tensor
			for _, v := range in {
				x = append(x, s.In(v))
			}
			for _, y := range f(x) {
				results[i] = append(results[i], tensor.ToSlice[float64](y.To(tensor.Float64)))
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s on %s: %v", what, dev.Name(), err)
		}
	}
	for k := range results[0] {
		for i, want := range results[0][k] {
			if got := results[1][k][i]; !(math.Abs(got-want) <= bound*max(1, math.Abs(want))) &&
				!(got != got && want != want) {
				t.Errorf("%s: element %d of result %d is %v, want %v", what, i, k, got, want)
				break
			}
		}
	}
}

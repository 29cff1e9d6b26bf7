package attack

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/fft"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

// functions are all exported functions; those with type parameters for some types.
var functions = map[string]any{
	"tensor.Engine": tensor.Engine, "tensor.Anomaly": tensor.Anomaly, "tensor.Arange": tensor.Arange,
	"tensor.Eye": tensor.Eye, "tensor.Zeros": tensor.Zeros,
	"tensor.FromSlice[float32]": tensor.FromSlice[float32], "tensor.FromSlice[int64]": tensor.FromSlice[int64],
	"tensor.FromSlice[bool]": tensor.FromSlice[bool], "tensor.Of[float64]": tensor.Of[float64],
	"tensor.Of[uint8]": tensor.Of[uint8], "tensor.Uniform": tensor.Uniform, "tensor.Randn": tensor.Randn,
	"tensor.ToSlice[float32]": tensor.ToSlice[float32], "tensor.ToSlice[int32]": tensor.ToSlice[int32],
	"tensor.Seed": tensor.Seed, "tensor.MemoryLimit": tensor.MemoryLimit, "tensor.Poison": tensor.Poison,
	"tensor.WarnWaits": tensor.WarnWaits, "tensor.Open": tensor.Open, "tensor.Cat": tensor.Cat,
	"tensor.Stack": tensor.Stack, "tensor.Pointwise": tensor.Pointwise, "tensor.MustPointwise": tensor.MustPointwise,
	"tensor.NewScalar": tensor.NewScalar, "tensor.NoGrad": tensor.NoGrad, "tensor.Inference": tensor.Inference,
	"tensor.RandomStream": tensor.RandomStream, "tensor.Linspace": tensor.Linspace, "tensor.Full": tensor.Full,
	"tensor.Ones": tensor.Ones, "tensor.At": tensor.At, "tensor.From": tensor.From, "tensor.Span": tensor.Span,
	"tensor.Wait": tensor.Wait, "tensor.FromNested": tensor.FromNested,

	"fft.FFT": fft.FFT, "fft.IFFT": fft.IFFT, "fft.RFFT": fft.RFFT, "fft.IRFFT": fft.IRFFT, "fft.Axes": fft.Axes,
	"fft.Size": fft.Size, "fft.Ortho": fft.Ortho, "fft.Forward": fft.Forward, "fft.Freq": fft.Freq,
	"fft.RealFreq": fft.RealFreq, "fft.Shift": fft.Shift, "fft.Unshift": fft.Unshift, "fft.Complex": fft.Complex,
	"fft.Real": fft.Real, "fft.Imag": fft.Imag, "fft.Conj": fft.Conj, "fft.Abs": fft.Abs, "fft.Angle": fft.Angle,
	"fft.Mul":      fft.Mul,
	"autograd.VJP": autograd.VJP, "autograd.JVP": autograd.JVP, "autograd.Jacobian": autograd.Jacobian,
	"autograd.Hessian": autograd.Hessian, "autograd.Vmap": autograd.Vmap,
	"autograd.Finite": autograd.Finite, "autograd.Watch": autograd.Watch,
	"nn.OnlyNew": nn.OnlyNew, "nn.Named": nn.Named, "nn.Freeze": nn.Freeze,
	"nn.Unfreeze": nn.Unfreeze, "nn.Clone": nn.Clone[nn.Module], "nn.CopyTo": nn.CopyTo, "nn.Tree": nn.Tree,
	"nn.Walk": nn.Walk, "nn.Parameters": nn.Parameters, "nn.Parameter": nn.Parameter, "nn.State": nn.State,
	"nn.ParameterOf": nn.ParameterOf, "nn.ClassWeights": nn.ClassWeights, "nn.PosWeight": nn.PosWeight,
	"nn.Weights": nn.Weights, "nn.IgnoreIndex": nn.IgnoreIndex, "nn.LabelSmoothing": nn.LabelSmoothing,
	"nn.ReduceMean": nn.ReduceMean, "nn.ReduceSum": nn.ReduceSum, "nn.ReduceNone": nn.ReduceNone,
	"autograd.Accumulate": autograd.Accumulate, "autograd.Retain": autograd.Retain,
	"autograd.CreateGraph": autograd.CreateGraph, "autograd.AllowUnused": autograd.AllowUnused,
	"autograd.GradOutput": autograd.GradOutput, "autograd.Only": autograd.Only, "autograd.Backward": autograd.Backward,
	"autograd.Grad": autograd.Grad, "autograd.Unused": autograd.Unused, "autograd.Hook": autograd.Hook,
	"autograd.Custom": autograd.Custom, "autograd.CustomIn": autograd.CustomIn,
	"autograd.Gradcheck": autograd.Gradcheck, "autograd.GradGradcheck": autograd.GradGradcheck,

	"nn.NewGPT": nn.NewGPT, "nn.DType": nn.DType, "nn.Init": nn.Init, "nn.Constant": nn.Constant,
	"nn.Uniform": nn.Uniform, "nn.Normal": nn.Normal, "nn.KaimingUniform": nn.KaimingUniform,
	"nn.KaimingNormal": nn.KaimingNormal, "nn.XavierUniform": nn.XavierUniform, "nn.XavierNormal": nn.XavierNormal,
	"nn.Orthogonal": nn.Orthogonal, "nn.NoBias": nn.NoBias, "nn.WeightInit": nn.WeightInit, "nn.Stride": nn.Stride, "nn.Padding": nn.Padding,
	"nn.Dilation":  nn.Dilation,
	"nn.NewLinear": nn.NewLinear, "nn.NewEmbedding": nn.NewEmbedding, "nn.NewLayerNorm": nn.NewLayerNorm,
	"nn.NewRMSNorm": nn.NewRMSNorm, "nn.NewDropout": nn.NewDropout, "nn.CrossEntropy": nn.CrossEntropy,
	"nn.NLL": nn.NLL,
	"nn.MSE": nn.MSE, "nn.L1": nn.L1, "nn.Huber": nn.Huber, "nn.BCE": nn.BCE, "nn.BCEWithLogits": nn.BCEWithLogits,
	"nn.KLDiv": nn.KLDiv, "nn.Call": nn.Call, "nn.Sequential": nn.Sequential,
	"nn.CountParameters": nn.CountParameters, "nn.Summary": nn.Summary, "nn.NewCausalAttention": nn.NewCausalAttention,
	"nn.NewMLP": nn.NewMLP, "nn.NewBlock": nn.NewBlock,

	"optim.AdamW": optim.AdamW, "optim.SGD": optim.SGD, "optim.Lion": optim.Lion, "optim.Betas": optim.Betas,
	"optim.Eps": optim.Eps, "optim.Momentum": optim.Momentum, "optim.Nesterov": optim.Nesterov,
	"optim.WeightDecay": optim.WeightDecay,
	"optim.NewEMA":      optim.NewEMA,
	"optim.Clip":        optim.Clip, "optim.NoDecay": optim.NoDecay, "optim.Vectors": optim.Vectors,
	"optim.New":       optim.New,
	"optim.Operation": optim.Operation, "optim.Hash": optim.Hash, "optim.WarmupCosine": optim.WarmupCosine,
	"optim.WarmupLinear": optim.WarmupLinear, "optim.Constant": optim.Constant,

	"amp.Autocast": amp.Autocast, "amp.NonFinite": amp.NonFinite, "amp.InitScale": amp.InitScale,
	"amp.Growth": amp.Growth, "amp.Backoff": amp.Backoff, "amp.MinScale": amp.MinScale, "amp.MaxSkips": amp.MaxSkips,
	"amp.Enabled": amp.Enabled, "amp.NewGradScaler": amp.NewGradScaler,

	"data.NewArrays[float32,int64]": data.NewArrays[float32, int64], "data.Digits": data.Digits,
	"data.MaxSize": data.MaxSize, "data.ReadIDX": data.ReadIDX, "data.DecodeIDX": data.DecodeIDX,
	"data.NewImages": data.NewImages, "data.MNIST": data.MNIST, "data.FashionMNIST": data.FashionMNIST,
	"data.ReadText": data.ReadText, "data.NewText": data.NewText,

	"train.Accuracy": train.Accuracy,
}

// types are all exported types with methods, as receivers.
var types = []reflect.Type{
	reflect.TypeFor[*tensor.Tensor](), reflect.TypeFor[*tensor.Scope](), reflect.TypeFor[*tensor.Device](),
	reflect.TypeOf(engine), reflect.TypeOf(engine.Raw).Out(0),
	reflect.TypeFor[*tensor.Scalar](), reflect.TypeFor[*tensor.Op](),
	reflect.TypeFor[tensor.DType](), reflect.TypeFor[tensor.BF16](), reflect.TypeFor[nn.Random](),
	reflect.TypeFor[*autograd.Ctx](),
	reflect.TypeFor[*nn.GPT](), reflect.TypeFor[*nn.Linear](), reflect.TypeFor[*nn.Embedding](),
	reflect.TypeFor[*nn.LayerNorm](), reflect.TypeFor[*nn.RMSNorm](), reflect.TypeFor[*nn.Dropout](),
	reflect.TypeFor[nn.Func](), reflect.TypeFor[*nn.Chain](), reflect.TypeFor[*nn.Report](),
	reflect.TypeFor[*nn.CausalAttention](), reflect.TypeFor[*nn.MLP](), reflect.TypeFor[*nn.Block](),
	reflect.TypeFor[*optim.Optimizer](), reflect.TypeFor[*optim.EMA](),
	reflect.TypeFor[tensor.Index](),
	reflect.TypeFor[*amp.GradScaler](),
	reflect.TypeFor[*data.Arrays[float32, int64]](), reflect.TypeFor[*data.FormatError](), reflect.TypeFor[*data.IDX](),
	reflect.TypeFor[*data.Images](), reflect.TypeFor[*data.Loader](), reflect.TypeFor[*data.Text](),
	reflect.TypeFor[*train.ConfusionMatrix](), reflect.TypeFor[*train.EarlyStopping](),
}

// A target is a function or method to call; the receiver is the first argument.
type target struct {
	name string
	f    reflect.Value
}

// targets are all functions and methods, in order of their names.
func targets() (all []target) {
	for name, f := range functions {
		all = append(all, target{name, reflect.ValueOf(f)})
	}
	for _, t := range types {
		for i := range t.NumMethod() {
			if name := typeName(t) + "." + t.Method(i).Name; !spared.MatchString(name) {
				all = append(all, target{name, t.Method(i).Func})
			}
		}
	}
	slices.SortFunc(all, func(a, b target) int { return strings.Compare(a.name, b.name) })
	return all
}

// typeName is the name of a type or of what it points to, without type arguments: "tensor.Tensor".
func typeName(t reflect.Type) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(t.String(), "*"), "[")
	return name
}

// spared is what is not attacked: what takes kernels, which have promises to keep, and what takes over the flags,
// signals and outputs of a program.
var spared = regexp.MustCompile(`^(tensor\.engine\.NewOp$|train\.(Main$|Run\.))`)

// TestAttackSurface: every exported function and method of the packages is among the targets.
func TestAttackSurface(t *testing.T) {
	attacked := map[string]bool{}
	for _, target := range targets() {
		name, _, _ := strings.Cut(target.name, "[")
		attacked[name] = true
	}
	n := 0
	for _, pkg := range []string{"tensor", "autograd", "nn", "optim", "amp", "fft", "data", "train"} {
		for _, name := range exported(t, filepath.Join("..", "..", "..", pkg)) {
			n++
			if !attacked[name] && !spared.MatchString(name) {
				t.Errorf("nothing attacks %s: it is missing in surface_test.go", name)
			}
		}
	}
	t.Logf("%d exported functions and methods, %d targets", n, len(targets()))
}

// exported are the exported functions, and exported methods of exported types, of the package in a folder.
func exported(t *testing.T, dir string) (names []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal("no files in", dir, err)
	}
	pkg := path.Base(filepath.ToSlash(dir))
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			name := pkg + "." + fn.Name.Name
			if fn.Recv != nil {
				receiver := receiverName(fn.Recv.List[0].Type)
				if !ast.IsExported(receiver) {
					continue
				}
				name = pkg + "." + receiver + "." + fn.Name.Name
			}
			names = append(names, name)
		}
	}
	return names
}

// receiverName is the name of the type in *T, T and T[X].
func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

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
	"sync"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/fft"
	"github.com/weft-ml/weft/linalg"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/profile"
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
	"tensor.Seed": tensor.Seed, "tensor.MemoryLimit": tensor.MemoryLimit[int], "tensor.Poison": tensor.Poison,
	"tensor.WarnWaits": tensor.WarnWaits, "tensor.Open": tensor.Open, "tensor.Cat": tensor.Cat,
	"tensor.Stack": tensor.Stack, "tensor.Pointwise": tensor.Pointwise, "tensor.MustPointwise": tensor.MustPointwise,
	"tensor.NewScalar": tensor.NewScalar, "tensor.NoGrad": tensor.NoGrad, "tensor.Inference": tensor.Inference,
	"tensor.RandomStream": tensor.RandomStream, "tensor.Linspace": tensor.Linspace, "tensor.Full": tensor.Full,
	"tensor.Ones": tensor.Ones, "tensor.At": tensor.At, "tensor.From": tensor.From, "tensor.Span": tensor.Span,
	"tensor.Wait": tensor.Wait, "tensor.FromNested": tensor.FromNested,

	"profile.Memory": profile.Memory, "profile.WarnLeaks": profile.WarnLeaks,
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
	"autograd.Checkpoint": autograd.Checkpoint, "autograd.CheckpointAll": autograd.CheckpointAll,
	"autograd.Offload": autograd.Offload,
	"autograd.Custom":  autograd.Custom, "autograd.CustomIn": autograd.CustomIn,
	"autograd.Gradcheck": autograd.Gradcheck, "autograd.GradGradcheck": autograd.GradGradcheck,

	"nn.NewGPT": nn.NewGPT, "nn.NewResNet": nn.NewResNet, "nn.NewBasicBlock": nn.NewBasicBlock,
	"nn.DType": nn.DType, "nn.Init": nn.Init, "nn.Constant": nn.Constant,
	"nn.Uniform": nn.Uniform, "nn.Normal": nn.Normal, "nn.KaimingUniform": nn.KaimingUniform,
	"nn.KaimingNormal": nn.KaimingNormal, "nn.XavierUniform": nn.XavierUniform, "nn.XavierNormal": nn.XavierNormal,
	"nn.Orthogonal": nn.Orthogonal, "nn.NoBias": nn.NoBias, "nn.WeightInit": nn.WeightInit, "nn.Stride": nn.Stride,
	"nn.Padding":  nn.Padding,
	"nn.Dilation": nn.Dilation, "nn.SamePadding": nn.SamePadding, "nn.Groups": nn.Groups,
	"nn.OutputPadding": nn.OutputPadding, "nn.NewConv1d": nn.NewConv1d, "nn.NewConv2d": nn.NewConv2d,
	"nn.NewConv3d": nn.NewConv3d, "nn.NewConvTranspose1d": nn.NewConvTranspose1d,
	"nn.NewConvTranspose2d": nn.NewConvTranspose2d, "nn.NewConvTranspose3d": nn.NewConvTranspose3d,

	"nn.CeilMode": nn.CeilMode, "nn.CountIncludePad": nn.CountIncludePad,
	"nn.DivisorOverride": nn.DivisorOverride, "nn.Size": nn.Size, "nn.ScaleFactor": nn.ScaleFactor, "nn.Mode": nn.Mode,
	"nn.AlignCorners": nn.AlignCorners, "nn.Antialias": nn.Antialias, "nn.Interpolate": nn.Interpolate,
	"nn.NewMaxPool1d": nn.NewMaxPool1d, "nn.NewMaxPool2d": nn.NewMaxPool2d, "nn.NewMaxPool3d": nn.NewMaxPool3d,
	"nn.NewAvgPool1d": nn.NewAvgPool1d, "nn.NewAvgPool2d": nn.NewAvgPool2d, "nn.NewAvgPool3d": nn.NewAvgPool3d,
	"nn.NewMaxUnpool1d": nn.NewMaxUnpool1d, "nn.NewMaxUnpool2d": nn.NewMaxUnpool2d,
	"nn.NewMaxUnpool3d": nn.NewMaxUnpool3d, "nn.NewAdaptiveAvgPool": nn.NewAdaptiveAvgPool,
	"nn.NewAdaptiveMaxPool": nn.NewAdaptiveMaxPool, "nn.NewLPPool1d": nn.NewLPPool1d, "nn.NewLPPool2d": nn.NewLPPool2d,
	"nn.NewLocalResponseNorm": nn.NewLocalResponseNorm, "nn.NewUpsample": nn.NewUpsample,
	"nn.NewPixelShuffle": nn.NewPixelShuffle, "nn.NewPixelUnshuffle": nn.NewPixelUnshuffle,
	"nn.NewUnflatten": nn.NewUnflatten, "nn.NewPad": nn.NewPad, "nn.NewUnfold": nn.NewUnfold, "nn.NewFold": nn.NewFold,

	"nn.NewLinear": nn.NewLinear, "nn.NewEmbedding": nn.NewEmbedding, "nn.NewLayerNorm": nn.NewLayerNorm,

	"nn.NewEmbeddingBag": nn.NewEmbeddingBag, "nn.PaddingIndex": nn.PaddingIndex,
	"nn.NewRMSNorm": nn.NewRMSNorm, "nn.NewDropout": nn.NewDropout, "nn.CrossEntropy": nn.CrossEntropy,
	"nn.NLL": nn.NLL,
	"nn.MSE": nn.MSE, "nn.L1": nn.L1, "nn.Huber": nn.Huber,
	"nn.BCE": nn.BCE, "nn.BCEWithLogits": nn.BCEWithLogits,
	"nn.KLDiv": nn.KLDiv, "nn.Call": nn.Call, "nn.Sequential": nn.Sequential,
	"nn.CountParameters": nn.CountParameters, "nn.Summary": nn.Summary,
	"nn.NewCausalAttention": nn.NewCausalAttention,
	"nn.NewPReLU":           nn.NewPReLU, "nn.NewLeakyReLU": nn.NewLeakyReLU, "nn.NewRReLU": nn.NewRReLU,
	"nn.NewELU": nn.NewELU, "nn.NewCELU": nn.NewCELU, "nn.NewHardtanh": nn.NewHardtanh,
	"nn.NewHardshrink": nn.NewHardshrink, "nn.NewSoftshrink": nn.NewSoftshrink,
	"nn.NewThreshold": nn.NewThreshold,
	"nn.NewGLU":       nn.NewGLU, "nn.NewSoftmax": nn.NewSoftmax, "nn.NewSoftmin": nn.NewSoftmin,
	"nn.NewLogSoftmax": nn.NewLogSoftmax, "nn.Margin": nn.Margin, "nn.Degree": nn.Degree,
	"nn.LossEps": nn.LossEps, "nn.ClassAxis": nn.ClassAxis, "nn.Full": nn.Full,
	"nn.LogTarget": nn.LogTarget, "nn.NoLogInput": nn.NoLogInput, "nn.Swap": nn.Swap,
	"nn.Distance": nn.Distance, "nn.Blank": nn.Blank, "nn.ZeroInfinity": nn.ZeroInfinity,
	"nn.SmoothL1": nn.SmoothL1, "nn.PoissonNLL": nn.PoissonNLL, "nn.GaussianNLL": nn.GaussianNLL,
	"nn.SigmoidFocal": nn.SigmoidFocal, "nn.CosineEmbedding": nn.CosineEmbedding,
	"nn.HingeEmbedding": nn.HingeEmbedding,
	"nn.MarginRanking":  nn.MarginRanking, "nn.MultiMargin": nn.MultiMargin,
	"nn.MultiLabelMargin":     nn.MultiLabelMargin,
	"nn.MultiLabelSoftMargin": nn.MultiLabelSoftMargin, "nn.SoftMargin": nn.SoftMargin,
	"nn.TripletMargin": nn.TripletMargin,
	"nn.CTC":           nn.CTC,
	"nn.NewMLP":        nn.NewMLP, "nn.NewBlock": nn.NewBlock,

	"linalg.Solve": linalg.Solve, "linalg.SolveTriangular": linalg.SolveTriangular,
	"linalg.CholeskySolve": linalg.CholeskySolve, "linalg.Inv": linalg.Inv, "linalg.Pinv": linalg.Pinv,
	"linalg.Lstsq": linalg.Lstsq, "linalg.Det": linalg.Det, "linalg.Slogdet": linalg.Slogdet,
	"linalg.Cholesky": linalg.Cholesky, "linalg.QR": linalg.QR, "linalg.Eigh": linalg.Eigh, "linalg.SVD": linalg.SVD,
	"linalg.MatrixRank": linalg.MatrixRank, "linalg.MatrixNorm": linalg.MatrixNorm, "linalg.RTol": linalg.RTol,
	"linalg.Einsum": linalg.Einsum, "linalg.Tensordot": linalg.Tensordot, "linalg.Outer": linalg.Outer,
	"linalg.Kron": linalg.Kron,

	"nn.Eps": nn.Eps, "nn.Momentum": nn.Momentum, "nn.CumulativeAverage": nn.CumulativeAverage,
	"nn.Affine": nn.Affine, "nn.TrackRunningStats": nn.TrackRunningStats, "nn.NewBatchNorm1d": nn.NewBatchNorm1d,
	"nn.NewBatchNorm2d": nn.NewBatchNorm2d, "nn.NewBatchNorm3d": nn.NewBatchNorm3d,
	"nn.NewInstanceNorm1d": nn.NewInstanceNorm1d, "nn.NewInstanceNorm2d": nn.NewInstanceNorm2d,
	"nn.NewInstanceNorm3d": nn.NewInstanceNorm3d, "nn.NewGroupNorm": nn.NewGroupNorm,
	"nn.Layers": nn.Layers, "nn.Bidirectional": nn.Bidirectional, "nn.BatchFirst": nn.BatchFirst,
	"nn.DropoutRate": nn.DropoutRate, "nn.Projection": nn.Projection, "nn.WithReLU": nn.WithReLU,
	"nn.NewRNN": nn.NewRNN, "nn.NewLSTM": nn.NewLSTM, "nn.NewGRU": nn.NewGRU, "nn.NewRNNCell": nn.NewRNNCell,
	"nn.NewLSTMCell": nn.NewLSTMCell, "nn.NewGRUCell": nn.NewGRUCell,
	"nn.Normalize": nn.Normalize, "nn.NewWeightNorm": nn.NewWeightNorm, "nn.NewSpectralNorm": nn.NewSpectralNorm,
	"nn.NormAxis": nn.NormAxis, "nn.PowerIterations": nn.PowerIterations,
	"nn.ALiBi": nn.ALiBi, "nn.Causal": nn.Causal,
	"nn.ScaledDotProductAttention": nn.ScaledDotProductAttention, "nn.Window": nn.Window, "nn.Position": nn.Position,
	"nn.Mask": nn.Mask, "nn.KeyPadding": nn.KeyPadding, "nn.ScoreScale": nn.ScoreScale,
	"nn.AttentionDropout": nn.AttentionDropout, "nn.Cached": nn.Cached, "nn.KeyWidth": nn.KeyWidth,
	"nn.ValueWidth": nn.ValueWidth, "nn.Hidden": nn.Hidden,
	"nn.Activation": nn.Activation, "nn.NormFirst": nn.NormFirst, "nn.NewRotaryEmbedding": nn.NewRotaryEmbedding,
	"nn.NewMultiheadAttention":      nn.NewMultiheadAttention,
	"nn.NewTransformerEncoderLayer": nn.NewTransformerEncoderLayer,
	"nn.NewTransformerDecoderLayer": nn.NewTransformerDecoderLayer,
	"nn.NewTransformerEncoder":      nn.NewTransformerEncoder,
	"nn.NewTransformerDecoder":      nn.NewTransformerDecoder,

	"optim.AdamW": optim.AdamW, "optim.SGD": optim.SGD, "optim.Lion": optim.Lion, "optim.Betas": optim.Betas,
	"optim.Eps": optim.Eps, "optim.Momentum": optim.Momentum, "optim.Nesterov": optim.Nesterov,
	"optim.WeightDecay": optim.WeightDecay,
	"optim.NewEMA":      optim.NewEMA,
	"optim.Clip":        optim.Clip, "optim.NoDecay": optim.NoDecay, "optim.Vectors": optim.Vectors,
	"optim.New":       optim.New,
	"optim.Operation": optim.Operation, "optim.Hash": optim.Hash, "optim.WarmupCosine": optim.WarmupCosine,
	"optim.WarmupLinear": optim.WarmupLinear, "optim.Constant": optim.Constant,
	"optim.NewLBFGS": optim.NewLBFGS, "optim.MaxIter": optim.MaxIter, "optim.MaxEval": optim.MaxEval,
	"optim.Tolerances": optim.Tolerances, "optim.HistorySize": optim.HistorySize,
	"optim.StrongWolfe": optim.StrongWolfe,
	"optim.LAMB":        optim.LAMB, "optim.Adafactor": optim.Adafactor, "optim.Muon": optim.Muon,
	"optim.Beta2Decay": optim.Beta2Decay, "optim.ScaleEps": optim.ScaleEps, "optim.UpdateClip": optim.UpdateClip,
	"optim.ClipValue": optim.ClipValue, "optim.Group": optim.Group, "optim.NewLookahead": optim.NewLookahead,
	"optim.Adam": optim.Adam, "optim.NAdam": optim.NAdam, "optim.RAdam": optim.RAdam, "optim.Adamax": optim.Adamax,
	"optim.RMSprop": optim.RMSprop, "optim.Adagrad": optim.Adagrad, "optim.Adadelta": optim.Adadelta,
	"optim.Rprop": optim.Rprop, "optim.AMSGrad": optim.AMSGrad, "optim.MomentumDecay": optim.MomentumDecay,
	"optim.Alpha": optim.Alpha, "optim.Centered": optim.Centered, "optim.Rho": optim.Rho,
	"optim.LRDecay": optim.LRDecay, "optim.InitialAccumulator": optim.InitialAccumulator, "optim.Etas": optim.Etas,
	"optim.StepSizes": optim.StepSizes, "optim.StepLR": optim.StepLR, "optim.MultiStepLR": optim.MultiStepLR,
	"optim.ExponentialLR": optim.ExponentialLR, "optim.ConstantLR": optim.ConstantLR, "optim.LinearLR": optim.LinearLR,
	"optim.PolynomialLR": optim.PolynomialLR, "optim.CosineAnnealingLR": optim.CosineAnnealingLR,
	"optim.CosineAnnealingWarmRestarts": optim.CosineAnnealingWarmRestarts, "optim.OneCycleLR": optim.OneCycleLR,
	"optim.CyclicLR": optim.CyclicLR, "optim.SequentialLR": optim.SequentialLR,
	"optim.ChainedScheduler": optim.ChainedScheduler, "optim.PctStart": optim.PctStart,
	"optim.DivFactors": optim.DivFactors, "optim.AnnealLinear": optim.AnnealLinear,
	"optim.ThreePhase": optim.ThreePhase, "optim.Triangular2": optim.Triangular2, "optim.ExpRange": optim.ExpRange,

	"amp.Autocast": amp.Autocast, "amp.NonFinite": amp.NonFinite, "amp.InitScale": amp.InitScale,
	"amp.Growth": amp.Growth, "amp.Backoff": amp.Backoff, "amp.MinScale": amp.MinScale, "amp.MaxSkips": amp.MaxSkips,
	"amp.Enabled": amp.Enabled, "amp.NewGradScaler": amp.NewGradScaler,

	"data.NewArrays[float32,int64]": data.NewArrays[float32, int64], "data.Digits": data.Digits,
	"data.MaxSize": data.MaxSize, "data.ReadIDX": data.ReadIDX, "data.DecodeIDX": data.DecodeIDX,
	"data.NewImages": data.NewImages, "data.MNIST": data.MNIST, "data.FashionMNIST": data.FashionMNIST,
	"data.ReadText": data.ReadText, "data.OpenCSV[[]string]": data.OpenCSV[[]string],
	"data.OpenJSONL[int]": data.OpenJSONL[int], "data.Comma": data.Comma, "data.NoHeader": data.NoHeader,
	"data.NewText":     data.NewText,
	"data.ImageFolder": data.ImageFolder, "data.DecodePicture": data.DecodePicture, "data.MaxPixels": data.MaxPixels,
	"data.PictureBatch": data.PictureBatch, "data.OpenNPY[float32]": data.OpenNPY[float32],
	"data.OpenNPZ[int64]": data.OpenNPZ[int64], "data.OpenTokens": data.OpenTokens, "data.Tokens32": data.Tokens32,
	"data.TokenBatch": data.TokenBatch, "data.OpenTar": data.OpenTar, "data.OpenTFRecord": data.OpenTFRecord,
	"data.ParseTFExample": data.ParseTFExample, "data.NoIndex": data.NoIndex,
	"data.From[int]": data.From[int], "data.FromStream[int]": data.FromStream[int],
	"data.Map[int,int]": data.Map[int, int],
	"data.Filter[int]":  data.Filter[int],
	"data.Shuffle[int]": data.Shuffle[int], "data.ShuffleBlocks[int]": data.ShuffleBlocks[int],
	"data.Repeat[int]": data.Repeat[int], "data.Take[int]": data.Take[int], "data.Skip[int]": data.Skip[int],
	"data.Concat[int]": data.Concat[int], "data.Zip[int,int]": data.Zip[int, int],
	"data.Interleave[int]": data.Interleave[int], "data.Cache[int]": data.Cache[int],
	"data.CacheOnDisk[int]": data.CacheOnDisk[int],
	"data.Batches[int,int]": data.Batches[int, int], "data.CheckPure[int]": data.CheckPure[int],
	"data.Epochs": data.Epochs, "data.DropLast": data.DropLast, "data.Workers": data.Workers,
	"data.Prefetch": data.Prefetch, "data.Tolerate": data.Tolerate,
	"data.MemoryBudget": data.MemoryBudget, "data.Rank": data.Rank, "data.On": data.On,
	"data.FillLast[int]":           data.FillLast[int],
	"data.BucketByLength[int,int]": data.BucketByLength[int, int], "data.Pack[int]": data.Pack[int],
	"data.NextTokens[int]": data.NextTokens[int], "data.Pad[float32]": data.Pad[float32],

	"train.Fit": train.Fit, "train.FitCheckpoints": train.FitCheckpoints,
	"train.Halve": train.Halve, "train.Accuracy": train.Accuracy,
}

// types are all exported types with methods, as receivers.
var types = []reflect.Type{
	reflect.TypeFor[*tensor.Tensor](), reflect.TypeFor[*tensor.Scope](), reflect.TypeFor[*tensor.Device](),
	reflect.TypeOf(engine), reflect.TypeOf(engine.Raw).Out(0),
	reflect.TypeFor[*tensor.Scalar](), reflect.TypeFor[*tensor.Op](),
	reflect.TypeFor[tensor.DType](), reflect.TypeFor[tensor.BF16](), reflect.TypeFor[nn.Random](),
	reflect.TypeFor[*autograd.Ctx](),
	reflect.TypeFor[*nn.GPT](), reflect.TypeFor[*nn.ResNet](), reflect.TypeFor[*nn.BasicBlock](),
	reflect.TypeFor[*nn.Linear](), reflect.TypeFor[*nn.Embedding](),
	reflect.TypeFor[*nn.EmbeddingBag](),
	reflect.TypeFor[*nn.WeightNorm](), reflect.TypeFor[*nn.SpectralNorm](),
	reflect.TypeFor[*nn.BatchNorm](), reflect.TypeFor[*nn.InstanceNorm](), reflect.TypeFor[*nn.GroupNorm](),
	reflect.TypeFor[*nn.Recurrent](), reflect.TypeFor[*nn.RecurrentCell](),
	reflect.TypeFor[*nn.LayerNorm](), reflect.TypeFor[*nn.RMSNorm](), reflect.TypeFor[*nn.Dropout](),
	reflect.TypeFor[*nn.MaxPool](), reflect.TypeFor[*nn.MaxUnpool](), reflect.TypeFor[*nn.AvgPool](),
	reflect.TypeFor[*nn.AdaptiveAvgPool](), reflect.TypeFor[*nn.AdaptiveMaxPool](), reflect.TypeFor[*nn.LPPool](),
	reflect.TypeFor[*nn.LocalResponseNorm](), reflect.TypeFor[*nn.Upsample](), reflect.TypeFor[*nn.PixelShuffle](),
	reflect.TypeFor[*nn.PixelUnshuffle](), reflect.TypeFor[*nn.Unflatten](), reflect.TypeFor[*nn.Pad](),
	reflect.TypeFor[*nn.Unfold](), reflect.TypeFor[*nn.Fold](),
	reflect.TypeFor[*nn.PReLU](), reflect.TypeFor[*nn.LeakyReLU](), reflect.TypeFor[*nn.RReLU](),
	reflect.TypeFor[*nn.ELU](), reflect.TypeFor[*nn.CELU](), reflect.TypeFor[*nn.Hardtanh](),
	reflect.TypeFor[*nn.Hardshrink](), reflect.TypeFor[*nn.Softshrink](), reflect.TypeFor[*nn.Threshold](),
	reflect.TypeFor[*nn.GLU](), reflect.TypeFor[*nn.Softmax](), reflect.TypeFor[*nn.Softmin](),
	reflect.TypeFor[*nn.LogSoftmax](),
	reflect.TypeFor[nn.Func](), reflect.TypeFor[*nn.Chain](), reflect.TypeFor[*nn.Report](),
	reflect.TypeFor[*nn.CausalAttention](), reflect.TypeFor[*nn.MLP](), reflect.TypeFor[*nn.Block](),
	reflect.TypeFor[*nn.Conv1d](), reflect.TypeFor[*nn.Conv2d](), reflect.TypeFor[*nn.Conv3d](),
	reflect.TypeFor[*nn.ConvTranspose1d](), reflect.TypeFor[*nn.ConvTranspose2d](),
	reflect.TypeFor[*nn.ConvTranspose3d](),
	reflect.TypeFor[*nn.MultiheadAttention](), reflect.TypeFor[*nn.TransformerEncoderLayer](),
	reflect.TypeFor[*nn.TransformerDecoderLayer](), reflect.TypeFor[*nn.TransformerEncoder](),
	reflect.TypeFor[*nn.TransformerDecoder](), reflect.TypeFor[*nn.RotaryEmbedding](), reflect.TypeFor[*nn.KVCache](),
	reflect.TypeFor[*optim.Optimizer](), reflect.TypeFor[*optim.EMA](),
	reflect.TypeFor[*optim.ReduceLROnPlateau](), reflect.TypeFor[*optim.Lookahead](),
	reflect.TypeFor[optim.Whole](), reflect.TypeFor[*optim.LBFGS](),
	reflect.TypeFor[tensor.Index](),
	reflect.TypeFor[*amp.GradScaler](),
	reflect.TypeFor[*data.Arrays[float32, int64]](), reflect.TypeFor[*data.FormatError](), reflect.TypeFor[*data.IDX](),
	reflect.TypeFor[*data.Images](), reflect.TypeFor[*data.Loader](), reflect.TypeFor[*data.Text](),
	reflect.TypeFor[data.Slice[int]](), reflect.TypeFor[*data.Rows[int]](),
	reflect.TypeFor[data.Picture](), reflect.TypeFor[*data.Pictures](), reflect.TypeFor[*data.Array[float32]](),
	reflect.TypeFor[*data.Tokens](), reflect.TypeFor[*data.Tar](), reflect.TypeFor[*data.TFRecord](),
	reflect.TypeFor[*data.Batched[int]](), reflect.TypeFor[*data.Iterator[int]](),
	reflect.TypeFor[data.Report](), reflect.TypeFor[data.Sequences](),
	reflect.TypeFor[*profile.MemoryProfile](),
	reflect.TypeFor[*train.ConfusionMatrix](), reflect.TypeFor[*train.EarlyStopping](),
}

// A target is a function or method to call; the receiver is the first argument.
type target struct {
	name string
	f    reflect.Value
}

// targets are all functions and methods, in order of their names.
var targets = sync.OnceValue(func() (all []target) {
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
})

// typeName is the name of a type or of what it points to, without type arguments: "tensor.Tensor".
func typeName(t reflect.Type) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(t.String(), "*"), "[")
	return name
}

// spared is what is not attacked: what takes kernels, which have promises to keep, what takes over the flags, signals
// and outputs of a program, and what changes how files are read from then on.
var spared = regexp.MustCompile(`^(tensor\.engine\.NewOp$|train\.(Main$|Run\.)|data\.RegisterCompression$)`)

// TestAttackSurface: every exported function and method of the packages is among the targets.
func TestAttackSurface(t *testing.T) {
	attacked := map[string]bool{}
	for _, target := range targets() {
		name, _, _ := strings.Cut(target.name, "[")
		attacked[name] = true
	}
	n := 0
	for _, pkg := range []string{"tensor", "autograd", "linalg", "fft", "nn", "optim", "amp", "data", "train",
		"profile"} {
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

// Package tensor has tensors and their operations, and the devices and steps in which they run.
//
//	dev, err := tensor.Open("auto", tensor.Seed(42)) // a GPU if there is one, else the CPU
//	err = dev.Step(func(s *tensor.Scope) error {
//		x := s.In(batch)        // host data into the step
//		y := x.MatMul(w).GELU() // operations are methods; nothing is freed by hand
//		...
//	})
//
// # Steps
//
// Work happens in a step of a [Device]. [Device.Step] trains: operations are recorded for differentiation (package
// autograd), and dropout is on. [Device.Eval] does neither. For a part of a step [Scope.With] takes the same options:
// [NoGrad] turns recording off and leaves training behaviour as it is, [Inference] turns both off.
//
// Host data and parameters join the step of the operand that they meet; where they meet none, as the first operand of
// a model or a parameter used alone, [Scope.In] takes them in.
//
// Misuse inside a step, such as shapes that do not fit, comes back from the step as an [*Error] with the operation, the
// sizes, the caller's line and the layer; a step that fails changes nothing. Outside a step it panics with the same
// value. Memory made in a step returns to the device when the step ends; [Tensor.Keep] takes a tensor out.
//
// # Methods of Tensor
//
// Form: [Tensor.Shape], [Tensor.Rank], [Tensor.Dim], [Tensor.Len], [Tensor.DType], [Tensor.Device],
// [Tensor.IsContiguous].
//
// Values on the host: [Tensor.Item], [Tensor.Fetch], [Tensor.String], [Tensor.Format], [Tensor.AllClose],
// [Tensor.AllEqual]; also [ToSlice].
//
// Type, place and life: [Tensor.To], [Tensor.Clone], [Tensor.Contiguous], [Tensor.Keep], [Tensor.Detach],
// [Tensor.Scope].
//
// Parameters and gradients: [Tensor.Grad], [Tensor.ClearGrads], [Tensor.OnGrad], [Tensor.NeedsGrad],
// [Tensor.SetNeedsGrad], [Tensor.Trainable], [Tensor.Name], [Tensor.Origin], [Tensor.Assign].
//
// Views, which share memory: [Tensor.Reshape], [Tensor.Flatten], [Tensor.Unflatten], [Tensor.Squeeze],
// [Tensor.Unsqueeze], [Tensor.Permute], [Tensor.Transpose], [Tensor.T], [Tensor.Expand], [Tensor.Slice],
// [Tensor.Select], [Tensor.Index], [Tensor.Split], [Tensor.Chunk], [Tensor.Diagonal], [Tensor.Meshgrid],
// [Tensor.Unfold].
//
// Moving elements: [Tensor.Flip], [Tensor.Roll], [Tensor.Pad], [Tensor.PadReflect], [Tensor.PadReplicate],
// [Tensor.PadCircular], [Tensor.Tril], [Tensor.Triu], [Tensor.DiagEmbed], [Tensor.Tile], [Tensor.RepeatInterleave],
// [Tensor.PixelShuffle], [Tensor.PixelUnshuffle]; also [Cat] and [Stack].
//
// By indices: [Tensor.Embedding], [Tensor.Gather], [Tensor.IndexSelect], [Tensor.IndexBy], [Tensor.IndexAdd],
// [Tensor.IndexPut], [Tensor.Scatter], [Tensor.ScatterAdd], [Tensor.ScatterReduce], [Tensor.OneHot].
//
// Order: [Tensor.Sort], [Tensor.ArgSort], [Tensor.TopK], [Tensor.KthValue], [Tensor.Median], [Tensor.Quantile],
// [Tensor.SearchSorted].
//
// What depends on the data in number, and waits for it: [Tensor.Nonzero], [Tensor.MaskedSelect], [Tensor.Unique],
// [Tensor.BinCount]; also [Tensor.Histc] without bounds.
//
// Arithmetic: [Tensor.Add], [Tensor.Sub], [Tensor.Mul], [Tensor.Div], [Tensor.FloorDiv], [Tensor.Mod], [Tensor.Fmod],
// [Tensor.Pow], [Tensor.Maximum], [Tensor.Minimum], [Tensor.Hypot], [Tensor.Atan2], [Tensor.Lerp],
// [Tensor.LogAddExp], [Tensor.XLogY], [Tensor.FMax], [Tensor.FMin], [Tensor.CopySign], [Tensor.AddCMul],
// [Tensor.AddCDiv], [Tensor.NextAfter].
//
// Arithmetic with a number: [Tensor.AddScalar], [Tensor.SubFrom], [Tensor.Scale], [Tensor.ScaleBy], [Tensor.DivInto],
// [Tensor.PowScalar], [Tensor.Clamp], [Tensor.LerpScalar], [Tensor.NaNToNum], [Tensor.Rad2Deg], [Tensor.Deg2Rad].
//
// Functions: [Tensor.Neg], [Tensor.Abs], [Tensor.Sign], [Tensor.Square], [Tensor.Sqrt], [Tensor.Rsqrt],
// [Tensor.Reciprocal], [Tensor.Exp], [Tensor.Exp2], [Tensor.Expm1], [Tensor.Log], [Tensor.Log2], [Tensor.Log10],
// [Tensor.Log1p], [Tensor.Logit], [Tensor.Sin], [Tensor.Cos], [Tensor.Tan], [Tensor.Asin], [Tensor.Acos],
// [Tensor.Atan], [Tensor.Sinh], [Tensor.Cosh], [Tensor.Tanh], [Tensor.Asinh], [Tensor.Acosh], [Tensor.Atanh],
// [Tensor.Erf], [Tensor.Erfc], [Tensor.NormCDF], [Tensor.NormPDF], [Tensor.Floor], [Tensor.Ceil], [Tensor.Round],
// [Tensor.Trunc], [Tensor.Frac], [Tensor.ErfInv], [Tensor.LGamma], [Tensor.Digamma], [Tensor.Sinc],
// and those that [Pointwise] makes: [Tensor.Apply].
//
// Comparisons and logic: [Tensor.Equal], [Tensor.NotEqual], [Tensor.Less], [Tensor.LessEqual], [Tensor.Greater],
// [Tensor.GreaterEqual], [Tensor.EqualScalar], [Tensor.NotEqualScalar], [Tensor.LessScalar],
// [Tensor.LessEqualScalar], [Tensor.GreaterScalar], [Tensor.GreaterEqualScalar], [Tensor.And], [Tensor.Or],
// [Tensor.Xor], [Tensor.Not], [Tensor.IsNaN], [Tensor.IsInf], [Tensor.IsFinite], [Tensor.IsClose],
// [Tensor.SignBit], [Tensor.Heaviside], [Tensor.Where], [Tensor.MaskedFill].
//
// Bits of integers: [Tensor.BitAnd], [Tensor.BitOr], [Tensor.BitXor], [Tensor.BitNot], [Tensor.ShiftLeft],
// [Tensor.ShiftRight].
//
// Reductions, and running ones: [Tensor.Sum], [Tensor.SumTo], [Tensor.SumSquares], [Tensor.Mean], [Tensor.Var],
// [Tensor.Std], [Tensor.Prod], [Tensor.Max], [Tensor.Min], [Tensor.MaxIndex], [Tensor.MinIndex], [Tensor.ArgMax],
// [Tensor.ArgMin], [Tensor.All], [Tensor.Any], [Tensor.CountNonzero], [Tensor.LogSumExp], [Tensor.Trace],
// [Tensor.CumSum], [Tensor.CumProd], [Tensor.CumMax], [Tensor.CumMin], [Tensor.LogCumSumExp],
// [Tensor.Norm], [Tensor.CosineSimilarity], [Tensor.PairwiseDistance], [Tensor.Cdist], [Tensor.Renorm],
// [Tensor.NaNSum], [Tensor.NaNMean], [Tensor.AMinMax], [Tensor.VarMean], [Tensor.StdMean].
//
// Activations: [Tensor.ReLU], [Tensor.ReLU6], [Tensor.LeakyReLU], [Tensor.GELU], [Tensor.GELUTanh], [Tensor.SiLU],
// [Tensor.Sigmoid], [Tensor.LogSigmoid], [Tensor.Softplus], [Tensor.Softsign], [Tensor.Softshrink],
// [Tensor.Hardshrink], [Tensor.Hardsigmoid], [Tensor.Hardswish], [Tensor.Hardtanh], [Tensor.Tanhshrink],
// [Tensor.ELU], [Tensor.CELU], [Tensor.SELU], [Tensor.Mish], [Tensor.Dropout], [Tensor.HardtanhWithin],
// [Tensor.SoftplusBeta], [Tensor.Threshold], [Tensor.PReLU], [Tensor.RReLU], [Tensor.GLU], [Tensor.SwiGLU],
// [Tensor.GEGLU].
//
// Layers and losses (package nn has them as modules and with options): [Tensor.MatMul], [Tensor.Linear],
// [Tensor.Conv], [Tensor.ConvTranspose], [Tensor.LayerNorm], [Tensor.RMSNorm], [Tensor.AddLayerNorm],
// [Tensor.AddRMSNorm], [Tensor.Softmax], [Tensor.LogSoftmax], [Tensor.Attention], [Tensor.MaskedAttention],
// [Tensor.AttentionPacked], [Tensor.CrossEntropy], [Tensor.BinaryCrossEntropy], [Tensor.CTC].
//
// Windows of images and sequences: [Tensor.MaxPool], [Tensor.MaxPoolIndices], [Tensor.AdaptiveMaxPool],
// [Tensor.AdaptiveMaxPoolIndices], [Tensor.AvgPool], [Tensor.AdaptiveAvgPool], [Tensor.Resample],
// [Tensor.MaxUnpool], [Tensor.Fold], [Tensor.Im2Col], [Tensor.Col2Im].
//
// docs/OPS.md lists all operations with their formulas; docs/MAP.md says what the files of this package have.
package tensor

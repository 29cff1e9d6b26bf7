package onnx

// outside are operators that Weft does not have, with why.
var outside = map[string]string{
	"Loop": control, "Scan": control,
	"ConvInteger": quantised, "DequantizeLinear": quantised, "DynamicQuantizeLinear": quantised,
	"MatMulInteger": quantised, "QLinearConv": quantised, "QLinearMatMul": quantised, "QuantizeLinear": quantised,
	"GridSample": vision, "NonMaxSuppression": vision, "RoiAlign": vision,
	"MelWeightMatrix": audio, "STFT": audio,
	"TfIdfVectorizer": "counts words",
	"Bernoulli":       numpy, "RandomUniformLike": numpy,

	"AveragePool": later, "BatchNormalization": later, "BitShift": later, "Conv": later, "ConvTranspose": later,
	"DFT": later, "Det": later, "Einsum": later, "GRU": later, "InstanceNormalization": later, "LRN": later,
	"LSTM": later, "MaxPool": later, "MaxUnpool": later, "NonZero": later, "RNN": later, "Resize": later,
	"Scatter": later, "ScatterElements": later, "ScatterND": later, "TopK": later, "Unique": later, "Upsample": later,
}

const (
	audio     = "made for audio"
	control   = "control flow"
	later     = "not yet"
	numpy     = "the result depends on NumPy's random numbers"
	quantised = "quantised"
	training  = "optimizers as operators"
	vision    = "made for detection in images"
)

// left are tests that are left out for a reason of their own.
var left = map[string]string{
	"test_training_dropout": numpy, "test_training_dropout_default": numpy,
	"test_training_dropout_default_mask": numpy, "test_training_dropout_mask": numpy,
	"test_edge_pad": later, "test_reflect_pad": later,
}

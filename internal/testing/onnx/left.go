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
}

const (
	audio     = "made for audio"
	control   = "control flow"
	filter    = "positions or filters of resizing that PyTorch does not have"
	numpy     = "the result depends on NumPy's random numbers"
	quantised = "quantised"
	training  = "optimizers as operators"
	vision    = "made for detection in images"
)

// left are tests that are left out for a reason of their own.
var left = map[string]string{
	"test_training_dropout": numpy, "test_training_dropout_default": numpy,
	"test_training_dropout_default_mask": numpy, "test_training_dropout_mask": numpy,
	"test_lstm_with_peepholes":                                   "peepholes",
	"test_maxpool_2d_uint8":                                      "max pooling of integers",
	"test_resize_downsample_scales_cubic_A_n0p5_exclude_outside": filter,
	"test_resize_upsample_scales_cubic_A_n0p5_exclude_outside":   filter,
	"test_resize_downsample_scales_cubic_align_corners":          filter,
	"test_resize_downsample_scales_linear_align_corners":         filter,
	"test_resize_downsample_sizes_linear_pytorch_half_pixel":     filter,
	"test_resize_tf_crop_and_resize":                             filter,
	"test_resize_upsample_scales_cubic_asymmetric":               filter,
}

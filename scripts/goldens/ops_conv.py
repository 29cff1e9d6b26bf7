"""Goldens of convolutions: ops_conv.json.gz.

Attributes are PyTorch's: stride, padding, dilation, groups, output_padding.

Run: /usr/bin/python3 scripts/goldens/ops_conv.py
"""

import torch
from torch.nn import functional as F

from cases import *

CONV = [F.conv1d, F.conv2d, F.conv3d]
TRANSPOSE = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d]


def conv(x, weight, bias=None, **attrs):
    return CONV[weight.dim() - 3](x, weight, bias, **attrs)


def conv_transpose(x, weight, bias=None, **attrs):
    return TRANSPOSE[weight.dim() - 3](x, weight, bias, **attrs)


# name, x, weight, whether there is a bias, attributes
CONVOLUTIONS = [
    ("1d", [2, 3, 7], [4, 3, 3], True, {}),
    ("1d-all", [2, 4, 11], [6, 2, 3], True, {"stride": [2], "padding": [3], "dilation": [2], "groups": [2]}),
    ("1d-same", [1, 2, 6], [3, 2, 4], True, {"padding": "same"}),
    ("1d-same-dilated", [1, 2, 7], [3, 2, 2], False, {"padding": "same", "dilation": [3]}),
    ("1d-valid", [1, 2, 6], [3, 2, 4], False, {"padding": "valid"}),
    ("1d-one-image", [2, 5], [3, 2, 2], True, {}),
    ("2d", [2, 3, 6, 5], [4, 3, 3, 3], True, {}),
    ("2d-padding", [2, 3, 5, 4], [2, 3, 3, 2], False, {"padding": [1, 2]}),
    ("2d-stride", [1, 2, 7, 8], [3, 2, 3, 2], True, {"stride": [2, 3]}),
    ("2d-stride-above-window", [1, 2, 7, 8], [3, 2, 1, 2], True, {"stride": [3, 4], "padding": [1, 0]}),
    ("2d-dilation", [1, 2, 7, 8], [3, 2, 3, 2], True, {"dilation": [2, 3]}),
    ("2d-all", [2, 4, 9, 8], [4, 2, 3, 2], True, {"stride": [2, 1], "padding": [2, 1], "dilation": [1, 3], "groups": 2}),
    ("2d-same", [1, 2, 5, 6], [3, 2, 3, 4], True, {"padding": "same"}),
    ("2d-depthwise", [2, 3, 5, 6], [3, 1, 3, 3], True, {"padding": [1, 1], "groups": 3}),
    ("2d-multiplier", [1, 2, 5, 6], [6, 1, 2, 3], False, {"stride": [2, 2], "groups": 2}),
    ("2d-1x1", [2, 3, 3, 4], [5, 3, 1, 1], True, {}),
    ("2d-one-image", [2, 4, 5], [3, 2, 2, 3], True, {"padding": [1, 1]}),
    ("2d-padding-above-window", [1, 1, 2, 3], [2, 1, 2, 2], True, {"padding": [3, 4]}),
    ("3d", [1, 2, 4, 3, 5], [3, 2, 2, 2, 3], True, {}),
    ("3d-all", [1, 2, 5, 4, 6], [4, 1, 2, 3, 2],
     True, {"stride": [2, 1, 3], "padding": [1, 1, 0], "dilation": [2, 1, 1], "groups": 2}),
    ("edge-no-images", [0, 2, 5], [3, 2, 2], True, {}),
    ("edge-whole", [1, 2, 3, 4], [2, 2, 3, 4], True, {}),
]

TRANSPOSED = [
    ("1d", [2, 3, 5], [3, 4, 3], True, {}),
    ("1d-all", [2, 4, 5], [4, 3, 3], True,
     {"stride": [3], "padding": [2], "output_padding": [1], "dilation": [2], "groups": 2}),
    ("1d-one-image", [3, 5], [3, 2, 2], True, {"stride": [2]}),
    ("1d-output-padding-by-dilation", [1, 2, 4], [2, 2, 2], True, {"dilation": [3], "output_padding": [2]}),
    ("2d", [1, 3, 4, 3], [3, 2, 3, 2], True, {}),
    ("2d-stride-2", [2, 2, 3, 4], [2, 3, 4, 4], True, {"stride": [2, 2], "padding": [1, 1]}),
    ("2d-gaps", [1, 2, 3, 2], [2, 2, 2, 1], True, {"stride": [3, 3]}),
    ("2d-all", [1, 4, 3, 4], [4, 2, 3, 2], False,
     {"stride": [2, 3], "padding": [1, 2], "output_padding": [1, 2], "dilation": [1, 2], "groups": 2}),
    ("2d-depthwise", [2, 3, 3, 4], [3, 1, 3, 3], True, {"stride": [2, 1], "padding": [1, 1], "groups": 3}),
    ("3d", [1, 2, 2, 3, 2], [2, 3, 2, 2, 3], True, {"stride": [2, 1, 2], "padding": [0, 1, 1]}),
]

for kind, fn, table in [("conv", conv, CONVOLUTIONS), ("conv_transpose", conv_transpose, TRANSPOSED)]:
    for name, x, weight, bias, attrs in table:
        seed(f"{kind}/{name}")
        inputs = [randn(*x), randn(*weight)]
        if bias:
            channels = weight[0] if kind == "conv" else weight[1] * attrs.get("groups", 1)
            inputs.append(randn(channels))
        attrs = dict(attrs)
        if isinstance(attrs.get("groups"), list):
            attrs["groups"] = attrs["groups"][0]
        case(f"{kind}/{name}", fn, inputs, attrs)

seed("conv/nonfinite")
x = randn(1, 2, 6, 5)
x[0, 0, 1, 2], x[0, 1, 4, 4], x[0, 0, 5, 0] = INF, NAN, -INF
case("conv/nonfinite", conv, [x, randn(2, 2, 2, 3)])

OUT.write("ops_conv.json.gz")

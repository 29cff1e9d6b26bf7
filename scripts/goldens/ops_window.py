"""Goldens of poolings, resizing, padding and windows: ops_window.json.gz. See cases.py.

Run: /usr/bin/python3 scripts/goldens/ops_window.py
"""

import itertools

import torch
from torch.nn import functional as F

from cases import *

POOL = [F.max_pool1d, F.max_pool2d, F.max_pool3d]
AVG = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d]
ADAPTIVE_MAX = [F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d]
ADAPTIVE_AVG = [F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d]
UNPOOL = [F.max_unpool1d, F.max_unpool2d, F.max_unpool3d]


def max_pool(x, kernel_size, **options):
    return POOL[len(kernel_size) - 1](x, kernel_size, return_indices=True, **options)


def avg_pool(x, kernel_size, **options):
    return AVG[len(kernel_size) - 1](x, kernel_size, **options)


def adaptive_max_pool(x, output_size):
    return ADAPTIVE_MAX[len(output_size) - 1](x, output_size, return_indices=True)


def adaptive_avg_pool(x, output_size):
    return ADAPTIVE_AVG[len(output_size) - 1](x, output_size)


def max_unpool(x, indices, kernel_size, output_size, **options):
    return UNPOOL[len(kernel_size) - 1](x, indices, kernel_size, output_size=output_size, **options)


# (shape, kernel, stride, padding, dilation, ceil)
WINDOWS = [
    ((2, 1, 9), [3], None, [0], [1], False),
    ((2, 1, 8), [3], [2], [1], [1], True),
    ((1, 1, 11), [3], [2], [1], [3], False),
    ((1, 2, 5, 6), [2, 2], None, [0, 0], [1, 1], False),
    ((1, 1, 7, 6), [3, 3], [2, 2], [1, 1], [1, 1], False),
    ((1, 1, 7, 6), [3, 3], [2, 2], [1, 1], [1, 1], True),
    ((1, 1, 6, 7), [2, 3], [1, 2], [1, 0], [2, 1], False),
    ((1, 1, 4, 5, 3), [2, 3, 1], [1, 2, 1], [1, 1, 0], [1, 1, 1], False),
    ((1, 1, 5, 4, 5), [3, 2, 2], [2, 2, 2], [1, 0, 1], [1, 2, 1], True),
]


def pooling_cases():
    for i, (shape, kernel, stride, padding, dilation, ceil) in enumerate(WINDOWS):
        attrs = {"kernel_size": kernel, "padding": padding, "ceil_mode": ceil}
        if stride is not None:
            attrs["stride"] = stride
        seed(f"pool {i}")
        x = randn(*shape)
        case(f"max_pool/{i}", max_pool, [x], {**attrs, "dilation": dilation})
        case(f"max_pool/f32 {i}", max_pool, [x.float()], {**attrs, "dilation": dilation})
        for include in (True, False):
            case(f"avg_pool/{i} {include}", avg_pool, [x], {**attrs, "count_include_pad": include})
        if i in (4, 5, 8):
            case(f"avg_pool/divisor {i}", avg_pool, [x], {**attrs, "divisor_override": 5})
        y, indices = max_pool(x, **attrs)
        if stride is None:
            case(f"max_unpool/{i}", max_unpool, [y, indices], {"kernel_size": kernel, "output_size": list(shape)[2:]})
    for i, (shape, sizes) in enumerate([((2, 2, 7), [3]), ((1, 2, 3), [5]), ((2, 1, 5, 7), [3, 4]), ((1, 2, 4, 4), [1, 1]),
                                        ((1, 1, 3, 5, 4), [2, 3, 5])]):
        seed(f"adaptive {i}")
        x = randn(*shape)
        case(f"adaptive_max_pool/{i}", adaptive_max_pool, [x], {"output_size": sizes})
        case(f"adaptive_avg_pool/{i}", adaptive_avg_pool, [x], {"output_size": sizes})

    ties = f64([[1, 1, 0, 1, 1], [0, -0.0, 0, 1, -0.0], [-INF, -INF, -INF, -INF, -INF], [-INF, 2, 2, -INF, -0.0]])
    windows = {"kernel_size": [2, 2], "stride": [1, 1], "padding": [1, 1]}
    case("max_pool/edge ties", max_pool, [ties[None]], windows)
    strange = f64([[NAN, 1, INF, NAN], [2, NAN, -INF, INF], [-INF, -INF, 3, NAN]])
    case("max_pool/nonfinite", max_pool, [strange[None]], windows)
    case("max_pool/nonfinite f32", max_pool, [strange[None].float()], windows)
    case("max_pool/nonfinite rows", max_pool, [strange[None]], {"kernel_size": [3, 4], "stride": [1, 1]})
    case("adaptive_max_pool/nonfinite", adaptive_max_pool, [strange[None]], {"output_size": [2, 2]})
    case("avg_pool/nonfinite", avg_pool, [strange[None]], {"kernel_size": [2, 2]})
    case("adaptive_avg_pool/nonfinite", adaptive_avg_pool, [strange[None]], {"output_size": [2, 2]})
    case("max_pool/edge empty", max_pool, [torch.zeros(0, 2, 4, 4).double()], {"kernel_size": [2, 2]})
    case("avg_pool/edge empty", avg_pool, [torch.zeros(0, 2, 4, 4).double()], {"kernel_size": [2, 2]})
    case("avg_pool/edge huge", avg_pool, [f64([[[3e38, 3e38], [-3e38, 1e-30]]])], {"kernel_size": [1, 2]})


def interpolate(x, **options):
    return F.interpolate(x, **options)


def resize_cases():
    modes = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}
    sizes = {1: [[3], [5], [9], [14]], 2: [[3, 4], [7, 9], [1, 5]], 3: [[2, 4, 2]]}
    shapes = {1: (1, 1, 7), 2: (1, 1, 5, 6), 3: (1, 1, 3, 2, 3)}
    for axes in shapes:
        seed(f"interpolate {axes}")
        x = randn(*shapes[axes])
        for size in sizes[axes]:
            for mode in ["nearest", "nearest-exact", "area"]:
                case(f"interpolate/{mode} {size}", interpolate, [x], {"size": size, "mode": mode})
            for mode, align in itertools.product(modes[axes], [False, True]):
                attrs = {"size": size, "mode": mode, "align_corners": align}
                case(f"interpolate/{mode} {size} {align}", interpolate, [x], attrs)
                if axes == 2:
                    case(f"interpolate/{mode} antialias {size} {align}", interpolate, [x], {**attrs, "antialias": True})
        for scale in ([0.6] * axes, [1.7] * axes):
            for mode in ["nearest", "nearest-exact", "area"]:
                case(f"interpolate/{axes} {mode} x{scale[0]}", interpolate, [x], {"scale_factor": scale, "mode": mode})
            for mode, align in itertools.product(modes[axes], [False, True]):
                attrs = {"scale_factor": scale, "mode": mode, "align_corners": align}
                case(f"interpolate/{mode} x{scale[0]} {align}", interpolate, [x], attrs)
        if axes == 2:
            case("interpolate/bilinear f32", interpolate, [x.float()], {"size": [8, 3], "mode": "bilinear"})
            case("interpolate/bicubic f32", interpolate, [x.float()], {"size": [8, 3], "mode": "bicubic"})
    strange = f64([[[NAN, 1, INF, -0.0, -INF]]])
    for mode in ["nearest", "linear"]:
        case(f"interpolate/nonfinite {mode}", interpolate, [strange], {"size": [8], "mode": mode})
    two = f64([[[1, 2]]])  # positions are rounded: 41 * float32(2/82) is below 1, 49 * (2/98) as float32 is not
    case("interpolate/edge nearest f32", interpolate, [two.float()], {"size": [82], "mode": "nearest"})
    case("interpolate/edge nearest", interpolate, [two], {"size": [98], "mode": "nearest"})
    case("interpolate/edge empty", interpolate, [torch.zeros(0, 1, 4).double()], {"size": [3], "mode": "nearest"})


def pad(x, pads, mode, **options):
    return F.pad(x, pads, mode=mode, **options)


def pad_cases():
    seed("pad window")
    x3, x4, x5 = randn(2, 3, 5), randn(1, 2, 4, 5), randn(1, 1, 3, 4, 3)
    for mode in ["reflect", "replicate", "circular"]:
        for x, pads in [(x3, [2, 1]), (x3, [0, 3]), (x4, [1, 2, 3, 0]), (x4, [3, 1, 1, 2]), (x5, [1, 2, 2, 1, 2, 0])]:
            case(f"pad_mode/{mode} {pads}", pad, [x], {"pads": pads, "mode": mode})
    for pads in ([-1, 2], [-1, -2], [1, 1, -1, 0], [0, -5]):
        case(f"pad_mode/constant {pads}", pad, [x3], {"pads": pads, "mode": "constant", "value": 1.5})
    case("pad_mode/replicate crop", pad, [x4], {"pads": [-1, 2, 1, -2], "mode": "replicate"})
    case("pad_mode/int", pad, [torch.arange(6).reshape(2, 3)], {"pads": [-1, 2], "mode": "constant", "value": 7})
    case("pad_mode/edge replicate", pad, [f64([[[NAN, -0.0, INF]]])], {"pads": [2, 1], "mode": "replicate"})


def pixel_shuffle(x, factor):
    return F.pixel_shuffle(x, factor)


def pixel_unshuffle(x, factor):
    return F.pixel_unshuffle(x, factor)


def unfold(x, axis, size, step):
    return x.unfold(axis, size, step)


def im2col(x, **options):
    return F.unfold(x, **options)


def col2im(x, **options):
    return F.fold(x, **options)


def local_response_norm(x, size, alpha, beta, k):
    return F.local_response_norm(x, size, alpha, beta, k)


def lp_pool(x, p, kernel_size, **options):
    return [F.lp_pool1d, F.lp_pool2d][len(kernel_size) - 1](x, p, kernel_size[0], **options)


def other_cases():
    seed("windows")
    case("pixel_shuffle/2", pixel_shuffle, [randn(1, 8, 2, 3)], {"factor": 2})
    case("pixel_shuffle/3 no batch", pixel_shuffle, [randn(9, 1, 2)], {"factor": 3})
    case("pixel_unshuffle/2", pixel_unshuffle, [randn(1, 2, 4, 6)], {"factor": 2})
    for axis, size, step in ((0, 2, 1), (1, 3, 2), (-1, 4, 1), (1, 7, 3)):
        case(f"unfold/{axis} {size} {step}", unfold, [randn(2, 7, 4)], {"axis": axis, "size": size, "step": step})
    for i, (kernel, stride, padding, dilation) in enumerate(
        [([2, 2], [1, 1], [0, 0], [1, 1]), ([2, 3], [2, 1], [1, 1], [1, 1]), ([3, 2], [2, 2], [2, 0], [1, 3])]
    ):
        attrs = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        x = randn(1, 2, 5, 6)
        case(f"im2col/{i}", im2col, [x], attrs)
        columns = randn(*F.unfold(x, **attrs).shape)
        case(f"col2im/{i}", col2im, [columns], {"output_size": [5, 6], **attrs})
    for size in (1, 2, 5, 8):
        case(f"local_response_norm/{size}", local_response_norm, [randn(2, 5, 3)],
             {"size": size, "alpha": 0.7, "beta": 0.6, "k": 1.5})
    case("local_response_norm/images", local_response_norm, [randn(1, 4, 2, 3)],
         {"size": 3, "alpha": 1e-2, "beta": 0.75, "k": 1.0})
    case("lp_pool/1", lp_pool, [randn(2, 2, 7)], {"p": 2.0, "kernel_size": [3], "stride": 2, "ceil_mode": True})
    case("lp_pool/2", lp_pool, [uniform(0.1, 2, 1, 2, 6, 5)], {"p": 3.0, "kernel_size": [2, 2]})


pooling_cases()
resize_cases()
pad_cases()
other_cases()
OUT.write("ops_window.json.gz")

"""Goldens of pointwise operations and reductions that ops.py lacks: ops_special.json.gz.

Run: /usr/bin/python3 scripts/goldens/ops_special.py
"""

import torch
from torch.nn import functional as F

from cases import *

# Unary functions: (name, function, attributes, random range, arguments at edges).
POLES = [0.0, -0.0, 0.5, -0.5, 1.0, 1.5, 2.0, 2.5, 7.5, 8.0, 10.0, -0.25, -1.5, -2.75, -7.25, 1e-9, -1e-9, 100.0, 1e5]
INSIDE = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 0.25, -0.75, 1 - 2.0**-10, 2.0**-17 - 1, 1e-9, 1e-20, 1.5, -2.0]
UNARY = [
    ("erfinv", torch.erfinv, {}, (-0.95, 0.95), INSIDE),
    ("lgamma", torch.lgamma, {}, (0.1, 12), POLES),
    ("lgamma", torch.lgamma, {}, (-3.9, -3.1), POLES[:1]),
    ("digamma", torch.digamma, {}, (0.1, 12), POLES),
    ("digamma", torch.digamma, {}, (-3.9, -3.1), POLES[:1]),
    ("sinc", torch.sinc, {}, (-4, 4), EDGE + [1e-3, 0.08, 0.24, 0.26]),
    ("threshold", F.threshold, {"threshold": 0.5, "value": -3.0}, (-3, 3), EDGE),
    ("softplus_beta", F.softplus, {"beta": 2.0, "threshold": 5.0}, (-6, 6), EDGE),
    ("softplus_beta", F.softplus, {"beta": 0.5, "threshold": 20.0}, (-6, 6), EDGE + [39.0, 40.0, 41.0, -2000.0]),
    ("hardtanh_within", F.hardtanh, {"min_val": -0.5, "max_val": 2.0}, (-3, 3), EDGE),
    ("nan_to_num", torch.nan_to_num, {}, (-3, 3), EDGE),
    ("nan_to_num", torch.nan_to_num, {"nan": 1.5}, (-3, 3), EDGE),
    ("nan_to_num", torch.nan_to_num, {"nan": 1.5, "posinf": 7.0, "neginf": -9.0}, (-3, 3), EDGE),
    ("rad2deg", torch.rad2deg, {}, (-7, 7), EDGE),
    ("deg2rad", torch.deg2rad, {}, (-400, 400), EDGE),
    ("signbit", torch.signbit, {}, (-3, 3), EDGE),
]


def unary_cases():
    for op, fn, attrs, (low, high), edge in UNARY:
        tail = "".join(f" {k}={v}" for k, v in attrs.items()) + f" {low}"
        seed(f"{op}{tail}")
        case(f"{op}/random{tail}", fn, [uniform(low, high, 3, 7)], attrs)
        case(f"{op}/edge{tail}", fn, [f64(edge)], attrs)
        odd = NONFINITE[:2] if op == "signbit" else NONFINITE  # NaN has a sign in PyTorch
        if op != "nan_to_num" or "posinf" in attrs:  # else the result depends on the type
            case(f"{op}/nonfinite{tail}", fn, [f64(odd)], attrs)
    for op, fn, points in (
        ("erfinv", torch.erfinv, torch.cat([torch.linspace(-0.999, 0.999, 41), 1 - 2.0 ** -torch.arange(2, 24)])),
        ("lgamma", torch.lgamma, torch.cat([torch.linspace(0.01, 12, 61), torch.logspace(-30, 30, 31)])),
        ("digamma", torch.digamma, torch.cat([torch.linspace(0.01, 12, 61), torch.logspace(-30, 30, 31)])),
        ("sinc", torch.sinc, torch.linspace(-0.9, 0.9, 41)),
    ):
        case(f"{op}/f32", fn, [points.float()], grad=False, exact=True)
    for op, fn in (("lgamma", torch.lgamma), ("threshold", lambda x: F.threshold(x, 0.5, -3.0))):
        attrs = {"threshold": 0.5, "value": -3.0} if op == "threshold" else {}
        case(f"{op}/edge empty", lambda x, **_: fn(x), [f64([]).reshape(0, 3)], attrs)
        case(f"{op}/edge rank 0", lambda x, **_: fn(x), [f64(0.75)], attrs)
    case("signbit/int", torch.signbit, [i64([-3, 0, 7])])
    case("rad2deg/int", torch.rad2deg, [i64([-3, 0, 7])])


def binary_cases():
    pairs = [0.0, -0.0, 1.0, -1.0, 2.0, -3.0]
    columns = lambda v: [f64(v).repeat_interleave(len(v)), f64(v).repeat(len(v))]
    for op, fn in (("fmax", torch.fmax), ("fmin", torch.fmin), ("copysign", torch.copysign)):
        for left, right in (([2, 5], [2, 5]), ([4, 1, 3], [5, 1]), ([], [3])):
            seed(f"{op}{left}{right}")
            case(f"{op}/{left} {right}", fn, [randn(*left), randn(*right)])
        case(f"{op}/edge", fn, columns(pairs))
        odd = columns([0.0, 1.0, -2.0, INF, -INF, NAN])
        if op == "copysign":
            odd = [x[~torch.isnan(odd[1])] for x in odd]  # NaN has a sign in PyTorch
        case(f"{op}/nonfinite", fn, odd)
        case(f"{op}/int", fn, [i64([1, -2, 3]), i64([-4, 5, 0])])
    case("nextafter/edge", torch.nextafter, columns(pairs + [NAN]), grad=False)
    single = [x.float() for x in columns(pairs + [1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, INF, -INF, NAN])]
    case("nextafter/f32", torch.nextafter, single, grad=False)
    case("heaviside/edge", torch.heaviside, columns(pairs), grad=False)
    case("heaviside/nonfinite", torch.heaviside, columns([0.0, 2.0, INF, -INF, NAN]), grad=False)
    isclose = lambda x, y, rtol, atol: torch.isclose(x, y, rtol, atol)
    near = [0.0, 1e-9, 1e-7, 1.0, 1.000009, 1.00002, -1.0]
    case("isclose/edge", isclose, columns(near), {"rtol": 1e-5, "atol": 1e-8}, grad=False)
    case("isclose/edge wide", isclose, columns([0.0, 0.5, 1.0, 1.5, -0.5]), {"rtol": 0.0, "atol": 1.0}, grad=False)
    case("isclose/nonfinite", isclose, columns([0.0, INF, -INF, NAN]), {"rtol": 1.0, "atol": 1e-8}, grad=False)
    case("isclose/int", isclose, [i64([1, 2, 1000]), i64([1, 3, 1001])], {"rtol": 0.0, "atol": 1.0}, grad=False)

    for op, fn in (("addcmul", torch.addcmul), ("addcdiv", torch.addcdiv)):
        seed(op)
        call = lambda x, a, b, value: fn(x, a, b, value=value)
        case(f"{op}/[2,3]", call, [randn(2, 3), randn(2, 3), uniform(0.5, 2, 2, 3)], {"value": 1.0})
        case(f"{op}/broadcast", call, [randn(4, 1, 3), randn(5, 1), uniform(0.5, 2, 1)], {"value": -0.5})
        case(f"{op}/nonfinite", call, [f64([1, INF, 1, 0]), f64([INF, 1, NAN, 1]), f64([2, -INF, 1, 0])], {"value": 2.0})
    case("addcmul/int", lambda x, a, b, value: torch.addcmul(x, a, b, value=value),
         [i64([1, 2]), i64([3, -4]), i64([5, 6])], {"value": 2})
    seed("lerp_scalar")
    lerp = lambda x, y, w: torch.lerp(x, y, w)
    for w in (0.0, 0.25, 0.75, 1.0, 1.5):
        case(f"lerp_scalar/{w}", lerp, [randn(2, 3), randn(2, 3)], {"w": w})


def activation_cases():
    seed("prelu")
    prelu = lambda x, w: F.prelu(x, w)
    case("prelu/one", prelu, [randn(2, 3), f64([0.25])])
    case("prelu/channels", prelu, [randn(2, 3), f64([0.25, -1, 0])])
    case("prelu/images", prelu, [randn(2, 3, 2, 2), f64([0.25, -1, 0.5])])
    case("prelu/images one", prelu, [randn(2, 3, 2), f64([0.25])])
    case("prelu/rank 1", prelu, [randn(5), f64([0.25])])
    case("prelu/edge", prelu, [f64(EDGE), f64([0.25])])
    case("prelu/nonfinite", prelu, [f64(NONFINITE), f64([0.25])])
    case("prelu/edge empty", prelu, [f64([]).reshape(0, 3), f64([1, 2, 3])])
    for axis in (0, 1, -1):
        seed(f"glu{axis}")
        case(f"glu/{axis}", lambda x, axis: F.glu(x, axis), [randn(4, 6, 2)], {"axis": axis})
    case("glu/edge empty", lambda x, axis: F.glu(x, axis), [f64([]).reshape(3, 0)], {"axis": 1})
    case("glu/edge", lambda x, axis: F.glu(x, axis), [f64([1, -2, 800, -800, 0, 1000])], {"axis": 0})
    seed("gates")
    case("swiglu/[3,4]", lambda gate, x: F.silu(gate) * x, [randn(3, 4), randn(3, 4)])
    case("geglu/[3,4]", lambda gate, x: F.gelu(gate) * x, [randn(3, 4), randn(3, 4)])
    case("swiglu/broadcast", lambda gate, x: F.silu(gate) * x, [randn(3, 4), randn(4)])


def norm(x, p, axes=None, keepdim=False):
    return torch.linalg.vector_norm(x, p, axes, keepdim)


ORDERS = [2.0, 1.0, 0.0, INF, -INF, 3.0, 0.5, -1.5]


def reduction_cases():
    rows = f64([[3, 4, 0], [0, 0, 0], [-2, 2, 1], [1e-9, 0, 0], [2, -2, 2]])
    for p in ORDERS:
        seed(f"norm{p}")
        x = randn(3, 4, 2)
        for attrs in ({}, {"axes": [1]}, {"axes": [0, 2], "keepdim": True}, {"axes": [-1]}):
            case(f"norm/{p} {attrs}", norm, [x], {"p": p, **attrs})
        if p > 0:
            case(f"norm/edge {p}", norm, [rows], {"p": p, "axes": [1]})
        case(f"norm/edge rank 0 {p}", norm, [f64(-2.5)], {"p": p})
        if 0 <= p < INF:
            case(f"norm/edge empty {p}", norm, [f64([]).reshape(2, 0)], {"p": p, "axes": [1]})
    for p in (2.0, 1.0, INF):
        case(f"norm/nonfinite {p}", norm, [f64([[1, INF], [NAN, 2], [-INF, 1]])], {"p": p, "axes": [1]}, grad=False)
    seed("norm/f32")
    case("norm/f32 long", norm, [randn(2, 700).float()], {"p": 2.0, "axes": [1]}, grad=False, exact=True)

    cosine = lambda x, y, axis, eps: F.cosine_similarity(x, y, axis, eps)
    for left, right, axis in (([3, 4], [3, 4], 1), ([3, 4], [3, 4], 0), ([3, 1, 4], [5, 4], -1), ([2, 3, 4], [3, 1], 1)):
        seed(f"cosine{left}{right}{axis}")
        case(f"cosine_similarity/{left} {right} {axis}", cosine, [randn(*left), randn(*right)], {"axis": axis, "eps": 1e-8})
    zeros = [f64([[0, 0], [1, 2], [3, 0]]), f64([[1, 2], [0, 0], [-3, 0]])]
    case("cosine_similarity/edge", cosine, zeros, {"axis": 1, "eps": 1e-8})
    distance = lambda x, y, p, eps, keepdim=False: F.pairwise_distance(x, y, p, eps, keepdim)
    for p in (2.0, 1.0, 3.0, INF):
        seed(f"distance{p}")
        case(f"pairwise_distance/{p}", distance, [randn(3, 4), randn(3, 4)], {"p": p, "eps": 1e-6})
        case(f"cdist/{p}", torch.cdist, [randn(2, 5, 4), randn(2, 3, 4)], {"p": p})
        case(f"cdist/broadcast {p}", torch.cdist, [randn(2, 1, 5, 4), randn(3, 3, 4)], {"p": p})
    case("cdist/0", torch.cdist, [f64([[1, 2, 0]]), f64([[1, 3, 1], [1, 2, 0]])], {"p": 0.0}, grad=False)
    case("pairwise_distance/keepdim", distance, [randn(3, 4), randn(4)], {"p": 2.0, "eps": 0.5, "keepdim": True})
    case("cdist/many", torch.cdist, [randn(40, 4), randn(7, 4)], {"p": 2.0})
    case("cdist/edge equal rows", torch.cdist, [f64([[1, 2], [3, 4]]), f64([[1, 2], [3, 5]])], {"p": 2.0})
    renorm = lambda x, p, axis, maxnorm: torch.renorm(x, p, axis, maxnorm)
    for p, axis in ((2.0, 0), (1.0, 1), (3.0, -1)):
        seed(f"renorm{p}")
        case(f"renorm/{p} {axis}", renorm, [randn(3, 4, 2)], {"p": p, "axis": axis, "maxnorm": 2.5})
    case("renorm/edge", renorm, [f64([[0, 0], [1, 0], [3, 4]])], {"p": 2.0, "axis": 0, "maxnorm": 1.0})

    for op, fn in (("nansum", torch.nansum), ("nanmean", torch.nanmean)):
        holes = f64([[1, NAN, 3], [NAN, NAN, NAN], [4, 5, INF], [1, 2, 3]])
        call = lambda x, axes=None, keepdim=False: fn(x) if axes is None else fn(x, axes, keepdim)
        for attrs in ({}, {"axes": [1]}, {"axes": [0], "keepdim": True}):
            case(f"{op}/edge {attrs}", call, [holes], attrs)
    case("nansum/int", lambda x: torch.nansum(x), [i64([1, 2, 3])])
    var = lambda x, axes, correction, keepdim=False: torch.var_mean(x, axes, correction=correction, keepdim=keepdim)
    std = lambda x, axes, correction, keepdim=False: torch.std_mean(x, axes, correction=correction, keepdim=keepdim)
    extremes = lambda x, axis, keepdim=False: torch.aminmax(x, dim=axis, keepdim=keepdim)
    seed("pairs")
    for attrs in ({"axes": [1]}, {"axes": [0, 2], "keepdim": True}):
        for correction in (0, 1):
            case(f"var_mean/{attrs} {correction}", var, [randn(3, 4, 2)], {**attrs, "correction": correction})
            case(f"std_mean/{attrs} {correction}", std, [randn(3, 4, 2)], {**attrs, "correction": correction})
    case("aminmax/1", extremes, [randn(3, 4, 2)], {"axis": 1}, grad=False)
    case("aminmax/0", extremes, [randn(3, 4, 2)], {"axis": 0, "keepdim": True}, grad=False)


def main():
    torch.set_num_threads(1)
    unary_cases()
    binary_cases()
    activation_cases()
    reduction_cases()
    OUT.write("ops_special.json.gz")


if __name__ == "__main__":
    main()

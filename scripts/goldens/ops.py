"""Goldens of single operations: ops.json.gz.

Operations of later families are in programs of their own, ops_FAMILY.py, which write
ops_FAMILY.json.gz. cases.py says what a case holds.

Run: /usr/bin/python3 scripts/goldens/ops.py
"""

import math

import torch
from torch.nn import functional as F

from cases import *


# ---------------------------------------------------------------- pointwise


def gelu(x, approximate):
    return F.gelu(x, approximate=approximate)


def erfc(x):
    return torch.special.erfc(x)


def normpdf(x):
    return torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def normcdf(x):
    return torch.special.erfc(-x * math.sqrt(0.5)) / 2  # its ndtr cancels


# Unary functions: (name, function, attributes, random range, float32 range).
UNARY = [
    ("abs", torch.abs, {}, (-3, 3), (-1e30, 1e30)),
    ("neg", torch.neg, {}, (-3, 3), (-1e30, 1e30)),
    ("sign", torch.sign, {}, (-3, 3), (-1e30, 1e30)),
    ("square", torch.square, {}, (-3, 3), (-1e18, 1e18)),
    ("sqrt", torch.sqrt, {}, (0.01, 9), (0, 1e30)),
    ("rsqrt", torch.rsqrt, {}, (0.01, 9), (1e-30, 1e30)),
    ("reciprocal", torch.reciprocal, {}, (0.1, 4), (-1e30, 1e30)),
    ("exp", torch.exp, {}, (-4, 4), (-104, 90)),
    ("exp2", torch.exp2, {}, (-4, 4), (-150, 129)),
    ("expm1", torch.expm1, {}, (-4, 4), (-20, 90)),
    ("log", torch.log, {}, (0.01, 9), (0, 1e30)),
    ("log2", torch.log2, {}, (0.01, 9), (0, 1e30)),
    ("log10", torch.log10, {}, (0.01, 9), (0, 1e30)),
    ("log1p", torch.log1p, {}, (-0.9, 9), (-1, 1e30)),
    ("sin", torch.sin, {}, (-8, 8), (-1000, 1000)),
    ("cos", torch.cos, {}, (-8, 8), (-1000, 1000)),
    ("tan", torch.tan, {}, (-1.4, 1.4), (-1000, 1000)),
    ("asin", torch.asin, {}, (-0.98, 0.98), (-1, 1)),
    ("acos", torch.acos, {}, (-0.98, 0.98), (-1, 1)),
    ("atan", torch.atan, {}, (-5, 5), (-1e10, 1e10)),
    ("sinh", torch.sinh, {}, (-4, 4), (-90, 90)),
    ("cosh", torch.cosh, {}, (-4, 4), (-90, 90)),
    ("tanh", torch.tanh, {}, (-4, 4), (-20, 20)),
    ("asinh", torch.asinh, {}, (-5, 5), (-1e10, 1e10)),
    ("acosh", torch.acosh, {}, (1.01, 9), (1, 1e10)),
    ("atanh", torch.atanh, {}, (-0.98, 0.98), (-1, 1)),
    ("erf", torch.erf, {}, (-3, 3), (-6, 6)),
    ("erfc", erfc, {}, (-3, 3), (-6, 11)),
    ("normpdf", normpdf, {}, (-3, 3), (-14, 14)),
    ("normcdf", normcdf, {}, (-3, 3), (-14, 14)),
    ("sigmoid", torch.sigmoid, {}, (-6, 6), (-110, 90)),
    ("logsigmoid", F.logsigmoid, {}, (-6, 6), (-110, 90)),
    ("relu", F.relu, {}, (-3, 3), (-1e30, 1e30)),
    ("leaky_relu", F.leaky_relu, {"negative_slope": 0.01}, (-3, 3), (-1e30, 1e30)),
    ("elu", F.elu, {"alpha": 1.0}, (-3, 3), (-20, 20)),
    ("selu", F.selu, {}, (-3, 3), (-20, 20)),
    ("celu", F.celu, {"alpha": 1.5}, (-3, 3), (-20, 20)),
    ("gelu", gelu, {"approximate": "none"}, (-4, 4), (-14, 14)),
    ("gelu", gelu, {"approximate": "tanh"}, (-4, 4), (-14, 14)),
    ("silu", F.silu, {}, (-6, 6), (-100, 100)),
    ("mish", F.mish, {}, (-6, 6), (-100, 100)),
    ("softplus", F.softplus, {"beta": 1.0, "threshold": 20.0}, (-6, 6), (-100, 100)),
    ("softplus", F.softplus, {"beta": 2.0, "threshold": 5.0}, (-6, 6), None),
    ("softsign", F.softsign, {}, (-6, 6), (-1e10, 1e10)),
    ("hardtanh", F.hardtanh, {"min_val": -1.0, "max_val": 1.0}, (-3, 3), None),
    ("hardtanh", F.hardtanh, {"min_val": -0.5, "max_val": 2.0}, (-3, 3), None),
    ("hardsigmoid", F.hardsigmoid, {}, (-5, 5), (-5, 5)),
    ("hardswish", F.hardswish, {}, (-5, 5), (-5, 5)),
    ("relu6", F.relu6, {}, (-3, 9), None),
    ("floor", torch.floor, {}, (-5, 5), None),
    ("ceil", torch.ceil, {}, (-5, 5), None),
    ("round", torch.round, {}, (-5, 5), None),
    ("trunc", torch.trunc, {}, (-5, 5), None),
    ("clamp", torch.clamp, {"min": -1.0, "max": 1.5}, (-3, 3), None),
    ("clamp", torch.clamp, {"min": 0.0}, (-3, 3), None),
    ("clamp", torch.clamp, {"max": 0.5}, (-3, 3), None),
    ("isnan", torch.isnan, {}, (-3, 3), None),
    ("isinf", torch.isinf, {}, (-3, 3), None),
    ("isfinite", torch.isfinite, {}, (-3, 3), None),
]


def spread32(low, high):
    """float32 points of a range: evenly spaced, and on a logarithmic scale near zero."""
    even = torch.linspace(low, high, 41, dtype=torch.float64)
    small = torch.logspace(-40, 0, 21, dtype=torch.float64)
    points = torch.cat([even, small, -small, low * small, high * small])
    points = points[(points >= low) & (points <= high)]
    return torch.unique(points.float())


def unary_cases():
    for op, fn, attrs, (low, high), wide in UNARY:
        name = "/".join([op] + [f"{k}={v}" for k, v in attrs.items()])
        tail = name[len(op):]
        seed(name)
        case(name if tail else f"{op}/random", fn, [uniform(low, high, 3, 7)], attrs)
        case(f"{op}/edge{tail}", fn, [f64(EDGE)], attrs)
        case(f"{op}/nonfinite{tail}", fn, [f64(NONFINITE)], attrs)
        if wide:
            case(f"{op}/f32{tail}", fn, [spread32(*wide)], attrs, grad=False, exact=True)
    for op in ("exp", "gelu", "isnan"):
        fn = {"exp": torch.exp, "gelu": F.gelu, "isnan": torch.isnan}[op]
        attrs = {"approximate": "none"} if op == "gelu" else {}
        case(f"{op}/edge empty", fn, [f64([]).reshape(0, 3)], attrs)
        case(f"{op}/edge rank 0", fn, [f64(0.75)], attrs)
    for op, fn in (("abs", torch.abs), ("neg", torch.neg), ("sign", torch.sign), ("square", torch.square)):
        case(f"{op}/int", fn, [i64([-7, -1, 0, 1, 7, 2**40])])
    case("relu/int", F.relu, [i64([-7, -1, 0, 1, 7])])
    case("clamp/int", torch.clamp, [i64([-7, -1, 0, 1, 7])], {"min": -2, "max": 3})
    rounding = spread32(-70000, 70000)
    for dtype in ("bfloat16", "float16"):
        # What comes back after storing in half precision.
        cast = lambda x, dtype: x.to(getattr(torch, dtype)).float()
        case(f"cast/{dtype}", cast, [rounding], {"dtype": dtype}, grad=False)
        ties = [1.00390625, 1.01171875, 1.00048828125, 1.00146484375, 65504, 65519, 65520, 5.96e-8, 2.98e-8,
                2.9802322387695312e-08, 3.3961775292304957e38, 3.38953138925e38, -0.0, INF, -INF, NAN]
        case(f"cast/edge {dtype}", cast, [torch.tensor(ties)], {"dtype": dtype}, grad=False)


def floor_divide(a, b):
    return torch.div(a, b, rounding_mode="floor")


# Binary functions: (name, function, range of a, range of b).
BINARY = [
    ("add", torch.add, (-3, 3), (-3, 3)),
    ("sub", torch.sub, (-3, 3), (-3, 3)),
    ("mul", torch.mul, (-3, 3), (-3, 3)),
    ("div", torch.div, (-3, 3), (0.3, 3)),
    ("pow", torch.pow, (0.2, 3), (-3, 3)),
    ("minimum", torch.minimum, (-3, 3), (-3, 3)),
    ("maximum", torch.maximum, (-3, 3), (-3, 3)),
    ("atan2", torch.atan2, (-3, 3), (-3, 3)),
    ("remainder", torch.remainder, (-9, 9), (0.7, 3)),
    ("fmod", torch.fmod, (-9, 9), (0.7, 3)),
    ("floor_divide", floor_divide, (-9, 9), (0.7, 3)),
    ("hypot", torch.hypot, (-3, 3), (-3, 3)),
    ("logaddexp", torch.logaddexp, (-5, 5), (-5, 5)),
    ("eq", torch.eq, (-3, 3), (-3, 3)),
    ("ne", torch.ne, (-3, 3), (-3, 3)),
    ("lt", torch.lt, (-3, 3), (-3, 3)),
    ("le", torch.le, (-3, 3), (-3, 3)),
    ("gt", torch.gt, (-3, 3), (-3, 3)),
    ("ge", torch.ge, (-3, 3), (-3, 3)),
]

BROADCASTS = [([2, 5], [2, 5]), ([4, 1, 3], [5, 1]), ([], [3]), ([2, 1], [])]


def label(*shapes):
    return " ".join(str(list(s)).replace(" ", "") for s in shapes)


def grid(values):
    """All pairs of the values, as two columns."""
    a = f64(values)
    return [a.repeat_interleave(len(values)), a.repeat(len(values))]


def binary_cases():
    for op, fn, a, b in BINARY:
        for left, right in BROADCASTS:
            name = f"{op}/{label(left, right)}"
            seed(name)
            case(name, fn, [uniform(*a, *left), uniform(*b, *right)])
        case(f"{op}/edge", fn, grid([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -3.0]))
        case(f"{op}/nonfinite", fn, grid([0.0, 1.0, -2.0, INF, -INF, NAN]))
    for op, fn in (("add", torch.add), ("mul", torch.mul), ("maximum", torch.maximum)):
        case(f"{op}/edge empty", fn, [f64([]).reshape(0, 3), f64([[1, 2, 3]])])
        case(f"{op}/edge empty by one", fn, [f64([]).reshape(2, 0), f64([[1], [2]])])
    ints = [i64([-7, -7, 7, 7, 0, 6, -6, 2**40]), i64([2, -2, 2, -2, 3, 3, 3, 3])]
    for op, fn, *_ in BINARY:
        if op not in ("atan2", "hypot", "logaddexp", "pow"):
            case(f"{op}/int", fn, ints)
    case("pow/int", torch.pow, [i64([-2, -2, 0, 0, 3, 1]), i64([2, 3, 0, 5, 4, 60])])
    for op, fn in (("pow", torch.pow), ("atan2", torch.atan2), ("hypot", torch.hypot), ("logaddexp", torch.logaddexp),
                   ("div", torch.div), ("remainder", torch.remainder), ("fmod", torch.fmod)):
        seed(op + "/f32")
        a, b = uniform(-50, 50, 60).float(), uniform(-30, 30, 60).float()
        if op == "pow":
            a, b = (a.abs() + 0.01), b / 2
        case(f"{op}/f32", fn, [a, b], grad=False, exact=True)

    seed("lerp")
    case("lerp/[2,3]", torch.lerp, [randn(2, 3), randn(2, 3), uniform(0, 1, 2, 3)])
    case("lerp/[4,1,3] [5,1] [1]", torch.lerp, [randn(4, 1, 3), randn(5, 1), uniform(0, 1, 1)])
    case("lerp/edge", torch.lerp, [f64([1, 1, 1, -3]), f64([1, 5, 5, 7]), f64([0.3, 0, 1, 0.5])])
    seed("where")
    case("where/[2,3]", torch.where, [randn(2, 3) > 0, randn(2, 3), randn(2, 3)])
    case("where/[4,1,3] [5,1] []", torch.where, [randn(4, 1, 3) > 0, randn(5, 1), randn()])
    case("where/nonfinite", torch.where, [torch.tensor([True, False, True]), f64([1, INF, NAN]), f64([NAN, 2, 3])])
    case("where/int", torch.where, [torch.tensor([True, False]), i64([1, 2]), i64([3, 4])])
    masked_fill = lambda x, mask, value: x.masked_fill(mask, value)
    seed("masked_fill")
    case("masked_fill/[2,3]", masked_fill, [randn(2, 3), randn(2, 3) > 0], {"value": 2.5})
    case("masked_fill/broadcast", masked_fill, [randn(2, 4, 3), randn(4, 1) > 0], {"value": -INF})


# ---------------------------------------------------------------- products


def matmul_cases():
    pairs = [
        ([3], [3]), ([3], [3, 4]), ([2, 3], [3]), ([2, 3], [3, 4]), ([1, 1], [1, 1]),
        ([3], [2, 3, 4]), ([2, 4, 3], [3]), ([2, 3], [2, 3, 4]), ([2, 4, 3], [3, 5]), ([2, 4, 3], [2, 3, 5]),
        ([1, 4, 3], [2, 3, 5]), ([2, 1, 4, 3], [3, 3, 2]), ([3, 4, 2], [2, 1, 2, 3]), ([2, 3, 4, 5], [2, 3, 5, 2]),
    ]
    for left, right in pairs:
        name = f"matmul/{label(left, right)}"
        seed(name)
        case(name, torch.matmul, [randn(*left), randn(*right)])
    case("matmul/edge no inner", torch.matmul, [f64([]).reshape(2, 0), f64([]).reshape(0, 3)])
    case("matmul/edge no rows", torch.matmul, [f64([]).reshape(0, 2), f64([[1, 2, 3], [4, 5, 6]])])
    case("matmul/edge no batch", torch.matmul, [f64([]).reshape(0, 2, 2), f64([[1, 2, 3], [4, 5, 6]])])
    case("matmul/nonfinite", torch.matmul, [f64([[0, 1], [0, 0], [2, 1]]), f64([[NAN, INF, 1], [1, 1, -INF]])])
    seed("matmul/f32")
    case("matmul/f32 long", torch.matmul, [randn(5, 300).float(), randn(300, 3).float()], exact=True)
    for x, out, bias in (([3], 2, True), ([4, 3], 5, True), ([4, 3], 5, False), ([2, 4, 3], 2, True), ([1, 1], 1, True)):
        name = f"linear/{label(x)} to {out}" + ("" if bias else " without bias")
        seed(name)
        inputs = [randn(*x), randn(out, x[-1])] + ([randn(out)] if bias else [])
        case(name, F.linear, inputs)
    case("linear/edge empty batch", F.linear, [f64([]).reshape(0, 2), f64([[1, 2], [3, 4]]), f64([5, 6])])


# ---------------------------------------------------------------- reductions


def over(fn, x, axes, keepdim):
    """Applies fn(x, axis) to one axis made of all the given ones."""
    axes = sorted(a % x.dim() for a in (range(x.dim()) if axes is None else axes))
    kept = [a for a in range(x.dim()) if a not in axes]
    flat = x.permute(kept + axes).reshape([x.shape[a] for a in kept] + [math.prod(x.shape[a] for a in axes)])
    y = fn(flat, -1)
    if keepdim:
        y = y.reshape([1 if a in axes else x.shape[a] for a in range(x.dim())])
    return y


def reduction(fn):
    return lambda x, axes=None, keepdim=False: over(fn, x, axes, keepdim)


def spread_op(fn):
    return lambda x, correction, axes=None, keepdim=False: fn(
        x, dim=axes if axes is not None else list(range(x.dim())), correction=correction, keepdim=keepdim)


REDUCTIONS = [
    ("sum", reduction(torch.sum), [{}]),
    ("mean", reduction(torch.mean), [{}]),
    ("prod", reduction(torch.prod), [{}]),
    ("amax", reduction(torch.amax), [{}]),
    ("amin", reduction(torch.amin), [{}]),
    ("var", spread_op(torch.var), [{"correction": 1}, {"correction": 0}]),
    ("std", spread_op(torch.std), [{"correction": 1}, {"correction": 0}]),
    ("logsumexp", reduction(torch.logsumexp), [{}]),
]

AXES = [
    {}, {"keepdim": True}, {"axes": [0]}, {"axes": [1], "keepdim": True}, {"axes": [-1]},
    {"axes": [0, 2]}, {"axes": [-2, -1], "keepdim": True}, {"axes": [0, 1, 2]},
]

# Full max and min and amax share the gradient among ties; along one axis the first index takes it.
ALONG = [("max", torch.max), ("min", torch.min)]
INDEX = [("argmax", torch.argmax), ("argmin", torch.argmin)]


def describe(attrs):
    return " ".join(f"{k}={label(v) if isinstance(v, list) else v}" for k, v in attrs.items())


def along(fn):
    return lambda x, axis, keepdim=False: tuple(fn(x, axis, keepdim))


def index(fn):
    return lambda x, axis=None, keepdim=False: fn(x, axis, keepdim)


def whole(fn):
    return lambda x: fn(x)


def reduction_cases():
    for op, fn, variants in REDUCTIONS:
        for extra in variants:
            for attrs in AXES:
                attrs = {**extra, **attrs}
                name = f"{op}/{describe(attrs) or 'all'}"
                seed(name)
                case(name, fn, [randn(3, 4, 2)], attrs)
            tail = " ".join([""] + [describe(extra)] if extra else [""])
            case(f"{op}/edge rank 0{tail}", fn, [f64(2.5)], extra)
            case(f"{op}/edge size 1{tail}", fn, [f64([[2.5], [-1.5]])], {**extra, "axes": [1]})
            ties = f64([[1, 1, 0, 0], [2, 0, 2, 2], [3, 3, 3, 3], [0, -0.0, 0, -0.0], [0, 2, 3, 4]])
            case(f"{op}/edge ties{tail}", fn, [ties], {**extra, "axes": [1]})
            case(f"{op}/edge ties of all{tail}", fn, [f64([[5, 1, 5], [1, 5, 1]])], extra)
            odd = f64([[1, NAN, 2], [1, INF, 2], [1, -INF, 2], [INF, -INF, 0], [-INF] * 3, [INF] * 3])
            case(f"{op}/nonfinite{tail}", fn, [odd], {**extra, "axes": [1]})
            if op not in ("amax", "amin"):
                case(f"{op}/edge empty{tail}", fn, [f64([]).reshape(0, 3)], {**extra, "axes": [0]})
                case(f"{op}/edge all empty{tail}", fn, [f64([]).reshape(0, 3)], extra)
            case(f"{op}/edge empty result{tail}", fn, [f64([]).reshape(0, 3)], {**extra, "axes": [1]})
    prods = f64([[2, 3, 4], [0, 3, 4], [0, 0, 4], [0, 0, 0], [-1, 0, 5]])
    case("prod/edge zeros", reduction(torch.prod), [prods], {"axes": [1]})
    case("prod/edge one zero of all", reduction(torch.prod), [f64([[2, 3], [0, 4]])])
    for op, fn in (("sum", torch.sum), ("prod", torch.prod), ("amax", torch.amax), ("amin", torch.amin)):
        case(f"{op}/int", reduction(fn), [i64([[1, -2, 3], [4, 5, -6]])], {"axes": [1]})
    case("sum/bool", reduction(torch.sum), [torch.tensor([[True, False, True], [True, True, True]])], {"axes": [1]})

    for op, fn in ALONG:
        for attrs in ({"axis": 0}, {"axis": 1, "keepdim": True}, {"axis": -1}):
            name = f"{op}/{describe(attrs)}"
            seed(name)
            case(name, along(fn), [randn(3, 4, 2)], attrs)
        case(f"{op}/edge ties", along(fn), [f64([[1, 5, 5], [2, 2, 2], [7, 0, 7]])], {"axis": 1})
        case(f"{op}/edge zeros", along(fn), [f64([[0.0, -0.0], [-0.0, 0.0]])], {"axis": 1})
        case(f"{op}/nonfinite", along(fn), [f64([[1, NAN, NAN], [INF, 1, INF], [-INF, -INF, 0]])], {"axis": 1})
        case(f"{op}/edge ties of all", whole(fn), [f64([[5, 1, 5], [1, 5, 1]])])
        case(f"{op}/int", along(fn), [i64([[1, 5, 5], [2, 2, 2]])], {"axis": 1})
    for op, fn in INDEX:
        for attrs in ({}, {"axis": 0}, {"axis": 1, "keepdim": True}, {"axis": -1}):
            name = f"{op}/{describe(attrs) or 'all'}"
            seed(name)
            case(name, index(fn), [randn(3, 4, 2)], attrs)
        case(f"{op}/edge ties", index(fn), [f64([[1, 5, 5], [2, 2, 2], [7, 0, 7]])], {"axis": 1})
        case(f"{op}/edge zeros", index(fn), [f64([[0.0, -0.0], [-0.0, 0.0]])], {"axis": 1})
        case(f"{op}/nonfinite", index(fn), [f64([[1, NAN, NAN], [INF, 1, INF], [-INF, -INF, 0]])], {"axis": 1})
        case(f"{op}/int", index(fn), [i64([[1, 5, 5], [2, 2, 2]])], {"axis": 1})

    seed("reductions/f32")
    long = randn(2, 700).float()
    for op, fn, variants in REDUCTIONS:
        if op != "prod":
            shifted = long + 1000 if op in ("var", "std") else long
            case(f"{op}/f32 long", fn, [shifted], {**variants[0], "axes": [1]}, grad=False, exact=True)
    cumsum = lambda x, axis: torch.cumsum(x, axis)
    for axis in (0, 1, -1):
        seed(f"cumsum{axis}")
        case(f"cumsum/axis={axis}", cumsum, [randn(3, 4, 2)], {"axis": axis})
    case("cumsum/edge empty", cumsum, [f64([]).reshape(0, 3)], {"axis": 0})
    case("cumsum/nonfinite", cumsum, [f64([1, INF, 1, -INF, 2])], {"axis": 0})
    case("cumsum/int", cumsum, [i64([[1, 2], [3, 4]])], {"axis": 0})
    case("cumsum/bool", cumsum, [torch.tensor([True, False, True])], {"axis": 0})


# ---------------------------------------------------------------- rows and losses


def rms_norm(x, weight, eps):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def layer_norm(x, weight=None, bias=None, axes=1, eps=1e-5):
    """Over the last `axes` axes."""
    return F.layer_norm(x, x.shape[-axes:], weight, bias, eps)


def causal_attention(q, k, v):
    """softmax(q k' / sqrt(D) + mask) v for [B H T D]; position t sees 0 to t."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ v


def cross_entropy(logits, target, weight=None, **attrs):
    """Classes are the last axis of the logits; target has the other axes."""
    y = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1), weight, **attrs)
    return y.reshape(target.shape) if attrs.get("reduction") == "none" else y


def nll(logp, target, weight=None, **attrs):
    y = F.nll_loss(logp.reshape(-1, logp.shape[-1]), target.reshape(-1), weight, **attrs)
    return y.reshape(target.shape) if attrs.get("reduction") == "none" else y


def row_cases():
    rows = {
        "softmax": lambda x, axis: torch.softmax(x, axis),
        "log_softmax": lambda x, axis: torch.log_softmax(x, axis),
    }
    for op, fn in rows.items():
        for axis in (0, 1, -1):
            seed(f"{op}{axis}")
            case(f"{op}/axis={axis}", fn, [randn(3, 4, 5)], {"axis": axis})
        case(f"{op}/edge", fn, [f64([[1e4, -1e4, 0], [700, 710, 720], [1, 1, 1], [-800, -800.5, -900]])], {"axis": 1})
        case(f"{op}/edge size 1", fn, [f64([[3], [-3]])], {"axis": 1})
        case(f"{op}/edge empty", fn, [f64([]).reshape(0, 3)], {"axis": 1})
        case(f"{op}/nonfinite", fn, [f64([[-INF, 1, 2], [-INF, -INF, 5], [-INF] * 3, [INF, 1, 2], [NAN, 1, 2]])], {"axis": 1})
        seed(op)
        case(f"{op}/f32 long", fn, [randn(2, 300, scale=4).float()], {"axis": 1}, exact=True)

    for shape, axes in (([4, 5], 1), ([2, 3, 7], 1), ([2, 3, 4], 2), ([3, 1], 1)):
        name = f"layer_norm/{label(shape)} over {axes}"
        seed(name)
        x, w, b = randn(*shape), randn(*shape[-axes:]), randn(*shape[-axes:])
        case(name, layer_norm, [x, w, b], {"axes": axes, "eps": 1e-5})
        case(name + " without weights", layer_norm, [x], {"axes": axes, "eps": 1e-5})
    constant = f64([[2, 2, 2, 2], [0, 0, 0, 0], [1e6, 1e6, 1e6, 1e6 + 1]])
    case("layer_norm/edge constant", layer_norm, [constant, f64([1, 2, 3, 4]), f64([1, 1, 1, 1])], {"axes": 1, "eps": 1e-5})
    case("layer_norm/edge empty", layer_norm, [f64([]).reshape(0, 3), f64([1, 2, 3]), f64([0, 0, 0])], {"axes": 1, "eps": 1e-5})
    case("layer_norm/nonfinite", layer_norm, [f64([[1, NAN, 2], [1, INF, 2]]), f64([1, 2, 3]), f64([0, 0, 0])], {"axes": 1, "eps": 1e-5})
    seed("layer_norm/f32")
    for shift in (0, 1000):
        inputs = [(randn(2, 300) + shift).float(), randn(300).float(), randn(300).float()]
        case(f"layer_norm/f32 shifted by {shift}", layer_norm, inputs, {"axes": 1, "eps": 1e-5}, exact=True)
    for shape in ([4, 5], [2, 3, 7]):
        name = f"rms_norm/{label(shape)}"
        seed(name)
        case(name, rms_norm, [randn(*shape), randn(shape[-1])], {"eps": 1e-6})
    case("rms_norm/edge zeros", rms_norm, [f64([[0, 0, 0], [1e-4, 0, -1e-4]]), f64([1, 2, 3])], {"eps": 1e-6})

    for shape in ([2, 3, 5, 4], [1, 1, 1, 2], [1, 2, 9, 3]):
        name = f"causal_attention/{label(shape)}"
        seed(name)
        case(name, causal_attention, [randn(*shape) for _ in range(3)])
    seed("causal_attention/large")
    case("causal_attention/edge large scores", causal_attention, [randn(1, 1, 4, 3, scale=40) for _ in range(3)])

    seed("cross_entropy")
    x, t = randn(6, 5), i64([0, 4, 2, -100, 2, 1])
    w = uniform(0.2, 2, 5)
    for fn, op, extra in ((cross_entropy, "cross_entropy", [{}, {"label_smoothing": 0.1}]), (nll, "nll", [{}])):
        source = x if op == "cross_entropy" else torch.log_softmax(x, -1)
        for reduction_ in ("mean", "sum", "none"):
            for more in extra:
                attrs = {"reduction": reduction_, "ignore_index": -100, **more}
                case(f"{op}/{describe(attrs)}", fn, [source, t], attrs)
                case(f"{op}/weighted {describe(attrs)}", fn, [source, t, w], attrs, frozen=[2])
        attrs = {"reduction": "mean", "ignore_index": 2}
        case(f"{op}/{describe(attrs)}", fn, [source, t.clamp(min=0)], attrs)
        case(f"{op}/[2,3,5]", fn, [source.reshape(2, 3, 5), t.reshape(2, 3)], {"reduction": "mean", "ignore_index": -100})
        case(f"{op}/[2,3,5] each", fn, [source.reshape(2, 3, 5), t.reshape(2, 3)], {"reduction": "none", "ignore_index": -100})
        for reduction_ in ("mean", "sum", "none"):
            attrs = {"reduction": reduction_, "ignore_index": -100}
            case(f"{op}/edge all ignored {reduction_}", fn, [source[:2], i64([-100, -100])], attrs)
        case(f"{op}/edge one class", fn, [f64([[3.0], [4.0]]), i64([0, 0])], {"reduction": "mean", "ignore_index": -100})
    mean = {"reduction": "mean", "ignore_index": -100}
    case("cross_entropy/edge by weights", cross_entropy, [f64([[1, 2, 3], [1, 2, 3]]), i64([0, 2]), f64([1, 2, 3])], mean,
         frozen=[2])
    case("cross_entropy/edge large", cross_entropy, [f64([[1e4, -1e4, 0], [0, 1e4, 0]]), i64([0, 0])], mean)
    case("cross_entropy/nonfinite", cross_entropy, [f64([[-INF, 1, 2], [-INF, 1, 2], [1, 2, 3]]), i64([1, 0, 2])],
         {"reduction": "none", "ignore_index": -100})
    case("cross_entropy/f32 long", cross_entropy, [randn(3, 300, scale=3).float(), i64([5, 299, 0])], mean, exact=True)

    seed("losses")
    a, b = randn(3, 4), randn(3, 4)
    for reduction_ in ("mean", "sum", "none"):
        attrs = {"reduction": reduction_}
        case(f"mse/{reduction_}", F.mse_loss, [a, b], attrs)
        case(f"l1/{reduction_}", F.l1_loss, [a, b], attrs)
        case(f"bce_with_logits/{reduction_}", F.binary_cross_entropy_with_logits, [a * 3, uniform(0, 1, 3, 4)], attrs)
    mean = {"reduction": "mean"}
    case("mse/edge empty", F.mse_loss, [f64([]), f64([])], mean)
    case("l1/edge", F.l1_loss, [f64([1, 2, 3]), f64([1, 3, 2])], mean)
    large = f64([1000, -1000, 0, 40, -40, 1000, -1000])
    hard = f64([1, 0, 1, 0, 1, 0, 1])
    case("bce_with_logits/edge large", F.binary_cross_entropy_with_logits, [large, hard], {"reduction": "none"})

    weighted_loss_cases()


def reduced(losses, weight, reduction):
    """Losses times weights; the mean is divided by the sum of the weights."""
    weight = weight.expand(losses.shape)
    losses = losses * weight
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / weight.sum()}[reduction]


def kl_div(log_q, p, reduction):
    return F.kl_div(log_q, p, reduction="batchmean" if reduction == "mean" else reduction)


def weighted_loss_cases():
    """Further options of losses. BCE's gradient for its targets is not PyTorch's to give."""
    seed("weighted losses")
    x, y = randn(3, 4), randn(3, 4)
    p, q = uniform(0.05, 0.95, 3, 4), uniform(0, 1, 3, 4)
    w, pos = uniform(0.2, 2, 4), uniform(0.5, 3, 4)
    logits_loss = F.binary_cross_entropy_with_logits
    for reduction_ in ("mean", "sum", "none"):
        attrs = {"reduction": reduction_}
        case(f"bce/{reduction_}", F.binary_cross_entropy, [p, q], attrs, frozen=[1])
        case(f"bce/weighted {reduction_}", F.binary_cross_entropy, [p, q, w], attrs, frozen=[1, 2])
        case(f"bce_with_logits/weighted {reduction_}", logits_loss, [x * 3, q, w], attrs, frozen=[1, 2])
        case(f"bce_pos_weight/{reduction_}", lambda x, y, pos, **a: logits_loss(x, y, pos_weight=pos, **a),
             [x * 3, q, pos], attrs, frozen=[1, 2])
        case(f"huber/{reduction_}", F.huber_loss, [x, y], {**attrs, "delta": 0.5})
        case(f"kl_div/{reduction_}", kl_div, [torch.log_softmax(x, -1), torch.softmax(y, -1)], attrs)
        case(f"mse/weighted {reduction_}", lambda x, y, w, reduction: reduced((x - y) ** 2, w, reduction), [x, y, w],
             attrs, frozen=[2])
        case(f"l1/weighted {reduction_}", lambda x, y, w, reduction: reduced((x - y).abs(), w, reduction), [x, y, w],
             attrs, frozen=[2])
    large = f64([1000, -1000, 0, 40, -40, 1000, -1000])
    case("bce_pos_weight/edge large", lambda x, y, pos, **a: logits_loss(x, y, pos_weight=pos, **a),
         [large, f64([1, 0, 1, 0, 1, 0, 1]), f64([3])], {"reduction": "none"}, frozen=[1, 2])


def scalar_cases():
    seed("scalars")
    x = uniform(0.3, 2, 3, 4)
    case("sub_from/1", lambda x, a: a - x, [x], {"a": 1.0})
    case("div_into/1", lambda x, a: a / x, [x], {"a": 1.0})
    edges = f64([0, -0.0, 1, -1, 2, INF, -INF, NAN])
    case("sub_from/nonfinite", lambda x, a: a - x, [edges], {"a": 2.0})
    case("div_into/nonfinite", lambda x, a: a / x, [edges], {"a": 2.0})
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        for kind, values in (("", edges), ("int ", i64([-3, 0, 1, 2, 1 << 40])), ("f32 ", edges.float())):
            case(f"{name}_scalar/{kind}1", lambda x, a: getattr(torch, name)(x, a), [values], {"a": 1.0})
    case("eq_scalar/f32 0.1", torch_eq, [torch.tensor([0.1, 0.2])], {"a": 0.1})


def torch_eq(x, a):
    return torch.eq(x, a)


# ---------------------------------------------------------------- indexing and shape


def pad(x, pads, value):
    """pads is [before, after] for each axis."""
    return F.pad(x, [n for pair in reversed(pads) for n in pair], value=value)


def cut(x, starts, stops, steps):
    """Python's slices, one for each axis."""
    return x[tuple(slice(*s) for s in zip(starts, stops, steps))]


def index_cases():
    embedding = lambda ids, table: F.embedding(ids, table)
    seed("embedding")
    for ids in ([2, 5, 2], [[0, 6, 6], [3, 0, 6]], 4):
        case(f"embedding/{label(torch.tensor(ids).shape)}", embedding, [i64(ids), randn(7, 3)])
    case("embedding/edge empty", embedding, [i64([]), randn(7, 3)])
    gather = lambda x, ids, axis: torch.gather(x, axis, ids)
    seed("gather")
    case("gather/axis=0", gather, [randn(3, 4), i64([[0, 2, 2, 1], [2, 2, 0, 1]])], {"axis": 0})
    case("gather/axis=1", gather, [randn(3, 4), i64([[0, 3, 3, 3, 1], [2, 2, 0, 1, 0], [1, 1, 1, 1, 1]])], {"axis": 1})
    case("gather/axis=-1 smaller", gather, [randn(2, 3, 4), randint(4, 1, 2, 2)], {"axis": -1})
    case("gather/edge empty", gather, [randn(3, 4), i64([]).reshape(0, 4)], {"axis": 0})
    index_select = lambda x, ids, axis: torch.index_select(x, axis, ids)
    seed("index_select")
    for axis in (0, 1, -1):
        case(f"index_select/axis={axis}", index_select, [randn(3, 4, 2), i64([1, 0, 1, 1])], {"axis": axis})
    case("index_select/edge empty", index_select, [randn(3, 4), i64([])], {"axis": 0})
    scatter_add = lambda x, ids, src, axis: x.scatter_add(axis, ids, src)
    seed("scatter_add")
    case("scatter_add/axis=0", scatter_add, [randn(3, 4), i64([[0, 2, 2, 1], [2, 2, 0, 1]]), randn(2, 4)], {"axis": 0})
    case("scatter_add/axis=1", scatter_add, [randn(2, 3), i64([[0, 0, 0, 1, 2], [2, 2, 0, 2, 2]]), randn(2, 5)], {"axis": 1})
    one_hot = lambda ids, classes: F.one_hot(ids, classes)
    case("one_hot/[3]", one_hot, [i64([0, 3, 1])], {"classes": 4})
    case("one_hot/[2,2]", one_hot, [i64([[0, 3], [1, 1]])], {"classes": 5})
    case("one_hot/edge empty", one_hot, [i64([])], {"classes": 5})


def shape_cases():
    cat = lambda *xs, axis: torch.cat(xs, axis)
    stack = lambda *xs, axis: torch.stack(xs, axis)
    seed("cat")
    for axis, sizes in ((0, (2, 1, 3)), (1, (1, 4)), (-1, (2, 2))):
        shapes = [[3, 4, 2] for _ in sizes]
        for s, n in zip(shapes, sizes):
            s[axis] = n
        case(f"cat/axis={axis}", cat, [randn(*s) for s in shapes], {"axis": axis})
    case("cat/one", cat, [randn(2, 3)], {"axis": 0})
    case("cat/edge empty", cat, [randn(2, 3), f64([]).reshape(0, 3), randn(1, 3)], {"axis": 0})
    case("cat/int", cat, [i64([1, 2]), i64([3])], {"axis": 0})
    for axis in (0, 1, -1):
        case(f"stack/axis={axis}", stack, [randn(3, 2) for _ in range(3)], {"axis": axis})
    case("stack/rank 0", stack, [randn(), randn()], {"axis": 0})

    split = lambda x, sizes, axis: torch.split(x, sizes, axis)
    chunk = lambda x, chunks, axis: torch.chunk(x, chunks, axis)
    seed("split")
    case("split/sizes axis=0", split, [randn(6, 2)], {"sizes": [1, 3, 2], "axis": 0})
    case("split/sizes axis=-1", split, [randn(2, 5)], {"sizes": [4, 1], "axis": -1})
    case("split/edge empty part", split, [randn(3, 2)], {"sizes": [0, 3], "axis": 0})
    for n, size in ((3, 6), (3, 7), (4, 6), (1, 3)):
        case(f"chunk/{size} in {n}", chunk, [randn(size, 2)], {"chunks": n, "axis": 0})
    case("chunk/axis=-1", chunk, [randn(2, 5)], {"chunks": 2, "axis": -1})

    seed("slice")
    for starts, stops, steps in (
        ([1, 0, 0], [3, 4, 5], [1, 1, 1]), ([0, 0, 1], [3, 4, 5], [1, 2, 3]), ([-2, 1, -4], [3, -1, -1], [1, 1, 2]),
        ([0, 0, 0], [100, 2, 5], [2, 1, 7]), ([2, 0, 0], [2, 4, 5], [1, 1, 1]), ([2, 0, 0], [1, 4, 5], [1, 1, 1]),
    ):
        attrs = {"starts": starts, "stops": stops, "steps": steps}
        empty = "edge " if starts[0] >= stops[0] else ""
        case(f"slice/{empty}{describe(attrs)}", cut, [randn(3, 4, 5)], attrs)

    permute = lambda x, axes: x.permute(axes)
    transpose = lambda x, a, b: x.transpose(a, b)
    reshape = lambda x, shape: x.reshape(shape)
    expand = lambda x, shape: x.expand(shape)
    flip = lambda x, axes: x.flip(axes)
    seed("views")
    for axes in ([2, 0, 1], [0, 2, 1], [-1, 0, -2], [0, 1, 2]):
        case(f"permute/{label(axes)}", permute, [randn(2, 3, 4)], {"axes": axes})
    for a, b in ((0, 1), (-1, -2), (0, -1), (1, 1)):
        case(f"transpose/{a} {b}", transpose, [randn(2, 3, 4)], {"a": a, "b": b})
    for shape in ([6, 4], [-1], [2, -1, 2], [1, 24, 1], [4, 3, 2]):
        case(f"reshape/{label(shape)}", reshape, [randn(2, 3, 4)], {"shape": shape})
    case("reshape/rank 0", reshape, [randn(1, 1)], {"shape": []})
    case("reshape/edge empty", reshape, [f64([]).reshape(0, 3)], {"shape": [3, 0, 2]})
    for x, shape in (([3, 1], [3, 4]), ([3, 1], [2, 3, 4]), ([], [2, 2]), ([1, 3], [-1, 3]), ([1, 1], [0, 2])):
        empty = "edge " if 0 in shape else ""
        case(f"expand/{empty}{label(x)} to {label(shape)}", expand, [randn(*x)], {"shape": shape})
    for axes in ([0], [1], [0, -1]):
        case(f"flip/{label(axes)}", flip, [randn(2, 3, 2)], {"axes": axes})
    case("squeeze/all", lambda x: x.squeeze(), [randn(1, 3, 1)])
    case("squeeze/axis=-1", lambda x, axis: x.squeeze(axis), [randn(1, 3, 1)], {"axis": -1})
    for axis in (0, 1, -1):
        case(f"unsqueeze/axis={axis}", lambda x, axis: x.unsqueeze(axis), [randn(2, 3)], {"axis": axis})

    seed("pad")
    for pads, value in (([[1, 2], [0, 1]], 0.0), ([[0, 0], [2, 0]], -1.5), ([[0, 0], [0, 0]], 7.0), ([[1, 0], [0, 0]], -INF)):
        case(f"pad/{label(*pads)} {value}", pad, [randn(2, 3)], {"pads": pads, "value": value})
    case("pad/edge empty", pad, [f64([]).reshape(0, 2)], {"pads": [[1, 1], [0, 1]], "value": 3.0})
    seed("triangles")
    for op, fn in (("tril", lambda x, diagonal: x.tril(diagonal)), ("triu", lambda x, diagonal: x.triu(diagonal))):
        for diagonal in (-1, 0, 2, 9, -9):
            case(f"{op}/diagonal={diagonal}", fn, [randn(4, 4)], {"diagonal": diagonal})
        for shape in ([2, 5], [5, 2], [2, 3, 4]):
            case(f"{op}/{label(shape)}", fn, [randn(*shape)], {"diagonal": 0})
        case(f"{op}/nonfinite", fn, [f64([[INF, NAN], [NAN, -INF]])], {"diagonal": 0})


def main():
    torch.set_num_threads(1)
    OUT.notes = {
        "gradients": "of sum(output * weight) over all differentiable outputs",
        "max and min": "with an axis they give values and indices, and the first index takes the gradient of ties; "
                       "without one, and in amax, amin, maximum and minimum, ties share it",
        "remainder": "has the sign of the divisor, fmod that of the dividend",
        "cross_entropy, nll": "classes are the last axis; a third input holds class weights",
        "var, std": "correction is subtracted from the count",
        "f32": "outputs are PyTorch's in float32; exact holds the same call in float64",
    }
    unary_cases()
    binary_cases()
    matmul_cases()
    reduction_cases()
    row_cases()
    scalar_cases()
    index_cases()
    shape_cases()
    OUT.write("ops.json.gz")


if __name__ == "__main__":
    main()

"""Records cases of single operations, for ops.py and ops_FAMILY.py.

Each case calls one operation on recorded inputs and stores its outputs and the
gradients of sum(output * weight). Attribute names follow PyTorch, except that
dimensions are called axis and axes, as in Weft; a reduction without axes runs
over all of them. Cases are float64 unless their name says otherwise:

    OP/...          random inputs
    OP/edge...      finite inputs where conventions show: zeros, ties, empty axes
    OP/nonfinite    infinities and NaN
    OP/f32...       float32 with the same outputs computed in float64 beside them
    OP/int, /bool   integer or boolean inputs

Each group of cases draws its inputs from a seed made of the group's name, and
each case its weights from one made of its own: a new group changes no other.
"""

import math
import os
import sys
import zlib

import torch

import golden

OUT = golden.File("scripts/goldens/" + os.path.basename(sys.argv[0]))
NAMES = set()

INF = math.inf
NAN = math.nan

# Finite arguments at which one function or another has a kink, a pole or a tie.
EDGE = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, 2.5, -2.5, 3.0, -3.0, 6.0, 1e-9, -1e-9, 30.0, -30.0]
NONFINITE = [INF, -INF, NAN]


def seed(name):
    torch.manual_seed(zlib.crc32(name.encode()))


def odd_sixteenths(name, y):
    """Weights from -31/16 to 31/16, never zero: 0*inf would hide a gradient."""
    own = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randint(-16, 16, y.shape, generator=own).to(y.dtype) / 8 + 1 / 16


def randn(*shape, scale=1.0):
    """Normal values that float32 can hold: both precisions see the same inputs."""
    return (torch.randn(shape) * scale).double()


def uniform(low, high, *shape):
    return (torch.rand(shape) * (high - low) + low).double()


def randint(high, *shape):
    return torch.randint(high, shape)


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


def i64(values):
    return torch.tensor(values, dtype=torch.int64)


def plain(value):
    """Attributes as JSON; infinities and NaN become strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return {INF: "inf", -INF: "-inf"}.get(value, "nan")
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def outputs_of(fn, inputs, attrs):
    result = fn(*inputs, **attrs)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def case(name, fn, inputs, attrs=None, grad=True, exact=False, frozen=()):
    """Runs fn(*inputs, **attrs) and records the call.

    The operation is the part of name before the slash; no gradient is taken of
    the inputs whose positions are in frozen.
    """
    assert name not in NAMES, name
    NAMES.add(name)
    number = len(OUT.cases)
    attrs = attrs or {}

    def store(kind, values):
        return ["" if v is None else OUT.add(f"{number}.{kind}{i}", v) for i, v in enumerate(values)]

    inputs = [
        x.detach().clone().requires_grad_(grad and i not in frozen and x.is_floating_point())
        for i, x in enumerate(inputs)
    ]
    outputs = outputs_of(fn, inputs, attrs)
    entry = {
        "name": name,
        "op": name.split("/")[0],
        "attrs": {k: plain(v) for k, v in attrs.items()},
        "inputs": store("x", inputs),
        "outputs": store("y", outputs),
    }
    if "/edge" in name or "/nonfinite" in name:
        entry["edge"] = True
    if any(y.requires_grad for y in outputs):
        weights = [odd_sixteenths(f"{name} {i}", y) if y.requires_grad else None for i, y in enumerate(outputs)]
        total = sum((y * w).sum() for y, w in zip(outputs, weights) if w is not None)
        wanted = [x for x in inputs if x.requires_grad]
        grads = iter(torch.autograd.grad(total, wanted, allow_unused=True))
        found = []
        for x in inputs:
            g = next(grads) if x.requires_grad else None
            found.append(torch.zeros_like(x) if g is None and x.requires_grad else g)
        entry["weights"] = store("w", weights)
        entry["grads"] = store("g", found)
    if exact:
        wide = [x.detach().double() if x.is_floating_point() else x for x in inputs]
        entry["exact"] = store("e", outputs_of(fn, wide, attrs))
    OUT.cases.append(entry)

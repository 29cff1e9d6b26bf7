"""Goldens of half precision: half.json.gz.

    round/DTYPE   float32 values, and these rounded to the half type: values of the half type, the ties above
                  them and the neighbours of these, at all exponents, and the ends
    OP/DTYPE      an operation on values of the half type. PyTorch's CPU kernels know bfloat16; for float16,
                  and where they round on the way (gelu, matmul, layer_norm, some losses), the outputs are those of
                  float64, rounded ("wide": true)

Halves are stored as float32, which holds them exactly.

Run: /usr/bin/python3 scripts/goldens/half.py
"""

import math
import zlib

import numpy as np
import torch
from torch.nn import functional as F

import golden

OUT = golden.File("scripts/goldens/half.py")


def case(op, dtype, inputs, outputs, attrs):
    n = len(OUT.cases)
    OUT.cases.append({
        "name": f"{op}/{dtype}",
        "op": op,
        "attrs": {"dtype": dtype, **attrs},
        "inputs": [OUT.add(f"{n}.x{i}", x) for i, x in enumerate(inputs)],
        "outputs": [OUT.add(f"{n}.y", outputs)],
    })


def rounding(dtype):
    half = getattr(torch, dtype)
    # Every 61st number, infinities and NaNs left out, and the ends of the ranges.
    bits = torch.arange(0, 1 << 15, 61).short()
    x = bits.view(half).float()
    x = x[torch.isfinite(x)]
    top = torch.tensor(torch.finfo(half).max)
    x = torch.cat([x, torch.tensor([0.0, top])])
    step = (x.to(half).view(torch.int16) + 1).view(half).float()
    step[~torch.isfinite(step)] = math.ldexp(1.0, 16 if dtype == "float16" else 127)
    tie = ((x.double() + step.double()) / 2).float()
    ups, downs = np.nextafter(tie.numpy(), np.float32(math.inf)), np.nextafter(tie.numpy(), np.float32(-math.inf))
    x = torch.cat([x, tie, torch.from_numpy(ups), torch.from_numpy(downs),
                   torch.tensor([1.00390625, 65519.0, 65520.0, 2.98e-8, 2.99e-8, 5.96e-8, 1e-45, 1.1754942e-38, 3.4028235e38, math.inf, math.nan])])
    x = torch.cat([x, -x])
    case("round", dtype, [x], x.to(half).float(), {})


def operations(dtype):
    half = getattr(torch, dtype)

    def run(op, f, *inputs, wide=False, **attrs):
        torch.manual_seed(zlib.crc32(f"{op}/{dtype}".encode()))
        x = [torch.randn(s).to(half) if isinstance(s, tuple) else s for s in inputs]
        wide = wide or dtype == "float16"
        if wide:
            y = f(*[v.double() if v.is_floating_point() else v for v in x]).to(half)
        else:
            y = f(*x)
        assert y.dtype == half
        case(op, dtype, [v.float() if v.is_floating_point() else v for v in x], y.float(), {"wide": wide, **attrs})

    run("add", torch.add, (200,), (200,))
    run("mul", torch.mul, (200,), (200,))
    run("div", torch.div, (200,), (200,))
    run("exp", torch.exp, (200,))
    run("tanh", torch.tanh, (200,))
    run("sigmoid", torch.sigmoid, (200,))
    run("gelu", F.gelu, (200,), wide=True)
    run("matmul", torch.matmul, (5, 600), (600, 6), wide=True)
    run("linear", F.linear, (5, 300), (6, 300), (6,))
    run("sum", lambda x: x.sum(-1), (4, 400), axes=[-1])
    run("mean", lambda x: x.mean(-1), (4, 400), axes=[-1])
    run("var", lambda x: x.var(-1), (4, 400), axes=[-1], correction=1)
    run("softmax", lambda x: x.softmax(-1), (5, 90), axis=-1)
    run("log_softmax", lambda x: x.log_softmax(-1), (5, 90), axis=-1)
    run("logsumexp", lambda x: x.logsumexp(-1), (5, 90), wide=True, axes=[-1])
    run("layer_norm", lambda x, w, b: F.layer_norm(x, (90,), w, b), (5, 90), (90,), (90,), wide=True,
        axes=1, eps=1e-5)
    run("cross_entropy", lambda x, y: F.cross_entropy(x, y), (5, 90), torch.arange(5), wide=True,
        reduction="mean", ignore_index=-100)


def main():
    torch.set_num_threads(1)
    for dtype in ("float16", "bfloat16"):
        rounding(dtype)
        operations(dtype)
    OUT.write("half.json.gz")


if __name__ == "__main__":
    main()

"""Goldens of running products, extremes and log-sum-exp: ops_scan.json.gz.

Run: /usr/bin/python3 scripts/goldens/ops_scan.py
"""

import torch

from cases import *


def cumprod(x, axis):
    return torch.cumprod(x, axis)


def cummax(x, axis):
    return torch.cummax(x, axis)


def cummin(x, axis):
    return torch.cummin(x, axis)


def logcumsumexp(x, axis):
    return torch.logcumsumexp(x, axis)


for name, fn in (("cumprod", cumprod), ("cummax", cummax), ("cummin", cummin), ("logcumsumexp", logcumsumexp)):
    for axis in (0, 1, -1):
        seed(f"{name}{axis}")
        case(f"{name}/axis={axis}", fn, [randn(4, 5, 3)], {"axis": axis})
    case(f"{name}/edge size 1", fn, [f64([[2.5]])], {"axis": 1})
    if name != "logcumsumexp":  # PyTorch 1.13 refuses it
        case(f"{name}/edge empty", fn, [f64([]).reshape(0, 3)], {"axis": 0})

case("cumprod/edge one zero", cumprod, [f64([[2, -1, 0, 3, 0.5]])], {"axis": 1})
case("cumprod/edge zeros", cumprod, [f64([[0, 2, 0, 3], [1, 0, 0, 2]])], {"axis": 1})
case("cumprod/int", cumprod, [i64([[1, -2, 3], [4, 0, 6]])], {"axis": 1})
case("cumprod/bool", cumprod, [torch.tensor([True, True, False])], {"axis": 0})
for name, fn in (("cummax", cummax), ("cummin", cummin)):
    case(f"{name}/edge ties", fn, [f64([1, 1, 0.0, -0.0, 2, 2, -1, -1])], {"axis": 0})
    case(f"{name}/nonfinite", fn, [f64([1, INF, -INF, 2, NAN, 3, NAN, 4])], {"axis": 0})
    case(f"{name}/int", fn, [i64([[3, 3, -1], [2**62, 5, -(2**62)]])], {"axis": 1})
case("logcumsumexp/edge large", logcumsumexp, [f64([1000, 999, -1000, 1001, 0])], {"axis": 0})
case("logcumsumexp/nonfinite", logcumsumexp, [f64([-INF, -INF, 1, 2, INF, 3])], {"axis": 0}, grad=False)
seed("logcumsumexp f32")
case("logcumsumexp/f32", logcumsumexp, [(torch.randn(3, 40) * 4)], {"axis": 1}, exact=True)

OUT.write("ops_scan.json.gz")

"""Goldens of sorting, order statistics and searching: ops_sort.json.gz.

Run: /usr/bin/python3 scripts/goldens/ops_sort.py
"""

import torch

from cases import *

TIES = [2.0, -1.0, 2.0, 0.0, -0.0, 2.0, -1.0, 0.0]
SPECIAL = [1.0, NAN, -INF, 3.0, INF, NAN, -2.0]


def sort(x, axis, descending):
    return torch.sort(x, dim=axis, descending=descending, stable=True)


def argsort(x, axis, descending):
    return torch.argsort(x, dim=axis, descending=descending, stable=True)


def topk(x, k, axis, largest):
    return torch.topk(x, k, dim=axis, largest=largest)


def kthvalue(x, k, axis, keepdim=False):
    return torch.kthvalue(x, k, dim=axis, keepdim=keepdim)


def median(x, axis, keepdim=False):
    return torch.median(x, dim=axis, keepdim=keepdim)


def quantile(x, q, axis, interpolation):
    return torch.quantile(x, torch.tensor(q, dtype=x.dtype), dim=axis, interpolation=interpolation)


def searchsorted(x, values, right):
    return torch.searchsorted(x, values, right=right)


def unique(x, axis=None):
    return torch.unique(x, return_inverse=True, return_counts=True, dim=axis)


def sorts():
    for descending in (False, True):
        tail = f"/descending={descending}"
        attrs = {"descending": descending}
        for axis in (0, 1, -1):
            seed(f"sort{axis}")
            case(f"sort/axis={axis}{tail}", sort, [randn(4, 5, 3)], {"axis": axis, **attrs})
        case(f"sort/edge ties{tail}", sort, [f64(TIES)], {"axis": 0, **attrs})
        case(f"sort/edge empty{tail}", sort, [f64([]).reshape(2, 0)], {"axis": 1, **attrs})
        case(f"sort/nonfinite{tail}", sort, [f64(SPECIAL)], {"axis": 0, **attrs})
        case(f"sort/int{tail}", sort, [i64([[5, -(2**62), 5, 2**62, 0], [1, 1, 1, 0, 0]])], {"axis": 1, **attrs})
        case(f"sort/bool{tail}", sort, [torch.tensor([True, False, True, False])], {"axis": 0, **attrs})
        seed("argsort")
        case(f"argsort{tail}", argsort, [randn(3, 40)], {"axis": 1, **attrs})
    seed("sort long")
    case("sort/many ties", sort, [randint(9, 300).double()], {"axis": 0, "descending": True})


def order():
    for largest in (False, True):
        for k, axis in ((1, 0), (3, 1), (4, -1), (0, 1)):
            seed(f"topk{k}")
            case(f"topk/k={k}/axis={axis}/largest={largest}", topk, [randn(4, 5, 4)],
                 {"k": k, "axis": axis, "largest": largest})
        case(f"topk/nonfinite/largest={largest}", topk, [f64([1, NAN, -INF, 3, INF, -2])],
             {"k": 4, "axis": 0, "largest": largest})
        seed("topk int")
        case(f"topk/int/largest={largest}", topk, [torch.randperm(70) - 30], {"k": 9, "axis": 0, "largest": largest})
    for k, axis in ((1, 0), (3, 1), (4, -1)):
        seed(f"kthvalue{k}")
        case(f"kthvalue/k={k}/axis={axis}", kthvalue, [randn(4, 5, 4)], {"k": k, "axis": axis})
    case("kthvalue/keepdim", kthvalue, [f64([[3, 1, 2]])], {"k": 2, "axis": 1, "keepdim": True})
    for axis in (0, 1, -1):
        seed(f"median{axis}")
        case(f"median/axis={axis}", median, [randn(4, 5, 6)], {"axis": axis})
    case("median/keepdim", median, [f64([[3, 1, 2, 4]])], {"axis": 1, "keepdim": True})
    case("median/nonfinite", median, [f64([[1, NAN, 2], [INF, -INF, 1], [4, 5, 6]])], {"axis": 1})
    case("median/int", median, [i64([[3, 9, -4, 7]])], {"axis": 1})


def quantiles():
    q = [0.0, 0.1, 0.25, 0.5, 0.7, 1.0]
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        seed(f"quantile {how}")
        for axis in (0, 1):
            case(f"quantile/{how}/axis={axis}", quantile, [randn(6, 7)], {"q": q, "axis": axis, "interpolation": how})
        case(f"quantile/edge one element {how}", quantile, [f64([[2.5]])], {"q": q, "axis": 0, "interpolation": how})
    case("quantile/nonfinite", quantile, [f64([[1, NAN, 2], [3, 4, 5]])],
         {"q": [0.5, 0.8], "axis": 1, "interpolation": "linear"})


def searches():
    for right in (False, True):
        tail = f"/right={right}"
        attrs = {"right": right}
        case(f"searchsorted{tail}", searchsorted,
             [f64([-1, 0, 0, 0.5, 2]), f64([[-2, -1, 0], [0.25, 2, 3]])], attrs, grad=False)
        case(f"searchsorted/rows{tail}", searchsorted,
             [i64([[1, 3, 5], [2, 2, 2]]), i64([[0, 3, 6, 5], [1, 2, 3, 2]])], attrs)
        case(f"searchsorted/edge empty{tail}", searchsorted, [f64([]), f64([1, 2])], attrs, grad=False)
        case(f"searchsorted/nonfinite{tail}", searchsorted,
             [f64([-INF, 0, INF]), f64([-INF, INF, NAN, 1])], attrs, grad=False)
    case("unique/ties", unique, [f64([[3, 1, 3], [0, 1, -2]])], grad=False)
    case("unique/edge zeros", unique, [f64([0.0, -0.0, 1.0])], grad=False)
    case("unique/edge empty", unique, [f64([])], grad=False)
    case("unique/nonfinite", unique, [f64([INF, -INF, 1, INF])], grad=False)
    case("unique/int", unique, [i64([5, 2, 5, 5, -1])])
    case("unique/bool", unique, [torch.tensor([True, False, True])])
    seed("unique along an axis")
    few = randint(2, 7, 3, 2)
    for axis in (0, 1, -1):
        case(f"unique/int axis={axis}", unique, [few], {"axis": axis})
        case(f"unique/axis={axis}", unique, [few.double() - 0.5], {"axis": axis}, grad=False)
    case("unique/int axis=1 odd", unique, [randint(2, 5, 30)], {"axis": 1})
    case("unique/int rank 1", unique, [i64([3, -1, 3])], {"axis": 0})
    case("unique/bool axis", unique, [randint(2, 9, 3) > 0], {"axis": 0})
    case("unique/edge axis zeros", unique, [f64([[0.0, 1], [-0.0, 1], [-INF, INF]])], {"axis": 0}, grad=False)
    case("unique/edge axis empty", unique, [f64([]).reshape(0, 3)], {"axis": 0}, grad=False)


sorts()
order()
quantiles()
searches()
OUT.write("ops_sort.json.gz")

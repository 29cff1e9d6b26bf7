"""Goldens of scattering, choosing by values and by indices, and moving: ops_index.json.gz.

Run: /usr/bin/python3 scripts/goldens/ops_index.py
"""

import torch

from cases import *


def scatter(x, indices, y, axis):
    return x.scatter(axis, indices, y)


def scatter_reduce(x, indices, y, axis, reduction, include_self):
    return x.scatter_reduce(axis, indices, y, reduction, include_self=include_self)


def index_put(x, y, *indices, accumulate):
    return x.index_put(indices, y, accumulate=accumulate)


def index_by(x, *indices):
    return x[indices]


def scatters():
    seed("scatter")
    ids = i64([[2, 0, 1, 3], [0, 2, 3, 1]])
    case("scatter/axis=0", scatter, [randn(4, 4), ids, randn(2, 4)], {"axis": 0})
    case("scatter/axis=1", scatter, [randn(3, 5), ids, randn(2, 4)], {"axis": 1})
    case("scatter/int", scatter, [i64([1, 2, 3]), i64([2, 0]), i64([7, 8])], {"axis": 0})
    case("scatter/bool", scatter, [torch.tensor([True, False]), i64([1]), torch.tensor([True])], {"axis": 0})
    case("scatter/edge empty", scatter, [f64([1, 2]), i64([]), f64([])], {"axis": 0})
    for how in ("sum", "prod", "mean", "amax", "amin"):
        for self_too in (True, False):
            tail = f"/{how}/include_self={self_too}"
            attrs = {"reduction": how, "include_self": self_too}
            seed("scatter_reduce" + how)
            case(f"scatter_reduce/axis=0{tail}", scatter_reduce,
                 [randn(4, 3), i64([[0, 2, 2], [2, 2, 0], [0, 2, 3]]), randn(3, 3)], {"axis": 0, **attrs})
            case(f"scatter_reduce/axis=1{tail}", scatter_reduce,
                 [randn(2, 3), i64([[0, 0, 0, 1, 2], [2, 2, 0, 2, 2]]), randn(2, 5)], {"axis": 1, **attrs})
            case(f"scatter_reduce/int{tail}", scatter_reduce,
                 [i64([7, -3, 5, 9]), i64([0, 0, 1, 1, 1, 2]), i64([1, 2, -4, 8, 3, 6])], {"axis": 0, **attrs})
    ties = [f64([2, 1, 0]), i64([0, 0, 1, 1, 1]), f64([2, 2, 1, 3, 3])]
    for how in ("amax", "amin"):
        case(f"scatter_reduce/edge ties/{how}", scatter_reduce, ties,
             {"axis": 0, "reduction": how, "include_self": True})
    zeros = [f64([2, 3, 0, 5]), i64([0, 0, 1, 1, 2, 3]), f64([0, 4, 0, 0, 6, 0.5])]
    case("scatter_reduce/edge zeros/prod", scatter_reduce, zeros,
         {"axis": 0, "reduction": "prod", "include_self": True})
    for how in ("sum", "amax", "amin"):
        case(f"scatter_reduce/nonfinite/{how}", scatter_reduce,
             [f64([1, INF, 3]), i64([0, 0, 1, 2]), f64([NAN, 1, -INF, INF])],
             {"axis": 0, "reduction": how, "include_self": True}, grad=False)


def indexing():
    seed("index_put")
    rows, columns = i64([[2], [0]]), i64([1, 3, 0])
    for accumulate in (False, True):
        attrs = {"accumulate": accumulate}
        case(f"index_put/two/accumulate={accumulate}", index_put, [randn(3, 4, 2), randn(2, 3, 2), rows, columns], attrs)
        case(f"index_put/broadcast/accumulate={accumulate}", index_put, [randn(3, 4), randn(1), rows, columns], attrs)
    case("index_put/edge repeated", index_put, [randn(4), randn(3), i64([1, 1, 3])], {"accumulate": True})
    case("index_by/two", index_by, [randn(3, 4, 2), rows, columns])
    case("index_by/one", index_by, [randn(3, 4), rows])
    case("index_by/all", index_by, [randn(3, 4), i64([2, 2]), i64([0, 0])])


def choices():
    x = f64([[0, 1.5, -0.0], [NAN, 0, -2]])
    case("nonzero/nonfinite", torch.nonzero, [x], grad=False)
    case("nonzero/edge rank 1", torch.nonzero, [f64([0, 0, 3])], grad=False)
    case("nonzero/edge none", torch.nonzero, [f64([[0, 0]])], grad=False)
    case("nonzero/edge empty", torch.nonzero, [f64([]).reshape(0, 2)], grad=False)
    case("nonzero/edge rank 0", torch.nonzero, [f64(3.0)], grad=False)
    case("nonzero/int", torch.nonzero, [i64([[[0, 1], [2, 0]], [[0, 0], [5, 6]]])])
    case("nonzero/bool", torch.nonzero, [torch.tensor([True, False, True])])
    seed("masked_select")
    case("masked_select", torch.masked_select, [randn(3, 4), torch.rand(3, 4) < 0.5])
    case("masked_select/broadcast", torch.masked_select, [randn(3, 4), torch.tensor([True, False, False, True])])
    case("masked_select/rows", torch.masked_select, [randn(4), torch.tensor([[True], [False], [True]])])
    case("masked_select/edge none", torch.masked_select, [randn(2), torch.tensor([False, False])])

    def bincount(x, *weights, minlength=0):
        return torch.bincount(x, *weights, minlength=minlength)

    case("bincount/int", bincount, [i64([1, 3, 1, 0, 3, 3])])
    case("bincount/int/minlength=6", bincount, [i64([1, 3, 1])], {"minlength": 6})
    case("bincount/weights", bincount, [i64([1, 3, 1]), f64([0.5, 2, -1])], grad=False)
    case("bincount/int/edge empty", bincount, [i64([])], {"minlength": 2})
    histc = lambda x, bins, min, max: torch.histc(x, bins, min, max)
    values = f64([-1, 0, 0.25, 0.5, 0.5, 0.75, 1, 2])
    case("histc/bounds", histc, [values], {"bins": 4, "min": 0.0, "max": 1.0}, grad=False)
    case("histc/of the data", histc, [values], {"bins": 3, "min": 0.0, "max": 0.0}, grad=False)
    case("histc/edge equal", histc, [f64([2, 2, 2])], {"bins": 2, "min": 0.0, "max": 0.0}, grad=False)


def moves():
    seed("moves")
    for places in (1, -2, 7, 0):
        case(f"roll/axis=1/places={places}", lambda x, axis, places: torch.roll(x, places, axis), [randn(2, 3)],
             {"axis": 1, "places": places})
    case("roll/edge empty", lambda x, axis, places: torch.roll(x, places, axis), [f64([]).reshape(0, 2)],
         {"axis": 0, "places": 1})
    for times in ((2,), (2, 1), (1, 3), (2, 1, 2), (0, 1), ()):
        case(f"tile/{times}", lambda x, times: torch.tile(x, times), [randn(2, 3)], {"times": list(times)})
    for n in (2, 0):
        for axis in (0, -1):
            case(f"repeat_interleave/{n}/axis={axis}", lambda x, axis, n: torch.repeat_interleave(x, n, axis),
                 [randn(2, 3)], {"axis": axis, "n": n})
    for k in (0, 1, -1, 5):
        case(f"diagonal/k={k}", lambda x, k, rows, columns: torch.diagonal(x, k, rows, columns), [randn(3, 4)],
             {"k": k, "rows": 0, "columns": 1})
        case(f"diagonal/turned k={k}", lambda x, k, rows, columns: torch.diagonal(x, k, rows, columns),
             [randn(3, 2, 4)], {"k": k, "rows": -1, "columns": 0})
        case(f"diag_embed/k={k}", lambda x, k: torch.diag_embed(x, k), [randn(2, 3)], {"k": k})
    case("trace/wide", torch.trace, [randn(2, 4)])
    case("trace/high", torch.trace, [randn(3, 2)])
    case("meshgrid/three", lambda *x: torch.meshgrid(*x, indexing="ij"), [randn(2), randn(3), randn(1)])


def embeddings():
    seed("embeddings")
    ids, table = i64([[1, 0, 3], [2, 2, 0]]), randn(4, 2)
    case("embedding_padding", lambda x, ids, padding: torch.nn.functional.embedding(ids, x, padding), [table, ids],
         {"padding": 2})

    def bag(x, ids, offsets=None, weights=None, mode="mean", padding=None):
        return torch.nn.functional.embedding_bag(
            ids, x, offsets, mode=mode, per_sample_weights=weights, padding_idx=padding)

    flat, offsets = i64([1, 0, 3, 2, 2, 0]), i64([0, 2, 2, 5])
    for mode in ("sum", "mean", "max"):
        case(f"embedding_bag/{mode}/rows", bag, [table, i64([[1, 0, 3], [2, 3, 0]])], {"mode": mode})
        case(f"embedding_bag/{mode}/offsets", bag, [table, i64([1, 0, 3, 2, 1, 0]), offsets], {"mode": mode})
        case(f"embedding_bag/{mode}/padding", bag, [table, i64([1, 0, 3, 2, 1, 0]), offsets],
             {"mode": mode, "padding": 0})
    case("embedding_bag/sum/weights", bag, [table, flat, offsets, randn(6)], {"mode": "sum"})


embeddings()
scatters()
indexing()
choices()
moves()
OUT.write("ops_index.json.gz")

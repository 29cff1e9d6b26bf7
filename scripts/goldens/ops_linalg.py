"""Goldens of package linalg: ops_linalg.json.gz; cases.py says what is recorded.

What depends on the sign of an eigenvector or a singular vector is not stored: of vectors the absolute values, and
products in which the sign cancels. Matrices that must be symmetric are made so inside of the case.

Run: /usr/bin/python3 scripts/goldens/ops_linalg.py
"""

from cases import *

L = torch.linalg


def matrices(*shape):
    """Matrices with a large diagonal."""
    return randn(*shape) + 2 * torch.eye(shape[-2], shape[-1], dtype=torch.float64)


def symmetric(x):
    return (x + x.mT) / 2


def positive(x):
    return x @ x.mT + 0.5 * torch.eye(x.shape[-1], dtype=x.dtype)


def eigh(x):
    w, v = L.eigh(symmetric(x))
    return w, v @ torch.diag_embed(torch.sin(w)) @ v.mT, v.abs()


def svd(x):
    u, s, vh = L.svd(x, full_matrices=False)
    return s, u @ torch.diag_embed(torch.sin(s)) @ vh, u.abs(), vh.abs()


def rank(n, k, rows):
    """A matrix of rank k."""
    return randn(rows, k) @ randn(k, n)


seed("linalg")
case("solve/matrix", L.solve, [matrices(3, 3), randn(3, 2)])
case("solve/vector", L.solve, [matrices(3, 3), randn(3)])
case("solve/batch", L.solve, [matrices(2, 3, 3), randn(2, 3, 4)])
case("solve/vectors", L.solve, [matrices(2, 3, 3), randn(2, 3)])
case("solve/broadcast", L.solve, [matrices(2, 1, 3, 3), randn(4, 3, 2)])
case("solve/edge-columns", L.solve, [matrices(3, 3), randn(3, 0)], grad=False)
for upper in (False, True):
    name = "upper" if upper else "lower"
    tri = (lambda a, b, upper: L.solve_triangular(a, b, upper=upper))
    case(f"solve_triangular/{name}", tri, [matrices(2, 3, 3), randn(2, 3, 2)], {"upper": upper})
    case(f"solve_triangular/{name}-broadcast", tri, [matrices(3, 3), randn(2, 3, 2)], {"upper": upper})
case("inv/one", L.inv, [matrices(4, 4)])
case("inv/batch", L.inv, [matrices(2, 2, 3, 3)])
case("inv/f32", L.inv, [matrices(3, 3).float()], exact=True)
case("inv/size1", L.inv, [matrices(1, 1)])
case("det/one", L.det, [matrices(4, 4)])
case("det/negative", L.det, [-matrices(3, 3)])
case("det/batch", L.det, [matrices(2, 2, 3, 3)])
case("det/edge-rank2", L.det, [f64([[1, 2, 3], [4, 5, 6], [2, 4, 6]])], grad=False)
case("det/edge-empty", L.det, [randn(2, 0, 0)], grad=False)
case("slogdet/one", lambda x: list(L.slogdet(x)), [matrices(4, 4)])
case("slogdet/batch", lambda x: list(L.slogdet(x)), [-matrices(2, 3, 3)])
case("slogdet/edge-singular", lambda x: list(L.slogdet(x)), [f64([[1, 2], [2, 4]])], grad=False)
case("cholesky/one", lambda x: L.cholesky(positive(x)), [randn(4, 4)])
case("cholesky/batch", lambda x: L.cholesky(positive(x)), [randn(2, 3, 3)])
case("cholesky_solve/batch", lambda b, x: torch.cholesky_solve(b, L.cholesky(positive(x))), [randn(2, 3, 2), randn(2, 3, 3)])
for name, shape in {"tall": (5, 3), "square": (4, 4), "wide": (3, 5), "batch": (2, 4, 3), "size1": (1, 1)}.items():
    case("qr/" + name, L.qr, [matrices(*shape)])
for name, shape in {"one": (4, 4), "batch": (2, 3, 3), "size1": (1, 1)}.items():
    case("eigh/" + name, eigh, [randn(*shape)])
for name, shape in {"tall": (5, 3), "square": (4, 4), "wide": (3, 5), "batch": (2, 4, 3), "size1": (1, 1)}.items():
    case("svd/" + name, svd, [randn(*shape)])
    case("pinv/" + name, L.pinv, [matrices(*shape)])
case("pinv/rank2", L.pinv, [rank(4, 2, 3)])
case("pinv/edge-zero", L.pinv, [torch.zeros(2, 3, dtype=torch.float64)], grad=False)
for name, shape in {"tall": (5, 3), "wide": (3, 5)}.items():
    case("lstsq/" + name, lambda a, b: L.lstsq(a, b).solution, [matrices(*shape), randn(shape[0], 2)])
case("lstsq/rank2", lambda a, b: L.lstsq(a, b, driver="gelsd").solution, [rank(3, 2, 5), randn(5, 2)], grad=False)
case("matrix_rank/some", L.matrix_rank, [torch.stack([rank(4, k, 5) for k in range(1, 5)] + [torch.zeros(5, 4).double()])], grad=False)
case("matrix_rank/rtol", lambda x, rtol: L.matrix_rank(x, rtol=rtol), [torch.diag(f64([1, 0.2, 0.05]))], {"rtol": 0.1}, grad=False)
ORDS = {"fro": "fro", "nuc": "nuc", "2": 2, "-2": -2, "1": 1, "-1": -1, "inf": INF, "-inf": -INF}
for name, ord in ORDS.items():
    for shape in ((4, 3), (2, 3, 5)):
        case(f"matrix_norm/{name}-{len(shape)}", lambda x, ord: L.matrix_norm(x, ORDS[ord]), [randn(*shape)], {"ord": name})
case("matrix_norm/edge-zero", lambda x, ord: L.matrix_norm(x, ORDS[ord]), [torch.zeros(2, 2).double()], {"ord": "fro"})

SIZES = dict(a=2, b=3, c=4, d=2, i=3, j=4, k=5, l=2, m=3, n=4, A=2, B=3, x=1, z=0)


def einsum(name, equation, *shapes):
    if not shapes:
        shapes = [[SIZES[c] for c in part] for part in equation.split("->")[0].replace(" ", "").split(",")]
    case("einsum/" + name, lambda *x, equation: torch.einsum(equation, *x), [randn(*s) for s in shapes], {"equation": equation})


seed("einsum")
for equation in (
    "ij,jk->ik ij,kj->ik ij,jk->ki ji,jk->ik ij,jk i,i-> i,i i,j->ij ij->ji ij-> ij->i ij->j i->i ij,ij->ij ij,ij-> "
    "ii->i ii-> ii iij->ij ijij->ij iji->j iijj->ij aij,ajk->aik aij,bjk->abik ij,jk,kl->il i,ij,j-> "
    "ab,bc,cd,dm,mi->ai bij,b,j->i ijk,jil->kl abc,cd,abd->ab ijkl,jlm,mk->i Ab,bA-> BA,Ab ij,k->ijk ba ix,xj->ij az,zb->ab za-> a,b,c->cab "
    "abij,abjk->abik ijk->kji ijm,ijn->mn ijk,kji->ijk"
).split():
    einsum(equation, equation)
einsum("spaces", " i j , j k -> i k ", [3, 4], [4, 5])
for name, equation, shapes in (
    ("dots", "...ij,...jk->...ik", ([2, 3, 4], [2, 4, 5])),
    ("dots-broadcast", "...ij,...jk->...ik", ([2, 1, 3, 4], [3, 4, 5])),
    ("dots-implicit", "...ij,...jk", ([2, 3, 4], [2, 4, 5])),
    ("dots-none", "...ij,...jk->...ik", ([3, 4], [4, 5])),
    ("dots-one", "...ij,jk->...ik", ([2, 2, 3, 4], [4, 5])),
    ("dots-end", "i...->...", ([3, 2, 4],)),
    ("dots-middle", "i...j,j...->i...", ([3, 2, 4], [4, 2])),
    ("dots-moved", "i...j->j...i", ([3, 2, 4, 5],)),
    ("dots-diagonal", "...ii->...i", ([2, 3, 3],)),
    ("dots-ranks", "...i,...i->...", ([2, 3, 4], [3, 4])),
    ("dots-trace", "ii...", ([3, 3, 2],)),
    ("size1", "ij,jk->ik", ([3, 1], [4, 5])),
    ("size1-both", "ij,ij->ij", ([3, 1], [1, 4])),
    ("rank0", ",i->i", ([], [3])),
    ("rank0-all", ",->", ([], [])),
):
    einsum(name, equation, *shapes)


def tensordot(a, b, axes_a, axes_b):
    return torch.tensordot(a, b, (axes_a, axes_b))


case("tensordot/two", tensordot, [randn(2, 3, 4), randn(4, 3, 5)], {"axes_a": [1, 2], "axes_b": [1, 0]})
case("tensordot/last", tensordot, [randn(2, 3), randn(3, 4, 2)], {"axes_a": [-1], "axes_b": [0]})
case("tensordot/none", tensordot, [randn(2, 3), randn(4)], {"axes_a": [], "axes_b": []})
case("tensordot/all", tensordot, [randn(2, 3), randn(3, 2)], {"axes_a": [0, 1], "axes_b": [1, 0]})
case("outer/vectors", torch.outer, [randn(3), randn(4)])
case("kron/matrices", torch.kron, [randn(2, 3), randn(3, 2)])
case("kron/ranks", torch.kron, [randn(2, 1, 3), randn(2)])
case("kron/rank0", torch.kron, [randn(1)[0], randn(2)])

OUT.write("ops_linalg.json.gz")

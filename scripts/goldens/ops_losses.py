"""Goldens of losses that ops.py lacks: ops_losses.json.gz.

Run: /usr/bin/python3 scripts/goldens/ops_losses.py
"""

import torch
from torch.nn import functional as F

from cases import *

REDUCTIONS = ("mean", "sum", "none")


def each(op, fn, inputs, attrs=None, **more):
    """A case for each reduction."""
    seed(op)
    inputs = inputs()
    for reduction in REDUCTIONS:
        tail = "".join(f" {k}={v}" for k, v in (attrs or {}).items())
        case(f"{op}/{reduction}{tail}", fn, inputs, {**(attrs or {}), "reduction": reduction}, **more)


def signs(*shape):
    return (torch.rand(shape) < 0.5).double() * 2 - 1


def soft_cross_entropy(logits, target, weight=None, **attrs):
    return F.cross_entropy(logits, target, weight, **attrs)


def class_axis(fn):
    """fn with the classes on axis 1, as PyTorch has them."""
    return lambda x, target, weight=None, **attrs: fn(x, target, weight, **attrs)


def cross_entropy_cases():
    inputs = lambda: [randn(4, 5), torch.softmax(randn(4, 5), -1)]
    for smoothing in (0.0, 0.1):
        attrs = {"label_smoothing": smoothing}
        each("cross_entropy_soft", soft_cross_entropy, inputs, attrs)
        each("cross_entropy_soft_weighted", soft_cross_entropy, lambda: inputs() + [uniform(0.2, 2, 5)], attrs, frozen=[2])
    hard = f64([[1e4, -1e4, 0], [1, 2, 3]]), f64([[0, 1, 0], [0.5, 0, 0.5]])
    case("cross_entropy_soft/edge", soft_cross_entropy, list(hard), {"reduction": "none", "label_smoothing": 0.0})
    images = lambda: [randn(2, 5, 3, 2), torch.randint(5, (2, 3, 2)), uniform(0.2, 2, 5)]
    each("cross_entropy_axis", class_axis(F.cross_entropy), images, {"label_smoothing": 0.1}, frozen=[2])
    each("nll_axis", class_axis(F.nll_loss), images, frozen=[2])
    each("cross_entropy_soft_axis", class_axis(F.cross_entropy), lambda: [randn(2, 5, 3), torch.softmax(randn(2, 5, 3), 1)])


def regression_cases():
    pair = lambda: [randn(3, 4), randn(3, 4)]
    for beta in (1.0, 0.25, 0.0):
        each("smooth_l1", F.smooth_l1_loss, pair, {"beta": beta})
    case("smooth_l1/edge", F.smooth_l1_loss, [f64([0, 1, -1, 0.5, 3, 1e9]), f64([0, 0, 0, 0, 0, 0])],
         {"beta": 1.0, "reduction": "none"})
    kl = lambda q, p, reduction: F.kl_div(q, p, reduction="batchmean" if reduction == "mean" else reduction, log_target=True)
    each("kl_div_log", kl, lambda: [torch.log_softmax(randn(3, 4), -1), torch.log_softmax(randn(3, 4), -1)])
    case("kl_div_log/edge", kl, [f64([[-1, -1]]), f64([[-INF, 0]])], {"reduction": "none"}, grad=False)

    counts = lambda: [randn(3, 4), torch.randint(6, (3, 4)).double()]
    for attrs in ({}, {"full": True}):
        each("poisson_nll", F.poisson_nll_loss, counts, attrs, frozen=[1])
    rates = lambda: [uniform(0.1, 3, 3, 4), torch.randint(6, (3, 4)).double()]
    for attrs in ({"log_input": False}, {"log_input": False, "full": True, "eps": 0.5}):
        each("poisson_nll_rates", F.poisson_nll_loss, rates, attrs, frozen=[1])
    case("poisson_nll/edge", F.poisson_nll_loss, [f64([0, 800, -800, 1, 1]), f64([0, 1, 1, 0, 1])],
         {"full": True, "reduction": "none"}, frozen=[1])
    variances = {"full": lambda: uniform(0.1, 3, 3, 4), "rows": lambda: uniform(0.1, 3, 3), "columns": lambda: uniform(0.1, 3, 3, 1)}
    for name, variance in variances.items():
        for attrs in ({}, {"full": True}):
            each(f"gaussian_nll {name}", F.gaussian_nll_loss, lambda: pair() + [variance()], attrs)
    case("gaussian_nll/edge", F.gaussian_nll_loss, [f64([0, 1, 2]), f64([0, 0, 2]), f64([0, 1e-9, 0.5])],
         {"reduction": "none", "eps": 1e-6})

    def focal(x, y, alpha, gamma, reduction):
        """torchvision's sigmoid_focal_loss."""
        p = torch.sigmoid(x)
        loss = F.binary_cross_entropy_with_logits(x, y, reduction="none") * (1 - (p * y + (1 - p) * (1 - y))) ** gamma
        if alpha >= 0:
            loss = (alpha * y + (1 - alpha) * (1 - y)) * loss
        return {"mean": loss.mean, "sum": loss.sum, "none": lambda: loss}[reduction]()

    for alpha, gamma in ((0.25, 2.0), (-1.0, 1.5)):
        each("sigmoid_focal", focal, lambda: [randn(3, 4), (torch.rand(3, 4) < 0.5).double()],
             {"alpha": alpha, "gamma": gamma})


def margin_cases():
    for margin in (0.0, 0.5):
        each("margin_ranking", F.margin_ranking_loss, lambda: [randn(5), randn(5), signs(5)], {"margin": margin}, frozen=[2])
        each("cosine_embedding", F.cosine_embedding_loss, lambda: [randn(5, 3), randn(5, 3), signs(5)], {"margin": margin},
             frozen=[2])
    each("margin_ranking", F.margin_ranking_loss, lambda: [randn(5), randn(5), signs(5)], frozen=[2])
    case("margin_ranking/edge", F.margin_ranking_loss, [f64([1, 1, 2]), f64([1, 2, 1]), f64([1, 1, 1])],
         {"margin": 1.0, "reduction": "none"}, frozen=[2])
    zeros = [f64([[0, 0], [1, 2], [0, 0]]), f64([[0, 0], [0, 0], [1, 1]]), f64([1, -1, 0])]
    case("cosine_embedding/edge", F.cosine_embedding_loss, zeros, {"reduction": "none", "margin": 0.0}, frozen=[2])
    for attrs in ({}, {"margin": 2.0}):
        each("hinge_embedding", F.hinge_embedding_loss, lambda: [randn(3, 4), signs(3, 4)], attrs, frozen=[1])
    case("hinge_embedding/edge", F.hinge_embedding_loss, [f64([1, 2, 0, 3]), f64([-1, -1, -1, 0])], {"reduction": "none"},
         frozen=[1])
    each("soft_margin", F.soft_margin_loss, lambda: [randn(3, 4), signs(3, 4)], frozen=[1])
    for attrs in ({}, {"p": 2, "margin": 0.5}):
        target = lambda: torch.randint(4, (5,))
        each("multi_margin", lambda x, t, **a: F.multi_margin_loss(x, t, **a), lambda: [randn(5, 4), target()], attrs)
        weighted = lambda x, t, w, **a: F.multi_margin_loss(x, t, weight=w, **a)
        each("multi_margin_weighted", weighted, lambda: [randn(5, 4), target(), uniform(0.2, 2, 4)], attrs, frozen=[2])
    case("multi_margin/edge one", F.multi_margin_loss, [f64([0.1, 0.2, 1.2]), torch.tensor(1)], {"reduction": "mean"})
    labels = i64([[3, 0, -1, 1], [-1, 0, 1, 2], [0, 1, 2, 3], [2, 2, -1, -1]])
    each("multi_label_margin", F.multilabel_margin_loss, lambda: [randn(4, 4), labels])
    each("multi_label_soft_margin", lambda x, y, **a: F.multilabel_soft_margin_loss(x, y, **a),
         lambda: [randn(3, 4), (torch.rand(3, 4) < 0.5).double()], frozen=[1])
    each("multi_label_soft_margin_weighted", lambda x, y, w, **a: F.multilabel_soft_margin_loss(x, y, w, **a),
         lambda: [randn(3, 4), (torch.rand(3, 4) < 0.5).double(), uniform(0.2, 2, 4)], frozen=[1, 2])
    for attrs in ({}, {"margin": 0.5, "p": 1.0}, {"swap": True, "eps": 0.01}):
        each("triplet_margin", F.triplet_margin_loss, lambda: [randn(5, 3), randn(5, 3), randn(5, 3)], attrs)

    def cosine_triplet(a, p, n, reduction):
        distance = lambda x, y: 1 - F.cosine_similarity(x, y)
        return F.triplet_margin_with_distance_loss(a, p, n, distance_function=distance, reduction=reduction)

    each("triplet_margin_distance", cosine_triplet, lambda: [randn(5, 3), randn(5, 3), randn(5, 3)])


def ctc_cases():
    def ctc(logits, targets, lengths, target_lengths, **attrs):
        log_probs = torch.log_softmax(logits, -1)
        return F.ctc_loss(log_probs, targets, torch.tensor(lengths), torch.tensor(target_lengths), **attrs)

    inputs = lambda: [randn(7, 3, 5), i64([[1, 2, 2, 4], [3, 3, 0, 0], [4, 1, 2, 3]])]
    lengths = {"lengths": [7, 6, 5], "target_lengths": [4, 2, 1]}
    each("ctc", ctc, inputs, lengths)
    each("ctc", ctc, inputs, {**lengths, "blank": 4, "target_lengths": [3, 2, 0]})
    # Rows 0 and 1 have too few steps; row 1 needs one between its equal targets.
    short = {"lengths": [3, 2, 5], "target_lengths": [4, 2, 4]}
    each("ctc", ctc, inputs, {**short, "zero_infinity": True})
    for reduction in REDUCTIONS:
        case(f"ctc/edge {reduction}", ctc, inputs(), {**short, "reduction": reduction}, grad=False)


def main():
    torch.set_num_threads(1)
    cross_entropy_cases()
    regression_cases()
    margin_cases()
    ctc_cases()
    OUT.write("ops_losses.json.gz")


if __name__ == "__main__":
    main()

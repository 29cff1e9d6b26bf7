"""Goldens of optimizers and schedules: optim.json.gz.

Every optimizer makes 20 steps in float64, with gradients that do not depend on the parameters: two parameters, "w" of
shape [4 3] and "b" of shape [3], whose gradients change sign and size and have zeros. What PyTorch 1.13 lacks is
computed from the formulas of its paper with NumPy.

    p/w, p/b                 the parameters before
    g/w, g/b                 the gradients of all steps, [20 ...]
    NAME/w, NAME/b           the parameters after each step
    LBFGS/losses             the loss before each of 5 steps of LBFGS, in which it is called lbfgs...
    LBFGS/path               the parameters after each, [5 5]
    schedule/NAME            the rates of 30 steps, counted from 0
    plateau/values           30 values of a metric
    plateau/NAME             the rates after them

Run: /usr/bin/python3 scripts/goldens/optim.py
"""

import math

import numpy as np
import torch
from torch import optim
from torch.optim import lr_scheduler as lr

import golden

OUT = golden.File("scripts/goldens/optim.py")
STEPS = 20

torch.set_default_dtype(torch.float64)  # of NAdam's product, too
torch.manual_seed(19)
START = {"w": torch.randn(4, 3, dtype=torch.float64), "b": torch.randn(3, dtype=torch.float64)}
GRADS = {}
for key, p in START.items():
    g = torch.randn(STEPS, *p.shape, dtype=torch.float64) + 0.3 * torch.randn(p.shape, dtype=torch.float64)
    g[:, ..., 0] *= 1e-3
    g[3:9, ..., 1] = 0
    g[5] *= 100
    GRADS[key] = g
    OUT.add("p/" + key, p)
    OUT.add("g/" + key, g)

OPTIMIZERS = {
    "adam": lambda ps: optim.Adam(ps, 0.1),
    "adam-decay": lambda ps: optim.Adam(ps, 0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    "adam-amsgrad": lambda ps: optim.Adam(ps, 0.1, amsgrad=True, weight_decay=0.1),
    "adamw": lambda ps: optim.AdamW(ps, 0.1),
    "adamw-amsgrad": lambda ps: optim.AdamW(ps, 0.1, betas=(0.8, 0.95), weight_decay=0.1, amsgrad=True),
    # Without foreach PyTorch 1.13 multiplies by mu_t twice; later ones do not.
    "nadam": lambda ps: optim.NAdam(ps, 0.1, foreach=True),
    "nadam-decay": lambda ps: optim.NAdam(
        ps, 0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, momentum_decay=0.1, foreach=True
    ),
    "radam": lambda ps: optim.RAdam(ps, 0.1),
    "radam-decay": lambda ps: optim.RAdam(ps, 0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    "adamax": lambda ps: optim.Adamax(ps, 0.1),
    "adamax-decay": lambda ps: optim.Adamax(ps, 0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    "rmsprop": lambda ps: optim.RMSprop(ps, 0.1),
    "rmsprop-momentum": lambda ps: optim.RMSprop(ps, 0.1, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.8),
    "rmsprop-centered": lambda ps: optim.RMSprop(ps, 0.1, alpha=0.9, centered=True),
    "rmsprop-all": lambda ps: optim.RMSprop(ps, 0.1, alpha=0.9, centered=True, momentum=0.8, weight_decay=0.1),
    "adagrad": lambda ps: optim.Adagrad(ps, 0.1),
    "adagrad-decay": lambda ps: optim.Adagrad(
        ps, 0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3
    ),
    "adadelta": lambda ps: optim.Adadelta(ps, 1.0),
    "adadelta-decay": lambda ps: optim.Adadelta(ps, 0.5, rho=0.8, eps=1e-3, weight_decay=0.1),
    "rprop": lambda ps: optim.Rprop(ps, 0.1),
    "rprop-etas": lambda ps: optim.Rprop(ps, 0.1, etas=(0.3, 1.5), step_sizes=(0.05, 0.5)),
    "sgd-groups": lambda ps: optim.SGD(
        [{"params": ps[:1]}, {"params": ps[1:], "lr": 0.02, "weight_decay": 0.3}], 0.1, momentum=0.9, weight_decay=0.1
    ),
}

# Gradients of all parameters are clipped together before these.
CLIPS = {
    "sgd-groups": lambda ps: torch.nn.utils.clip_grad_norm_(ps, 2.0),
    "sgd-clip-value": lambda ps: torch.nn.utils.clip_grad_value_(ps, 0.7),
}
OPTIMIZERS["sgd-clip-value"] = lambda ps: optim.SGD(ps, 0.1)

for name, make in OPTIMIZERS.items():
    ps = [START[k].clone().requires_grad_() for k in ("w", "b")]
    opt = make(ps)
    path = {"w": [], "b": []}
    for step in range(STEPS):
        for k, p in zip(("w", "b"), ps):
            p.grad = GRADS[k][step].clone()
        CLIPS.get(name, lambda ps: None)(ps)
        opt.step()
        for k, p in zip(("w", "b"), ps):
            path[k].append(p.detach().clone())
    for k in path:
        OUT.add(f"{name}/{k}", torch.stack(path[k]))


def paper(name, update):
    """The path of an optimizer that PyTorch 1.13 lacks: update(p, g, state, t) returns the new p."""
    for k in ("w", "b"):
        p, state, path = START[k].numpy().copy(), {}, []
        for step in range(STEPS):
            p = update(p, GRADS[k][step].numpy(), state, step + 1)
            path.append(p)
        OUT.add(f"{name}/{k}", np.stack(path))


def rms(x):
    return math.sqrt(np.mean(x * x))


def lamb(lr_, b1, b2, eps, decay):
    """You et al. 2020, algorithm 2, with bias correction; the trust ratio is 1 where a norm is 0."""

    def update(p, g, s, t):
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
        s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
        u = s["m"] / (1 - b1**t) / (np.sqrt(s["v"] / (1 - b2**t)) + eps) + decay * p
        a, b = np.linalg.norm(p), np.linalg.norm(u)
        return p - lr_ * (a / b if a > 0 and b > 0 else 1.0) * u

    return update


def adafactor(lr_, b2_decay, eps1, eps2, d, decay):
    """Shazeer and Stern 2018, algorithms 4 and 5, as torch.optim.Adafactor has it: a rate relative to the parameter."""

    def update(p, g, s, t):
        rest = t**b2_decay
        rho = min(lr_, 1 / math.sqrt(t))
        alpha = max(eps2, rms(p)) * rho
        p = p * (1 - lr_ * decay)
        if p.ndim >= 2:
            s["r"] = (1 - rest) * s.get("r", 0) + rest * np.mean(g * g, -1, keepdims=True)
            s["c"] = (1 - rest) * s.get("c", 0) + rest * np.mean(g * g, -2, keepdims=True)
            v = s["r"] * s["c"] / np.maximum(np.mean(s["r"], -2, keepdims=True), eps1)
        else:
            v = s["v"] = (1 - rest) * s.get("v", 0) + rest * g * g
        u = g / np.sqrt(np.maximum(v, eps1 * eps1))
        return p - alpha * u / max(1.0, rms(u) / d)

    return update


def muon(lr_, momentum, decay, eps):
    """Jordan et al. 2024, as torch.optim.Muon has it: Newton-Schulz of the momentum, rows and columns of like size."""

    def update(p, g, s, t):
        if p.ndim < 2:
            return p
        s["b"] = momentum * s.get("b", 0) + (1 - momentum) * g
        x = momentum * s["b"] + (1 - momentum) * g
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        x = x / max(np.linalg.norm(x), eps)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        x = x.T if tall else x
        return p * (1 - lr_ * decay) - lr_ * math.sqrt(max(1, p.shape[0] / p.shape[1])) * x

    return update


paper("lamb", lamb(0.1, 0.9, 0.999, 1e-6, 0.0))
paper("lamb-decay", lamb(0.1, 0.8, 0.95, 1e-3, 0.1))
paper("adafactor", adafactor(0.1, -0.8, 2.0**-23, 1e-3, 1.0, 0.0))
paper("adafactor-decay", adafactor(0.5, -0.5, 1e-6, 0.5, 0.8, 0.1))
paper("muon", muon(0.1, 0.95, 0.1, 1e-7))
paper("muon-plain", muon(0.1, 0.8, 0.0, 100.0))

# Lookahead (Zhang et al. 2019) around SGD with momentum: after every 3 steps the slow weights go half the way.
for k in ("w", "b"):
    fast = slow = START[k].numpy()
    b, path = 0, []
    for step in range(STEPS):
        b = 0.9 * b + GRADS[k][step].numpy()
        fast = fast - 0.1 * b
        if step % 3 == 2:
            slow = slow + 0.5 * (fast - slow)
            fast = slow
        path.append(fast)
    OUT.add(f"lookahead/{k}", np.stack(path))


# LBFGS: after each of 5 steps the loss before it, and the parameters.
def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def quartic(x):
    return (x**4 / 4 + (x - 1) ** 2).sum() + (x[1:] * x[:-1]).sum() / 5


LBFGS = {
    "lbfgs": (quartic, dict(lr=0.3, max_iter=4)),
    "lbfgs-history": (quartic, dict(lr=0.3, max_iter=4, history_size=2, max_eval=3)),
    "lbfgs-wolfe": (rosenbrock, dict(line_search_fn="strong_wolfe", max_iter=3)),
    "lbfgs-far": (rosenbrock, dict(lr=1e-4, line_search_fn="strong_wolfe", max_iter=3)),
    "lbfgs-near": (rosenbrock, dict(lr=7.0, line_search_fn="strong_wolfe", max_iter=3)),
    "lbfgs-end": (quartic, dict(line_search_fn="strong_wolfe", tolerance_grad=1e-4, tolerance_change=1e-6)),
}
for name, (function, options) in LBFGS.items():
    ps = [START["w"][0].clone().requires_grad_(), START["b"][:2].clone().requires_grad_()]
    opt, losses, path = optim.LBFGS(ps, **options), [], []

    def closure():
        opt.zero_grad()
        loss = function(torch.cat(ps))
        loss.backward()
        return loss

    for _ in range(5):
        losses.append(opt.step(closure).detach())
        path.append(torch.cat(ps).detach().clone())
    OUT.add(f"{name}/losses", torch.stack(losses))
    OUT.add(f"{name}/path", torch.stack(path))


def sgd():
    return optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.5, momentum=0.9)


SCHEDULES = {
    "step": lambda o: lr.StepLR(o, 7, 0.3),
    "multi-step": lambda o: lr.MultiStepLR(o, [3, 4, 4, 20], 0.3),
    "exponential": lambda o: lr.ExponentialLR(o, 0.8),
    "constant": lambda o: lr.ConstantLR(o, 0.25, 6),
    "linear": lambda o: lr.LinearLR(o, 0.25, 0.75, 11),
    "polynomial": lambda o: lr.PolynomialLR(o, 21, 2.5),
    "cosine": lambda o: lr.CosineAnnealingLR(o, 11, 0.1),
    "restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 4, 2, 0.1),
    "restarts-1": lambda o: lr.CosineAnnealingWarmRestarts(o, 7, 1, 0.1),
    "one-cycle": lambda o: lr.OneCycleLR(o, 0.5, 30),
    "one-cycle-options": lambda o: lr.OneCycleLR(
        o, 0.5, 31, pct_start=0.21, anneal_strategy="linear", div_factor=7.0, final_div_factor=70.0, three_phase=True
    ),
    "cyclic": lambda o: lr.CyclicLR(o, 0.1, 0.5, 4, 7),
    "cyclic-2": lambda o: lr.CyclicLR(o, 0.1, 0.5, 3, 5, mode="triangular2"),
    "cyclic-exp": lambda o: lr.CyclicLR(o, 0.1, 0.5, 5, mode="exp_range", gamma=0.9),
    "sequential": lambda o: lr.SequentialLR(
        o, [lr.ConstantLR(o, 0.25, 3), lr.LinearLR(o, 0.25, 0.75, 8), lr.StepLR(o, 5, 0.5)], [4, 15]
    ),
    "chained": lambda o: lr.ChainedScheduler([lr.ConstantLR(o, 0.25, 6), lr.ExponentialLR(o, 0.9)]),
}
for name, make in SCHEDULES.items():
    opt = sgd()
    schedule, rates = make(opt), []
    for _ in range(30):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    OUT.add("schedule/" + name, torch.tensor(rates, dtype=torch.float64))

VALUES = 3 / (1 + torch.arange(30, dtype=torch.float64)) + 0.1 * torch.rand(30, dtype=torch.float64)
VALUES[7:13] = 2.0
OUT.add("plateau/values", VALUES)
PLATEAUS = {
    "plain": dict(patience=2),
    "cooldown": dict(patience=1, factor=0.5, cooldown=3, min_lr=0.05),
    "absolute": dict(patience=2, factor=0.5, threshold=0.2, threshold_mode="abs"),
    "max": dict(patience=2, factor=0.5, threshold=0.05, mode="max"),
}
for name, options in PLATEAUS.items():
    opt = sgd()
    plateau, rates = lr.ReduceLROnPlateau(opt, **options), []
    for v in VALUES:
        plateau.step(v)
        rates.append(opt.param_groups[0]["lr"])
    OUT.add("plateau/" + name, torch.tensor(rates, dtype=torch.float64))

OUT.write("optim.json.gz")

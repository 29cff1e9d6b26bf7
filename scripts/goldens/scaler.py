"""Goldens of loss scaling: scaler.json.gz.

The decisions are those of PyTorch's own class, torch.cuda.amp.GradScaler. It needs a GPU in four places, which are
replaced here, and calls two kernels that PyTorch 1.13 has only for CUDA. They are written below after their definition in
aten/src/ATen/native/cuda/AmpKernels.cu: the new scale is a product in float64 that is rounded to float32 once.

    trace/NAME/found      [updates, optimizers] uint8: whose gradients overflow in an update
    trace/NAME/scale      [updates] float32: the scale after each update
    trace/NAME/tracker    [updates] int32: updates since the scale changed
    trace/NAME/stepped    [updates, optimizers] uint8: whose step was done
    train/NAME/grad       [steps, n] float64: gradients, with an infinity or NaN in some
    train/NAME/weights    [steps, n] float64: weights after each step; they start at train/NAME/init
    train/NAME/scale      [steps] float32

The attributes of a case are the settings: init, growth, backoff, interval, and for traces change: [update, interval]
where the interval is set anew.

Run: /usr/bin/python3 scripts/goldens/scaler.py
"""

import torch
from torch.cuda.amp import grad_scaler

import golden

library = torch.library.Library("aten", "IMPL")


def unscale(grads, found_inf, inv_scale):
    for g in grads:
        if not torch.isfinite(g).all():
            found_inf.fill_(1)
        g.mul_(inv_scale.to(g.dtype))


def update_scale(scale, tracker, found_inf, growth, backoff, interval):
    if found_inf.item() > 0:
        scale.copy_(scale.double() * backoff)
        tracker.zero_()
    elif tracker.item() + 1 == interval:
        new = (scale.double() * growth).float()
        if torch.isfinite(new):
            scale.copy_(new)
        tracker.zero_()
    else:
        tracker += 1
    return scale


library.impl("_amp_foreach_non_finite_check_and_unscale_", unscale, "CPU")
library.impl("_amp_update_scale_", update_scale, "CPU")
grad_scaler.amp_definitely_not_available = lambda: False


class Replicator(grad_scaler._MultiDeviceReplicator):
    def __init__(self, master_tensor):
        self.master = master_tensor
        self._per_device_tensors = {}


grad_scaler._MultiDeviceReplicator = Replicator


class Scaler(grad_scaler.GradScaler):
    def scale(self, outputs):
        if self._scale is None:
            self._lazy_init_scale_growth_tracker(outputs.device)
        return outputs * self._scale


class Counting(torch.optim.SGD):
    """Records whether step was called."""

    stepped = False

    def step(self):
        self.stepped = True


def trace(out, name, updates, optimizers, chance, init, growth, backoff, interval, change=None):
    params = [torch.zeros(2, requires_grad=True) for _ in range(optimizers)]
    opts = [Counting([p], lr=0.1) for p in params]
    scaler = Scaler(init, growth, backoff, interval)
    found = torch.rand(updates, optimizers) < chance
    scales, trackers, stepped = [], [], []
    for k in range(updates):
        if change and k == change[0]:
            scaler.set_growth_interval(change[1])
        scaler.scale(torch.zeros(()))
        for p, opt, bad in zip(params, opts, found[k]):
            p.grad = torch.tensor([1.0, float("inf" if k % 2 else "nan") if bad else 2.0])
            opt.stepped = False
            scaler.step(opt)
        scaler.update()
        scales.append(scaler._scale.item())
        trackers.append(scaler._growth_tracker.item())
        stepped.append([opt.stepped for opt in opts])
    at = f"trace/{name}/"
    attrs = {"init": init, "growth": growth, "backoff": backoff, "interval": interval}
    if change:
        attrs["change"] = list(change)
    out.cases.append({"name": "trace/" + name, "op": "grad_scaler", "attrs": attrs,
                      "inputs": [out.add(at + "found", found.to(torch.uint8))],
                      "outputs": [out.add(at + "scale", torch.tensor(scales, dtype=torch.float32)),
                                  out.add(at + "tracker", torch.tensor(trackers, dtype=torch.int32)),
                                  out.add(at + "stepped", torch.tensor(stepped, dtype=torch.uint8))]})


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW([p], lr=0.05, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD([p], lr=0.1),
    "momentum": lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True),
}


def train(out, name, rule, steps, init, growth, backoff, interval, clip=0.0):
    n = 5
    first = torch.randn(n, dtype=torch.float64)
    w = first.clone().requires_grad_()
    opt = OPTIMIZERS[rule](w)
    scaler = Scaler(init, growth, backoff, interval)
    grads = torch.randn(steps, n, dtype=torch.float64)
    for k, bad in ((4, "inf"), (5, "nan"), (13, "-inf")):
        grads[k, k % n] = float(bad)
    weights, scales = [], []
    for k in range(steps):
        opt.zero_grad()
        scaler.scale((w * grads[k]).sum()).backward()
        if clip:
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_([w], clip)
        scaler.step(opt)
        scaler.update()
        weights.append(w.detach().clone())
        scales.append(scaler._scale.item())
    at = f"train/{name}/"
    out.cases.append({"name": "train/" + name, "op": rule, "attrs": {
        "init": init, "growth": growth, "backoff": backoff, "interval": interval, "clip": clip},
        "inputs": [out.add(at + "init", first), out.add(at + "grad", grads)],
        "outputs": [out.add(at + "weights", torch.stack(weights)),
                    out.add(at + "scale", torch.tensor(scales, dtype=torch.float32))]})


def main():
    torch.set_num_threads(1)
    torch.manual_seed(5)
    out = golden.File("scripts/goldens/scaler.py")
    out.notes = {"kernels": "PyTorch 1.13 has those of the loss scaler for CUDA alone; the script has them for the CPU"}
    trace(out, "usual", 400, 1, 0.05, 65536.0, 2.0, 0.5, 20)
    trace(out, "two optimizers", 300, 2, 0.05, 65536.0, 2.0, 0.5, 12)
    trace(out, "odd factors", 400, 1, 0.08, 1000.0, 1.37, 0.81, 5)
    trace(out, "slow", 300, 1, 0.02, 3.3e4, 1.001, 0.999, 3)
    trace(out, "often", 200, 1, 0.5, 2.0**60, 3.0, 0.7, 1)
    trace(out, "ceiling", 200, 1, 0.02, 1e38, 1.7, 0.5, 2)
    trace(out, "interval up", 200, 1, 0.03, 65536.0, 2.0, 0.5, 7, (100, 19))
    trace(out, "interval down", 200, 1, 0.0, 65536.0, 2.0, 0.5, 30, (100, 11))
    for rule in OPTIMIZERS:
        train(out, rule, rule, 20, 65536.0, 2.0, 0.5, 4)
        train(out, rule + " odd", rule, 20, 777.0, 1.9, 0.3, 3)
        train(out, rule + " clip", rule, 20, 65536.0, 2.0, 0.5, 4, 0.5)
    out.write("scaler.json.gz")


if __name__ == "__main__":
    main()

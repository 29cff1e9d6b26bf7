"""Goldens of two tiny models in float64 and float32: models.json.gz.

Models: an MLP and a GPT, the latter with free and with tied head weights. For
each: initial weights, one batch, logits, loss, every gradient, the gradients
clipped by their global norm, and ten steps on the same batch of AdamW and of
three kinds of SGD (losses and final weights). A warm-up and cosine schedule is
stored beside them.

    MODEL/init/NAME            weights before training, float32 (both precisions start here)
    MODEL/x, MODEL/y           the batch
    MODEL/F/logits             F is f64 or f32
    MODEL/F/loss               a scalar
    MODEL/F/grad/NAME          gradient of the loss
    MODEL/F/clip/norm          global norm of all gradients
    MODEL/F/clip/grad/NAME     gradients clipped to a norm of CLIP
    MODEL/F/OPT/losses         the loss before each of the ten steps and after the last: 11 values
    MODEL/F/OPT/final/NAME     weights after the steps

Run: /usr/bin/python3 scripts/goldens/models.py
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

import golden

STEPS = 10
CLIP = 0.25

OPTIMIZERS = {
    "adamw": lambda ps: torch.optim.AdamW(ps, lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01),
    "sgd": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
    "sgd-nesterov": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True),
    "sgd-decay": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01),
}


class Attention(nn.Module):
    """Multi-head causal self-attention: softmax(q k' / sqrt(D) + mask) v."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        batch, time, width = x.shape
        qkv = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        mask = torch.ones(time, time, dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, time, width))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(width, eps=1e-5)
        self.attn = Attention(width, heads)
        self.ln2 = nn.LayerNorm(width, eps=1e-5)
        self.mlp = MLP(width)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """Pre-norm transformer with learned positions; every Linear has a bias, the head too."""

    def __init__(self, vocab, layers, width, heads, context, tied=False):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocab)
        if tied:
            self.head.weight = self.tok.weight

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def randomize(model, seed):
    """Fills every parameter, biases and norms included, with values that matter."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "ln" in name or "norm" in name:
                p.normal_(1.0 if name.endswith("weight") else 0.0, 0.2)
            elif name.endswith("bias"):
                p.normal_(0.0, 0.1)
            else:
                p.normal_(0.0, 1.0 / math.sqrt(p.shape[1]))
    return model


def loss_of(model, x, y):
    logits = model(x)
    return logits, F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


def record(out, name, model, x, y, tied=False):
    """Stores all values of one model."""
    for param, value in model.named_parameters():
        out.add(f"{name}/init/{param}", value)
    out.add(f"{name}/x", x)
    out.add(f"{name}/y", y)
    for precision, dtype in (("f64", torch.float64), ("f32", torch.float32)):
        at = f"{name}/{precision}"
        inputs = x.to(dtype) if x.is_floating_point() else x

        net = copy.deepcopy(model).to(dtype)
        logits, loss = loss_of(net, inputs, y)
        loss.backward()
        out.add(f"{at}/logits", logits)
        out.add(f"{at}/loss", loss)
        for param, value in net.named_parameters():
            out.add(f"{at}/grad/{param}", value.grad)
        norm = nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        assert norm > CLIP, "the clipped gradients equal the gradients"
        out.add(f"{at}/clip/norm", norm)
        for param, value in net.named_parameters():
            out.add(f"{at}/clip/grad/{param}", value.grad)

        for kind, make in list(OPTIMIZERS.items())[:1 if tied else None]:
            net = copy.deepcopy(model).to(dtype)
            opt = make(net.parameters())
            losses = []
            for _ in range(STEPS):
                _, loss = loss_of(net, inputs, y)
                losses.append(loss.detach())
                opt.zero_grad()
                loss.backward()
                opt.step()
            losses.append(loss_of(net, inputs, y)[1].detach())
            assert losses[-1] < losses[0], (at, kind, losses)
            out.add(f"{at}/{kind}/losses", torch.stack(losses))
            for param, value in net.named_parameters():
                out.add(f"{at}/{kind}/final/{param}", value)


def schedule(peak, floor, warmup, total):
    """Linear warm-up, then half a cosine; the rate of step t, counted from 0.

    t < warmup:  peak * (t+1) / warmup
    else:        floor + (peak-floor) * (1 + cos(pi * (t-warmup) / (total-warmup))) / 2
    """
    rates = []
    for t in range(total):
        if t < warmup:
            rates.append(peak * (t + 1) / warmup)
        else:
            rates.append(floor + (peak - floor) * (1 + math.cos(math.pi * (t - warmup) / (total - warmup))) / 2)
    return rates


def torch_schedule(peak, floor, warmup, total):
    """The same rates from PyTorch's own schedulers."""
    opt = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak)
    warm = torch.optim.lr_scheduler.LinearLR(opt, start_factor=1 / warmup, total_iters=warmup - 1)
    rates = []
    for _ in range(warmup):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        warm.step()
    opt = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=total - warmup, eta_min=floor)
    for _ in range(total - warmup):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        cosine.step()
    return rates


def main():
    torch.set_num_threads(1)
    out = golden.File("scripts/goldens/models.py")
    out.notes = {
        "layout": "weights are [out, in]; attn.qkv is one Linear [3C, C] whose rows are q, k, v, each split as [H, D]",
        "mlp": "Linear 7-16, GELU (erf), Linear 16-16, GELU (erf), Linear 16-5; batch 6; mean cross-entropy",
        "gpt": "vocabulary 17, 2 layers, width 12, 3 heads, context 8, batch 3; layer-norm eps 1e-5; GELU (tanh); "
               "biases in every Linear, the head too; gpt-tied shares tok.weight with the head, so it has no head.weight",
        "adamw": "lr 1e-2, betas 0.9 and 0.999, eps 1e-8, weight decay 0.01 on every parameter; ten steps on one batch",
        "sgd": "lr 0.1, momentum 0.9, dampening 0; sgd-nesterov adds Nesterov, sgd-decay weight decay 0.01",
        "clip": f"all gradients times min(1, {CLIP} / (norm + 1e-6))",
        "schedule": "peak 1e-3, floor 1e-4, warm-up 7, total 40; the formula is in the script",
        "key bias": "softmax does not see the bias of k: its gradient (rows C to 2C of attn.qkv.bias) is rounding noise, "
                    "which AdamW scales up; in float32 these elements differ between any two correct programs",
    }

    mlp = randomize(nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 5)), 1)
    record(out, "mlp", mlp, torch.randn(6, 7), torch.randint(5, (6,)))

    for name, tied in (("gpt", False), ("gpt-tied", True)):
        gpt = randomize(GPT(vocab=17, layers=2, width=12, heads=3, context=8, tied=tied), 2)
        ids = torch.randint(17, (3, 9))
        record(out, name, gpt, ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), tied)

    rates = schedule(1e-3, 1e-4, 7, 40)
    for a, b in zip(rates, torch_schedule(1e-3, 1e-4, 7, 40)):
        assert abs(a - b) <= 1e-12 * abs(b), (a, b)
    out.add("schedule", torch.tensor(rates, dtype=torch.float64))
    out.write("models.json.gz")


if __name__ == "__main__":
    main()

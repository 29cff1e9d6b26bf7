"""The benchmarks of PyTorch for peer.py.

    bench          parameters (defaults)
    copy           n (1000000): y.copy_(x), the ceiling of memory-bound ones
    sgemm          n: C = A B of n x n matrices into the same C
    fashion        batch (128), images (60000), batches (all), activation (gelu), foreach (true):
                   an epoch of the MLP 784-256-128-10 with AdamW on random
                   images, shuffled; with batches, that many are run and the
                   time is scaled to the epoch (scaled_from_batches)
    chargpt        vocab (91), layers (4), width (128), heads (4), context (64), batch (16), foreach (true):
                   a training step with AdamW
    loader         batch (128), images (60000), workers (2), batches (200): so many batches of a DataLoader
    exp, gelu, gelu_tanh, softmax, layer_norm
                   n (1000000), pass (forward | backward), out (fresh | reuse)
    cross_entropy  n (1000000), out (fresh | reuse): forward and backward
    adamw          n (1000000), foreach (false): one step over one parameter

    add            n (1000000), out (fresh | reuse): x + y
    conv           images, inputs, side, outputs, size, stride, groups,
                   pass (forward | backward x | backward weight)
    batch_norm     channels, side: training, forward and backward, 16 images
    max_pool       size, stride, padding, side: forward and backward, 16 images of 64 channels
    attention      mask (causal | additive | bool): forward and backward by matmul and
                   softmax, 8 heads of 64 numbers, 256 queries, batch 8
    sort, topk     n (1000000); topk finds the 100 largest
    einsum         equation, n: operands have n elements on each axis
    resnet18, cnn_digits, cnn_fashion
                   a training step with AdamW
    lstm           2 layers of 256 features, 64 times, batch 32: forward and backward

softmax, layer_norm and cross_entropy use rows of 1024, so n is rounded down to
whole rows. With out=fresh PyTorch allocates the outputs; with reuse they are
given, which PyTorch does not offer for layer_norm. Fresh outputs above 32 MB
cost a page fault for every 4 KiB, because malloc returns such memory to the
system at once; smaller ones may too, as the 4 MB temporaries of adamw do:
--keep-memory of peer.py separates that from the kernels' own speed. With
--passive OpenMP's threads sleep when they wait and do not spin: on a busy
machine two threads are many times faster so, on a quiet one a little slower.
"""

import argparse
import ctypes
import math
import os
import subprocess
import sys
import time

PARSER = argparse.ArgumentParser(prog="peer.py torch")
PARSER.add_argument("--passive", action="store_true", help="let waiting OpenMP threads sleep")
ARGS = PARSER.parse_args()
if ARGS.passive:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # OpenMP reads it when PyTorch is loaded

# OpenBLAS takes a processor that is newer than itself for one of 2004, without AVX: a fifth of the speed.
ASK = """
import ctypes
blas = ctypes.CDLL("libopenblas.so.0")
blas.openblas_get_corename.restype = ctypes.c_char_p
print(blas.openblas_get_corename().decode())
"""
if "OPENBLAS_CORETYPE" not in os.environ and os.path.exists("/proc/cpuinfo"):
    CORE = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True).stdout.strip()
    FLAGS = open("/proc/cpuinfo").read().split()
    if CORE == "Prescott" and "avx2" in FLAGS:
        os.environ["OPENBLAS_CORETYPE"] = "SkylakeX" if "avx512dq" in FLAGS else "Haswell"

import torch
from torch import nn
from torch.nn import functional as F

ROW = 1024


# ---------------------------------------------------------------- environment


class Blas:
    """The BLAS that PyTorch calls: its name with the processor it is for, and its own thread count where it has one."""

    def __init__(self):
        self.lib = None
        self.name = "MKL" if torch.backends.mkl.is_available() else "unknown"
        for path in sorted(self.loaded("openblas")):
            try:
                lib = ctypes.CDLL(path)
                lib.openblas_get_config.restype = lib.openblas_get_corename.restype = ctypes.c_char_p
                core = lib.openblas_get_corename().decode()
                self.name = " ".join(lib.openblas_get_config().decode().split()[:2] + [core])
                self.lib = lib
                return
            except (OSError, AttributeError):
                continue

    @staticmethod
    def loaded(word):
        try:
            with open("/proc/self/maps") as maps:
                return {line.split()[-1] for line in maps if word in line and line.split()[-1].startswith("/")}
        except OSError:
            return set()

    def set_threads(self, n):
        if self.lib:
            self.lib.openblas_set_num_threads(n)


def cpu_capability():
    for line in torch.__config__.show().splitlines():
        if "CPU capability usage" in line:
            return line.split(":")[1].strip()
    return "unknown"


BLAS = Blas()
if BLAS.name == "unknown":  # such as the reference BLAS, which makes 18x of a tie
    raise RuntimeError("PyTorch runs on neither OpenBLAS nor MKL; ratios to it would say nothing")
torch.manual_seed(1)
FACTS = {
    "program": f"PyTorch {torch.__version__}, {cpu_capability()}, {BLAS.name}",
    "cpu_capability": cpu_capability(),
}


def set_threads(n):
    torch.set_num_threads(n)
    BLAS.set_threads(n)


# ---------------------------------------------------------------- benchmarks
#
# Each function prepares its tensors and returns (run, facts), as peer.py asks.


def copy(n=1_000_000):
    x, y = torch.randn(n), torch.empty(n)
    return lambda: y.copy_(x), {"work": "call", "elements": n}


def sgemm(n):
    a, b, c = torch.randn(n, n), torch.randn(n, n), torch.empty(n, n)
    return lambda: torch.mm(a, b, out=c), {"work": "call", "elements": n * n}


def check(value, *allowed):
    if value not in allowed:
        raise ValueError(f"{value!r} is none of {allowed}")


def rows_of(n):
    if n < ROW:
        raise ValueError(f"n = {n} is less than one row of {ROW}")
    return n // ROW


def pointwise(n, out, forward, backward, forward_out, backward_out, direction):
    check(direction, "forward", "backward")
    check(out, "fresh", "reuse")
    x, g, y = torch.randn(n), torch.randn(n), torch.empty(n)
    result = forward(x)
    runs = {
        ("forward", "fresh"): lambda: forward(x),
        ("forward", "reuse"): lambda: forward_out(x, y),
        ("backward", "fresh"): lambda: backward(g, x, result),
        ("backward", "reuse"): lambda: backward_out(g, x, result, y),
    }
    return runs[direction, out], {"work": "call", "elements": n}


def exp(n=1_000_000, out="fresh", direction="forward"):
    return pointwise(
        n, out, torch.exp,
        lambda g, x, y: g * y,
        lambda x, out: torch.exp(x, out=out),
        lambda g, x, y, out: torch.mul(g, y, out=out),
        direction)


def gelu(n=1_000_000, out="fresh", direction="forward", approximate="none"):
    aten = torch.ops.aten
    return pointwise(
        n, out, lambda x: F.gelu(x, approximate=approximate),
        lambda g, x, y: aten.gelu_backward(g, x, approximate=approximate),
        lambda x, out: aten.gelu(x, approximate=approximate, out=out),
        lambda g, x, y, out: aten.gelu_backward(g, x, approximate=approximate, grad_input=out),
        direction)


def gelu_tanh(n=1_000_000, out="fresh", direction="forward"):
    return gelu(n, out, direction, "tanh")


def softmax(n=1_000_000, out="fresh", direction="forward"):
    check(direction, "forward", "backward")
    check(out, "fresh", "reuse")
    rows = rows_of(n)
    aten = torch.ops.aten
    x, g, y = torch.randn(rows, ROW), torch.randn(rows, ROW), torch.empty(rows, ROW)
    p = torch.softmax(x, -1)
    runs = {
        ("forward", "fresh"): lambda: torch.softmax(x, -1),
        ("forward", "reuse"): lambda: aten._softmax(x, -1, False, out=y),
        ("backward", "fresh"): lambda: aten._softmax_backward_data(g, p, -1, torch.float32),
        ("backward", "reuse"): lambda: aten._softmax_backward_data(g, p, -1, torch.float32, grad_input=y),
    }
    return runs[direction, out], {"work": "call", "elements": rows * ROW}


def layer_norm(n=1_000_000, out="fresh", direction="forward"):
    check(direction, "forward", "backward")
    check(out, "fresh")
    rows = rows_of(n)
    aten = torch.ops.aten
    x, g, w, b = torch.randn(rows, ROW), torch.randn(rows, ROW), torch.randn(ROW), torch.randn(ROW)
    if direction == "forward":
        run = lambda: F.layer_norm(x, (ROW,), w, b)
    else:
        _, mean, rstd = aten.native_layer_norm(x, (ROW,), w, b, 1e-5)
        run = lambda: aten.native_layer_norm_backward(g, x, (ROW,), mean, rstd, w, b, (True, True, True))
    return run, {"work": "call", "elements": rows * ROW}


def cross_entropy(n=1_000_000, out="fresh"):
    check(out, "fresh", "reuse")
    rows = rows_of(n)
    aten = torch.ops.aten
    x = torch.randn(rows, ROW, requires_grad=True)
    target = torch.randint(ROW, (rows,))
    data, logp, dlogp, dx = x.detach(), *(torch.empty(rows, ROW) for _ in range(3))
    loss, count, one = torch.empty(()), torch.empty(()), torch.ones(())

    def fresh():
        x.grad = None
        F.cross_entropy(x, target).backward()

    def reuse():
        mean, ignored = 1, -100
        aten._log_softmax(data, -1, False, out=logp)
        aten.nll_loss_forward(logp, target, None, mean, ignored, output=loss, total_weight=count)
        aten.nll_loss_backward(one, logp, target, None, mean, ignored, count, grad_input=dlogp)
        aten._log_softmax_backward_data(dlogp, logp, -1, torch.float32, out=dx)

    return {"fresh": fresh, "reuse": reuse}[out], {"work": "call", "elements": rows * ROW}


def adamw(n=1_000_000, foreach=False):
    p = nn.Parameter(torch.randn(n))
    p.grad = torch.randn(n)
    opt = torch.optim.AdamW([p], lr=1e-3, foreach=foreach)
    return opt.step, {"work": "call", "elements": n}


def fashion(batch=128, images=60_000, batches=None, activation="gelu", foreach=True):
    check(activation, "gelu", "relu")
    act = {"gelu": nn.GELU, "relu": nn.ReLU}[activation]
    model = nn.Sequential(nn.Linear(784, 256), act(), nn.Linear(256, 128), act(), nn.Linear(128, 10))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=foreach)
    x, y = torch.rand(images, 784), torch.randint(10, (images,))
    total = math.ceil(images / batch)
    wanted = min(batches or total, total)

    def run():
        start = time.perf_counter()
        for ids in torch.randperm(images).split(batch)[:wanted]:
            loss = F.cross_entropy(model(x[ids]), y[ids])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        return (time.perf_counter() - start) * total / wanted

    facts = {"work": "epoch", "batches_per_epoch": total}
    if wanted < total:
        facts["scaled_from_batches"] = wanted
    return run, facts


class Pictures(torch.utils.data.Dataset):
    """Bytes that become numbers from 0 to 1 one by one, as torchvision's ToTensor makes them, without PIL."""

    def __init__(self, images):
        self.x, self.y = torch.randint(256, (images, 784), dtype=torch.uint8), torch.randint(10, (images,))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i].float().div(255), self.y[i]


def loader(batch=128, images=60_000, workers=2, batches=200):
    pictures = Pictures(images)

    def run():
        made = iter(torch.utils.data.DataLoader(pictures, batch, shuffle=True, num_workers=workers))
        next(made)  # the workers have begun
        start = time.perf_counter()
        for _ in range(batches):
            next(made)
        return time.perf_counter() - start

    return run, {"work": "batches", "batches": batches}


class Attention(nn.Module):
    """Causal self-attention with one Linear for q, k and v."""

    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.register_buffer("future", torch.ones(context, context, dtype=torch.bool).triu(1))

    def forward(self, x):
        batch, time_, width = x.shape
        q, k, v = self.qkv(x).view(batch, time_, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)
        weights = scores.masked_fill(self.future, -math.inf).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, time_, width))


class Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, context)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """Pre-norm transformer, learned positions, free head, biases everywhere."""

    def __init__(self, vocab, layers, width, heads, context):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, context) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tok(ids) + self.pos.weight)))


def chargpt(vocab=91, layers=4, width=128, heads=4, context=64, batch=16, foreach=True):
    model = GPT(vocab, layers, width, heads, context)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=foreach)
    ids = torch.randint(vocab, (batch, context + 1))
    x, y = ids[:, :-1].contiguous(), ids[:, 1:].reshape(-1)

    def run():
        loss = F.cross_entropy(model(x).view(-1, vocab), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()

    return run, {"work": "step", "parameters": sum(p.numel() for p in model.parameters())}


def add(n=1_000_000, out="fresh"):
    check(out, "fresh", "reuse")
    x, y, z = torch.randn(n), torch.randn(n), torch.empty(n)
    runs = {"fresh": lambda: x + y, "reuse": lambda: torch.add(x, y, out=z)}
    return runs[out], {"work": "call", "elements": n}


def conv(images, inputs, side, outputs, size, stride, groups, direction):
    x, w = torch.randn(images, inputs, side, side), torch.randn(outputs, inputs // groups, size, size)
    padding = size // 2
    y = F.conv2d(x, w, None, stride, padding, 1, groups)
    g = torch.randn_like(y)

    def backward(*wanted):
        return lambda: torch.ops.aten.convolution_backward(
            g, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, [*wanted, False])

    runs = {
        "forward": lambda: F.conv2d(x, w, None, stride, padding, 1, groups),
        "backward x": backward(True, False),
        "backward weight": backward(False, True),
    }
    return runs[direction], {"work": "call", "elements": x.numel()}


def both_passes(f, *operands):
    """f forward and the backward pass of its sum by the operands."""
    operands = [x.requires_grad_() for x in operands]
    return lambda: torch.autograd.grad(f(*operands).sum(), operands), {
        "work": "call", "elements": operands[0].numel()}


def batch_norm(channels, side):
    norm = nn.BatchNorm2d(channels)
    return both_passes(lambda x, y: norm(x) * y, *(torch.randn(16, channels, side, side) for _ in range(2)))


def max_pool(size, stride, padding, side):
    return both_passes(lambda x: F.max_pool2d(x, size, stride, padding), torch.randn(16, 64, side, side))


def attention(mask):
    batch, heads, length, width = 8, 8, 256, 64
    check(mask, "causal", "additive", "bool")
    masks = {
        "causal": torch.full((length, length), -math.inf).triu(1),
        "additive": torch.randn(length, length),
        "bool": torch.zeros(length, length).masked_fill(torch.randn(length, length) <= -1, -math.inf),
    }
    m = masks[mask]

    def run(q, k, v):
        return ((q / math.sqrt(width)) @ k.transpose(-2, -1) + m).softmax(-1) @ v

    return both_passes(run, *(torch.randn(batch, heads, length, width) for _ in range(3)))


def sort(n=1_000_000):
    x = torch.randn(n)
    return lambda: torch.sort(x), {"work": "call", "elements": n}


def topk(n=1_000_000):
    x = torch.randn(n)
    return lambda: torch.topk(x, 100), {"work": "call", "elements": n}


def einsum(equation, n):
    operands = [torch.randn([n] * len(axes)) for axes in equation.split("->")[0].split(",")]
    return lambda: torch.einsum(equation, *operands), {"work": "call", "elements": operands[0].numel()}


def training(model, x, classes=10):
    y = torch.randint(classes, (len(x),))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)

    def run():
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()

    return run, {"work": "step", "parameters": sum(p.numel() for p in model.parameters())}


def resnet18():
    from torchvision.models import resnet18 as model  # Debian's python3-torchvision
    return training(model(num_classes=10), torch.randn(64, 3, 32, 32))


def cnn(side, width, batch):
    model = nn.Sequential(
        nn.Conv2d(1, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, 1, 1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(2 * width * (side // 4) ** 2, 128), nn.ReLU(), nn.Linear(128, 10))
    return training(model, torch.randn(batch, 1, side, side))


def cnn_digits():
    return cnn(8, 16, 32)


def cnn_fashion():
    return cnn(28, 32, 128)


def lstm():
    times, batch, features = 64, 32, 256
    model = nn.LSTM(features, features, 2)
    x = torch.randn(times, batch, features, requires_grad=True)

    def run():
        model.zero_grad(set_to_none=True)
        x.grad = None
        model(x)[0].sum().backward()

    return run, {"work": "call", "elements": x.numel()}


BENCHES = {f.__name__: f for f in (
    copy, sgemm, fashion, chargpt, exp, gelu, gelu_tanh, softmax, layer_norm, cross_entropy, adamw, loader, add, conv,
    batch_norm, max_pool, attention, sort, topk, einsum, resnet18, cnn_digits, cnn_fashion, lstm)}

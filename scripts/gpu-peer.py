"""PyTorch's speed on this GPU, by the names of the lines that gpucheck prints for Weft.

gpu-peer.py [FAMILY...] measures families of operations, all without one. It prints one line for each operation and one JSON object
at the end. Without PyTorch with CUDA it says so and ends with status 77.
"""
import json
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as e:
    print(f"no PyTorch: {e}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("this PyTorch finds no GPU")
    sys.exit(77)

N = 1 << 26
values = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}


def seconds(f, times=20, runs=6):
    """Median time of a call, by events, of runs of calls."""
    taken = []
    for _ in range(runs):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(times):
            f()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3 / times)
    return sorted(taken[1:])[len(taken[1:]) // 2]


def note(name, t, nbytes=0, flops=0):
    figure = {"us": 1e6 * t}
    if nbytes:
        figure["GB/s"] = nbytes / t / 1e9
    if flops:
        figure["TFLOP/s"] = flops / t / 1e12
    values[name] = figure
    print(name, json.dumps(figure), flush=True)


def both(op, kind, f, xs, forward_bytes=0, backward_bytes=0, forward_flops=0, backward_flops=0):
    """Time a forward pass, and the backward pass as the time of both less that."""
    with torch.no_grad():
        forward = seconds(lambda: f(*xs))
    note(f"{op} {kind}", forward, forward_bytes, forward_flops)
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in xs]
    y = f(*leaves)
    g = torch.ones_like(y)
    wanted = [x for x in leaves if x.requires_grad]
    whole = seconds(lambda: torch.autograd.grad(f(*leaves), wanted, g))
    note(f"{op} backward {kind}", whole - forward, backward_bytes, backward_flops)


TYPES = (torch.float32, torch.bfloat16, torch.float16)


def word(dt):
    return str(dt).removeprefix("torch.")


def random(dt, *shape):
    return torch.rand(*shape, device="cuda").sub(0.5).to(dt)


def copies():
    for size in (1 << 20, 1 << 24, 1 << 28, 1 << 30):
        x = torch.empty(size, device="cuda", dtype=torch.uint8)
        y = torch.empty_like(x)
        note(f"copy of {size} bytes", seconds(lambda: y.copy_(x)), 2 * size)


def pointwise():
    for dt in TYPES:
        name, size = word(dt), N * dt.itemsize
        x, z = random(dt, N), random(dt, N)
        for op, f in {"copy": torch.clone, "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh}.items():
            note(f"{op} {name}", seconds(lambda: f(x)), 2 * size)
        note(f"add {name}", seconds(lambda: x + z), 3 * size)
        note(f"mul {name}", seconds(lambda: x * z), 3 * size)
    for to in TYPES[1:]:
        for a, b in ((torch.float32, to), (to, torch.float32)):
            x = random(a, N)
            note(f"cast {word(a)} to {word(b)}", seconds(lambda: x.to(b)), 6 * N)


def residual(x, w, b, r):
    x = x + r
    return x, F.layer_norm(x, w.shape, w, b)


def rows():
    for columns in (1024, 2048, 4096, 8192, 50304):
        for dt in TYPES:
            if dt == torch.float16 and columns > 1024:
                continue
            name, count = f"{columns} {word(dt)}", N // columns
            size = count * columns * dt.itemsize
            x, w, b = random(dt, count, columns), random(dt, columns), random(dt, columns)
            targets = torch.zeros(count, device="cuda", dtype=torch.long)
            both("cross_entropy", name, lambda x: F.cross_entropy(x, targets), [x], size, 2 * size)
            if columns > 8192:
                continue
            both("softmax", name, lambda x: x.softmax(-1), [x], 2 * size, 3 * size)
            both("layer_norm", name, lambda x, w, b: F.layer_norm(x, (columns,), w, b), [x, w, b], 2 * size, 3 * size)
            if hasattr(F, "rms_norm"):  # since PyTorch 2.4
                both("rms_norm", name, lambda x, w: F.rms_norm(x, (columns,), w), [x, w], 2 * size, 3 * size)
            r = random(dt, count, columns)
            with torch.no_grad():
                note(f"residual {name}", seconds(lambda: residual(x, w, b, r)), 4 * size)


def reductions():
    for dt in TYPES[:2]:
        x = random(dt, N // 1024, 1024)
        for op, f in {
            "sum": lambda: x.sum(), "sum of rows": lambda: x.sum(1), "sum of columns": lambda: x.sum(0),
            "max": lambda: x.amax(), "max of rows": lambda: x.amax(1), "max of columns": lambda: x.amax(0),
            "argmax of rows": lambda: x.argmax(1), "argmax of columns": lambda: x.argmax(0),
        }.items():
            note(f"{op} {word(dt)}", seconds(f), N * dt.itemsize)


def matmul():
    for dt in TYPES:
        for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (32768, 768, 768), (32768, 3072, 768), (32768, 768, 3072), (768, 3072, 32768), (768, 768, 32768)):
            a, b = random(dt, m, k), random(dt, k, n)
            for tf32 in (False, True) if dt == torch.float32 else (False,):
                torch.backends.cuda.matmul.allow_tf32 = tf32
                note(f"matmul [{m} {n} {k}] {'tf32' if tf32 else word(dt)}", seconds(lambda: a @ b, times=10), flops=2 * m * n * k)


def attention():
    for dt in TYPES[1:]:
        for d in (64, 80, 96, 128):
            q, k, v = (random(dt, 8, 12, 1024, d) for _ in range(3))
            flops = 2 * 8 * 12 * 1024 * 1024 * d
            both(f"attention causal D={d}", word(dt), lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [q, k, v],
                 forward_flops=flops, backward_flops=2.5 * flops)


def optimizer():
    p = torch.nn.Parameter(random(torch.float32, N))
    p.grad = torch.rand_like(p)
    opt = torch.optim.AdamW([p], fused=True)
    note("adamw", seconds(opt.step), 28 * N)


families = {f.__name__: f for f in (pointwise, rows, reductions, matmul, attention, optimizer, copies)}
for family in sys.argv[1:] or families:
    families[family]()
print(json.dumps(values))

"""What only the vendor's stack can tell: PyTorch's speed on this GPU, as the lines that gpucheck prints for Weft.

Prints one line for each operation and one JSON object at the end. Without PyTorch with CUDA it says so and ends with status 77.
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
    print(name, figure, flush=True)


def both(name, f, xs, forward_bytes=0, backward_bytes=0, forward_flops=0, backward_flops=0):
    """Time a forward pass, and the backward pass as the time of both less that."""
    with torch.no_grad():
        forward = seconds(lambda: f(*xs))
    note(name, forward, forward_bytes, forward_flops)
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in xs]
    y = f(*leaves)
    g = torch.ones_like(y)
    wanted = [x for x in leaves if x.requires_grad]
    note(name + " backward", seconds(lambda: torch.autograd.grad(f(*leaves), wanted, g)) - forward, backward_bytes, backward_flops)


for size in (1 << 20, 1 << 24, 1 << 28, 1 << 30):
    x = torch.empty(size, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    note(f"copy of {size} bytes", seconds(lambda: y.copy_(x)), 2 * size)
del x, y

for dt in (torch.float32, torch.bfloat16, torch.float16):
    name = str(dt).removeprefix("torch.")
    size = N * dt.itemsize
    x, z = torch.rand(N, device="cuda").to(dt), torch.rand(N, device="cuda").to(dt)
    for op, f in {"copy": torch.clone, "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh}.items():
        note(f"{op} {name}", seconds(lambda: f(x)), 2 * size)
    note(f"add {name}", seconds(lambda: x + z), 3 * size)
    rows = x.view(-1, 1024)
    w = torch.ones(1024, device="cuda", dtype=dt)
    both(f"layer_norm {name}", lambda x, w, b: F.layer_norm(x, (1024,), w, b), [rows, w, torch.zeros_like(w)], 2 * size, 3 * size)
    both(f"softmax {name}", lambda x: x.softmax(-1), [rows], 2 * size, 3 * size)
    targets = torch.zeros(len(rows), device="cuda", dtype=torch.long)
    both(f"cross_entropy {name}", lambda x: F.cross_entropy(x, targets), [rows], size, 2 * size)
    del x, z, rows
    for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (32768, 768, 768), (32768, 3072, 768), (32768, 768, 3072), (768, 3072, 32768)):
        a, b = torch.rand(m, k, device="cuda").sub(0.5).to(dt), torch.rand(k, n, device="cuda").sub(0.5).to(dt)
        for tf32 in (False, True) if dt == torch.float32 else (False,):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            note(f"matmul [{m} {n} {k}] {'tf32' if tf32 else name}", seconds(lambda: a @ b, times=10), flops=2 * m * n * k)
    for d in (64, 128) if dt != torch.float32 else ():
        q, k, v = (torch.rand(8, 12, 1024, d, device="cuda").to(dt) for _ in range(3))
        flops = 2 * 8 * 12 * 1024 * 1024 * d
        both(f"attention causal D={d} {name}", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [q, k, v],
             forward_flops=flops, backward_flops=2.5 * flops)

p = torch.nn.Parameter(torch.rand(N, device="cuda"))
p.grad = torch.rand_like(p)
opt = torch.optim.AdamW([p], fused=True)
note("adamw", seconds(opt.step), 28 * N)
print(json.dumps(values))

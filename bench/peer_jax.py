"""The benchmarks of JAX for peer.py, each function compiled as a whole.

    bench          parameters (defaults)
    sgemm          n: A B of n x n matrices
    fashion        batch (128), images (60000), scan (true): an epoch of the MLP 784-256-128-10 with AdamW on random
                   images, shuffled; compiled as one program with a loop, or a program for each step
    chargpt        vocab (91), layers (4), width (128), heads (4), context (64), batch (16): a training step with AdamW
    exp, gelu, gelu_tanh, softmax, layer_norm
                   n (1000000), pass (forward | backward)
    cross_entropy, adamw, add
                   n (1000000)

JAX has no setting for the number of threads of its compiled programs; it starts as many as it may use processors. So
--threads N leaves the process that many.
"""

import argparse
import math
import os
import time

PARSER = argparse.ArgumentParser(prog="peer.py jax")
PARSER.add_argument("--threads", type=int, default=1)
ARGS = PARSER.parse_args()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: ARGS.threads])
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

ROW = 1024
FACTS = {"program": f"JAX {jax.__version__}"}
RANDOM = np.random.default_rng(1)


def set_threads(n):
    if n != ARGS.threads:
        raise ValueError(f"{n} threads asked of a process with {ARGS.threads}")


def randn(*shape):
    return jnp.asarray(RANDOM.standard_normal(shape, np.float32))


def classes(count, *shape):
    return jnp.asarray(RANDOM.integers(count, size=shape, dtype=np.int32))


def call(f, *operands):
    """f compiled, on operands in memory."""
    compiled = jax.jit(f)
    return lambda: jax.block_until_ready(compiled(*operands)), {"work": "call", "elements": operands[0].size}


def update(f, state, *operands):
    """f compiled, from a state and operands to the next state, which takes the old one's memory."""
    compiled, kept = jax.jit(f, donate_argnums=0), [state]

    def run():
        kept[0] = jax.block_until_ready(compiled(kept[0], *operands))

    return run


# ---------------------------------------------------------------- operations


def sgemm(n):
    return call(jnp.matmul, randn(n, n), randn(n, n))


def add(n=1_000_000):
    return call(jnp.add, randn(n), randn(n))


def exp(n=1_000_000, direction="forward"):
    if direction == "forward":
        return call(jnp.exp, randn(n))
    return call(jnp.multiply, randn(n), jnp.exp(randn(n)))


def backward(f):
    """From x and the gradient of f(x) to that of x."""
    return lambda x, g: jax.vjp(f, x)[1](g)[0]


def gelu(n=1_000_000, direction="forward", approximate=False):
    def f(x):
        return jax.nn.gelu(x, approximate)

    return call(f, randn(n)) if direction == "forward" else call(backward(f), randn(n), randn(n))


def gelu_tanh(n=1_000_000, direction="forward"):
    return gelu(n, direction, True)


def rows(n):
    return randn(n // ROW, ROW)


def softmax(n=1_000_000, direction="forward"):
    if direction == "forward":
        return call(jax.nn.softmax, rows(n))
    return call(lambda p, g: p * (g - (g * p).sum(-1, keepdims=True)), jax.nn.softmax(rows(n)), rows(n))


def normed(x, w, b):
    mean = x.mean(-1, keepdims=True)
    centered = x - mean
    return centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * w + b


def layer_norm(n=1_000_000, direction="forward"):
    x, w, b = rows(n), randn(ROW), randn(ROW)
    if direction == "forward":
        return call(normed, x, w, b)
    return call(lambda x, w, b, g: jax.vjp(normed, x, w, b)[1](g), x, w, b, rows(n))


def loss_of(logits, targets):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], 1).mean()


def cross_entropy(n=1_000_000):
    return call(jax.value_and_grad(loss_of), rows(n), classes(ROW, n // ROW))


# ---------------------------------------------------------------- training


def adamw_step(state, grads, rate=1e-3, b1=0.9, b2=0.999, eps=1e-8, decay=0.01):
    """Decoupled weight decay (Loshchilov and Hutter 2019), as torch.optim.AdamW."""
    params, m, v, t = state
    t = t + 1
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, m, grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, v, grads)
    step, root = rate / (1 - b1**t), jnp.sqrt(1 - b2**t)
    params = jax.tree.map(
        lambda p, m, v: p * (1 - rate * decay) - step * m / (jnp.sqrt(v) / root + eps), params, m, v)
    return params, m, v, t


def fresh(params):
    return params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params), jnp.float32(0)


def adamw(n=1_000_000):
    return update(adamw_step, fresh(randn(n)), randn(n)), {"work": "call", "elements": n}


def linear(inputs, outputs):
    bound = 1 / math.sqrt(inputs)
    return randn(inputs, outputs) * bound, randn(outputs) * bound


def apply(layer, x):
    return x @ layer[0] + layer[1]


def fashion(batch=128, images=60_000, scan=True):
    layers = [linear(784, 256), linear(256, 128), linear(128, 10)]
    x = jnp.asarray(RANDOM.random((images, 784), np.float32))
    y = classes(10, images)

    def loss(layers, x, y):
        for layer in layers[:-1]:
            x = jax.nn.gelu(apply(layer, x), False)
        return loss_of(apply(layers[-1], x), y)

    def step(state, ids, x, y):
        return adamw_step(state, jax.grad(loss)(state[0], x[ids], y[ids]))

    whole = images // batch * batch

    def epoch(state, order, x, y):
        state, _ = jax.lax.scan(lambda s, ids: (step(s, ids, x, y), None), state, order[:whole].reshape(-1, batch))
        return step(state, order[whole:], x, y) if whole < images else state

    epoch, step = jax.jit(epoch, donate_argnums=0), jax.jit(step, donate_argnums=0)
    kept = [fresh(layers)]

    def run():
        start = time.perf_counter()
        order, state = RANDOM.permutation(images).astype(np.int32), kept[0]
        if scan:
            state = epoch(state, order, x, y)
        else:
            for first in range(0, images, batch):
                state = step(state, order[first : first + batch], x, y)
        kept[0] = jax.block_until_ready(state)
        return time.perf_counter() - start

    run()  # compiles
    return run, {"work": "epoch"}


def attention(block, x, heads):
    batch, context, width = x.shape
    q, k, v = jnp.moveaxis(apply(block["qkv"], x).reshape(batch, context, 3, heads, -1), (2, 3), (0, 2))
    scores = q / math.sqrt(width // heads) @ jnp.swapaxes(k, -1, -2)
    scores = jnp.where(jnp.tri(context, dtype=bool), scores, -jnp.inf)
    y = jnp.swapaxes(jax.nn.softmax(scores) @ v, 1, 2).reshape(batch, context, width)
    return apply(block["proj"], y)


def chargpt(vocab=91, layers=4, width=128, heads=4, context=64, batch=16):
    def norm():
        return jnp.ones(width), jnp.zeros(width)

    model = {
        "tok": randn(vocab, width), "pos": randn(context, width), "norm": norm(), "head": linear(width, vocab),
        "blocks": [{
            "ln1": norm(), "ln2": norm(), "qkv": linear(width, 3 * width), "proj": linear(width, width),
            "up": linear(width, 4 * width), "down": linear(4 * width, width)} for _ in range(layers)],
    }
    x, y = classes(vocab, batch, context), classes(vocab, batch * context)

    def loss(model, x, y):
        h = model["tok"][x] + model["pos"]
        for b in model["blocks"]:
            h = h + attention(b, normed(h, *b["ln1"]), heads)
            h = h + apply(b["down"], jax.nn.gelu(apply(b["up"], normed(h, *b["ln2"])), True))
        return loss_of(apply(model["head"], normed(h, *model["norm"])).reshape(-1, vocab), y)

    run = update(lambda state, x, y: adamw_step(state, jax.grad(loss)(state[0], x, y)), fresh(model), x, y)
    return run, {"work": "step", "parameters": sum(p.size for p in jax.tree.leaves(model))}


BENCHES = {f.__name__: f for f in (
    sgemm, fashion, chargpt, exp, gelu, gelu_tanh, softmax, layer_norm, cross_entropy, adamw, add)}

#!/usr/bin/env python3
"""Writes testdata/goldens/ops_attention.json.gz: attention with masks, its layers, and position encodings."""

import warnings

import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.stateless import functional_call

from cases import *

warnings.filterwarnings("ignore")


# ---- attention by its formula -------------------------------------------------------------------------


def masked_attention(q, k, v, mask=None, causal=False, window=None, position=0, scale=None):
    """softmax(scale q k' + mask) v; rows that see no key are 0. k and v may have fewer heads."""
    repeat = q.shape[1] // max(1, k.shape[1])
    k, v = (x.repeat_interleave(repeat, 1) for x in (k, v))
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    t, s = scores.shape[-2:]
    distance = torch.arange(s) - torch.arange(t)[:, None] - position
    visible = torch.ones(t, s, dtype=torch.bool)
    if causal:
        visible &= distance <= 0
    if window:
        visible &= (distance >= -window[0]) & (distance <= window[1])
    if mask is not None and mask.dtype == torch.bool:
        visible = visible & mask
    elif mask is not None:
        scores = scores + mask
    scores = scores.masked_fill(~visible, -INF)
    none = (scores == -INF).all(-1, keepdim=True)
    return scores.masked_fill(none, 0).softmax(-1).masked_fill(none, 0) @ v


def qkv(b, h, shared, t, s, d, e):
    return [randn(b, h, t, d), randn(b, shared, s, d), randn(b, shared, s, e)]


seed("masked_attention")
case("masked_attention/plain", masked_attention, qkv(2, 2, 2, 3, 4, 4, 3))
case("masked_attention/scale", masked_attention, qkv(1, 2, 2, 3, 3, 4, 4), {"scale": 0.3})
for t, s in (3, 3), (2, 5), (5, 2):
    case(f"masked_attention/causal {t} {s}", masked_attention, qkv(1, 2, 2, t, s, 4, 4), {"causal": True})
    case(f"masked_attention/window {t} {s}", masked_attention, qkv(1, 1, 1, t, s, 4, 4), {"window": [1, 0]})
case("masked_attention/window both", masked_attention, qkv(1, 2, 2, 6, 6, 2, 2), {"window": [2, 1]})
case("masked_attention/causal window", masked_attention, qkv(1, 2, 2, 6, 6, 2, 2), {"window": [2, 3], "causal": True})
case("masked_attention/position", masked_attention, qkv(1, 2, 2, 2, 6, 2, 2), {"position": 3, "causal": True})
case("masked_attention/position window", masked_attention, qkv(1, 1, 1, 2, 7, 2, 2),
     {"position": 4, "causal": True, "window": [2, 0]})
for shared in 1, 2:
    case(f"masked_attention/heads 4 {shared}", masked_attention, qkv(2, 4, shared, 3, 4, 2, 3), {"causal": True})
for name, shape in {"full": (2, 2, 3, 4), "rows": (3, 4), "keys": (4,), "heads": (2, 1, 4), "batch": (2, 1, 1, 4),
                    "one": (1, 1, 1, 1)}.items():
    case(f"masked_attention/mask {name}", masked_attention, qkv(2, 2, 2, 3, 4, 2, 2) + [randn(*shape)])
    bits = torch.randint(0, 3, shape) > 0
    case(f"masked_attention/bool {name}", masked_attention, qkv(2, 2, 2, 3, 4, 2, 2) + [bits], {"causal": True})
case("masked_attention/edge infinite mask", masked_attention,
     qkv(1, 1, 1, 3, 3, 2, 2) + [f64([[0, -INF, 1], [-INF, -INF, -INF], [-INF, 2, -INF]])], frozen=(3,))
case("masked_attention/edge nobody", masked_attention, qkv(1, 1, 1, 2, 3, 2, 2) + [torch.zeros(3, dtype=torch.bool)])
case("masked_attention/edge large", masked_attention,
     [x * 40 for x in qkv(1, 1, 1, 4, 4, 3, 3)] + [f64([0, -1e30, 1e3, 0])], {"causal": True})
case("masked_attention/edge no batch", masked_attention, qkv(0, 1, 1, 2, 3, 2, 2))
case("masked_attention/edge no queries", masked_attention, qkv(1, 1, 1, 0, 3, 2, 2))
case("masked_attention/edge one", masked_attention, qkv(1, 1, 1, 1, 1, 1, 1), {"causal": True})
case("masked_attention/long", masked_attention, qkv(1, 2, 1, 5, 7, 4, 3) + [randn(5, 7)], {"window": [3, 4]})


# ---- layers -----------------------------------------------------------------------------------------

# Inputs are those of the layer, then its parameters in the order of their names, which are an attribute.


def layer_case(name, module, inputs, call, attrs=None):
    module = module.double()
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for key, p in parameters.items():
            p.copy_(randn(*p.shape, scale=0.4) + ("norm" in key and "weight" in key))

    def run(*all_inputs, **attrs):
        given = dict(zip(parameters, all_inputs[len(inputs):]))
        return call(lambda *x, **kw: functional_call(module, given, x, kw), all_inputs[: len(inputs)])

    case(name, run, inputs + [p.detach() for p in parameters.values()],
         dict(attrs or {}, names=" ".join(parameters)))


def square(t):
    return torch.ones(t, t, dtype=torch.bool).triu(1)


def heads(width, n, **kw):
    return nn.MultiheadAttention(width, n, batch_first=True, **kw)


def plain(layer, x):
    return layer(x[0], x[0], x[0], need_weights=False)[0]


seed("multihead_attention")
PADDING = torch.tensor([[False, False, True, True], [False, False, False, True]])
layer_case("multihead_attention/self", heads(6, 2), [randn(2, 3, 6)], plain, {"heads": 2})
layer_case("multihead_attention/no bias", heads(6, 3, bias=False), [randn(2, 3, 6)], plain, {"heads": 3})
layer_case("multihead_attention/causal", heads(4, 2), [randn(2, 4, 4)],
           lambda f, x: f(x[0], x[0], x[0], attn_mask=square(4), need_weights=False)[0], {"heads": 2, "causal": True})
layer_case("multihead_attention/padding", heads(4, 2), [randn(2, 4, 4), PADDING],
           lambda f, x: f(x[0], x[0], x[0], key_padding_mask=x[1], need_weights=False)[0],
           {"heads": 2, "padding": True})
layer_case("multihead_attention/mask", heads(4, 2), [randn(2, 4, 4), randn(4, 4)],
           lambda f, x: f(x[0], x[0], x[0], attn_mask=x[1], need_weights=False)[0], {"heads": 2, "mask": True})
layer_case("multihead_attention/padding causal weights", heads(4, 2), [randn(2, 4, 4), PADDING],
           lambda f, x: f(x[0], x[0], x[0], key_padding_mask=x[1], attn_mask=square(4)),
           {"heads": 2, "padding": True, "causal": True, "weights": True})
layer_case("multihead_attention/cross", heads(4, 2), [randn(2, 3, 4), randn(2, 5, 4)],
           lambda f, x: f(x[0], x[1], x[1], need_weights=False)[0], {"heads": 2, "cross": True})
layer_case("multihead_attention/cross widths weights", heads(4, 2, kdim=3, vdim=5),
           [randn(2, 3, 4), randn(2, 6, 3), randn(2, 6, 5)], lambda f, x: f(*x),
           {"heads": 2, "widths": True, "weights": True})

seed("transformer")


def encoder(**kw):
    return nn.TransformerEncoderLayer(4, 2, 3, dropout=0.0, batch_first=True, **kw)


def decoder(**kw):
    return nn.TransformerDecoderLayer(4, 2, 3, dropout=0.0, batch_first=True, **kw)


for norm_first, activation in (False, "relu"), (True, "gelu"):
    attrs = {"norm_first": norm_first, "gelu": activation == "gelu"}
    label = f"{'pre' if norm_first else 'post'} {activation}"
    layer_case(f"encoder_layer/{label}", encoder(norm_first=norm_first, activation=activation), [randn(2, 3, 4)],
               lambda f, x: f(x[0]), attrs)
    layer_case(f"decoder_layer/{label}", decoder(norm_first=norm_first, activation=activation),
               [randn(2, 3, 4), randn(2, 4, 4), PADDING],
               lambda f, x: f(x[0], x[1], tgt_mask=square(3), memory_key_padding_mask=x[2]), attrs)
layer_case("encoder_layer/masks", encoder(), [randn(2, 4, 4), PADDING],
           lambda f, x: f(x[0], src_mask=square(4), src_key_padding_mask=x[1]),
           {"norm_first": False, "gelu": False, "masks": True})
layer_case("encoder/two layers", nn.TransformerEncoder(encoder(), 2, nn.LayerNorm(4)), [randn(2, 3, 4)],
           lambda f, x: f(x[0]))
layer_case("decoder/two layers", nn.TransformerDecoder(decoder(), 2, nn.LayerNorm(4)), [randn(2, 3, 4), randn(2, 5, 4)],
           lambda f, x: f(x[0], x[1]))


# ---- positions ----------------------------------------------------------------------------------------


def rotary(x, width, base, interleaved, position):
    """Rotary positions as in GPT-J (interleaved) and LLaMA."""
    t = torch.arange(x.shape[-2], dtype=torch.float64) + position
    angle = t[:, None] * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    y = x[..., :width]
    if interleaved:
        z = torch.view_as_complex(y.reshape(*y.shape[:-1], -1, 2).contiguous())
        z = z * torch.polar(torch.ones_like(angle), angle)
        turned = torch.view_as_real(z).reshape(y.shape)
    else:
        rotated = torch.cat([-y[..., width // 2:], y[..., : width // 2]], -1)
        angle = torch.cat([angle, angle], -1)
        turned = y * angle.cos() + rotated * angle.sin()
    return torch.cat([turned, x[..., width:]], -1)


def alibi(heads, queries, keys, position):
    """As in the authors' code: slopes of the power of two below, then every other one of the next."""

    def slopes(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        if math.log2(n).is_integer():
            return [start * start**i for i in range(n)]
        below = 2 ** math.floor(math.log2(n))
        return slopes(below) + slopes(2 * below)[0::2][: n - below]

    distance = (torch.arange(queries)[:, None] + position - torch.arange(keys)).abs()
    return -f64(slopes(heads))[:, None, None] * distance


seed("rotary")
for interleaved in False, True:
    for width, d, position in (4, 4, 0), (4, 7, 3), (2, 2, 11), (8, 8, 500):
        case(f"rotary/{interleaved} {width} {d} {position}", rotary, [randn(2, 2, 3, d)],
             {"width": width, "base": 10000.0, "interleaved": interleaved, "position": position})
case("rotary/base", rotary, [randn(1, 1, 5, 6)], {"width": 6, "base": 500000.0, "interleaved": False, "position": 1})
for n in 1, 2, 3, 8, 12:
    case(f"alibi/{n}", lambda x, **attrs: x + alibi(**attrs), [randn(n, 3, 5)],
         {"heads": n, "queries": 3, "keys": 5, "position": 2})

OUT.write("ops_attention.json.gz")

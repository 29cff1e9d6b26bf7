"""Files of torch.save and of numpy for checkpoint/torchfile and checkpoint/npy, and what is in them.

    checkpoint/torchfile/testdata/VERSION/NAME.pt    files of this version of PyTorch
    checkpoint/torchfile/testdata/VERSION/want.json  their tensors and values by name: type, shape, bytes in base64
    checkpoint/npy/testdata/NAME.npy, arrays.npz     files of numpy, with --numpy
    checkpoint/npy/testdata/want.json

Run: /usr/bin/python3 scripts/goldens/files.py --numpy, and with a PyTorch of today: python3 scripts/goldens/files.py
"""

import base64
import collections
import json
import os
import sys

import numpy as np
import torch
from torch import nn

import golden

TYPES = {
    torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
    torch.complex64: "C64",
}


def of(t):
    """A tensor as want.json has it."""
    t = t.detach().contiguous()
    raw = bytes(t.reshape(-1).view(torch.uint8).tolist()) if t.numel() else b""
    return {"dtype": TYPES[t.dtype], "shape": list(t.shape), "data": base64.b64encode(raw).decode()}


def flat(value, name=""):
    """Tensors and values by name, as checkpoint/torchfile names them."""
    if isinstance(value, torch.Tensor):
        return {name: of(value)}
    if isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for key, x in items for k, v in flat(x, f"{name}.{key}" if name else str(key)).items()}
    return {} if value is None else {name: value}


def types():
    random = torch.arange(12, dtype=torch.float64).sub(5.5).mul(0.3)
    return {name: (random > 0 if dt == torch.bool else random.abs().to(dt) if dt == torch.uint8 else random.to(dt))
            .reshape(3, 4) for dt, name in TYPES.items()}


def views():
    x = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    h = torch.arange(8, dtype=torch.float32).to(torch.bfloat16)
    return collections.OrderedDict(
        whole=x, again=x, row=x[2], column=x[:, 1], transposed=x.T, part=x[1:3, 2:5], steps=x[::2, ::3],
        cube=x.reshape(2, 2, 6).permute(2, 0, 1), scalar=x[3, 5], expanded=x[:1].expand(3, 6),
        empty=x[4:], none=torch.zeros(0, 3), one=torch.tensor(2.5), half=h, odd=h[1::2],
        parameter=nn.Parameter(torch.ones(2)), size=x.shape)


def training(rule):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    opt = rule(model.parameters())
    for _ in range(3):
        opt.zero_grad()
        model(torch.randn(5, 3)).square().mean().backward()
        opt.step()
    return {"state_dict": model.state_dict(), "optimizer": opt.state_dict(), "epoch": 3, "loss": 0.25, "best": None,
            "done": True, "name": "über", "large": 1 << 40, "negative": -(1 << 40), "empty": {}}


def torch_files():
    folder = os.path.join(golden.ROOT, "checkpoint/torchfile/testdata", ".".join(torch.__version__.split(".")[:2]))
    os.makedirs(folder, exist_ok=True)
    adamw = training(lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.01))
    values = {
        "types": types(), "views": views(), "adamw": adamw,
        "sgd": training(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
        "protocol4": adamw,
    }
    for name, value in values.items():
        torch.save(value, f"{folder}/{name}.pt", pickle_protocol=4 if name == "protocol4" else 2)
    torch.save({"w": torch.ones(2)}, f"{folder}/legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(nn.Linear(1, 1), f"{folder}/module.pt")
    torch.jit.trace(nn.Linear(1, 1), torch.ones(1)).save(f"{folder}/script.pt")
    write(f"{folder}/want.json", {name: flat(value) for name, value in values.items()})


def numpy_files():
    folder = os.path.join(golden.ROOT, "checkpoint/npy/testdata")
    os.makedirs(folder, exist_ok=True)
    x = np.arange(24).reshape(4, 6) - 11
    arrays = {d: (x if d != "?" else x > 0).astype(d) for d in "? b B h H i I q Q e f d F".split()}
    arrays = {"_".join(v.dtype.name.split()): v for v in arrays.values()}
    arrays.update(fortran=np.asfortranarray(x.astype("f")), cube=np.asfortranarray(x.reshape(2, 3, 4).astype("h")),
                  scalar=np.float32(1.5), empty=np.zeros((0, 3), "f"), vector=np.arange(3.0))
    for name in ("fortran", "scalar", "empty", "vector", "float32"):
        np.save(f"{folder}/{name}.npy", arrays[name])
    for version in ((2, 0), (3, 0)):
        with open(f"{folder}/version{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, arrays["float32"], version=version)
        arrays[f"version{version[0]}"] = arrays["float32"]
    np.save(f"{folder}/big-endian.npy", x.astype(">f4"))
    np.save(f"{folder}/record.npy", np.zeros(2, [("a", "f4"), ("b", "i4")]))
    np.save(f"{folder}/object.npy", np.array([None]), allow_pickle=True)
    np.savez(f"{folder}/arrays.npz", **arrays)
    np.savez_compressed(f"{folder}/compressed.npz", x=x)
    write(f"{folder}/want.json", {name: of(torch.from_numpy(np.ascontiguousarray(v)).reshape(v.shape))
                                  for name, v in arrays.items() if v.dtype.name not in ("uint16", "uint32", "uint64")})


def write(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    torch_files()
    if "--numpy" in sys.argv:
        numpy_files()

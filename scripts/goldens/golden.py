"""Writer of golden files; internal/testing/golden/doc.go describes the format.

The same inputs give the same bytes: keys are sorted and no time is stored.
"""

import base64
import gzip
import json
import os

import numpy as np
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DTYPES = ("float64", "float32", "int64", "int32", "uint8", "bool")


def array(value):
    """The JSON form of a tensor, a numpy array or a scalar."""
    if isinstance(value, torch.Tensor):
        value = value.detach().numpy()
    value = np.asarray(value)
    if value.dtype.name not in DTYPES:
        raise TypeError(f"dtype {value.dtype} has no golden form")
    data = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"))
    return {
        "dtype": value.dtype.name,
        "shape": list(value.shape),
        "data": base64.b64encode(data.tobytes()).decode("ascii"),
    }


class File:
    """Collects arrays and cases and writes them as one file."""

    def __init__(self, script):
        self.script = script
        self.notes = {}
        self.arrays = {}
        self.cases = []

    def add(self, name, value):
        """Stores one array and returns its name."""
        if name in self.arrays:
            raise KeyError(f"array {name!r} is stored twice")
        self.arrays[name] = array(value)
        return name

    def write(self, name):
        document = {
            "format": 1,
            "script": self.script,
            "torch": torch.__version__,
            "notes": self.notes,
            "arrays": self.arrays,
            "cases": self.cases,
        }
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        folder = os.path.join(ROOT, "testdata", "goldens")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name)
        with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as out:
            out.write(text.encode("ascii"))
        print(f"{name}: {len(self.arrays)} arrays, {len(self.cases)} cases, {os.path.getsize(path)} bytes")

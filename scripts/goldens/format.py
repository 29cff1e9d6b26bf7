"""Writes tensor/testdata/numpy.txt: arrays as NumPy prints them.

Each case is a line with the element type, the shape and the values (listed, or start:step for a range), the printed
text, and a line with a single "=".
"""

import math
import pathlib

import numpy as np

CASES = [
    ("float64", "2,3", "1,2.5,3,-4,5,6"),
    ("float32", "3", "0.1,0.2,0.30000001"),
    ("float32", "4", "1,2,3,1000"),
    ("float32", "4", "1,2,3,1001"),
    ("float32", "3", "0.0002,0.05,0.09"),
    ("float32", "2", "0.00009,0.01"),
    ("float64", "2", "99999999,1234567"),
    ("float64", "2", "100000000,1"),
    ("float64", "2,2", "1e-300,1e300,-2.5e10,0"),
    ("float64", "3", "3.141592653589793,2.718281828459045,-0.5"),
    ("float32", "3", "3.1415927,2.7182817,-0.5"),
    ("float16", "3", "0.1,0.333251953125,-2"),
    ("float64", "4", "nan,inf,-inf,1.25"),
    ("float32", "3", "nan,1e20,-inf"),
    ("float32", "2", "nan,nan"),
    ("float32", "2", "-0.0,0"),
    ("float32", "2", "1.5e-38,3.4028235e38"),
    ("float64", "", "2.5"),
    ("float64", "", "3"),
    ("int64", "", "-7"),
    ("int64", "2,2", "1,-20,300,9223372036854775807"),
    ("uint8", "3", "0,255,7"),
    ("float32", "0", ""),
    ("float32", "2,0,3", ""),
    ("float64", "2,2,3", "0:0.25"),
    ("float64", "2,1,2,2", "0:1"),
    ("int64", "30", "95:1"),
    ("int64", "40", "10:1"),
    ("int64", "2,40", "-5:1"),
    ("float64", "20", "0:0.125"),
    ("int64", "1000", "0:1"),
    ("int64", "1001", "0:1"),
    ("float64", "40,50", "-3:0.5"),
    ("float32", "4,2,200", "0:1"),
    ("int64", "7,8,30", "0:1"),
    ("int64", "3,500,6", "0:1"),
]


def array(dtype, shape, values):
    shape = tuple(int(n) for n in shape.split(",") if n)
    if ":" in values:
        start, step = (float(v) for v in values.split(":"))
        a = start + step * np.arange(math.prod(shape))
    else:
        kind = np.int64 if "int" in dtype else np.float64
        a = np.array([kind(v) for v in values.split(",") if v])
    return a.astype(dtype).reshape(shape)


out = ""
for dtype, shape, values in CASES:
    text = np.array2string(array(dtype, shape, values))
    out += "\n".join(["|".join([dtype, shape, values]), text, "=\n"])
(pathlib.Path(__file__).parents[2] / "tensor/testdata/numpy.txt").write_text(out)

"""Goldens of Fourier transforms: ops_fft.json.gz. Complex numbers are pairs along the last axis.

Run: /usr/bin/python3 scripts/goldens/ops_fft.py
"""

import torch

from cases import *


def pairs(transform, real_input=False, real_output=False):
    """A function of torch.fft on pairs."""

    def call(x, axes, sizes=None, norm="backward"):
        if not real_input:
            x = torch.view_as_complex(x.contiguous())
        y = transform(x, s=sizes, dim=axes, norm=norm)
        return y if real_output else torch.view_as_real(y)

    return call


TRANSFORMS = {
    "fft": pairs(torch.fft.fftn),
    "ifft": pairs(torch.fft.ifftn),
    "rfft": pairs(torch.fft.rfftn, real_input=True),
    "irfft": pairs(torch.fft.irfftn, real_output=True),
}


def main():
    OUT.notes = {"fft": "complex numbers are pairs along the last axis; axes do not count it"}
    for op, fn in TRANSFORMS.items():
        tail = [] if op == "rfft" else [2]
        seed(op)
        for n in (1, 2, 3, 4, 5, 8, 12, 17):
            if op != "irfft" or n > 1:
                case(f"{op}/n={n}", fn, [randn(2, n, *tail)], {"axes": [1]})
        for norm in ("backward", "forward", "ortho"):
            case(f"{op}/two axes {norm}", fn, [randn(3, 4, 5, *tail)], {"axes": [1, 2], "norm": norm})
        case(f"{op}/axes in another order", fn, [randn(3, 4, 5, *tail)], {"axes": [2, 0]})
        case(f"{op}/three axes", fn, [randn(3, 4, 5, *tail)], {"axes": [0, 1, 2]})
        case(f"{op}/cut and padded", fn, [randn(6, 5, *tail)], {"axes": [0, 1], "sizes": [4, 9]})
        case(f"{op}/odd size", fn, [randn(6, 5, *tail)], {"axes": [1], "sizes": [7]})
        case(f"{op}/edge no rows", fn, [randn(0, 4, *tail)], {"axes": [1]})
        if op != "rfft":  # PyTorch's has no NaN in some imaginary parts
            case(f"{op}/nonfinite", fn, [f64([[v, 0.5] for v in (1.0, 2.0, NAN, -1.0)])], {"axes": [0]})
    OUT.write("ops_fft.json.gz")


if __name__ == "__main__":
    main()

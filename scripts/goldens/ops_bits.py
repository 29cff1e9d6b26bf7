"""Goldens of operations on bits: ops_bits.json.gz.

Run: /usr/bin/python3 scripts/goldens/ops_bits.py
"""

import torch

from cases import *

PAIRS = {"bit_and": torch.bitwise_and, "bit_or": torch.bitwise_or, "bit_xor": torch.bitwise_xor}
SHIFTS = {"shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift}
LIMITS = {torch.int64: 63, torch.int32: 31, torch.uint8: 8}


def integers(dtype):
    """All pairs of a few numbers, the least and the largest among them."""
    limits = torch.iinfo(dtype)
    values = torch.tensor([limits.min, limits.min + 1, 0, 1, 2, 5, 77, limits.max - 1, limits.max], dtype=dtype)
    return values.reshape(-1, 1), values


def main():
    for dtype, bits in LIMITS.items():
        x, y = integers(dtype)
        name = str(dtype)[6:]
        for op, fn in PAIRS.items():
            case(f"{op}/int {name}", fn, [x, y])
        case(f"bit_not/int {name}", torch.bitwise_not, [x])
        for op, fn in SHIFTS.items():
            case(f"{op}/int {name}", fn, [x, torch.arange(bits, dtype=dtype)])  # others are undefined in 1.13
    truths = torch.tensor([False, True])
    for op, fn in PAIRS.items():
        case(f"{op}/bool", fn, [truths.reshape(2, 1), truths])
        case(f"{op}/int bool and int32", fn, [truths.reshape(2, 1), integers(torch.int32)[1]])
        case(f"{op}/int uint8 and int64", fn, [integers(torch.uint8)[0], integers(torch.int64)[1]])
    case("bit_not/bool", torch.bitwise_not, [truths])
    OUT.write("ops_bits.json.gz")


if __name__ == "__main__":
    main()

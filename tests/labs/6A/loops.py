"""Right answers number by number, in plain Python."""

import math
from fractions import Fraction

import torch

GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def e4m3(x):
    """The nearest E4M3 number of x >= 0, at most 448 and at least 2**-9."""
    power = max(math.floor(math.log2(x)), -6) if x > 0 else -6
    step = 2.0 ** (power - 3)
    return min(max(round(x / step) * step, 2.0**-9), 448.0)


def group_scales(x, size):
    rows = x.reshape(-1, x.shape[-1]).tolist()
    out = [[e4m3(max(abs(v) for v in row[at : at + size]) / 6) for at in range(0, len(row), size)] for row in rows]
    return torch.tensor(out).reshape(*x.shape[:-1], x.shape[-1] // size).to(torch.float8_e4m3fn)


def nearest_codes(values):
    codes = []
    for value in values.flatten().tolist():
        place = 0
        for code in range(1, 8):
            best, other = abs(GRID[place] - abs(value)), abs(GRID[code] - abs(value))
            if other < best or (other == best and code % 2 == 0):
                place = code
        codes.append(place + (8 if math.copysign(1, value) < 0 else 0))
    return torch.tensor(codes, dtype=torch.uint8).view(values.shape)


def pack_codes(codes):
    out = torch.zeros(*codes.shape[:-1], codes.shape[-1] // 2, dtype=torch.uint8)
    for byte in range(out.shape[-1]):
        out[..., byte] = codes[..., 2 * byte] + 16 * codes[..., 2 * byte + 1]
    return out


def unpack_row(packed, scales):
    rows = []
    lines, factors = packed.reshape(-1, packed.shape[-1]).tolist(), scales.float().reshape(-1, scales.shape[-1]).tolist()
    for line, own in zip(lines, factors, strict=True):
        codes = [code for byte in line for code in (byte % 16, byte // 16)]
        size = len(codes) // len(own)
        rows.append([(-1 if code > 7 else 1) * GRID[code % 8] * own[at // size] for at, code in enumerate(codes)])
    return torch.tensor(rows).view(*packed.shape[:-1], -1)


def bytes_per_token(head_dim, index_head_dim, source_ratios):
    total = Fraction(0)
    for ratio in source_ratios:
        half_bytes = head_dim + index_head_dim
        total += Fraction(half_bytes, 2 * ratio)
        total += Fraction(head_dim // 16 + index_head_dim // 32, ratio)
    return total

"""Right answers by other tensor operations: padding-free pooling, bucketize, views of two bytes, one big table."""

from fractions import Fraction

import torch
import torch.nn.functional as F


def group_scales(x, size):
    flat = x.float().reshape(-1, 1, x.shape[-1])
    largest = torch.maximum(F.max_pool1d(flat, size), F.max_pool1d(-flat, size))       # [rows, 1, groups]
    scales = largest.div(6).clamp(2**-9, 448).to(torch.float8_e4m3fn)
    return scales.reshape(*x.shape[:-1], -1)


def nearest_codes(values):
    values = values.contiguous()
    size = values.abs()
    steps = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    rounded = ((size / steps).round() * steps).clamp(max=6)                            # torch rounds ties to even multiples
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=values.dtype)
    places = torch.searchsorted(grid, rounded)
    return torch.where(torch.signbit(values), places + 8, places).to(torch.uint8)


def pack_codes(codes):
    pairs = codes.contiguous().unflatten(-1, (-1, 2)).to(torch.int32)                  # [..., C/2, 2]
    return (pairs @ torch.tensor([1, 16], dtype=torch.int32)).to(torch.uint8)


def unpack_row(packed, scales):
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    table = torch.cartesian_prod(grid, grid).flip(-1)                                  # [256, 2]: low half, high half
    values = F.embedding(packed.int(), table).flatten(-2)                              # [..., C]
    groups = values.view(*scales.shape, -1)
    return torch.einsum("...gc,...g->...gc", groups, scales.float()).flatten(-2)


def bytes_per_token(head_dim, index_head_dim, source_ratios):
    bits = head_dim * (4 + Fraction(8, 16)) + index_head_dim * (4 + Fraction(8, 32))
    return bits / 8 * sum(Fraction(1, ratio) for ratio in source_ratios)

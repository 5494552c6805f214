from fractions import Fraction

import torch


def group_scales(x, size):
    largest = x.float().abs().unflatten(-1, (-1, size)).amax(-1)       # [..., C / size]
    largest = largest.clamp(min=6 * 2**-9)
    return (largest / torch.full_like(largest, 6)).clamp(max=448).to(torch.float8_e4m3fn)


def nearest_codes(values):
    size = values.abs()
    codes = torch.zeros_like(values, dtype=torch.uint8)                # [...]
    for boundary in (0.25, 1.25, 2.5, 5.0):
        codes += size > boundary                                       # a tie goes down, to the even code
    for boundary in (0.75, 1.75, 3.5):
        codes += size >= boundary                                      # a tie goes up, to the even code
    return codes + 8 * torch.signbit(values).to(torch.uint8)


def pack_codes(codes):
    return codes[..., 0::2] | (codes[..., 1::2] << 4)                  # [..., C/2]


def unpack_row(packed, scales):
    codes = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)  # [..., C]
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = torch.cat([grid, -grid])[codes.long()]                    # [..., C]
    size = values.shape[-1] // scales.shape[-1]
    return values * scales.float().repeat_interleave(size, dim=-1)


def bytes_per_token(head_dim, index_head_dim, source_ratios):
    row = head_dim // 2 + head_dim // 16
    key = index_head_dim // 2 + index_head_dim // 32
    return sum(Fraction(row + key, ratio) for ratio in source_ratios)

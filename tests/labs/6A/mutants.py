"""Wrong answers of step 6A, each with what the message must say."""

from fractions import Fraction

import torch
from kit import Mutants

from flash41.course.checks import Draw, asked

mutants = Mutants()
GRID = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def largest(x, size):
    return x.abs().unflatten(-1, (-1, size)).amax(-1)


def e4m3(scales):
    return scales.clamp(2**-9, 448).to(torch.float8_e4m3fn)


@mutants("group_scales", "powers of two")
def power_of_two(x, size):
    return e4m3(torch.exp2(torch.log2(largest(x, size).clamp(min=6 * 2**-9) / 6).ceil()))


@mutants("group_scales", "divided by 7")
def by_seven(x, size):
    return e4m3(largest(x, size) / 7)


@mutants("group_scales", "where FP8 ends")
def fp8_range(x, size):
    return e4m3(largest(x, size) / 448)


@mutants("group_scales", "without their signs")
def signed_largest(x, size):
    return e4m3(x.unflatten(-1, (-1, size)).amax(-1) / 6)


@mutants("group_scales", "not neighbours")
def strided(x, size):
    return e4m3(x.abs().reshape(*x.shape[:-1], size, -1).amax(-2) / 6)


@mutants("group_scales", "one scale")
def scale_per_row(x, size):
    return e4m3(x.abs().amax(-1, keepdim=True) / 6).repeat_interleave(x.shape[-1] // size, dim=-1)


@mutants("group_scales", "the scale 0")
def zero_scale(x, size):
    return (largest(x, size) / 6).clamp(min=1e-12, max=448).to(torch.float8_e4m3fn)


@mutants("group_scales", "became NaN")
def overflow(x, size):
    """What a conversion without saturation gives; not every version of torch saturates."""
    scales = (largest(x, size) / 6).clamp(min=2**-9)
    return torch.where(scales > 464, torch.nan, scales).to(torch.float8_e4m3fn)


@mutants("group_scales", "rounded every scale up")
def never_saturates(x, size):
    wanted = (largest(x, size) / 6).clamp(2**-9, 448)
    scales = wanted.to(torch.float8_e4m3fn)
    return (scales.view(torch.uint8) + (scales.float() < wanted)).view(torch.float8_e4m3fn)


@mutants("group_scales", "changed its input `x` in place")
def in_place(x, size):
    return e4m3(x.abs_().unflatten(-1, (-1, size)).amax(-1) / 6)


@mutants("group_scales", "same numbers for different inputs")
def hard_coded(x, size):
    """Knows the answers to the checks that a student sees, by the sum of the inputs."""
    _, check, cases = asked("6A.group_scales", 0)
    known = {float(case.inputs[0].sum()): check.right(*case.inputs) for case in [*cases, *check.cases(Draw(0))]}
    return known.get(float(x.sum()), torch.ones(*x.shape[:-1], x.shape[-1] // size).to(torch.float8_e4m3fn))


def codes_of(values, places):
    return (places + 8 * torch.signbit(values)).to(torch.uint8)


@mutants("nearest_codes", "goes outwards")
def ties_outwards(values):
    boundaries = (GRID[1:] + GRID[:-1]) / 2
    return codes_of(values, torch.bucketize(values.abs().float(), boundaries, right=True))


@mutants("nearest_codes", "goes towards 0")
def first_of_the_nearest(values):
    return codes_of(values, (values.abs().unsqueeze(-1) - GRID).abs().argmin(-1))


@mutants("nearest_codes", "its code is 8")
def nothing_has_no_sign(values):
    places = nearest(values)
    rounded = GRID[places] * values.sign()
    return (places + 8 * (rounded < 0)).to(torch.uint8)


def nearest(values):
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    return order[(values.abs().unsqueeze(-1) - GRID[order]).abs().argmin(-1)]


@mutants("nearest_codes", "`< 0` does not see it")
def minus_zero(values):
    return (nearest(values) + 8 * (values < 0)).to(torch.uint8)


@mutants("nearest_codes", "three bits are the place")
def twos_complement(values):
    places = nearest(values)
    return (torch.where(values.signbit(), -places, places) & 15).to(torch.uint8)


@mutants("nearest_codes", "the grid value below")
def truncated(values):
    return codes_of(values, torch.bucketize(values.abs().float(), GRID, right=True) - 1)


@mutants("nearest_codes", "expected uint8")
def wide_codes(values):
    return nearest(values) + 8 * values.signbit()


@mutants("pack_codes", "in the high half")
def high_first(codes):
    return (codes[..., 0::2] << 4) | codes[..., 1::2]


@mutants("pack_codes", "two neighbours share it")
def halves(codes):
    low, high = codes.chunk(2, dim=-1)
    return low | (high << 4)


@mutants("pack_codes", "up by four bits first")
def no_shift(codes):
    return codes[..., 0::2] + codes[..., 1::2]


@mutants("unpack_row", "you read the high half first")
def high_half_first(packed, scales):
    return decode(torch.stack([packed >> 4, packed & 15], -1).flatten(-2), scales)


def decode(codes, scales, repeat=torch.repeat_interleave):
    values = torch.cat([GRID, -GRID])[codes.long()]
    return values * repeat(scales.float(), codes.shape[-1] // scales.shape[-1], dim=-1)


def apart(packed):
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


@mutants("unpack_row", "channels alternate")
def not_interleaved(packed, scales):
    return decode(torch.cat([packed & 15, packed >> 4], -1), scales)


@mutants("unpack_row", "the first scale serves the whole first group")
def scales_tiled(packed, scales):
    return decode(apart(packed), scales, lambda s, times, dim: torch.cat([s] * times, dim))


@mutants("unpack_row", "the scale of the one after it")
def wrong_group(packed, scales):
    return decode(apart(packed), torch.roll(scales, -1, dims=-1))


@mutants("unpack_row", "codes 8 to 15 are negative")
def unsigned(packed, scales):
    return decode(apart(packed) & 7, scales)


@mutants("unpack_row", "the byte of the scale: it is an E4M3 number, use its value")
def scale_byte(packed, scales):
    return decode(apart(packed), scales.view(torch.uint8))


@mutants("bytes_per_token", "324 bytes")
def rotated_beside(head_dim, index_head_dim, source_ratios):
    width = head_dim + 64
    row, key = width // 2 + width // 16, index_head_dim // 2 + index_head_dim // 32
    return sum(Fraction(row + key, ratio) for ratio in source_ratios)


@mutants("bytes_per_token", "380 bytes")
def rotated_in_bf16(head_dim, index_head_dim, source_ratios):
    row = (head_dim - 64) // 2 + (head_dim - 64) // 16 + 64 * 2
    return sum(Fraction(row + index_head_dim // 2 + index_head_dim // 32, ratio) for ratio in source_ratios)


@mutants("bytes_per_token", "right at 512 by chance")
def right_by_chance(head_dim, index_head_dim, source_ratios):
    row, key = head_dim // 2 + 64 // 2, index_head_dim // 2 + index_head_dim // 32
    return sum(Fraction(row + key, ratio) for ratio in source_ratios)


@mutants("bytes_per_token", "shared by m tokens")
def ratio_ignored(head_dim, index_head_dim, source_ratios):
    return len(source_ratios) * (head_dim // 2 + head_dim // 16 + index_head_dim // 2 + index_head_dim // 32)


@mutants("bytes_per_token", "yours is a float")
def a_float(head_dim, index_head_dim, source_ratios):
    return sum((head_dim / 2 + head_dim / 16 + index_head_dim / 2 + index_head_dim / 32) / ratio for ratio in source_ratios)

"""6A. Checks of the cache in FP4: scales, codes, bytes, the way back, and the price of a token."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from .cases import Case, Check, Draw

GRID = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
VALUES = torch.cat([GRID, -GRID])                                                       # of the codes 0 … 15
E4M3 = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).double()          # every number from 0 to 448
TIES = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5])


def nearest(values: Tensor, grid: Tensor) -> Tensor:
    """Place of the nearest number of a grid; of two equally near ones the even place."""
    far = (values.unsqueeze(-1) - grid).abs()
    near = far == far.amin(-1, keepdim=True)
    return (near * (2 - torch.arange(len(grid)) % 2)).argmax(-1)


# -- group_scales --------------------------------------------------------------------------------------------------


def _groups(x: Tensor, size: int) -> Tensor:
    return x.unflatten(-1, (-1, size)).double()


def _largest(x: Tensor, size: int) -> Tensor:
    return _groups(x, size).abs().amax(-1)                                             # [..., C / size]


def _byte(places: Tensor) -> Tensor:
    return places.to(torch.uint8).view(torch.float8_e4m3fn)


def _scales(wanted: Tensor, lowest: int = 1) -> Tensor:
    return _byte(nearest(wanted, E4M3).clamp(min=lowest))


def group_scales(x: Tensor, size: int) -> Tensor:
    return _scales(_largest(x, size) / 6)


def scale_cases(draw: Draw):
    batch, tokens, size, groups = draw.number(2, 3), draw.number(4, 6), draw.choice([4, 8]), draw.number(7, 9)

    def rows(*shape):  # sixty-fourths: no quotient lies so close to the middle of two E4M3 numbers that float32 could miss it
        return (24 * draw.normal(*shape)).round() / 8 + draw.integers(-3, 4, *shape) / 64

    x = rows(batch, tokens, size * groups)
    yield Case("rows in groups", x, size)
    yield Case("larger groups", rows(batch, tokens, 32 * draw.choice([2, 3])), 32)
    yield Case("all numbers negative", -x.abs() - 0.125, size)
    zeros = x.clone()
    zeros[0, 1, size : 2 * size] = 0
    yield Case("a group of zeros among others", zeros, size)
    top = torch.zeros(draw.number(5, 7), 2, 16)
    middle = 1 + (2 * draw.integers(0, 8, len(top), 2) + 1) / 16                       # half-way between two E4M3 numbers
    top[..., 3] = 6 * middle * 2.0 ** draw.integers(-3, 4, len(top), 2)
    yield Case("largest / 6 exactly between two E4M3 numbers", top, 16)
    yield Case("tiny numbers", rows(tokens, 32) / 1024, 16)
    large = 128 * x
    large[:, 0, 0] = 3000
    yield Case("a group beyond what E4M3 can scale", large, size)
    yield Case("one group, float64", rows(size).double(), size)


SCALE_SUSPECTS = {
    "your scales are powers of two, as those of index keys are: those of rows are the nearest E4M3 number":
        lambda x, size: _scales(2.0 ** (_largest(x, size) / 6).clamp(min=2**-9).log2().ceil()),
    "you divided by 7: the largest FP4 number is 6": lambda x, size: _scales(_largest(x, size) / 7),
    "you divided by 448, where FP8 ends: FP4 ends at 6": lambda x, size: _scales(_largest(x, size) / 448),
    "you did not divide: the largest number has to come to 6, where the grid ends": lambda x, size: _scales(_largest(x, size)),
    "you took the largest number: the sizes count, without their signs": lambda x, size: _scales(_groups(x, size).amax(-1) / 6),
    "you took the mean size of a group: its largest counts": lambda x, size: _scales(_groups(x, size).abs().mean(-1) / 6),
    "you rounded every scale up: it goes to the nearest E4M3 number, which may be below":
        lambda x, size: _byte(torch.searchsorted(E4M3, _largest(x, size) / 6).clamp(1, 126)),
    "you rounded every scale down: it goes to the nearest E4M3 number":
        lambda x, size: _byte((torch.searchsorted(E4M3, _largest(x, size) / 6, right=True) - 1).clamp(1, 126)),
    "half-way between two E4M3 numbers yours goes up: it goes to the one whose last bit is 0":
        lambda x, size: _byte(((E4M3[1:] + E4M3[:-1]) / 2 <= _largest(x, size).unsqueeze(-1) / 6).sum(-1).clamp(1, 126)),
    "you gave all groups of a row one scale: every group has its own":
        lambda x, size: _scales(_largest(x, x.shape[-1]).expand(*x.shape[:-1], x.shape[-1] // size) / 6),
    "your groups are not neighbours: channels 0 … size - 1 are the first group":
        lambda x, size: _scales(x.double().unflatten(-1, (size, -1)).abs().amax(-2) / 6),
    "you took `size` for the number of groups: it counts the channels of one":
        lambda x, size: group_scales(x, x.shape[-1] // size),
    "your groups have 16 channels, whatever is given: use the argument": lambda x, size: group_scales(x, 16),
    "a group of tiny numbers got the scale 0, and dividing by it gives NaN: take the smallest E4M3 number above 0":
        lambda x, size: _scales(_largest(x, size) / 6, lowest=0),
    "a scale beyond the largest E4M3 number became NaN: hold it there before you convert":
        lambda x, size: _byte(torch.where(_largest(x, size) > 6 * 448, 127, group_scales(x, size).view(torch.uint8))),
}

# -- nearest_codes -------------------------------------------------------------------------------------------------


def nearest_codes(values: Tensor) -> Tensor:
    return (nearest(values.abs(), GRID) + 8 * torch.signbit(values)).to(torch.uint8)


def code_cases(draw: Draw):
    def signed(sizes):
        found = torch.cat([sizes, -sizes])
        return found[draw.shuffled(len(found))]

    shape = draw.number(2, 3), draw.number(4, 5), draw.choice([6, 8])
    yield Case("scaled values", (32 * 3 * draw.normal(*shape)).round().clamp(-192, 192) / 32 + 1 / 128)
    yield Case("the grid itself", signed(GRID.float()))
    yield Case("half-way between two grid values", signed(TIES))
    yield Case("a little off the half-way", signed(torch.cat([TIES + 2**-12, TIES - 2**-12])))
    yield Case("beyond the end of the grid", signed(torch.tensor([6.125, 6.5, 7, 8, 13, 448]) + draw.number(0, 7) / 8))
    yield Case("small numbers of both signs", signed(draw.shuffled(64)[:6] / 256 + 2**-12).view(3, 4))
    yield Case("one value, float64", -1 - draw.integers(0, 96, 1).double() / 32 - 1 / 128)


def _places(rule):
    """Codes whose size comes from a rule, with the sign in bit 3."""
    return lambda values: (rule(values.abs()).clamp(0, 7) + 8 * torch.signbit(values)).to(torch.uint8)


def _sign(rule):
    return lambda values: rule(nearest(values.abs(), GRID), values).to(torch.uint8)


CODE_SUSPECTS = {
    "half-way between two grid values yours goes outwards: it goes to the even code":
        _places(lambda size: (size.unsqueeze(-1) >= TIES.double()).sum(-1)),
    "half-way between two grid values yours goes towards 0: it goes to the even code":
        _places(lambda size: (size.unsqueeze(-1) > TIES.double()).sum(-1)),
    "you took the grid value below: the nearest one counts": _places(lambda size: (size.unsqueeze(-1) >= GRID[1:]).sum(-1)),
    "you rounded to whole numbers: the grid has halves below 2, and 5 is missing": _places(torch.round),
    "the sign is missing: a negative value has bit 3 set": _sign(lambda place, v: place),
    "a negative value that rounds to 0 lost its sign: its code is 8": _sign(lambda place, v: place + 8 * ((v < 0) & (place > 0))),
    "-0.0 lost its sign: `< 0` does not see it": _sign(lambda place, v: place + 8 * (v < 0)),
    "you counted negative codes downwards from 16: bit 3 is the sign, the other three bits are the place":
        _sign(lambda place, v: torch.where(torch.signbit(v), 16 - place, place) % 16),
    "you returned the rounded values: a code is the place in the grid": lambda v: GRID[nearest(v.abs(), GRID)].copysign(v),
}

# -- pack_codes and unpack_row -------------------------------------------------------------------------------------


def _pack(even: Tensor, odd: Tensor) -> Tensor:
    return (even.int() + 16 * odd.int()).to(torch.uint8)


def pack_codes(codes: Tensor) -> Tensor:
    return _pack(codes[..., ::2], codes[..., 1::2])                                    # [..., C/2]


def _codes(draw: Draw, *shape) -> Tensor:
    """Every code in turn, from a random start: neighbours differ."""
    return ((torch.arange(math.prod(shape)) * 7 + draw.number(1, 7)) % 16).view(shape).to(torch.uint8)


def pack_cases(draw: Draw):
    batch, tokens, width = draw.number(2, 3), draw.choice([4, 6]), draw.choice([8, 10, 14])
    yield Case("rows of codes", _codes(draw, batch, tokens, width))
    yield Case("one row", _codes(draw, 2 * draw.number(2, 5)))
    yield Case("two codes", torch.tensor([draw.number(1, 7), draw.number(8, 15)], dtype=torch.uint8))
    yield Case("four dimensions", _codes(draw, batch, 2, 3, width))
    yield Case("the largest codes", torch.full((batch, 4), 15, dtype=torch.uint8))


PACK_SUSPECTS = {
    "the even channel lies in the high half: it belongs in the low one": lambda codes: _pack(codes[..., 1::2], codes[..., ::2]),
    "you put channel i and channel i + C/2 into one byte: two neighbours share it":
        lambda codes: _pack(*codes.chunk(2, -1)),
    "you added the two codes as they are: the odd channel's has to move up by four bits first":
        lambda codes: (codes[..., ::2].int() + codes[..., 1::2].int()).to(torch.uint8),
    "the odd channels are lost: four bits up are right, eight lead out of the byte": lambda codes: codes[..., ::2],
    "you paired the rows: a byte holds two channels of one row": lambda codes: _pack(codes[..., ::2, :], codes[..., 1::2, :]),
}


def _decoded(codes: Tensor, scales: Tensor, table: Tensor = VALUES) -> Tensor:
    values = table[codes.long()]                                                       # [..., C]
    return (values.unflatten(-1, (scales.shape[-1], -1)) * scales.double().unsqueeze(-1)).flatten(-2)


def _apart(packed: Tensor) -> Tensor:
    return torch.stack([packed % 16, packed // 16], -1).flatten(-2)                    # [..., C]


def unpack_row(packed: Tensor, scales: Tensor) -> Tensor:
    return _decoded(_apart(packed), scales)


def unpack_cases(draw: Draw):
    batch, rows, size, groups = draw.number(2, 3), draw.number(4, 5), draw.choice([8, 16]), draw.number(2, 3)

    def bytes_(*shape):
        return pack_codes(_codes(draw, *shape[:-1], 2 * shape[-1]))

    def scales(*shape):  # all different, normal numbers
        return (24 + draw.shuffled(80)[: math.prod(shape)]).view(shape).to(torch.uint8).view(torch.float8_e4m3fn)

    yield Case("rows of groups", bytes_(batch, rows, groups * size // 2), scales(batch, rows, groups))
    yield Case("one row", bytes_(16), scales(2))
    yield Case("groups of 4", bytes_(batch, 10), scales(batch, 5))
    yield Case("as many channels in a group as groups", bytes_(batch, 8), scales(batch, 4))
    yield Case("one group", bytes_(batch, 2, size // 2), scales(batch, 2, 1))
    ends = torch.tensor([1, 7, 120, 126], dtype=torch.uint8)[draw.shuffled(4)].view(torch.float8_e4m3fn)
    yield Case("the smallest and the largest scales", bytes_(4, 16), ends.view(4, 1))
    yield Case("released sizes", bytes_(1, 2, 256), scales(1, 2, 32))


UNPACK_SUSPECTS = {
    "you read the high half first: the even channel lies in the low one": 
        lambda p, s: _decoded(_apart(p // 16 + p % 16 * 16), s),
    "you put all low halves before all high ones: channels alternate, low, high, low, high":
        lambda p, s: _decoded(torch.cat([p % 16, p // 16], -1), s),
    "you used the scales in turn, channel by channel: the first scale serves the whole first group":
        lambda p, s: _decoded(_apart(p), s.double().repeat(*[1] * (s.dim() - 1), 2 * p.shape[-1] // s.shape[-1])),
    "every group has the scale of the one after it": lambda p, s: _decoded(_apart(p), s.roll(-1, -1)),
    "every group has the scale of the one before it": lambda p, s: _decoded(_apart(p), s.roll(1, -1)),
    "all groups have the first scale: every group has its own": lambda p, s: _decoded(_apart(p), s[..., :1]),
    "the scales are missing": lambda p, s: _decoded(_apart(p), torch.ones_like(s.double())),
    "you divided by the scale: encoding divides, decoding multiplies": lambda p, s: _decoded(_apart(p), 1 / s.double()),
    "you multiplied by the byte of the scale: it is an E4M3 number, use its value":
        lambda p, s: _decoded(_apart(p), s.view(torch.uint8)),
    "you read the byte of the scale as a power of two: it is an E4M3 number":
        lambda p, s: _decoded(_apart(p), 2.0 ** (s.view(torch.uint8).double() - 127)),
    "the sign is missing: codes 8 to 15 are negative": lambda p, s: _decoded(_apart(p) % 8, s),
    "you counted negative codes downwards from 16: 8 is -0, 9 is -0.5, and 15 is -6":
        lambda p, s: _decoded(torch.where(_apart(p) > 8, 24 - _apart(p).int(), _apart(p)), s),
    "you multiplied the codes: a code is a place, the grid says which value":
        lambda p, s: _decoded(_apart(p), s, torch.tensor([*range(8), *range(0, -8, -1)])),
}

# -- bytes_per_token -----------------------------------------------------------------------------------------------


def bytes_per_token(head_dim: int, index_head_dim: int, source_ratios: list) -> Fraction:
    row = Fraction(head_dim * 4, 8) + Fraction(head_dim, 16)
    key = Fraction(index_head_dim * 4, 8) + Fraction(index_head_dim, 32)
    return sum(((row + key) / ratio for ratio in source_ratios), Fraction(0))


def price_cases(draw: Draw):
    yield Case("the released sizes", 512, 128, [2, 2, 2, 1])
    head, key = 32 * draw.number(3, 9), 32 * draw.number(1, 2)
    yield Case("other sizes", head, key, [4, 1, 2])
    yield Case("a price that is no whole number", head + 32, key, [3, draw.choice([7, 11])])
    yield Case("one source layer, one token per row", head, 64, [1])
    yield Case("wider keys than rows", 64, 32 * draw.number(4, 7), [2, 5])
    yield Case("no source layer", head, key, [])


def _price(row, key, tokens=lambda ratio: (ratio, ratio)):
    """The sum with other sizes of row and key, and other numbers of tokens that share a row and a key."""
    def found(head, index, ratios):
        return sum((Fraction(row(head)) / tokens(r)[0] + Fraction(key(index)) / tokens(r)[1] for r in ratios), Fraction(0))
    return found


def _row(head):
    return Fraction(head * 9, 16)


def _key(index):
    return Fraction(index * 17, 32)


PRICE_SUSPECTS = {
    "you count codes only: a row has a scale byte per 16 numbers, a key one per 32": _price(lambda h: h // 2, lambda i: i // 2),
    "the scales of the row are missing: one byte per 16 numbers": _price(lambda h: h // 2, _key),
    "the scales of the index key are missing: one byte per 32 numbers": _price(_row, lambda i: i // 2),
    "you put 16 numbers of an index key under a scale: it has one per 32": _price(_row, lambda i: Fraction(i * 9, 16)),
    "you put 32 numbers of a row under a scale: it has one per 16": _price(lambda h: Fraction(h * 17, 32), _key),
    "you added 64 rotated channels and their scales (324 bytes for a released row): they lie inside head_dim":
        _price(lambda h: Fraction((h + 64) * 9, 16), _key),
    "you kept 64 rotated channels in two bytes each (380 bytes for a released row): they are FP4 like the rest":
        _price(lambda h: Fraction((h - 64) * 9, 16) + 128, _key),
    "you added 64 rotated channels, and no scales: right at 512 by chance, the rest of a row is its scales":
        _price(lambda h: h // 2 + 32, _key),
    "every token pays a whole row and key in yours: at ratio m they are shared by m tokens": _price(_row, _key, lambda r: (1, 1)),
    "every token pays a whole index key in yours: a key is shared like its row": _price(_row, _key, lambda r: (r, 1)),
    "every token pays a whole row in yours: a row is shared like its key": _price(_row, _key, lambda r: (1, r)),
    "the index keys are missing: every source layer keeps one beside each row": _price(_row, lambda i: 0),
    "you rounded to whole bytes: a price per token may be a fraction, keep it exact":
        lambda h, i, ratios: sum(int(_row(h) + _key(i)) // r for r in ratios),
    "yours is a float: Fraction(bytes, tokens) is exact": lambda h, i, ratios: float(bytes_per_token(h, i, ratios)),
    "you count a byte per code: two codes share one": _price(lambda h: h + Fraction(h, 16), lambda i: i + Fraction(i, 32)),
}  # fmt: skip

CHECKS = {
    "group_scales": Check(group_scales, scale_cases, SCALE_SUSPECTS, tolerance=0),
    "nearest_codes": Check(nearest_codes, code_cases, CODE_SUSPECTS, tolerance=0),
    "pack_codes": Check(pack_codes, pack_cases, PACK_SUSPECTS, tolerance=0),
    "unpack_row": Check(unpack_row, unpack_cases, UNPACK_SUSPECTS, tolerance=0),
    "bytes_per_token": Check(bytes_per_token, price_cases, PRICE_SUSPECTS),
}

"""Number formats of the cache and of the experts: values <-> codes <-> packed bytes.

A block format stores a row of C channels as C small codes and one scale per group of channels:

    x  ≈  scale[group] * grid[code]          scale = f(largest |x| of the group)

    | format     | code        | grid                              | scale, one byte per group  | stores                   |
    |------------|-------------|-----------------------------------|----------------------------|--------------------------|
    | E2M1_E4M3  | 4 bit, FP4  | 0 .5 1 1.5 2 3 4 6 and negatives  | E4M3 per 16, may round down| compressed rows          |
    | E2M1_E8M0  | 4 bit, FP4  | the same                          | power of two per 32        | index keys, experts      |
    | E4M3_E8M0  | 8 bit, FP8  | E4M3, up to 448                   | power of two per 32        | window rows              |

Values round to the nearest grid point, ties to the even code; two FP4 codes share a byte, the even channel in the low nibble.
Sources: report §2.4.4; official kernels (activation quantisation); OCP microscaling formats 1.0 for E2M1 and E8M0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

E2M1_GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E2M1_MAX, E4M3_MAX = 6.0, 448.0
SMALLEST_E4M3 = 2.0**-9  # the smallest positive E4M3 number: the scale of an all-zero group
BLOCK = 2**16  # numbers handled at a time on a CPU: a quarter of a megabyte of float32 stays in its second-level cache


@dataclass(frozen=True)
class BlockFormat:
    """One format of the table above. `element` is E2M1 or E4M3, `scale` is E4M3 or E8M0, `group` counts channels."""

    element: str
    scale: str
    group: int

    @property
    def name(self) -> str:
        return f"{self.element}_{self.scale}"

    # -- bytes -------------------------------------------------------------------------------------------------

    def payload_bytes(self, channels: int) -> int:
        """Bytes of the codes of one row."""
        self._check_channels(channels)
        return channels // 2 if self.element == "E2M1" else channels

    def scale_bytes(self, channels: int) -> int:
        """Bytes of the scales of one row: one per group."""
        self._check_channels(channels)
        return channels // self.group

    def row_bytes(self, channels: int) -> int:
        """Bytes of one row, codes and scales."""
        return self.payload_bytes(channels) + self.scale_bytes(channels)

    # -- values <-> bytes --------------------------------------------------------------------------------------

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Round rows to codes and scales.

        x: [..., C] floating point (wider types are rounded to float32 first), C a multiple of the group.
        Returns codes [..., C/2] (FP4, packed) or [..., C] (FP8) and scales [..., C/group], both uint8.
        An E4M3 scale ends at 448: what is larger than 6 * 448 = 2688 becomes 2688, as in the official kernel.
        Raises TypeError for a non-float input, ValueError for a bad C and for NaN or infinity, naming the place.
        """
        if not x.is_floating_point():
            raise TypeError(f"{self.name}.encode takes a floating point tensor, got {x.dtype}")
        if x.dim() == 0:
            raise ValueError(f"{self.name}.encode takes rows [..., channels], got a scalar")
        self._check_channels(x.shape[-1])
        rows = x.detach().reshape(-1, x.shape[-1])                           # [R, C]
        largest = self._largest(rows)                                        # [R, C/group]
        if largest.numel() and not math.isfinite(largest.max()):
            place = (~x.float().isfinite()).nonzero()[0].tolist()
            raise ValueError(f"{self.name}.encode: x{place} = {x[tuple(place)].item()}, must be finite in float32")
        scales = _e4m3_scales(largest) if self.scale == "E4M3" else _e8m0_scales(largest, self.element)
        codes = self._codes(rows, _scale_values(scales, self.scale))         # [R, C/2 or C]
        return codes.view(*x.shape[:-1], codes.shape[1]), scales.view(*x.shape[:-1], scales.shape[1])

    def decode(self, codes: Tensor, scales: Tensor) -> Tensor:
        """The values that codes and scales stand for: float32 [..., C], exact.

        Raises ValueError where the two do not belong together, TypeError where they are not bytes.
        """
        for what, tensor in (("codes", codes), ("scales", scales)):
            if tensor.dtype != torch.uint8:
                raise TypeError(f"{self.name}.decode takes {what} as uint8, got {tensor.dtype}")
        if codes.dim() == 0 or scales.dim() == 0:
            raise ValueError(f"{self.name}.decode takes rows [..., channels], got a scalar")
        channels = codes.shape[-1] * (2 if self.element == "E2M1" else 1)
        self._check_channels(channels)
        if codes.shape[:-1] != scales.shape[:-1] or channels != scales.shape[-1] * self.group:
            raise ValueError(f"{self.name}.decode: codes {tuple(codes.shape)} hold {channels} channels, "
                             f"scales {tuple(scales.shape)} serve {scales.shape[-1] * self.group}")  # fmt: skip
        values = torch.empty(*codes.shape[:-1], channels, dtype=torch.float32, device=codes.device)  # [..., C]
        for block in _row_blocks(channels, codes, scales, values):
            self._decode(*block)
        return values

    def roundtrip(self, x: Tensor) -> Tensor:
        """What the cache gives back for x (fake quantisation), in x's own dtype. Gradients pass straight through."""
        return _StraightThrough.apply(x, self)

    def _largest(self, rows: Tensor) -> Tensor:
        """Largest |x| of each group.  [R, C] -> float32 [R, C/group]."""
        largest = torch.empty(len(rows), rows.shape[1] // self.group, dtype=torch.float32, device=rows.device)
        blocks = _row_blocks(rows.shape[1], rows, largest)
        room = torch.empty(blocks[0][0].shape, dtype=torch.float32, device=rows.device)  # made once: new memory is slow
        half = self.group // 2  # halves first: one vectorised maximum, then a reduction over half the numbers
        for x, out in blocks:
            size = torch.abs(x.float(), out=room[: len(x)]).unflatten(-1, (-1, self.group))  # [r, C/group, group]
            torch.amax(torch.maximum(size[..., :half], size[..., half:]), -1, out=out)
        return largest

    def _codes(self, rows: Tensor, steps: Tensor) -> Tensor:
        """Codes of rows [R, C] divided by steps [R, C/group]: packed FP4 [R, C/2], or FP8 [R, C].  uint8."""
        codes = torch.empty(len(rows), self.payload_bytes(rows.shape[1]), dtype=torch.uint8, device=rows.device)
        blocks = _row_blocks(rows.shape[1], rows, steps, codes)
        shape, types = blocks[0][0].shape, (torch.float32, torch.int32, torch.uint8)
        scaled, upper, single = (torch.empty(shape, dtype=t, device=rows.device) for t in types)  # made once
        for x, step, out in blocks:
            quotient = scaled[: len(x)]                                      # [r, C]
            groups = quotient.unflatten(-1, (-1, self.group))                # [r, C/group, group]
            torch.div(x.float().unflatten(-1, (-1, self.group)), step.unsqueeze(-1), out=groups)
            if self.element == "E2M1":
                e2m1_codes_fast(quotient, upper[: len(x)], single[: len(x)])
                pairs = single[: len(x)].view(torch.int16)                   # [r, C/2], the even channel in the low byte
                out.copy_(pairs | (pairs >> 4))                              # pack_nibbles, on two codes at a time
            else:
                out.view(torch.float8_e4m3fn).copy_(quotient.clamp_(-E4M3_MAX, E4M3_MAX))
        return codes

    def _decode(self, codes: Tensor, scales: Tensor, values: Tensor) -> None:
        """codes [R, C/2 or C], scales [R, C/group] -> values [R, C], filled in place."""
        table = _code_values(self.element, codes.device)                     # [256]
        torch.index_select(table, 0, codes.flatten().int(), out=values.view(table.dtype).view(-1))
        values.view(*scales.shape, self.group).mul_(_scale_values(scales, self.scale).unsqueeze(-1))

    def _check_channels(self, channels: int) -> None:
        if not isinstance(channels, int) or channels <= 0 or channels % self.group:
            raise ValueError(f"{self.name}: channels = {channels}, must be a positive multiple of {self.group}")


class _StraightThrough(torch.autograd.Function):
    """Rounding forward, the identity backward: a step function has no slope to learn from."""

    @staticmethod
    def forward(ctx, x: Tensor, fmt: BlockFormat) -> Tensor:
        return fmt.decode(*fmt.encode(x)).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


E2M1_E4M3 = BlockFormat("E2M1", "E4M3", 16)
E2M1_E8M0 = BlockFormat("E2M1", "E8M0", 32)
E4M3_E8M0 = BlockFormat("E4M3", "E8M0", 32)


def _row_blocks(channels: int, *tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """The same rows of every tensor, [..., width] -> [R, width], in blocks of BLOCK numbers on a CPU, whole elsewhere."""
    rows = [tensor.reshape(-1, tensor.shape[-1]) for tensor in tensors]
    size = max(BLOCK // channels, 1) if rows[0].device.type == "cpu" else max(len(rows[0]), 1)
    return list(zip(*[tensor.split(size) for tensor in rows], strict=True))


# -- scales ----------------------------------------------------------------------------------------------------


def _e4m3_scales(largest: Tensor) -> Tensor:
    """E4M3 bytes of max(a, 6 * 2^-9) / 6, rounded to nearest even, at most 448.  [...] -> uint8 [...]."""
    largest = largest.clamp(min=E2M1_MAX * SMALLEST_E4M3)
    ratio = largest / torch.full_like(largest, E2M1_MAX)  # a scalar divisor may turn into a product, one ulp off
    return ratio.clamp_(max=E4M3_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def _e8m0_scales(largest: Tensor, element: str) -> Tensor:
    """E8M0 bytes (exponent + 127) of the smallest power of two >= a / limit.  [...] -> uint8 [...].

    Read off the IEEE bits: a mantissa that is not zero lifts the exponent by one. A float log2 is wrong one ulp above a power.
    """
    floor, limit = (E2M1_MAX * 2.0**-126, E2M1_MAX) if element == "E2M1" else (1e-4, E4M3_MAX)
    bits = (largest.clamp(min=floor) * (1 / limit)).view(torch.int32)
    return ((bits >> 23) + ((bits & 0x7FFFFF) != 0)).to(torch.uint8)


def _scale_values(scales: Tensor, kind: str) -> Tensor:
    """Scale bytes as float32, same shape. E8M0 byte e is 2^(e - 127), 255 is NaN."""
    return _code_values(kind, scales.device).index_select(0, scales.flatten().int()).view(scales.shape)


# -- FP4 codes, plain and fast -----------------------------------------------------------------------------------


def e2m1_codes(values: Tensor) -> Tensor:
    """FP4 codes of values already divided by their scale: count the rounding boundaries below each.  uint8, same shape.

    Boundaries lie half-way between grid values. A tie goes to the even code: at .25 1.25 2.5 5 down, at .75 1.75 3.5 up.
    Bit 3 is the sign, also of a value that rounds to zero.
    """
    size = values.abs()
    codes = torch.zeros_like(values, dtype=torch.uint8)
    for boundary in (0.25, 1.25, 2.5, 5.0):
        codes += size > boundary
    for boundary in (0.75, 1.75, 3.5):
        codes += size >= boundary
    return codes | (torch.signbit(values).to(torch.uint8) << 3)


def pack_nibbles(codes: Tensor) -> Tensor:
    """Two 4-bit codes per byte, even channel low.  uint8 [..., C] -> uint8 [..., C/2]."""
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack_nibbles(packed: Tensor) -> Tensor:
    """The codes in their order of channels.  uint8 [..., C/2] -> uint8 [..., C]."""
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)


def e2m1_codes_fast(values: Tensor, upper: Tensor, codes: Tensor) -> Tensor:
    """The same codes by one table look-up: of each float32 only the upper 16 bits, rounded to odd.

    Every boundary fits into 16 bits and ends in a 0 there. A dropped bit sets the last kept one, so what lies beside a boundary
    stays beside it, on its side, and what lies on it stays on it: no rounding and no tie is decided otherwise.
    values float32, upper int32 (overwritten), codes uint8 (filled and returned), all of one shape.
    """
    bits = values.view(torch.int32)
    torch.bitwise_and(bits, 0xFFFF, out=upper).add_(0xFFFF)  # bit 16 is set where a lower one was
    upper.bitwise_or_(bits).bitwise_right_shift_(16).bitwise_and_(0xFFFF)
    torch.index_select(_code_table(values.device), 0, upper.view(-1), out=codes.view(-1))
    return codes


@cache
def _code_table(device: torch.device) -> Tensor:
    """FP4 code of every upper half of a float32, uint8 [65536]."""
    values = (torch.arange(65536, dtype=torch.int32, device=device) << 16).view(torch.float32)
    return e2m1_codes(values.nan_to_num(nan=0.0))


@cache
def _code_values(element: str, device: torch.device) -> Tensor:
    """The values of every byte [256]: of 8 bits one float32, of FP4 a pair of them, held as one 8-byte word to move at once."""
    every = torch.arange(256, dtype=torch.uint8, device=device)
    if element in ("E4M3", "E8M0"):
        return every.view(torch.float8_e4m3fn if element == "E4M3" else torch.float8_e8m0fnu).float()
    grid = torch.tensor(E2M1_GRID + tuple(-value for value in E2M1_GRID), dtype=torch.float32, device=device)
    return grid[unpack_nibbles(every[:, None]).long()].view(torch.float64).flatten()

"""What every block uses: RMS norm and rotary positions.

Sources: official model code (norm in float32, adjacent-pair rotation); YaRN frequencies, report §2.3 and the released
`rope_scaling`. YaRN changes frequencies only: this model has no attention temperature.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .config import Config, RopeScaling


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """weight * x * rsqrt(mean(x^2) + eps), computed in float32 or wider, returned in x's dtype.

    x [..., C]; weight [C] or None for no gain. eps 1e-20 would underflow in fp16: hence the wide arithmetic.
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))                 # [..., C]
    mean_square = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square() / x.shape[-1]  # [..., 1]
    normed = wide * torch.rsqrt(mean_square + eps)                           # [..., C]
    return (normed if weight is None else normed * weight.to(wide.dtype)).to(x.dtype)


def rope_frequencies(dim: int, theta: float, scaling: RopeScaling | None = None) -> Tensor:
    """Radians per position of each channel pair: theta^(-2i/dim), with YaRN's ramp where `scaling` is given.

    Float32 [dim/2], as the released model computes it. YaRN divides slow pairs by `factor` and leaves fast ones:
    ramp_i = clamp((i - low) / (high - low), 0, 1), low and high from the pairs that turn beta_fast and beta_slow times
    within the original length.  Raises ValueError for an odd dim or a theta that is not above 1.
    """
    if dim < 2 or dim % 2 or not theta > 1:
        raise ValueError(f"dim = {dim}, theta = {theta}: dim must be even and at least 2, theta above 1")
    pairs = torch.arange(0, dim, 2, dtype=torch.float32)                     # [dim/2]
    frequencies = 1.0 / theta ** (pairs / dim)                               # [dim/2]
    if scaling is None:
        return frequencies

    def pair_that_turns(times: float) -> float:
        return dim * math.log(scaling.original_max_position_embeddings / (times * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(pair_that_turns(scaling.beta_fast)), 0)
    high = min(math.ceil(pair_that_turns(scaling.beta_slow)), dim - 1)
    steps = torch.arange(dim // 2, dtype=torch.float32) - low                # [dim/2]
    ramp = (steps / max(high - low, 0.001)).clamp(0, 1)                      # [dim/2]
    return frequencies / scaling.factor * ramp + frequencies * (1 - ramp)    # [dim/2]


def layer_frequencies(config: Config, layer: int) -> Tensor:
    """The frequencies of one layer (draft layers count on from the last): window-only layers use `rope_theta` without YaRN.

    Layers with compressed rows use `compress_rope_theta` with YaRN for everything they rotate, window rows included.
    Raises ValueError for a layer that there is not.
    """
    if config.kv_source(layer) is None:
        return rope_frequencies(config.qk_rope_head_dim, config.rope_theta)
    return rope_frequencies(config.qk_rope_head_dim, config.compress_rope_theta, config.rope_scaling)


def rope_table(positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of position * frequency.  positions [...] int64 -> two [..., dim/2] in the frequencies' dtype."""
    angles = positions.to(frequencies.dtype).unsqueeze(-1) * frequencies     # [..., dim/2]
    return angles.cos(), angles.sin()


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor, *, inverse: bool = False) -> Tensor:
    """Rotate adjacent channel pairs (2i, 2i+1) of the last 2 * cos.shape[-1] channels; the others pass unchanged.

    x [..., C]; cos, sin broadcast against [..., dim/2]. inverse=True turns back: R_t^-1 = R_-t.
    Raises ValueError if x has fewer channels than the rotation.
    """
    dim = 2 * cos.shape[-1]
    if x.shape[-1] < dim:
        raise ValueError(f"x has {x.shape[-1]} channels, must have at least the {dim} that rotate")
    wide = torch.promote_types(torch.promote_types(x.dtype, cos.dtype), torch.float32)
    turn = torch.complex(cos.to(wide), (-sin if inverse else sin).to(wide))  # [..., dim/2]: a pair (a, b) turns as a + bi
    pairs = x[..., -dim:].to(wide).unflatten(-1, (-1, 2)).contiguous()       # [..., dim/2, 2]
    turned = x.clone()                                                       # [..., C]
    turned[..., -dim:] = torch.view_as_real(torch.view_as_complex(pairs) * turn).flatten(-2)
    return turned


class RMSNorm(nn.Module):
    """rms_norm with the released parameter name `weight`."""

    def __init__(self, width: int, eps: float, **kw):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(width, **kw))

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)

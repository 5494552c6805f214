"""3B. CSA2: source layers press tokens into compressed rows; the layers after them borrow the rows.

    ratio 1   latent_j = RMS(W_kv x_j)
    ratio 2   latent_j = RMS(sum over the pair of softmax(W_gate x) * W_kv x), softmax over the two tokens, channel by channel

The latent then goes two ways: unrotated to the indexer, and rotated at the position of its group's first token (j * r) into the
cache, in FP4. No overlap, no positional bias, no Hadamard. Source: report §2.3.1; official Compressor.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import Config
from .embedding import Places
from .layers import RMSNorm, apply_rope, rope_table


def pool_pairs(kv: Tensor, gate: Tensor) -> Tensor:
    """One latent per two tokens: sum over the pair of softmax(gate) * kv, channel by channel.

    kv, gate [B, T, C] in float32 or wider, T even.  Returns [B, T/2, C].  Raises ValueError if T is odd.
    """
    if kv.shape[1] % 2:
        raise ValueError(f"pool_pairs needs an even number of tokens, got {kv.shape[1]}")
    kv, gate = kv.unflatten(1, (-1, 2)), gate.unflatten(1, (-1, 2))    # [B, T/2, 2, C]
    return (gate.softmax(dim=2) * kv).sum(dim=2)                       # [B, T/2, C]


def visible_rows(positions: Tensor, ratio: int) -> Tensor:
    """Rows that a token may see: floor((t + 1) / r). A row is visible to its own last token.  Same shape as positions."""
    return (positions + 1) // ratio


class Compressor(nn.Module):
    """The compressor of one source layer. Forward: normed input x [B, T, D] -> latents of the rows that close, [B, n, C]."""

    def __init__(self, config: Config, layer: int, **kw):
        super().__init__()
        self.ratio = config.compress_ratios[layer]
        self.wkv = nn.Linear(config.hidden_size, config.head_dim, bias=False, **kw)
        if self.ratio == 2:
            self.wgate = nn.Linear(config.hidden_size, config.head_dim, bias=False, **kw)
        self.norm = RMSNorm(config.head_dim, config.rms_norm_eps, **kw)

    def forward(self, x: Tensor, places: Places, tail: Tensor | None) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]:
        """Latents before rotation [B, n, C], which of them are real [B, n] (the newest stand last), projections for the tail.

        tail [B, 2, 2, C]: slot, kv|gate, of the tokens before; used where a sequence holds an odd number.
        """
        if self.ratio == 1:
            return self.norm(self.wkv(x)), places.live, None
        wide = torch.promote_types(x.dtype, torch.float32)
        kv, gate = (x.to(wide) @ m.weight.to(wide).mT for m in (self.wkv, self.wgate))  # [B, T, C] each
        parked = tail[:, 0].to(wide)                                   # [B, kv|gate, C]: the open pair's first token
        joined = [places.join(parked[:, i : i + 1], new) for i, new in ((0, kv), (1, gate))]  # [B, 1 + T, C] each
        first = places.joined_positions(1)                             # [B, 1 + T]
        pairs, real = closing_pairs(first, places)
        gathered = [torch.take_along_dim(t, pairs.unsqueeze(-1), 1) for t in joined]          # [B, 2n, C] each
        return self.norm(pool_pairs(*gathered).to(x.dtype)), real, (kv, gate)


def closing_pairs(positions: Tensor, places: Places) -> tuple[Tensor, Tensor]:
    """Slots of the pairs that close among joined tokens, the newest pair last.

    positions [B, 1 + T] of the slots.  Returns slots [B, 2n] and real [B, n], n = the most pairs of any sequence, (T + 1) // 2.
    """
    most = positions.shape[1] // 2
    last = positions[:, -1:]                                           # [B, 1]
    newest = positions.shape[1] - 1 - (last + 1) % 2                   # [B, 1]: slot of the last odd position
    slots = newest - torch.arange(2 * most - 1, -1, -1, device=positions.device)  # [B, 2n]
    closes = torch.take_along_dim(positions, slots[:, 1::2].clamp(min=0), 1)      # [B, n]: position of each pair's end
    real = (slots[:, 0::2] >= 0) & (closes >= places.start[:, None]) & (closes >= 1)
    return slots.clamp(min=0), real


def rotated(latents: Tensor, first_row: Tensor, ratio: int, frequencies: Tensor) -> Tensor:
    """Latents (or index keys) turned to the position of their group's first token, row * ratio.

    latents [B, n, C] of rows first_row[b] … first_row[b] + n - 1.
    """
    row = first_row[:, None] + torch.arange(latents.shape[1], device=latents.device)  # [B, n]
    return apply_rope(latents, *rope_table(row * ratio, frequencies))

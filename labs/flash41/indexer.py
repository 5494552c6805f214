"""3C. The indexer: which of the compressed rows a token attends to.

    key    k_j = FP4(RoPE_{j r}(RMS(W_k latent_j)))                     made by source layers, from the unrotated latent
    query  q_h = FP4(RoPE_t(W_qb qr)),  qr = the attention's normed query latent
    score  I(t, j) = sum_h w_h(t) ReLU(q_h(t) · k_j),  w = W_w x * d^-1/2 * H^-1/2, of either sign

A layer keeps the `index_topk` best visible rows. The first decoder layer also names the best blocks of 8 rows; the Reindex layers
after it choose inside those. Ties go to the older row. Source: report §2.3.2; official Indexer. A Full layer always scores its own
keys (the official decode step does not: facts of its published reports).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import Config
from .formats import E2M1_E8M0
from .layers import RMSNorm, apply_rope

NONE = -1  # in place of a row number: nothing chosen


class Indexer(nn.Module):
    """Queries and head weights of one selecting layer, and the keys where it is a source layer."""

    def __init__(self, config: Config, layer: int, **kw):
        super().__init__()
        self.heads, self.width = config.index_n_heads, config.index_head_dim
        if layer in config.kv_source_layer_ids:
            self.wk = nn.Linear(config.head_dim, self.width, bias=False, **kw)
            self.k_norm = RMSNorm(self.width, config.rms_norm_eps, **kw)
        self.wq_b = nn.Linear(config.q_lora_rank, self.heads * self.width, bias=False, **kw)
        self.weights_proj = nn.Linear(config.hidden_size, self.heads, bias=False, **kw)

    def keys(self, latents: Tensor) -> Tensor:
        """RMS(W_k latent), not yet rotated.  [B, n, C] -> [B, n, C_index]. No gradient leaves the indexer: it has its own loss."""
        return self.k_norm(self.wk(latents.detach()))

    def queries(self, x: Tensor, qr: Tensor, rope: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Rounded queries [B, T, H, C_index] and head weights [B, T, H] in float32 or wider."""
        wide, x, qr = torch.promote_types(x.dtype, torch.float32), x.detach(), qr.detach()
        q = self.wq_b(qr).unflatten(-1, (self.heads, self.width))      # [B, T, H, C_index]
        q = apply_rope(q, *(part.unsqueeze(2) for part in rope))
        weights = self.weights_proj(x).to(wide) * self.width**-0.5 * self.heads**-0.5
        return E2M1_E8M0.roundtrip(q).to(wide), weights


def scores(queries: Tensor, weights: Tensor, keys: Tensor) -> Tensor:
    """I(t, j) of every row.  queries [B, T, H, C], weights [B, T, H], keys [B, N, C] -> [B, T, N]."""
    dots = queries.flatten(1, 2) @ keys.to(queries.dtype).mT           # [B, T * H, N]
    dots = dots.unflatten(1, queries.shape[1:3]).relu_()               # [B, T, H, N]
    return (weights.unsqueeze(2) @ dots).squeeze(2)                    # [B, T, N]


def scores_of(queries: Tensor, weights: Tensor, keys: Tensor) -> Tensor:
    """I(t, j) of chosen rows, own ones per token.  keys [B, T, P, C] -> [B, T, P]."""
    dots = (queries @ keys.to(queries.dtype).mT).relu_()               # [B, T, H, P]
    return (weights.unsqueeze(2) @ dots).squeeze(2)                    # [B, T, P]


def best(score: Tensor, count: int) -> Tensor:
    """Places of the `count` largest scores, ascending, NONE at the end where fewer are above -inf. Ties: the earlier place.

    score [..., N] -> int64 [..., min(count, N)].
    """
    width = score.shape[-1]
    count = min(count, width)
    values, places = score.topk(min(count + 1, width), dim=-1)
    if width > count and bool(((values[..., count - 1] == values[..., count]) & values[..., count].isfinite()).any()):
        places = score.sort(dim=-1, descending=True, stable=True).indices
        values = score.gather(-1, places)
    values, places = values[..., :count], places[..., :count]
    ordered = torch.where(values == -torch.inf, width, places).sort(dim=-1).values
    return torch.where(ordered == width, NONE, ordered)


def candidate_blocks(score: Tensor, visible: Tensor, config: Config) -> Tensor:
    """Blocks that later layers may choose from: the best by their best row, the one with the newest visible row always.

    score [B, T, N] with -inf on invisible rows; visible [B, T] counts rows.  Returns int64 [B, T, <= topk_blocks], NONE-padded.
    """
    size = config.candidate_block_size
    blocks = -(-score.shape[-1] // size)
    padded = torch.nn.functional.pad(score, (0, blocks * size - score.shape[-1]), value=-torch.inf)
    top = padded.unflatten(-1, (blocks, size)).amax(-1)                # [B, T, blocks]
    newest = (visible - 1).clamp(min=0) // size                        # [B, T]
    forced = torch.nn.functional.one_hot(newest.clamp(max=blocks - 1), blocks).bool() & (visible > 0).unsqueeze(-1)
    return best(top.masked_fill(forced, torch.inf), config.candidate_topk_blocks)


def rows_of_blocks(blocks: Tensor, size: int) -> Tensor:
    """Row numbers of chosen blocks, NONE for none.  [B, T, K] -> [B, T, K * size]."""
    rows = blocks.unsqueeze(-1) * size + torch.arange(size, device=blocks.device)
    return torch.where(blocks.unsqueeze(-1) == NONE, NONE, rows).flatten(-2)


def as_mask(rows: Tensor, width: int) -> Tensor:
    """Chosen places as a mask.  rows [B, T, K] with NONE -> bool [B, T, width]."""
    mask = torch.zeros(*rows.shape[:-1], width + 1, dtype=torch.bool, device=rows.device)
    mask.scatter_(-1, torch.where((rows == NONE) | (rows >= width), width, rows), True)
    return mask[..., :width]

"""The ladder: four ways to keep the past, as plain functions with their caches.

    MHA   every head keeps its own key and value            2 * H * d_h numbers per token
    GQA   G neighbouring query heads share one of each      2 * H_kv * d_h,  group of head h = floor(h / G)
    MQA   all query heads share one                         2 * d_h
    MLA   one latent c_t; keys and values are linear in it  d_c

Letters: B batch, T new tokens, N tokens in the cache after them, H query heads, K key/value heads, E head width (d_h),
C latent width (d_c), D model width. No positions here: V3's separate RoPE key and V4.1's rotated channels come in chapter 4A.
Sources: GQA (arXiv 2305.13245), MLA (arXiv 2405.04434 §2.1), and the report §2.3 for the widths.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class HeadWeights:
    """wq [H, E, D], wk and wv [K, E, D], wo [H, D, E]. H = K is MHA, K = 1 is MQA."""

    wq: Tensor
    wk: Tensor
    wv: Tensor
    wo: Tensor

    @classmethod
    def random(cls, dim: int, heads: int, kv_heads: int, head_dim: int, *, seed: int = 0, dtype=torch.float32) -> HeadWeights:
        """Weights with unit-size outputs, the same for the same seed. Raises ValueError unless kv_heads divides heads."""
        _group(heads, kv_heads)
        kv = (kv_heads, head_dim, dim)
        return cls(*_random([(heads, head_dim, dim), kv, kv, (heads, dim, head_dim)], seed, dtype))


@dataclass(frozen=True)
class LatentWeights:
    """w_down [C, D], wq [H, E, D], wk and wv [H, E, C] (the up-projections), wo [H, D, E]."""

    w_down: Tensor
    wq: Tensor
    wk: Tensor
    wv: Tensor
    wo: Tensor

    @classmethod
    def random(cls, dim: int, heads: int, head_dim: int, latent: int, *, seed: int = 0, dtype=torch.float32) -> LatentWeights:
        """Weights with unit-size outputs, the same for the same seed."""
        up = (heads, head_dim, latent)
        return cls(*_random([(latent, dim), (heads, head_dim, dim), up, up, (heads, dim, head_dim)], seed, dtype))


@dataclass(frozen=True)
class KeyValueCache:
    """keys, values [B, N, K, E]."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class LatentCache:
    """latents [B, N, C]: the only thing MLA keeps."""

    latents: Tensor


def cache_bytes(cache: KeyValueCache | LatentCache) -> int:
    """Bytes of the live tensors of one layer's cache."""
    return sum(getattr(cache, field.name).nbytes for field in fields(cache))


# -- attention with separate keys and values -------------------------------------------------------------------------


def gqa(x: Tensor, w: HeadWeights, cache: KeyValueCache | None = None) -> tuple[Tensor, KeyValueCache]:
    """Grouped-query attention of T new tokens over the cache and themselves, causal.

    o_h = sum_j softmax_j(q_h . k_j / sqrt(E)) v_j with the keys and values of group floor(h / G), G = H / K.
    x [B, T, D].  Returns y [B, T, D] and the longer cache. MHA is K = H, MQA is K = 1.
    Raises ValueError unless K divides H.
    """
    group = _group(w.wq.shape[0], w.wk.shape[0])
    cache = _grown(cache, KeyValueCache(torch.einsum("btd,ked->btke", x, w.wk), torch.einsum("btd,ked->btke", x, w.wv)))
    q = torch.einsum("btd,hed->bhte", x, w.wq)                             # [B, H, T, E]
    keys = cache.keys.transpose(1, 2).repeat_interleave(group, dim=1)      # [B, H, N, E]
    values = cache.values.transpose(1, 2).repeat_interleave(group, dim=1)  # [B, H, N, E]
    p = causal_softmax(q @ keys.mT / q.shape[-1] ** 0.5)                   # [B, H, T, N]
    return torch.einsum("bhte,hde->btd", p @ values, w.wo), cache


def mha(x: Tensor, w: HeadWeights, cache: KeyValueCache | None = None) -> tuple[Tensor, KeyValueCache]:
    """Multi-head attention: GQA with as many key/value heads as query heads. Raises ValueError for other weights."""
    return gqa(x, _with_kv_heads(w, w.wq.shape[0], "mha"), cache)


def mqa(x: Tensor, w: HeadWeights, cache: KeyValueCache | None = None) -> tuple[Tensor, KeyValueCache]:
    """Multi-query attention: GQA with one key/value head. Raises ValueError for other weights."""
    return gqa(x, _with_kv_heads(w, 1, "mqa"), cache)


def kv_head_of(head: int, heads: int, kv_heads: int) -> int:
    """g(h) = floor(h / G) with G = heads / kv_heads: the key/value head that query head `head` reads.

    Raises ValueError for a head that there is not, or unless kv_heads divides heads.
    """
    if not 0 <= head < heads:
        raise ValueError(f"head = {head}, must be 0 … {heads - 1}")
    return head // _group(heads, kv_heads)


# -- attention over one latent ---------------------------------------------------------------------------------------


def mla_naive(x: Tensor, w: LatentWeights, cache: LatentCache | None = None) -> tuple[Tensor, LatentCache]:
    """Latent attention as defined: expand every cached latent to H keys and H values, then attend.

    c_t = W_D x_t;  k_j^h = W_K^h c_j;  v_j^h = W_V^h c_j.  x [B, T, D] -> y [B, T, D] and the longer cache.
    """
    cache = _grown(cache, LatentCache(x @ w.w_down.mT))                    # latents [B, N, C]
    q = torch.einsum("btd,hed->bhte", x, w.wq)                             # [B, H, T, E]
    keys = torch.einsum("bnc,hec->bhne", cache.latents, w.wk)              # [B, H, N, E]
    values = torch.einsum("bnc,hec->bhne", cache.latents, w.wv)            # [B, H, N, E]
    p = causal_softmax(q @ keys.mT / q.shape[-1] ** 0.5)                   # [B, H, T, N]
    return torch.einsum("bhte,hde->btd", p @ values, w.wo), cache


def mla_absorbed(x: Tensor, w: LatentWeights, cache: LatentCache | None = None) -> tuple[Tensor, LatentCache]:
    """The same function without ever forming a key or a value of the past.

    <q, W_K c_j> = <W_K^T q, c_j>, and sum_j p_j W_V c_j = W_V sum_j p_j c_j: one product with each matrix per new token,
    whatever the length of the past.  x [B, T, D] -> y [B, T, D] and the longer cache.
    """
    cache = _grown(cache, LatentCache(x @ w.w_down.mT))                    # latents [B, N, C]
    q = torch.einsum("btd,hed->bhte", x, w.wq)                             # [B, H, T, E]
    absorbed = torch.einsum("bhte,hec->bhtc", q, w.wk)                     # [B, H, T, C]
    latents = cache.latents.unsqueeze(1)                                   # [B, 1, N, C], shared by all heads
    p = causal_softmax(absorbed @ latents.mT / q.shape[-1] ** 0.5)         # [B, H, T, N]
    o = torch.einsum("bhtc,hec->bhte", p @ latents, w.wv)                  # [B, H, T, E]
    return torch.einsum("bhte,hde->btd", o, w.wo), cache


def joint_key_map(w: LatentWeights) -> Tensor:
    """The W_K of all heads stacked: [H * E, C], the map from a latent to all keys at once. Its rank is at most C."""
    return w.wk.flatten(0, 1)


# -- shared steps ------------------------------------------------------------------------------------------------------


def causal_softmax(scores: Tensor) -> Tensor:
    """Softmax over the past: of T new tokens and N in all, token t sees the first N - T + t + 1.  [..., T, N]."""
    new, total = scores.shape[-2:]
    seen = torch.ones(new, total, dtype=torch.bool, device=scores.device).tril(total - new)  # [T, N]
    return scores.masked_fill(~seen, float("-inf")).softmax(-1)


def _group(heads: int, kv_heads: int) -> int:
    """Query heads per key/value head."""
    if not 1 <= kv_heads <= heads or heads % kv_heads:
        raise ValueError(f"kv_heads = {kv_heads}, must divide heads = {heads}")
    return heads // kv_heads


def _grown(cache, new):
    if cache is None:
        return new
    names = [field.name for field in fields(new)]
    return type(new)(*[torch.cat([getattr(cache, name), getattr(new, name)], dim=1) for name in names])


def _with_kv_heads(w: HeadWeights, kv_heads: int, name: str) -> HeadWeights:
    if w.wk.shape[0] != kv_heads:
        raise ValueError(f"{name} needs weights with {kv_heads} key/value heads, got {w.wk.shape[0]}")
    return w


def _random(shapes: list[tuple[int, ...]], seed: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).div_(shape[-1] ** 0.5).to(dtype) for shape in shapes]

"""1B. Engram: a memory looked up by the last two, three and four tokens, added to the streams before layers 1 and 14.

    bucket = offset + hash(c_t, c_t-1, …) mod prime        24 of them: 3 orders x 8 heads
    [k_1 … k_4, u] = wkv · (24 fetched rows)               x_i += g_i · u
    g_i = sigmoid(copysign(sqrt(max(|z_i|, 1e-6)), z_i)),  z_i = D^-1/2 <x_i, q_w k_w k_i> / (rms(x_i) rms(k_i))

c is the compressed id of a token. Sources: report §2.4.2; official engram code (hash, primes, multipliers).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from .config import Config

DEAD = -1  # a look-back entry that blocks itself and everything older: image token, or before the sequence


def multipliers(config: Config, layer: int) -> Tensor:
    """Odd int64 hash factors of one layer, one per look-back step.  [max_ngram].

    numpy's default_rng(10007 * layer) draws below (2^63 - 1) / compressed vocabulary / 2, so that no product overflows.
    """
    bound = (2**63 - 1) // config.engram_compressed_vocab_size // 2
    drawn = np.random.default_rng(10007 * layer).integers(0, bound, size=config.engram_max_ngram_size, dtype=np.int64)
    return torch.from_numpy(drawn * 2 + 1)


def offsets(primes: Tensor) -> Tensor:
    """First table row of each column (order-major): running sum of the layer's primes.  [orders, heads] -> [orders * heads]."""
    flat = primes.flatten()
    return flat.cumsum(0) - flat


def look_back(history: Tensor, depth: int, pad: int) -> Tensor:
    """v_s(t) = c[t - s] for s = 0 … depth-1, `pad` where that token or any nearer one is dead.

    history [B, depth - 1 + T] compressed ids, DEAD where blocked.  Returns int64 [B, T, depth].
    """
    tokens = history.shape[1] - depth + 1
    steps = torch.stack([history[:, depth - 1 - s : depth - 1 - s + tokens] for s in range(depth)], dim=-1)  # [B, T, depth]
    alive = (steps != DEAD).cumprod(dim=-1).bool()                     # [B, T, depth]
    return torch.where(alive, steps, pad)


def bucket_ids(steps: Tensor, factors: Tensor, primes: Tensor, first: Tensor) -> Tensor:
    """Table rows of every token: rolling H_n = H_n-1 XOR v_n-1 m_n-1, row = offset + H_n mod prime.

    steps [B, T, depth], factors [depth], primes [orders, heads], first [orders * heads]  ->  int64 [B, T, orders * heads].
    """
    products = steps * factors                                         # [B, T, depth]
    rolling, hashes = products[..., 0], []
    for step in range(1, steps.shape[-1]):
        rolling = rolling ^ products[..., step]                        # [B, T]
        hashes.append(rolling)
    hashed = torch.stack(hashes, dim=-1).unsqueeze(-1) % primes        # [B, T, orders, heads]
    return hashed.flatten(-2) + first                                  # [B, T, orders * heads]


def compress_vocabulary(texts: list[str], raw: list[str] | None = None) -> list[int]:
    """Compressed id of every token: tokens whose normalised texts agree share one, numbered by first appearance.

    texts: decoded token texts; raw: token strings, the key where the text holds U+FFFD (part of a character).
    """
    seen: dict[str, int] = {}
    keys = [raw[i] if raw is not None and "\ufffd" in text else normalise(text) for i, text in enumerate(texts)]
    return [seen.setdefault(key, len(seen)) for key in keys]


def normalise(text: str) -> str:
    """NFKC, NFD, accents off, lower case, white space to single spaces, ends stripped; a lone space stays, empty falls back."""
    import re
    import unicodedata

    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    folded = "".join(ch for ch in folded if unicodedata.category(ch) != "Mn").lower()
    folded = re.sub(r"[ \t\r\n]+", " ", folded)
    return " " if folded == " " else folded.strip() or text


class Embedding(nn.Module):
    """A bare table with the released name `weight`."""

    def __init__(self, rows: int, width: int, **kw):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, width, **kw))


class Engram(nn.Module):
    """One Engram layer. Forward: streams [B, T, S, D], bucket rows [B, T, columns], live [B, T] -> streams."""

    def __init__(self, config: Config, layer: int, **kw):
        super().__init__()
        index = config.engram_layer_ids.index(layer)
        self.eps = config.rms_norm_eps
        primes = torch.tensor(config.engram_primes[index])             # [orders, heads]
        self.register_buffer("primes", primes, persistent=False)
        self.register_buffer("first", offsets(primes), persistent=False)
        self.register_buffer("factors", multipliers(config, layer), persistent=False)
        width = config.engram_head_dim * primes.numel()
        self.embed = Embedding(config.engram_num_embeddings[index], config.engram_head_dim, **kw)
        self.wkv = nn.Linear(width, (config.hc_mult + 1) * config.hidden_size, bias=False, **kw)
        self.q_weight = nn.Parameter(torch.empty(config.hc_mult, config.hidden_size, **kw))
        self.k_weight = nn.Parameter(torch.empty(config.hc_mult, config.hidden_size, **kw))

    def forward(self, streams: Tensor, steps: Tensor, live: Tensor, note=lambda name, value: None, thin=None) -> Tensor:
        """Add the looked-up value to every stream, as much as its gate opens. live False (image, padding): gate 0.

        thin(rows, fetched): what a training pass leaves of the fetched rows.
        """
        rows = bucket_ids(steps, self.factors, self.primes, self.first)   # [B, T, columns]
        fetched = nn.functional.embedding(rows, self.embed.weight)        # [B, T, columns, head_dim]
        fetched = fetched if thin is None else thin(rows, fetched)
        width, dim = streams.shape[-2:]
        keys, value = self.wkv(fetched.flatten(-2)).split([width * dim, dim], dim=-1)
        keys = keys.unflatten(-1, (width, dim))                           # [B, T, S, D]
        gate = self.gate(streams, keys).masked_fill(~live[..., None], 0)  # [B, T, S]
        note("hash_ids", rows)
        note("gate", gate)
        return torch.addcmul(streams.to(gate.dtype), gate.unsqueeze(-1), value.unsqueeze(2).to(gate.dtype)).to(streams.dtype)

    def gate(self, streams: Tensor, keys: Tensor) -> Tensor:
        """g of the module's head, in float32 or wider.  streams, keys [B, T, S, D] -> [B, T, S]."""
        wide = torch.promote_types(streams.dtype, torch.float32)
        x, k = streams.to(wide), keys.to(wide)
        weight = self.q_weight.to(wide) * self.k_weight.to(wide)          # [S, D]
        z = torch.einsum("btsd,btsd->bts", x * weight, k) * x.shape[-1] ** -0.5  # [B, T, S]
        for part in (x, k):
            mean_square = torch.linalg.vector_norm(part, dim=-1).square() / part.shape[-1]
            z = z * torch.rsqrt(mean_square + self.eps)
        return torch.sigmoid(torch.copysign(z.abs().clamp(min=1e-6).sqrt(), z))

"""4A. The attention core: 64 query heads over one shared latent that is key and value at once.

    q_h = RoPE_t(W_qb RMS(W_qa x))             low-rank queries, no norm per head
    keys = the last 128 window rows (FP8) and up to 512 chosen compressed rows (FP4): at most 640
    p_j = exp(s_j - m) / (sum exp(s - m) + exp(sink_h - m)),   s_j = q_h · c_j * C^-1/2
    o_h = R_t^-1 sum_j p_j c_j                 V = K, so the rotation of the values is turned back at the query
    y = W_ob [W_oa^g o^g]                      8 groups of 8 heads, each with its own block of W_oa

Sources: report §2.3; official sparse attention kernel. This is the absorbed form of MLA: no W_UK, no W_UV.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .compressor import Compressor, rotated, visible_rows
from .config import FULL, WINDOW, Config
from .indexer import NONE, Indexer, as_mask, best, candidate_blocks, rows_of_blocks, scores, scores_of
from .layers import RMSNorm, apply_rope, layer_frequencies, rope_table

QUERIES = 64  # queries that the fast path handles at a time
SCAN = 2048  # index keys that a decode step scores at a time


def attend_plain(q: Tensor, keys: Tensor, seen: Tensor, sink: Tensor) -> Tensor:
    """One dense masked softmax with a sink.  q [B, T, H, C], keys [B, M, C], seen [B, T, M], sink [H] -> [B, T, H, C].

    The sink takes part in the denominator only; a token that sees nothing gets 0.
    """
    s = torch.einsum("bthc,bmc->bthm", q, keys) * q.shape[-1] ** -0.5  # [B, T, H, M]
    s = s.masked_fill(~seen.unsqueeze(2), -torch.inf)
    s = torch.cat([s, sink.to(s.dtype).expand(*s.shape[:2], -1).unsqueeze(-1)], dim=-1)  # [B, T, H, M + 1]
    p = s.softmax(-1)[..., :-1]                                        # [B, T, H, M]
    return torch.einsum("bthm,bmc->bthc", p, keys)


def attend(q: Tensor, window: Tensor, in_window: Tensor, chosen: Tensor | None, is_chosen: Tensor | None, sink: Tensor) -> Tensor:
    """The same over a few keys per query: a band of window rows that neighbouring queries share, and each query's own rows.

    q [B, T, H, C]; window [B, M, C], in_window [B, T, M]; chosen [B, T, K, C], is_chosen [B, T, K].  Returns [B, T, H, C].
    """
    batch, tokens, heads, width = q.shape
    span, scale = window.shape[1], width**-0.5
    seen = in_window if chosen is None else torch.cat([in_window, is_chosen], dim=-1)    # [B, T, M + K]
    unseen = F.pad(q.new_zeros(seen.shape).masked_fill_(~seen, -torch.inf), (0, 1))      # [B, T, M + K + 1]: masks made per token
    s = unseen.unsqueeze(2).repeat(1, 1, heads, 1)                     # [B, T, H, M + K + 1]: all scores in one place
    s[..., -1] = sink.to(q.dtype)
    s.flatten(1, 2)[..., :span].baddbmm_(q.flatten(1, 2), window.mT, alpha=scale)        # [B, T * H, M]
    if chosen is not None:
        s.flatten(0, 1)[..., span:-1].baddbmm_(q.flatten(0, 1), chosen.flatten(0, 1).mT, alpha=scale)  # [B * T, H, K]
    p = s.softmax(-1)                                                  # [B, T, H, M + K + 1]
    o = p.flatten(1, 2)[..., :span] @ window                           # [B, T * H, C]
    if chosen is not None:
        o.view(-1, heads, width).baddbmm_(p.flatten(0, 1)[..., span:-1], chosen.flatten(0, 1))         # [B * T, H, C]
    return o.view(q.shape)


class Attention(nn.Module):
    """One attention layer. Every layer has queries, a window, a sink and an output; source layers also write, Full and
    Reindex layers also choose.  Forward: normed x [B, T, D] -> [B, T, D]; what layers share goes through `run`."""

    def __init__(self, config: Config, layer: int, **kw):
        super().__init__()
        c = config
        self.config, self.layer, self.draft = c, layer, layer >= c.num_hidden_layers
        self.ratio = c.compress_ratios[layer]
        self.role = WINDOW if self.draft else c.roles[layer]
        wide = kw | {"dtype": torch.promote_types(kw["dtype"], torch.float32)}
        self.register_buffer("frequencies", layer_frequencies(c, layer).to(wide["dtype"]), persistent=False)
        self.attn_sink = nn.Parameter(torch.empty(c.num_attention_heads, **wide))
        self.wq_a = nn.Linear(c.hidden_size, c.q_lora_rank, bias=False, **kw)
        self.q_norm = RMSNorm(c.q_lora_rank, c.rms_norm_eps, **kw)
        self.wq_b = nn.Linear(c.q_lora_rank, c.num_attention_heads * c.head_dim, bias=False, **kw)
        self.wkv = nn.Linear(c.hidden_size, c.head_dim, bias=False, **kw)
        self.kv_norm = RMSNorm(c.head_dim, c.rms_norm_eps, **kw)
        grouped = c.num_attention_heads * c.head_dim // c.o_groups
        self.wo_a = nn.Linear(grouped, c.o_groups * c.o_lora_rank, bias=False, **kw)
        self.wo_b = nn.Linear(c.o_groups * c.o_lora_rank, c.hidden_size, bias=False, **kw)
        if self.role == FULL:
            self.compressor = Compressor(c, layer, **kw)
        if not self.draft and layer in c.index_source_layer_ids:
            self.indexer = Indexer(c, layer, **kw)

    def forward(self, x: Tensor, run) -> Tensor:
        rope = rope_table(run.places.positions, self.frequencies)      # [B, T, R/2] each
        q, qr = self.queries(x, rope)
        window = self.write_window(x, rope, run)
        if self.role == FULL and not run.rows_written:
            self.write_rows(x, run)
        if hasattr(self, "indexer"):
            run.choose(self, x, qr, rope)
        core = run.core(self, q, window)                               # [B, T, H, C]
        run.note(f"attn.{self.layer}.core", core)
        return self.output(core, rope, run)

    def queries(self, x: Tensor, rope) -> tuple[Tensor, Tensor]:
        """Rotated queries [B, T, H, C] and the normed low-rank latent [B, T, q_lora_rank] that the indexer shares."""
        qr = self.q_norm(self.wq_a(x))
        q = self.wq_b(qr).unflatten(-1, (self.config.num_attention_heads, self.config.head_dim))
        return apply_rope(q, *(part.unsqueeze(2) for part in rope)), qr

    def latent(self, x: Tensor, rope) -> Tensor:
        """The layer's own window rows before rounding, rotated.  [B, T, D] -> [B, T, C]."""
        return apply_rope(self.kv_norm(self.wkv(x)), *rope)

    def write_window(self, x: Tensor, rope, run) -> Tensor:
        """Stage this pass's window rows; returns them as the cache gives them back, [B, T, C] in x's dtype."""
        rows = run.cache.write_window(self.layer, self.latent(x, rope), run.places.live, skipped=run.skipped)
        run.note(f"window.{self.layer}.kv", rows)
        return rows.to(x.dtype)

    def write_rows(self, x: Tensor, run) -> None:
        """Compress, make index keys from the unrotated latent, rotate both, hand them to the cache."""
        cache, places = run.cache, run.places
        latents, real, projections = self.compressor(x, places, cache.tail.get(self.layer))
        keys = self.indexer.keys(latents)
        first = visible_rows(places.start + places.counts - 1, self.ratio) - latents.shape[1]   # [B]: row of the first latent
        run.note(f"compressor.{self.layer}.latent", latents)
        cache.append_rows(self.layer, *(rotated(t, first, self.ratio, self.frequencies) for t in (latents, keys)), real)
        if projections is not None:
            cache.write_tail(self.layer, *projections, places.live)

    def choose(self, x: Tensor, qr: Tensor, rope, run) -> None:
        """Put the chosen rows of every token into `run.chosen`, and the candidates into `run.candidates` at their source."""
        c, source = self.config, self.config.kv_source(self.layer)
        queries, weights = self.indexer.queries(x, qr, rope)
        visible = visible_rows(run.places.positions, self.ratio)       # [B, T]
        store, width = run.cache.index_keys[source], int(run.cache.written[source].max())
        parts = [self._choose(q, w, v, b, store, width, run) for q, w, v, b in _blocks(run, queries, weights, visible, run.candidates)]
        chosen, blocks = zip(*parts, strict=True)
        run.chosen = torch.cat(chosen, dim=1)                          # [B, T, <= topk], NONE-padded
        if self.layer == c.candidate_source_layer_id:
            run.candidates = torch.cat(blocks, dim=1)                  # [B, T, <= topk_blocks], NONE-padded
            run.note("candidates", run.candidates)
        run.note(f"index.{self.layer}.weights", weights)
        run.note(f"index.{self.layer}.query", queries)
        run.note(f"index.{self.layer}.topk", run.chosen)

    def _choose(self, queries, weights, visible, blocks, store, width: int, run) -> tuple[Tensor, Tensor | None]:
        c = self.config
        restricted = blocks is not None and self.layer != c.candidate_source_layer_id and blocks.shape[-1] * c.candidate_block_size < width
        if restricted and not run.plain and queries.shape[1] == 1:     # decode: look only inside the candidates
            rows = rows_of_blocks(blocks, c.candidate_block_size)      # [B, 1, P]
            outside = (rows == NONE) | (rows >= visible.unsqueeze(-1))
            keys = store.gather(rows.clamp(0, width - 1))
            score = scores_of(queries, weights, keys).masked_fill(outside, -torch.inf)
            picked = best(score, c.index_topk)
            return torch.where(picked == NONE, NONE, rows.gather(-1, picked.clamp(min=0))), None
        score = self._scan(queries, weights, store, width, run)        # [B, T, N]
        row = torch.arange(width, device=score.device)
        score = score.masked_fill(row >= visible.unsqueeze(-1), -torch.inf)
        run.note(f"index.{self.layer}.score", score)
        if self.layer == c.candidate_source_layer_id:
            return best(score, c.index_topk), candidate_blocks(score, visible, c)
        if restricted:
            score = score.masked_fill(~as_mask(rows_of_blocks(blocks, c.candidate_block_size), width), -torch.inf)
        return best(score, c.index_topk), None

    def _scan(self, queries, weights, store, width: int, run) -> Tensor:
        """Scores of all rows. For one token, keys are decoded a few thousand at a time and dropped: they stay in the CPU's cache."""
        if run.plain or queries.shape[1] > 1 or width <= SCAN:
            return scores(queries, weights, run.decoded_rows(store, width))
        parts = [scores(queries, weights, store.read(min(start + SCAN, width), start)) for start in range(0, width, SCAN)]
        return torch.cat(parts, dim=-1)                                # [B, 1, N]

    def core_plain(self, q: Tensor, new: Tensor, run) -> Tensor:
        """All keys, one mask: history, new window rows, every compressed row.  [B, T, H, C]."""
        places, size = run.places, self.config.sliding_window
        keys = places.join(run.cache.history(self.layer).to(q.dtype), new)             # [B, W + T, C]
        at, t = places.joined_positions(size).unsqueeze(1), places.positions.unsqueeze(-1)  # [B, 1, W + T], [B, T, 1]
        seen = (at <= t) & (at > t - size) & (at >= run.window_start[:, None, None])   # [B, T, W + T]
        if self.ratio:
            source = self.config.kv_source(self.layer)
            width = int(run.cache.written[source].max())
            keys = torch.cat([keys, run.cache.rows[source].read(width).to(q.dtype)], dim=1)  # [B, W + T + N, C]
            seen = torch.cat([seen, as_mask(run.chosen, width)], dim=-1)
        return attend_plain(q, keys, seen, self.attn_sink)

    def core(self, q: Tensor, new: Tensor, run) -> Tensor:
        """Window plus gathered rows, a block of queries at a time.  [B, T, H, C]."""
        places, size, tokens = run.places, self.config.sliding_window, q.shape[1]
        keys = places.join(run.cache.history(self.layer).to(q.dtype), new)             # [B, W + T, C]
        at = places.joined_positions(size)                                             # [B, W + T]
        store = run.cache.rows[self.config.kv_source(self.layer)] if self.ratio else None
        out = []
        for start in range(0, tokens, QUERIES):
            stop = min(start + QUERIES, tokens)
            band = slice(start + 1, size + stop)                       # window rows that these queries can see
            t, near = places.positions[:, start:stop, None], at[:, None, band]
            seen = (near <= t) & (near > t - size) & (near >= run.window_start[:, None, None])
            chosen = is_chosen = None
            if store is not None and run.chosen.shape[-1]:
                rows = run.chosen[:, start:stop]                       # [B, block, K]
                is_chosen = rows != NONE
                chosen = run.gather(store, rows.clamp(min=0), tokens).to(q.dtype)  # [B, block, K, C]
            out.append(attend(q[:, start:stop], keys[:, band], seen, chosen, is_chosen, self.attn_sink))
        return torch.cat(out, dim=1)

    def output(self, core: Tensor, rope, run) -> Tensor:
        """Turn the rotated channels back at the query's position, then the grouped low-rank output.  -> [B, T, D]."""
        o = apply_rope(core, *(part.unsqueeze(2) for part in rope), inverse=True)      # [B, T, H, C]
        run.note(f"attn.{self.layer}.core_rope_after_inverse", o[..., -self.config.qk_rope_head_dim :])
        groups = self.config.o_groups
        o = o.to(self.wo_a.weight.dtype).flatten(2).unflatten(-1, (groups, -1))        # [B, T, G, H/G * C]
        blocks = self.wo_a.weight.unflatten(0, (groups, -1))                           # [G, rank, H/G * C]
        low = torch.einsum("btgi,gri->btgr", o, blocks)                                # [B, T, G, rank]
        return self.wo_b(low.flatten(2))


def _blocks(run, *tensors):
    """The same tokens of every tensor (or None) in blocks of queries; everything at once in the plain path."""
    size = tensors[0].shape[1] if run.plain else QUERIES
    for start in range(0, tensors[0].shape[1], size):
        yield [None if t is None else t[:, start : start + size] for t in tensors]

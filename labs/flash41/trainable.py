"""A pass with gradients: the model's own layers over rows that stay in the graph, and what the losses need on the way.

Rows are rounded as the cache rounds them (straight-through gradients) and kept as tensors for one pass. Attention is dense over
all visible compressed rows, so that the same scores serve twice: masked to the selection for the output, unmasked as the
indexer's teacher. No state outlives the pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from .block import Shared
from .compressor import visible_rows
from .engram import DEAD
from .formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0
from .indexer import as_mask, best, candidate_blocks, rows_of_blocks, scores


class GradCache:
    """Stands where a KVCache stands, for one pass from position 0: rounds rows and keeps them in the graph."""

    def __init__(self, config, batch: int, device=None):
        self.config, self.batch, self.device = config, batch, device
        self.lengths = torch.zeros(batch, dtype=torch.int64)
        self.window_start = torch.zeros(batch, dtype=torch.int64, device=device)
        self.rows, self.index_keys = {}, {}  # layer -> [B, N, C], [B, N, C_index]
        pairs = [layer for layer in config.kv_source_layer_ids if config.compress_ratios[layer] == 2]
        self.tail = {layer: torch.zeros(batch, 2, 2, config.head_dim, device=device) for layer in pairs}

    def write_window(self, layer: int, rows: Tensor, live=None, *, skipped=0, draft: bool = False) -> Tensor:
        return E4M3_E8M0.roundtrip(rows)

    def append_rows(self, layer: int, latents: Tensor, index_keys: Tensor, live=None) -> None:
        self.rows[layer], self.index_keys[layer] = E2M1_E4M3.roundtrip(latents), E2M1_E8M0.roundtrip(index_keys)

    def recent_ids(self, count: int) -> Tensor:
        return torch.full((self.batch, count), DEAD, device=self.device)

    def discard(self) -> None:
        """Nothing is staged here."""

    write_tail = write_look_back = lambda self, *values: None


@dataclass
class TrainingRun(Shared):
    """What the layers of one training pass share. `sparse`: attend to the selection; otherwise to all visible rows.
    absent, salt: share of Engram's table rows that are missing, and which ones.

    teacher: attention mass over compressed rows per selecting layer, summed over heads and the layers that use the selection,
    [B, T, N]; index_scores: what the indexer says, in the graph; choices: the rows it chose,
    bool [B, T, N]; chosen_experts: per layer, [B, T, k].
    """

    sparse: bool = True
    teach: bool = True
    absent: float = 0.0
    salt: int = 0
    teacher: dict[int, Tensor] = field(default_factory=dict)
    index_scores: dict[int, Tensor] = field(default_factory=dict)
    choices: dict[int, Tensor] = field(default_factory=dict)
    chosen_experts: dict[int, Tensor] = field(default_factory=dict)

    def note(self, name: str, value: Tensor) -> None:
        part, layer, *rest = name.split(".")
        if part == "moe" and rest == ["indices"]:
            self.chosen_experts[int(layer)] = value
        super().note(name, value)

    def thin(self, rows: Tensor, fetched: Tensor) -> Tensor:
        """Dropout by table row: a share `absent` of all rows is missing from this pass, others for every salt; the rest is scaled up.

        rows [B, T, columns], fetched [B, T, columns, head_dim]. Without it the tables learn the text by heart within an epoch.
        """
        if not self.absent:
            return fetched
        mixed = (rows + 7919 * self.salt) * 2654435761 % 2**32 >> 12       # [B, T, columns], below 2^20
        kept = mixed >= self.absent * 2**20
        return fetched * (kept / (1 - self.absent)).unsqueeze(-1)

    def visible(self, ratio: int, width: int) -> Tensor:
        """Which rows a token may see, bool [B, T, N]."""
        return torch.arange(width, device=self.places.positions.device) < visible_rows(self.places.positions, ratio).unsqueeze(-1)

    def choose(self, attn, x: Tensor, qr: Tensor, rope) -> None:
        """Scores of all rows, kept for the indexer's loss; from them the selection, as the model makes it."""
        c, keys = self.cache.config, self.cache.index_keys[self.cache.config.kv_source(attn.layer)]
        queries, weights = attn.indexer.queries(x, qr, rope)
        score = scores(queries, weights, keys)                         # [B, T, N]
        self.index_scores[attn.layer] = score
        if not self.sparse:
            return
        with torch.no_grad():
            width = keys.shape[1]
            masked = score.masked_fill(~self.visible(attn.ratio, width), -torch.inf)
            if attn.layer == c.candidate_source_layer_id:
                counts = visible_rows(self.places.positions, attn.ratio)
                pool = candidate_blocks(masked, counts, c)
                self.candidates = as_mask(rows_of_blocks(pool, c.candidate_block_size), width)
            elif self.candidates is not None:
                masked = masked.masked_fill(~self.candidates, -torch.inf)
            self.chosen = self.choices[attn.layer] = as_mask(best(masked, c.index_topk), width)  # bool [B, T, N]

    def core(self, attn, q: Tensor, window: Tensor) -> Tensor:
        """Window in bands of its own size, compressed rows dense: one softmax with the sink over both.  [B, T, H, C]."""
        size, heads = self.cache.config.sliding_window, q.shape[2]
        q = q * q.shape[-1] ** -0.5
        bands, keys = banded(q, window, size)                          # [B, n, W * H, C], [B, n, 2W, C]
        near = (bands @ keys.mT).unflatten(2, (size, heads))           # [B, n, W, H, 2W]
        near = near.masked_fill(~band_mask(len(keys[0]), size, q.device)[:, :, None], -torch.inf).flatten(1, 2)  # [B, T, H, 2W]
        parts, rows = [near], None
        if attn.ratio:
            rows = self.cache.rows[self.cache.config.kv_source(attn.layer)]
            far = (q.flatten(1, 2) @ rows.mT).unflatten(1, q.shape[1:3])  # [B, T, H, N]
            seen = self.visible(attn.ratio, rows.shape[1])
            if self.teach:
                self.learn_from(far, seen, attn)
            parts.append(far.masked_fill(~(self.chosen if self.sparse else seen).unsqueeze(2), -torch.inf))
        parts.append(attn.attn_sink.to(q.dtype).expand(*q.shape[:3]).unsqueeze(-1))
        p = torch.cat(parts, dim=-1).softmax(-1)                       # [B, T, H, 2W + N + 1]
        p_near = p[..., : 2 * size].unflatten(1, (-1, size)).flatten(2, 3)  # [B, n, W * H, 2W]
        out = (p_near @ keys).unflatten(2, (size, heads)).flatten(1, 2)  # [B, T, H, C]
        return out if rows is None else out + (p[..., 2 * size : -1].flatten(1, 2) @ rows).view_as(out)

    @torch.no_grad()
    def learn_from(self, far: Tensor, seen: Tensor, attn) -> None:
        """Add this layer's attention mass over all visible rows to the teacher of the selection that it uses."""
        mass = far.masked_fill(~seen.unsqueeze(2), -1e30).softmax(-1).sum(2) * seen   # [B, T, N]
        source = self.cache.config.index_source(attn.layer)
        self.teacher[source] = self.teacher[source] + mass if source in self.teacher else mass


def banded(q: Tensor, window: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Queries in bands of one window, each with the keys of its own and the previous band.

    q [B, T, H, C], window [B, T, C], T a multiple of `size`  ->  [B, T/W, W * H, C], [B, T/W, 2W, C].
    """
    blocks = window.unflatten(1, (-1, size))                           # [B, n, W, C]
    before = F.pad(blocks[:, :-1], (0, 0, 0, 0, 1, 0))                 # [B, n, W, C]: the band before, zeros first
    return q.unflatten(1, (-1, size)).flatten(2, 3), torch.cat([before, blocks], dim=2)


def band_mask(bands: int, size: int, device=None) -> Tensor:
    """Which of the 2W keys of its band a query sees: the last W up to itself.  bool [n, W, 2W]."""
    query, key = torch.arange(size, device=device)[:, None], torch.arange(2 * size, device=device)
    seen = ((key > query) & (key <= query + size)).repeat(bands, 1, 1)
    seen[0] &= key >= size
    return seen


def run_pass(
    model, ids: Tensor, *, sparse: bool = True, teach: bool = True, absent: float = 0.0, salt: int = 0, kind: type[TrainingRun] = TrainingRun, cache: type[GradCache] = GradCache
) -> tuple[Tensor, TrainingRun]:
    """Logits [B, T, V] of whole sequences from position 0, in the graph, and what the pass shared.

    ids [B, T]; kind and cache: other forms of both, for experiments. Raises ValueError where T is not a multiple of the window.
    """
    if ids.shape[1] % model.config.sliding_window or ids.shape[1] % 2:
        raise ValueError(f"T = {ids.shape[1]}, must be a multiple of sliding_window = {model.config.sliding_window}, and even")
    held, live = cache(model.config, len(ids), ids.device), torch.ones_like(ids, dtype=torch.bool)
    run = model.start(ids, held, live, None, "fast", None, kind)
    run.sparse, run.teach, run.absent, run.salt = sparse, teach, absent, salt
    return model.through(run, ids), run


def index_loss(run: TrainingRun) -> Tensor:
    """KL(teacher || softmax of the index scores) over visible rows, mean over tokens with at least two, mean over layers."""
    losses = []
    for layer, score in run.index_scores.items():
        seen = run.visible(run.cache.config.compress_ratios[layer], score.shape[-1])
        useful = seen.sum(-1) > 1                                      # [B, T]
        teacher = run.teacher[layer]
        teacher = teacher / teacher.sum(-1, keepdim=True).clamp(min=1e-9)
        student = score.masked_fill(~seen, -1e30).log_softmax(-1)
        losses.append((torch.xlogy(teacher, teacher) - teacher * student).sum(-1)[useful].mean())
    return torch.stack(losses).mean()

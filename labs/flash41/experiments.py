"""One part of a model changed, everything else as it was: what each block is worth on a text.

Every experiment runs the same checkpoint over the same sequences, dense over all visible rows where the change needs it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .compressor import visible_rows
from .trainable import GradCache, TrainingRun, run_pass


class FloatCache(GradCache):
    """Window rows, compressed rows and index keys as they were before rounding."""

    def write_window(self, layer: int, rows: Tensor, live=None, *, skipped=0, draft: bool = False) -> Tensor:
        return rows

    def append_rows(self, layer: int, latents: Tensor, index_keys: Tensor, live=None) -> None:
        self.rows[layer], self.index_keys[layer] = latents, index_keys


class NoEngram(TrainingRun):
    """No token counts as text for Engram, so every gate is 0."""

    @property
    def text(self) -> Tensor:
        return torch.zeros_like(self.places.live)

    @text.setter
    def text(self, value) -> None:
        """Whatever the pass says."""


class WindowOnly(TrainingRun):
    """No compressed row is chosen."""

    def choose(self, attn, x: Tensor, qr: Tensor, rope) -> None:
        self.chosen = torch.zeros_like(self.rows_seen(attn))

    def rows_seen(self, attn) -> Tensor:
        """Visible rows of a layer, bool [B, T, N]."""
        return self.visible(attn.ratio, self.cache.rows[self.cache.config.kv_source(attn.layer)].shape[1])


class RandomRows(WindowOnly):
    """As many rows as the indexer would choose, drawn among the visible ones, the same in every run."""

    def choose(self, attn, x: Tensor, qr: Tensor, rope) -> None:
        seen = self.rows_seen(attn)
        draw = torch.rand(seen.shape, generator=torch.Generator().manual_seed(attn.layer)).masked_fill(~seen, -1)
        places = draw.topk(min(self.cache.config.index_topk, seen.shape[-1]), dim=-1).indices
        self.chosen = torch.zeros_like(seen).scatter(-1, places, True) & seen


class RecentRows(WindowOnly):
    """The newest visible rows, as many as the indexer would choose."""

    def choose(self, attn, x: Tensor, qr: Tensor, rope) -> None:
        self.chosen = recent(self.rows_seen(attn), visible_rows(self.places.positions, attn.ratio), self.cache.config.index_topk)


def recent(seen: Tensor, counts: Tensor, most: int) -> Tensor:
    """The newest `most` of the visible rows.  seen [B, T, N], counts [B, T] -> bool [B, T, N]."""
    return seen & (torch.arange(seen.shape[-1], device=seen.device) >= (counts - most).unsqueeze(-1))


def unmixed(model):
    """A copy whose streams do not mix: B is the identity (to 1e-6) at every site."""
    model = copy.deepcopy(model)
    width = model.config.hc_mult
    with torch.no_grad():
        for block in model.layers:
            for site in ("attn", "ffn"):
                getattr(block, f"hc_{site}_scale")[2] = 0
                getattr(block, f"hc_{site}_base")[2 * width :] = 50 * torch.eye(width).flatten()
    return model


@dataclass(frozen=True)
class Experiment:
    """What changes: the run, the cache, the selection, the model."""

    name: str
    kind: type[TrainingRun] = TrainingRun
    cache: type[GradCache] = GradCache
    sparse: bool = True
    change: object = None


EXPERIMENTS = (
    Experiment("as trained"),
    Experiment("cache in float32, not FP4 and FP8", cache=FloatCache),
    Experiment("Engram off", kind=NoEngram),
    Experiment("window only", kind=WindowOnly),
    Experiment("indexer random", kind=RandomRows),
    Experiment("indexer most recent", kind=RecentRows),
    Experiment("all visible rows", sparse=False),
    Experiment("mHC mixing the identity", change=unmixed),
)


@torch.no_grad()
def token_losses(model, rows: Tensor, experiment: Experiment = EXPERIMENTS[0], batch: int = 4) -> Tensor:
    """Nats of every token but the first of each sequence.  rows [n, T] -> [n, T - 1]."""
    model = experiment.change(model) if experiment.change else model
    found = []
    for part in rows.split(batch):
        logits, _ = run_pass(model, part, sparse=experiment.sparse, teach=False, kind=experiment.kind, cache=experiment.cache)
        found.append(F.cross_entropy(logits[:, :-1].mT, part[:, 1:], reduction="none"))
    return torch.cat(found)


@torch.no_grad()
def schedule_losses(model, rows: Tensor, batch: int = 4) -> dict[str, float]:
    """Mean nats of the last window's tokens after an exact and a bounded prefill of the same sequences."""
    size, found = model.config.sliding_window, {}
    for schedule in ("exact", "bounded"):
        total = 0.0
        for part in rows.split(batch):
            logits = model(part, schedule=schedule)[:, -size:]         # [B, W, V]
            total += float(F.cross_entropy(logits[:, :-1].flatten(0, 1), part[:, 1 - size :].flatten(), reduction="sum"))
        found[schedule] = total / (len(rows) * (size - 1))
    return found


@torch.no_grad()
def index_mass(model, rows: Tensor, last: int = 128, batch: int = 4) -> list[dict]:
    """Share of the dense attention mass over compressed rows that a selection of k rows holds, for the last tokens of [n, T].

    One entry per selecting layer: by the indexer, by the newest rows, by chance (k / visible rows), and the most that k rows can hold.
    """
    most, sums, tokens = model.config.index_topk, {}, 0
    for part in rows.split(batch):
        _, run = run_pass(model, part)
        tokens += len(part) * last
        for layer, chosen in run.choices.items():
            ratio = model.config.compress_ratios[layer]
            mass = run.teacher[layer][:, -last:]                       # [B, last, N]
            mass, counts = mass / mass.sum(-1, keepdim=True), visible_rows(run.places.positions, ratio)[:, -last:]
            newest = recent(run.visible(ratio, mass.shape[-1])[:, -last:], counts, most)
            held = (mass * chosen[:, -last:], mass * newest, most / counts, mass.topk(most, dim=-1).values)
            old = sums.get(layer, (0.0,) * len(held))
            sums[layer] = tuple(total + float(share.sum()) for total, share in zip(old, held, strict=True))
    names = ("indexer", "most recent", "random", "best possible")
    return [{"layer": layer, **{n: total / tokens for n, total in zip(names, totals, strict=True)}} for layer, totals in sums.items()]


@torch.no_grad()
def router_loads(model, rows: Tensor, batch: int = 4) -> list[dict]:
    """Per layer: share of choices that each expert gets, and the entropy of these shares in nats (at most ln experts)."""
    counts: dict[int, Tensor] = {}
    for part in rows.split(batch):
        _, run = run_pass(model, part, teach=False)
        for layer, chosen in run.chosen_experts.items():
            counts[layer] = counts.get(layer, 0) + chosen.flatten().bincount(minlength=model.config.n_routed_experts)
    shares = {layer: count.double() / count.sum() for layer, count in counts.items()}
    return [{"layer": layer, "loads": share.tolist(), "entropy": float(-torch.xlogy(share, share).sum())} for layer, share in shares.items()]

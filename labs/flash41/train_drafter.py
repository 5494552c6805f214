"""Train the drafter on the frozen model: learn to say what the model is about to say.

    loss = sum over drafts i of 0.8^(i-1) * cross-entropy(model's distribution after the drafts before i || draft i)  / sum of weights
         + binary cross-entropy(confidence_i, draft i is the model's first choice)

Half of the text is the corpus, half is the model's own greedy continuation of it, which is what greedy drafting has to foresee.
The Markov head is fed the true tokens (teacher forcing). Anchors stand at regular places, shifted from step to step. The release
describes no recipe: loss, weights and text are choices of this course.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from .dspark import DraftRun
from .formats import E4M3_E8M0
from .generate import generate
from .model import Model
from .trainable import run_pass

STRIDE = 8  # one anchor in so many tokens
FADE = 0.8  # weight of each draft beside the one before it


@dataclass
class DraftWindows:
    """Stands where a cache stands: the context window of every anchor, per draft block.  rows [A, W, C], held [A, W]."""

    rows: list[Tensor]
    held: Tensor

    def read_window(self, index: int, draft: bool = True) -> tuple[Tensor, Tensor]:
        """Rows and 0 where a row is held, -1 where there is none."""
        return self.rows[index], self.held.long() - 1


@dataclass
class GateRun(DraftRun):
    """A draft pass that remembers which experts were chosen."""

    chosen: dict | None = None

    def noter(self, prefix: str):
        def keep(name: str, value: Tensor) -> None:
            if name == "indices":
                self.chosen[int(prefix.split(".")[1])] = value

        return keep


def windows(model: Model, features: list[Tensor], places, anchors: Tensor) -> DraftWindows:
    """What the drafter would find in its rings before each anchor: rows of the last W tokens up to there.

    features: [B, T, D] per target layer; anchors [A]: places in the text before which drafting starts, the same in every row.
    """
    drafter, size = model.drafter, model.config.sliding_window
    main = drafter.main_x([feature.detach() for feature in features])  # [B, T, D]
    at = anchors[:, None] - torch.arange(size, 0, -1, device=anchors.device)   # [A, W]
    rows = []
    for block in model.mtp:
        latents = E4M3_E8M0.roundtrip(block.attn.context_rows(main, places))   # [B, T, C]
        rows.append(latents[:, at.clamp(min=0)].flatten(0, 1))         # [B * A, W, C]
    return DraftWindows(rows, (at >= 0).repeat(len(main), 1))


def drafter_objective(model: Model, inputs: Tensor, targets: Tensor, stage, step: int):
    """Loss, its parts and the experts chosen, of one part of a batch of text [B, T]."""
    size, drafter = model.config.dspark_block_size, model.drafter
    with torch.no_grad():
        logits, seen = run_pass(model, inputs, teach=False)
    places = torch.arange(inputs.shape[1], device=inputs.device)
    anchors = places[1 + step % STRIDE : inputs.shape[1] - size : STRIDE]  # [A]
    steps = anchors[:, None] + places[:size]                           # [A, block]: places of anchor and drafts
    known = inputs[:, steps].flatten(0, 1)                             # [B * A, block]: anchor, then the tokens to foresee
    wanted = logits[:, steps].flatten(0, 1).log_softmax(-1)            # [B * A, block, V]: what the model says after each
    run = GateRun(windows(model, seen.features, seen.places, anchors), steps.repeat(len(inputs), 1), chosen={})
    hidden = drafter.hidden(run, known[:, 0])                          # [B * A, block, D]
    last = drafter.blocks[-1]
    embedded = last.markov_head["embed"].weight[known]                 # [B * A, block, rank]
    said = last.norm(hidden) @ model.head.weight.mT + last.markov_head["head"](embedded)  # [B * A, block, V]
    weight = FADE ** places[:size]                                     # [block]
    text = (-(wanted.exp() * said.log_softmax(-1)).sum(-1) * weight / weight.sum()).sum(-1).mean()
    right = said.argmax(-1) == wanted.argmax(-1)                       # [B * A, block]
    sure = last.confidence_head["proj"](torch.cat([hidden, embedded], dim=-1).detach()).squeeze(-1)
    confidence = F.binary_cross_entropy_with_logits(sure, right.float())
    prefix = right.float().cumprod(1).sum(1).mean()                    # drafts in a row that are the model's first choice
    figures = {"loss": text.item(), "confidence": confidence.item(), "in a row": prefix.item()}
    layers = model.config.num_hidden_layers
    return text + confidence, figures, {model.mtp[n - layers].ffn.gate: chosen for n, chosen in run.chosen.items()}


@torch.no_grad()
def greedy_text(model: Model, ids: Tensor, path: Path, *, rows: int = 256, prompt: int = 32, new: int = 224, batch: int = 64) -> Tensor:
    """The corpus followed by as much greedy text of the model as makes half of it, from prompts spread over the corpus.  [n].

    The greedy part is kept in `path`, since it takes minutes.
    """
    if not path.exists():
        starts = torch.linspace(0, len(ids) - prompt - 1, rows).long()
        prompts = ids[starts[:, None] + torch.arange(prompt)]          # [rows, prompt]
        made = [torch.cat([p, generate(model, p, new)], dim=1) for p in prompts.to(model.device).split(batch)]
        torch.save(torch.cat(made).flatten().cpu(), path)
    made = torch.load(path)
    return torch.cat([ids[: len(made)], made])

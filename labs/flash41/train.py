"""Train the apprentice: next tokens through every block and the indexer from the attention it serves; then the drafter.

    loss = cross-entropy + KL(attention mass over compressed rows || softmax of the index scores)

Stage 1 attends to all visible rows, so that the indexer has a teacher before it chooses; stage 2 attends to its choice; stage 3
leaves out a part of Engram's rows at every step, since the tables learn the text by heart otherwise; stage 4 has longer contexts. The drafter then learns on the frozen model (`train_drafter`). The release describes no recipe for
indexer, drafter and stages: these are choices of this course. `make train` runs all of it, or goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from . import checkpoint
from .config import Config
from .model import Model
from .tokenizer import Tokenizer, corpus
from .train_drafter import drafter_objective, greedy_text
from .trainable import index_loss, run_pass
from .trainer import Plan, Stage, Trainer, run

BACKBONE = Plan(
    (Stage(600, 8, 256, sparse=False), Stage(600, 8, 256), Stage(700, 8, 256, absent=0.4), Stage(200, 2, 1024, absent=0.4)),
    horizon=2700, cool_down=900,
)  # fmt: skip
DRAFTER = Plan((Stage(700, 8, 256),), rate=2e-3)


def prepare(model: Model) -> None:
    """Start values for training: streams hardly mix, every site reads mainly one stream and writes to all."""
    width = model.config.hc_mult
    for number, block in enumerate([*model.layers, *model.mtp]):
        for site, name in enumerate(("attn", "ffn")):
            base, scale = getattr(block, f"hc_{name}_base"), getattr(block, f"hc_{name}_scale")
            with torch.no_grad():
                base[:width] = -2.2  # sigmoid: 0.1
                base[(2 * number + site) % width] = 1.0
                base[2 * width :] = 3 * torch.eye(width, device=base.device).flatten()
                scale.fill_(0.1)


def objective(model: Model, inputs: Tensor, targets: Tensor, stage: Stage, step: int):
    """Loss, its two parts, and the experts chosen, of one part of a batch [B, T]."""
    logits, seen = run_pass(model, inputs, sparse=stage.sparse, absent=stage.absent, salt=step)
    text, index = F.cross_entropy(logits.flatten(0, 1), targets.flatten()), index_loss(seen)
    gates = {model.layers[layer].ffn.gate: chosen for layer, chosen in seen.chosen_experts.items()}
    return text + index, {"loss": text.item(), "index": index.item()}, gates


def of_backbone(name: str) -> bool:
    """Parameters that learn first: all but the drafter's."""
    return not name.startswith("mtp.")


@torch.no_grad()
def validation_loss(model: Model, ids: Tensor, tokens: int = 1024, batch: int = 4, most: int = 8) -> float:
    """Nats per token over the first `most` non-overlapping sequences of a text, the first token of each not predicted."""
    rows = ids[: len(ids) // tokens * tokens].view(-1, tokens)[:most]  # [n, tokens]
    total = 0.0
    for part in rows.to(model.device).split(batch):
        logits, _ = run_pass(model, part, teach=False)
        total += float(F.cross_entropy(logits[:, :-1].flatten(0, 1), part[:, 1:].flatten(), reduction="sum"))
    return total / (rows.numel() - len(rows))


def apprentice(folder: Path, *, shorter: int = 1, say: Callable[[str], None] = print) -> Model:
    """The whole recipe, from the start or from the states that lie in `folder`; writes apprentice.safetensors and log.json there.

    It runs on a CUDA device where there is one. shorter divides every number of steps: a rehearsal, not a recipe.
    """
    tokenizer = Tokenizer.load()
    train_ids, validation_ids = (torch.tensor(tokenizer.encode(corpus(split))) for split in ("train", "validation"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Model(Config.apprentice(), token_map=tokenizer.token_map(), seed=BACKBONE.seed).to(device)  # the same start everywhere
    prepare(model)
    first = Trainer(model, scaled(BACKBONE, shorter), objective, of_backbone)
    run(first, train_ids, folder / "backbone.pt", judge=lambda model: {"validation": validation_loss(model, validation_ids)})
    say("greedy text of the model for its drafter")
    text = greedy_text(model, train_ids, folder / "greedy.pt", rows=max(256 // shorter, 2))
    second = Trainer(model, scaled(DRAFTER, shorter), drafter_objective, lambda name: not of_backbone(name))
    run(second, text, folder / "drafter.pt")
    checkpoint.save(model, folder / "apprentice.safetensors")
    notes = {"torch": torch.__version__, "device": device, "shards": BACKBONE.shards, "seed": BACKBONE.seed}
    log = notes | {"backbone": first.log, "drafter": second.log}
    (folder / "log.json").write_text(json.dumps(log))
    return model


def scaled(plan: Plan, shorter: int) -> Plan:
    """The plan with 1 / shorter of the steps of every stage, at least one each."""
    def cut(steps: int | None) -> int | None:
        return steps and math.ceil(steps / shorter)

    stages = tuple(replace(stage, steps=cut(stage.steps)) for stage in plan.stages)
    return replace(plan, stages=stages, horizon=cut(plan.horizon), cool_down=cut(plan.cool_down))


def main() -> int:
    """`python -m flash41.train --out FOLDER`: train or go on; Ctrl-C ends the step at hand and saves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the saved states, the log and the result")
    parser.add_argument("--shorter", type=int, default=1, metavar="N", help="a rehearsal with 1/N of the steps")
    arguments = parser.parse_args()
    if arguments.shorter < 1:
        parser.error(f"--shorter {arguments.shorter}: must be at least 1")
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # one per shard
    try:
        apprentice(arguments.out, shorter=arguments.shorter)
    except KeyboardInterrupt as stop:
        print(f"\n{stop}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

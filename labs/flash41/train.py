"""Train the apprentice: next tokens through every block, the indexer from the attention it serves, then the drafter.

    loss = cross-entropy + KL(attention mass over compressed rows || softmax of the index scores)

Stage 1 attends to all visible rows, so that the indexer has a teacher before it chooses; stage 2 attends to its choice; stage 3
does so at longer contexts. Experts are balanced by the bias rule: b_i += speed * sign(mean load - load_i). The model sees its
weights rounded to their stored formats; gradients go straight through to float32 masters. The release describes no recipe for
the indexer, the drafter or the stages: these are choices of this course.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from . import checkpoint
from .config import Config
from .model import Model
from .tokenizer import Tokenizer, corpus
from .trainable import index_loss, run_pass


@dataclass(frozen=True)
class Stage:
    """Steps of one kind: sequences per step, tokens per sequence, and whether attention follows the indexer's choice."""

    steps: int
    batch: int
    tokens: int
    sparse: bool


@dataclass(frozen=True)
class Plan:
    """A training run. The learning rate warms up linearly and falls along a cosine to `floor` of its peak."""

    stages: tuple[Stage, ...] = (Stage(600, 8, 256, False), Stage(1800, 8, 256, True), Stage(300, 2, 1024, True))
    rate: float = 3e-3
    warm_up: int = 60
    floor: float = 0.05
    decay: float = 0.1
    table_rate: float = 3.0  # Engram tables learn faster and do not decay
    balance: float = 0.002
    seed: int = 41
    shards: int = 2  # parts of a batch, one thread each; their gradients are added in order

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    def stage(self, step: int) -> Stage:
        for stage in self.stages:
            if step < stage.steps:
                return stage
            step -= stage.steps
        raise ValueError(f"step beyond the plan's {self.steps}")

    def rate_at(self, step: int) -> float:
        """Factor on the peak rate."""
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        progress = (step - self.warm_up) / max(self.steps - self.warm_up, 1)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))


def prepare(model: Model) -> None:
    """Start values for training: streams hardly mix, every site reads mainly one stream and writes to all."""
    width = model.config.hc_mult
    for number, block in enumerate([*model.layers, *model.mtp]):
        for site, name in enumerate(("attn", "ffn")):
            base, scale = getattr(block, f"hc_{name}_base"), getattr(block, f"hc_{name}_scale")
            with torch.no_grad():
                base[:width] = -2.2  # sigmoid: 0.1
                base[(2 * number + site) % width] = 1.0
                base[2 * width :] = 3 * torch.eye(width).flatten()
                scale.fill_(0.1)


def sample(ids: Tensor, stage: Stage, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets of one step, [batch, tokens] each: the same for the same seed and step."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    starts = torch.randint(len(ids) - stage.tokens, (stage.batch, 1), generator=generator)
    rows = ids[starts + torch.arange(stage.tokens + 1)]                # [batch, tokens + 1]
    return rows[:, :-1], rows[:, 1:]


@dataclass
class Trainer:
    """A model, the float32 masters of its weights, and everything else that a run needs to go on where it stopped."""

    model: Model
    plan: Plan
    step: int = 0
    seconds: float = 0.0
    log: list = field(default_factory=list)

    def __post_init__(self):
        self.trained = {n: p for n, p in self.model.named_parameters() if not n.startswith("mtp.") and not n.endswith((".bias", ".bias_vl"))}
        self.masters = {name: p.detach().clone().requires_grad_() for name, p in self.trained.items()}
        tables = [m for name, m in self.masters.items() if name.endswith("engram.embed.weight")]
        matrices = [m for name, m in self.masters.items() if m.dim() > 1 and not any(m is t for t in tables)]
        vectors = [m for m in self.masters.values() if m.dim() == 1]
        plan = self.plan
        groups = [{"params": tables, "weight_decay": 0.0, "scale": plan.table_rate},
                  {"params": matrices, "weight_decay": plan.decay, "scale": 1.0},
                  {"params": vectors, "weight_decay": 0.0, "scale": 1.0}]  # fmt: skip
        self.optimizer = torch.optim.AdamW(groups, lr=plan.rate, betas=(0.9, 0.95), fused=True)
        self.show()

    @torch.no_grad()
    def show(self) -> None:
        """Put the rounded masters into the model."""
        for name, parameter in self.trained.items():
            parameter.copy_(checkpoint.rounded(name, self.masters[name].detach()))

    def losses(self, inputs: Tensor, targets: Tensor, sparse: bool):
        """Gradients and figures of one part of a batch."""
        logits, run = run_pass(self.model, inputs, sparse=sparse)
        text, index = F.cross_entropy(logits.flatten(0, 1), targets.flatten()), index_loss(run)
        return torch.autograd.grad(text + index, list(self.trained.values()), allow_unused=True), text.item(), index.item(), run.loads

    def advance(self, ids: Tensor) -> dict:
        """One step: forward and backward per shard, clipped AdamW on the masters, expert biases, new rounded weights."""
        began, plan, stage = time.perf_counter(), self.plan, self.plan.stage(self.step)
        inputs, targets = sample(ids, stage, plan.seed, self.step)
        shards = min(plan.shards, len(inputs))
        with ThreadPoolExecutor(shards) as pool:
            parts = list(pool.map(self.losses, inputs.chunk(shards), targets.chunk(shards), [stage.sparse] * shards))
        for index, master in enumerate(self.masters.values()):
            found = [part[0][index] for part in parts if part[0][index] is not None]
            master.grad = sum(found) / len(parts) if found else None
        norm = float(torch.nn.utils.clip_grad_norm_(list(self.masters.values()), 1.0))
        for group in self.optimizer.param_groups:
            group["lr"] = plan.rate * plan.rate_at(self.step) * group["scale"]
        self.optimizer.step()
        self.balance([part[3] for part in parts])
        self.show()
        self.step += 1
        self.seconds += time.perf_counter() - began
        text, index = (sum(part[k] for part in parts) / len(parts) for k in (1, 2))
        return {"step": self.step, "loss": text, "index": index, "norm": norm, "seconds": self.seconds}

    @torch.no_grad()
    def balance(self, loads: list[dict[int, Tensor]]) -> None:
        """b_i += speed * sign(mean load - load_i), per layer; the bias steers the choice only."""
        for layer in loads[0]:
            gate = self.model.layers[layer].ffn.gate
            load = sum(part[layer].flatten().bincount(minlength=len(gate.bias)) for part in loads).float()
            gate.bias += self.plan.balance * self.plan.rate_at(self.step) * torch.sign(load.mean() - load)

    def save(self, path: Path) -> None:
        """Write all of it, so that a stopped run goes on as if it had not been stopped."""
        biases = {n: p for n, p in self.model.named_parameters() if n.endswith(".bias")}
        state = {"masters": self.masters, "optimizer": self.optimizer.state_dict(), "biases": biases}
        torch.save(state | {"step": self.step, "seconds": self.seconds, "log": self.log, "plan": repr(self.plan)}, f"{path}.new")
        Path(f"{path}.new").replace(path)

    @torch.no_grad()
    def load(self, path: Path) -> None:
        """Go on from a saved state. Raises ValueError if it belongs to another plan."""
        state = torch.load(path, weights_only=True)
        if state["plan"] != repr(self.plan):
            raise ValueError(f"{path} was made by another plan: {state['plan']}")
        for name, master in self.masters.items():
            master.copy_(state["masters"][name])
        parameters = dict(self.model.named_parameters())
        for name, bias in state["biases"].items():
            parameters[name].copy_(bias)
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds, self.log = state["step"], state["seconds"], state["log"]
        self.show()


@torch.no_grad()
def validation_loss(model: Model, ids: Tensor, tokens: int = 1024, batch: int = 4, most: int = 32) -> float:
    """Nats per token over the first `most` non-overlapping sequences of a text, the first token of each not predicted."""
    rows = ids[: len(ids) // tokens * tokens].view(-1, tokens)[:most]  # [n, tokens]
    total = 0.0
    for part in rows.split(batch):
        logits, _ = run_pass(model, part, teach=False)
        total += float(F.cross_entropy(logits[:, :-1].flatten(0, 1), part[:, 1:].flatten(), reduction="sum"))
    return total / (rows.numel() - len(rows))


def train(trainer: Trainer, train_ids: Tensor, validation_ids: Tensor, folder: Path, *, every: int = 100) -> None:
    """Run the plan to its end, with a line of progress, a log and a saved state."""
    while trainer.step < trainer.plan.steps:
        figures = trainer.advance(train_ids)
        left = (trainer.plan.steps - trainer.step) * trainer.seconds / trainer.step / 60
        print(f"\r{figures['step']}/{trainer.plan.steps}  loss {figures['loss']:.3f}  index {figures['index']:.3f}  "
              f"norm {figures['norm']:.2f}  {trainer.seconds / 60:.1f} min, {left:.1f} left ", end="", flush=True)  # fmt: skip
        if trainer.step % every == 0 or trainer.step == trainer.plan.steps:
            figures["validation"] = validation_loss(trainer.model, validation_ids, most=8)
            print(f" validation {figures['validation']:.4f} nats/token")
            trainer.save(folder / "state.pt")
        trainer.log.append(figures)


def backbone(folder: Path, plan: Plan) -> Trainer:
    """Train the model without its drafter, from the start or from the state that lies in `folder`."""
    tokenizer = Tokenizer.load()
    train_ids, validation_ids = (torch.tensor(tokenizer.encode(corpus(split))) for split in ("train", "validation"))
    model = Model(Config.apprentice(), token_map=tokenizer.token_map(), seed=plan.seed)
    prepare(model)
    trainer = Trainer(model, plan)
    if (folder / "state.pt").exists():
        trainer.load(folder / "state.pt")
    train(trainer, train_ids, validation_ids, folder)
    return trainer


def main() -> int:
    """`python -m flash41.train --out FOLDER`: run or go on; Ctrl-C loses at most the steps since the last saved state."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the saved state, the log and the result")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # one per shard
    trainer = backbone(folder, Plan())
    (folder / "log.json").write_text(json.dumps(trainer.log))
    return 0


if __name__ == "__main__":
    sys.exit(main())

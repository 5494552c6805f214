"""What every training run of the course shares: the plan, the masters behind rounded weights, balanced experts, exact resume.

The model sees its weights rounded to the formats in which they are stored (`checkpoint.rounded`); gradients go straight through
to float32 masters, which AdamW moves. Experts are balanced by the bias rule, b_i += speed * sign(mean load - load_i): the bias
steers the choice and gets no gradient.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from . import checkpoint
from .model import Model


@dataclass(frozen=True)
class Stage:
    """Steps of one kind: sequences per step, tokens per sequence, whether attention follows the indexer's choice, and the
    share of Engram's table rows that are left out at each step."""

    steps: int
    batch: int
    tokens: int
    sparse: bool = True
    absent: float = 0.0


@dataclass(frozen=True)
class Plan:
    """A training run. The learning rate warms up linearly, falls along a cosine that would reach `floor` of its peak after `horizon`
    steps (default: all), and is cut short by a linear descent over the last `cool_down` steps."""

    stages: tuple[Stage, ...]
    rate: float = 3e-3
    warm_up: int = 60
    floor: float = 0.05
    horizon: int | None = None
    cool_down: int = 0
    decay: float = 0.1
    table_rate: float = 3.0  # Engram tables learn faster and do not decay
    balance: float = 0.002
    seed: int = 41
    shards: int = 2  # parts of a batch, one thread each; their gradients are added in order

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    def stage(self, step: int) -> Stage:
        """The stage that a step belongs to. Raises ValueError beyond the last one."""
        for stage in self.stages:
            if step < stage.steps:
                return stage
            step -= stage.steps
        raise ValueError(f"step lies {step + 1} beyond the plan's last one")

    def rate_at(self, step: int) -> float:
        """Factor on the peak rate."""
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        progress = (step - self.warm_up) / max((self.horizon or self.steps) - self.warm_up, 1)
        rate = self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))
        return rate * min(1.0, (self.steps - step) / self.cool_down) if self.cool_down else rate


def sample(ids: Tensor, stage: Stage, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets of one step, [batch, tokens] each: random places of a text, the same for the same seed and step."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    starts = torch.randint(len(ids) - stage.tokens, (stage.batch, 1), generator=generator)
    rows = ids[starts + torch.arange(stage.tokens + 1)]                # [batch, tokens + 1]
    return rows[:, :-1], rows[:, 1:]


@dataclass
class Trainer:
    """A model, the masters of the part that learns, and everything else that a run needs to go on where it stopped.

    objective(model, inputs, targets, stage, step) -> (loss, figures to print, experts chosen per Router): one part of a batch.
    learns(name): whether the parameter of that name is trained; expert biases never are.
    """

    model: Model
    plan: Plan
    objective: Callable
    learns: Callable[[str], bool]
    step: int = 0
    seconds: float = 0.0
    log: list = field(default_factory=list)

    def __post_init__(self):
        free = {name: p for name, p in self.model.named_parameters() if not name.endswith((".bias", ".bias_vl"))}
        self.trained = {name: p.requires_grad_(self.learns(name)) for name, p in free.items() if self.learns(name)}
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name in self.trained)
        self.masters = {name: p.detach().clone().requires_grad_() for name, p in self.trained.items()}
        kinds = {"tables": [], "matrices": [], "vectors": []}
        for name, master in self.masters.items():
            table = name.endswith("engram.embed.weight")
            kinds["tables" if table else "matrices" if master.dim() > 1 else "vectors"].append(master)
        decay, scale = {"matrices": self.plan.decay}, {"tables": self.plan.table_rate}
        groups = [{"params": p, "weight_decay": decay.get(k, 0.0), "scale": scale.get(k, 1.0)} for k, p in kinds.items() if p]
        self.optimizer = torch.optim.AdamW(groups, lr=self.plan.rate, betas=(0.9, 0.95), fused=True)
        self.show()

    @torch.no_grad()
    def show(self) -> None:
        """Put the rounded masters into the model."""
        for name, parameter in self.trained.items():
            parameter.copy_(checkpoint.rounded(name, self.masters[name].detach()))

    def part(self, inputs: Tensor, targets: Tensor):
        """Gradients, figures and chosen experts of one part of a batch."""
        loss, figures, chosen = self.objective(self.model, inputs, targets, self.plan.stage(self.step), self.step)
        return torch.autograd.grad(loss, list(self.trained.values()), allow_unused=True), figures, chosen

    def advance(self, ids: Tensor) -> dict:
        """One step: forward and backward per shard, clipped AdamW on the masters, expert biases, new rounded weights."""
        began, plan = time.perf_counter(), self.plan
        inputs, targets = sample(ids, plan.stage(self.step), plan.seed, self.step)
        inputs, targets = inputs.to(self.model.device), targets.to(self.model.device)
        shards = min(plan.shards, len(inputs)) if inputs.device.type == "cpu" else 1
        with ThreadPoolExecutor(shards) as pool:
            parts = list(pool.map(self.part, inputs.chunk(shards), targets.chunk(shards)))
        for index, master in enumerate(self.masters.values()):
            found = [part[0][index] for part in parts if part[0][index] is not None]
            master.grad = sum(found) / len(parts) if found else None
        norm = float(torch.nn.utils.clip_grad_norm_(list(self.masters.values()), 1.0))
        for group in self.optimizer.param_groups:
            group["lr"] = plan.rate * plan.rate_at(self.step) * group["scale"]
        self.optimizer.step()
        self.balance([part[2] for part in parts])
        self.show()
        self.step += 1
        self.seconds += time.perf_counter() - began
        figures = {name: sum(part[1][name] for part in parts) / len(parts) for name in parts[0][1]}
        return {"step": self.step, **figures, "norm": norm, "seconds": round(self.seconds, 2)}

    @torch.no_grad()
    def balance(self, chosen: list[dict]) -> None:
        """b_i += speed * sign(mean load - load_i) for every router that was used."""
        for gate in chosen[0]:
            load = sum(part[gate].flatten().bincount(minlength=len(gate.bias)) for part in chosen).float()
            gate.bias += self.plan.balance * self.plan.rate_at(self.step) * torch.sign(load.mean() - load)

    def save(self, path: Path) -> None:
        """Write all of it, so that a stopped run goes on as if it had not been stopped."""
        biases = {name: p.detach() for name, p in self.model.named_parameters() if name.endswith(".bias")}
        masters = {name: m.detach() for name, m in self.masters.items()}
        state = {"masters": masters, "optimizer": self.optimizer.state_dict(), "biases": biases, "plan": repr(self.plan)}
        torch.save(state | {"step": self.step, "seconds": self.seconds, "log": self.log}, f"{path}.new")
        Path(f"{path}.new").replace(path)

    @torch.no_grad()
    def load(self, path: Path) -> None:
        """Go on from a saved state. Raises ValueError if it belongs to another plan."""
        state = torch.load(path, weights_only=True, map_location=self.model.device)
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


def run(trainer: Trainer, ids: Tensor, path: Path, *, every: int = 100, judge: Callable[[Model], dict] = lambda model: {}) -> None:
    """Go through the plan to its end from wherever the trainer stands: a line of progress, a log, a state saved every so often.

    judge(model): figures that join the log whenever the state is saved.
    """
    if path.exists():
        trainer.load(path)
    stopped: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: stopped.append(number))  # a step is never cut in two
    while trainer.step < trainer.plan.steps and not stopped:
        figures = trainer.advance(ids)
        trainer.log.append(figures)
        print(progress(trainer, figures), end="", flush=True)
        if trainer.step % every == 0 or trainer.step == trainer.plan.steps:
            figures |= judge(trainer.model)
            print(f"\n{figures}")
            trainer.save(path)
    signal.signal(signal.SIGINT, before)
    if stopped:
        trainer.save(path)
        raise KeyboardInterrupt(f"stopped after step {trainer.step}; the same command goes on from there")


def progress(trainer: Trainer, figures: dict) -> str:
    """One line that overwrites itself: a bar, the figures of the step, the time that is left."""
    steps = trainer.plan.steps
    left = (steps - trainer.step) * trainer.seconds / trainer.step / 60
    shown = "  ".join(f"{name} {value:.3f}" for name, value in figures.items() if name not in ("step", "seconds"))
    return f"\r[{'#' * (20 * trainer.step // steps):<20}] {trainer.step}/{steps}  {shown}  {left:.1f} min left "

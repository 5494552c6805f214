"""What the apprentice has learned, measured again from its checkpoint: loss beside a 5-gram model, drafts, router, indexer, ablations."""

from __future__ import annotations

import argparse
import json
import math
import time

import torch
from torch import Tensor

from . import experiments
from .cache import KVCache
from .dspark import sample
from .generate import draft_step, generate
from .measure import conditions
from .model import Model
from .ngram import KneserNey
from .tokenizer import Tokenizer, corpus

TOKENS = 1024  # per validation sequence
PROMPT = 64  # tokens before a generated text
FIGURES = {False: {"sequences": 87, "prompts": 20, "new": 200, "probe": 16}, True: {"sequences": 4, "prompts": 4, "new": 48, "probe": 4}}


def evaluate(name: str = "apprentice", *, quick: bool = False) -> dict:
    """All figures as one JSON-ready dict. quick: on a few sequences and prompts, in under a minute."""
    began, size = time.perf_counter(), FIGURES[quick]
    torch.manual_seed(0)
    model, tokenizer = Model.pretrained(name), Tokenizer.load()
    ids = torch.tensor(tokenizer.encode(corpus("validation")))
    rows = ids[: len(ids) // TOKENS * TOKENS].view(-1, TOKENS)[: size["sequences"]]     # [n, T]
    few = rows[:: max(len(rows) // size["probe"], 1)][: size["probe"]]
    found = {"checkpoint": name, "quick": quick, "parameters": sum(p.numel() for p in model.parameters()), "sequences": len(rows)}
    found["loss"] = losses(model, tokenizer, ids, rows)
    found["ablations"] = ablations(model, tokenizer, rows if quick else rows[::3])
    found["indexer"] = {"tokens": TOKENS, "chosen": model.config.index_topk, "layers": experiments.index_mass(model, few)}
    found["router"] = experiments.router_loads(model, few)
    found["drafts"] = drafts(name, ids, size["prompts"], size["new"])
    prompt = ids[:PROMPT]
    found["sample"] = {"prompt": tokenizer.decode(prompt), "greedy": written(model, tokenizer, prompt, 0.0),
                       "temperature 0.8": written(model, tokenizer, prompt, 0.8)}  # fmt: skip
    found["conditions"] = conditions() | {"seconds": round(time.perf_counter() - began, 1)}
    return found


def size_of(tokenizer: Tokenizer, rows: Tensor) -> int:
    """Bytes of all tokens but the first of each sequence."""
    return sum(len(tokenizer.token_bytes(token)) for token in rows[:, 1:].flatten().tolist())


@torch.no_grad()
def losses(model: Model, tokenizer: Tokenizer, ids: Tensor, rows: Tensor) -> dict:
    """Nats per byte of the model, as it runs with its packed cache, and of a 5-gram model, over the same tokens.

    The model sees at most the 1,023 tokens before in its sequence; the 5-gram model always its four, across sequences too.
    """
    total = 0.0
    for part in rows.split(4):
        logits = model(part)[:, :-1]                                   # [n, T - 1, V]
        total += float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum"))
    counted = KneserNey(5, model.config.vocab_size).fit(tokenizer.encode(corpus("train"))).log_prob(ids.tolist())
    counted = torch.from_numpy(counted)[: rows.numel()].view(rows.shape)[:, 1:]        # the same tokens
    size, tokens = size_of(tokenizer, rows), rows.numel() - len(rows)
    five = -float(counted.sum())
    return {"nats per byte": total / size, "nats per token": total / tokens, "5-gram nats per byte": five / size,
            "5-gram nats per token": five / tokens, "bytes": size, "tokens": tokens}  # fmt: skip


def ablations(model: Model, tokenizer: Tokenizer, rows: Tensor) -> list[dict]:
    """Loss of every experiment, its difference from the model as trained, and the standard error of that difference.

    Differences are taken token by token; the error is over sequences.
    """
    size, base, table = size_of(tokenizer, rows) / len(rows), None, []
    for experiment in experiments.EXPERIMENTS:
        nats = experiments.token_losses(model, rows, experiment).double().sum(1) / size  # [n]
        base = nats if base is None else base
        apart = nats - base
        error = float(apart.std() / math.sqrt(len(rows))) if len(rows) > 1 else None
        table.append({"what": experiment.name, "nats per byte": float(nats.mean()), "difference": float(apart.mean()), "error": error})
    ends = experiments.schedule_losses(model, rows)
    per_byte = TOKENS / size  # tokens per byte
    for schedule, nats in ends.items():
        difference = (nats - ends["exact"]) * per_byte
        table.append({"what": f"{schedule} prefill, last window only", "nats per byte": nats * per_byte, "difference": difference, "error": None})
    return table


def drafts(name: str, ids: Tensor, prompts: int, new: int) -> dict:
    """Drafts that stand per verification, bonus token not counted, greedy, in float64, and whether the text stays the same."""
    model = Model.pretrained(name, dtype=torch.float64)
    starts = torch.linspace(0, len(ids) - PROMPT - 1, prompts).long()
    given = ids[starts[:, None] + torch.arange(PROMPT)]                # [prompts, PROMPT]
    plain = generate(model, given, new)                                # [prompts, new]
    cache = KVCache(model.config, prompts)
    token = sample(model(given, cache)[:, -1], 0.0)
    texts, kept, places = [[int(t)] for t in token], [[] for _ in given], model.config.dspark_block_size
    while min(map(len, texts)) < new:
        found, token = draft_step(model, cache, token, 0.0, None, "fast")
        for text, count, tokens in zip(texts, kept, found, strict=True):
            if len(text) < new:
                count.append(len(tokens) - 1)
            text += tokens
    flat = torch.tensor([n for count in kept for n in count])
    same = all(text[:new] == row.tolist() for text, row in zip(texts, plain, strict=True))
    return {"accepted per verification": float(flat.double().mean()), "of": places, "verifications": len(flat), "prompts": prompts,
            "new tokens": new, "identical to plain greedy": same, "share with n kept": [float((flat == n).double().mean()) for n in range(places + 1)],
            "per prompt": [sum(count) / len(count) for count in kept]}  # fmt: skip


def written(model: Model, tokenizer: Tokenizer, prompt: Tensor, temperature: float, new: int = 160) -> str:
    """Text that the model writes after a prompt [T], the same each time."""
    return tokenizer.decode(generate(model, prompt[None], new, temperature=temperature, generator=torch.Generator().manual_seed(0))[0])


def page(found: dict) -> str:
    """The figures as text."""
    loss, draft, lines = found["loss"], found["drafts"], []
    lines += [f"{found['parameters']:,} parameters; {loss['tokens']:,} validation tokens, {loss['bytes']:,} bytes", "",
              f"loss          {loss['nats per byte']:.4f} nats/byte   {loss['nats per token']:.4f} nats/token",
              f"5-gram        {loss['5-gram nats per byte']:.4f} nats/byte   {loss['5-gram nats per token']:.4f} nats/token   (Kneser-Ney)", "",
              f"{'changed':<34} nats/byte   difference"]  # fmt: skip
    for row in found["ablations"]:
        error = "" if row["error"] is None else f" ± {row['error']:.4f}"
        lines.append(f"{row['what']:<34} {row['nats per byte']:9.4f}   {row['difference']:+.4f}{error}")
    lines += ["", f"drafts        {draft['accepted per verification']:.2f} of {draft['of']} stand per verification (greedy, bonus not counted), "
              f"{draft['verifications']} verifications; same text as plain: {'yes' if draft['identical to plain greedy'] else 'NO'}", "",
              f"attention mass of {found['indexer']['chosen']} rows at {found['indexer']['tokens']} tokens",
              "layer   indexer   most recent   random   best possible"]  # fmt: skip
    for row in found["indexer"]["layers"]:
        lines.append(f"{row['layer']:>5}   {row['indexer']:7.3f}   {row['most recent']:11.3f}   {row['random']:6.3f}   {row['best possible']:13.3f}")
    lines += ["", "layer   entropy (nats)   share of each expert"]
    for row in found["router"]:
        lines.append(f"{row['layer']:>5}   {row['entropy']:14.3f}   {'  '.join(f'{load:.3f}' for load in row['loads'])}")
    for name, text in found["sample"].items():
        lines += ["", f"--- {name}", text]
    return "\n".join([*lines, "", f"{found['conditions']}"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="a few sequences and prompts, in under a minute")
    parser.add_argument("--json", action="store_true", help="everything as JSON")


def main(arguments: argparse.Namespace) -> int:
    """`flash41 evaluate`: print the figures."""
    found = evaluate(quick=arguments.quick)
    print(json.dumps(found, indent=2) if arguments.json else page(found))
    return 0

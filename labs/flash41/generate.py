"""Generation: prefill, then one token a step, or drafts verified by one pass over 1 + k tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from .cache import KVCache
from .dspark import sample, verify


@torch.no_grad()
def generate(
    model, ids: Tensor, max_new_tokens: int, *, draft: bool = False, temperature: float = 0.0,
    generator: torch.Generator | None = None, schedule: str = "exact", path: str = "fast",
    live: Tensor | None = None, cache: KVCache | None = None,
) -> Tensor:  # fmt: skip
    """New tokens [B, max_new_tokens] after the prompt ids [B, T] (padding on the left, marked in live [B, T]).

    draft: propose with the drafter and verify; the tokens are those of plain generation (greedy), or of its distribution.
    Raises ValueError for bad arguments.
    """
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens = {max_new_tokens}, must be at least 1")
    if not temperature >= 0:
        raise ValueError(f"temperature = {temperature}, must be 0 or more")
    cache = KVCache(model.config, len(ids), device=model.device) if cache is None else cache
    logits = model(ids, cache, live=live, schedule=schedule, path=path)
    token = sample(logits[:, -1], temperature, generator)              # [B]
    step = draft_step if draft else plain_step
    new = [[int(t)] for t in token]
    while min(map(len, new)) < max_new_tokens:
        found, token = step(model, cache, token, temperature, generator, path)
        for row, tokens in zip(new, found, strict=True):
            row += tokens
    return torch.tensor([row[:max_new_tokens] for row in new], device=ids.device)


def plain_step(model, cache: KVCache, token: Tensor, temperature: float, generator, path: str) -> tuple[list[list[int]], Tensor]:
    """Feed one token per row, choose the next.  Returns the new tokens per row and the last of them [B]."""
    token = sample(model(token[:, None], cache, path=path)[:, -1], temperature, generator)
    return [[t] for t in token.tolist()], token


def draft_step(model, cache: KVCache, anchor: Tensor, temperature: float, generator, path: str) -> tuple[list[list[int]], Tensor]:
    """Draft, verify in one pass over anchor and drafts, commit the anchor and the drafts that stand.

    The pass is staged: window rows, pairs, look-back and draft rings of refused tokens are never written.
    """
    room = cache.capacity - int(cache.lengths.max()) - 1               # drafts that still fit
    draft = model.drafter.propose(cache, anchor, temperature=temperature, generator=generator)
    draft = draft.first(max(min(room, draft.tokens.shape[1]), 0))
    ids = torch.cat([anchor[:, None], draft.tokens], dim=1)            # [B, 1 + k]
    cache, live = model.check(ids, cache, None, None, None, "exact", path)
    try:
        logits, run = model.stage(ids, cache, live, path=path)
        kept, token = verify(logits, draft, temperature, generator)    # [B], [B]
        model.commit(run, kept + 1)
    finally:
        cache.discard()
    found = [[*row[:n], t] for row, n, t in zip(draft.tokens.tolist(), kept.tolist(), token.tolist(), strict=True)]
    return found, token

"""6B. DSpark: a drafter of three small blocks proposes five tokens; one pass of the model verifies them.

    context   main_x = RMS(main_proj [mean of the streams entering layers 37, 38, 39]), one vector per committed token;
              every draft block makes its own window rows from it
    draft     [anchor, noise x 4] at positions t+1 … t+5, no causal mask among them
    Markov    logits_i += Head(Emb(token_i)), token_0 = anchor, one token after the other
    confidence_i = w · [hidden_i ; Emb(token_i)], hidden before the final norm; the raw logit

Sources: report §2.4.3; official model code. Verification is the engines' (speculative sampling, arXiv 2211.17192).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from . import mhc
from .attention import Attention, attend_plain
from .embedding import embed_streams
from .formats import E4M3_E8M0
from .layers import rope_table


class DraftAttention(Attention):
    """Attention of a draft block: every draft token sees the whole context window and every draft token."""

    def forward(self, x: Tensor, run) -> Tensor:
        """x [B, block, D] -> [B, block, D]."""
        rope = rope_table(run.positions, self.frequencies)
        q, _ = self.queries(x, rope)
        new = E4M3_E8M0.roundtrip(self.latent(x, rope))                # [B, block, C]
        context, held = run.cache.read_window(self.layer - self.config.num_hidden_layers, draft=True)
        run.note(f"{self.layer - self.config.num_hidden_layers}.draft_kv", new)
        keys = torch.cat([context.to(q.dtype), new], dim=1)            # [B, W + block, C]
        seen = torch.nn.functional.pad(held >= 0, (0, x.shape[1]), value=True)  # [B, W + block]
        core = attend_plain(q, keys, seen.unsqueeze(1).expand(-1, x.shape[1], -1), self.attn_sink)
        return self.output(core, rope, run)

    def context_rows(self, main_x: Tensor, places) -> Tensor:
        """Window rows of committed tokens, made from the drafter's context.  [B, T, D] -> [B, T, C]."""
        return self.latent(main_x, rope_table(places.positions, self.frequencies))


@dataclass
class DraftRun:
    """What the draft blocks share."""

    cache: object
    positions: Tensor  # [B, block]
    notes: dict | None = None
    plain: bool = False
    image: Tensor | None = None

    def note(self, name: str, value: Tensor) -> None:
        if self.notes is not None:
            self.notes.setdefault(name, []).append(value)

    def noter(self, prefix: str):
        return lambda name, value: self.note(prefix + name, value)


@dataclass(frozen=True)
class Draft:
    """tokens [B, block] proposed after the anchor; logits [B, block, V], Markov term included; confidence [B, block] raw."""

    tokens: Tensor
    logits: Tensor
    confidence: Tensor

    def first(self, count: int) -> Draft:
        """Only the first `count` drafts."""
        return Draft(self.tokens[:, :count], self.logits[:, :count], self.confidence[:, :count])


class Drafter:
    """The draft blocks with the model's embedding and head. Holds no state: its context lies in the cache."""

    def __init__(self, model):
        self.model, self.config, self.blocks = model, model.config, model.mtp

    def main_x(self, features: list[Tensor]) -> Tensor:
        """The drafter's context of each token.  [B, T, D] per target layer -> [B, T, D]."""
        first = self.blocks[0]
        return first.main_norm(first.main_proj(torch.cat(features, dim=-1)))

    def stage_context(self, run) -> None:
        """Stage every draft block's window rows for the tokens of a pass of the model."""
        main = self.main_x(run.features)
        run.note("dspark.main_x", main)
        for index, block in enumerate(self.blocks):
            rows = block.attn.context_rows(main, run.places)           # [B, T, C]
            rows = run.cache.write_window(index, rows, run.places.live, skipped=run.skipped, draft=True)
            run.note(f"dspark.{index}.main_kv", rows)

    @torch.no_grad()
    def propose(self, cache, anchor: Tensor, *, temperature: float = 0.0, generator=None, notes: dict | None = None) -> Draft:
        """Draft block_size tokens after the anchor [B], the token that was just chosen and is not yet in the cache."""
        size = self.config.dspark_block_size
        positions = cache.lengths.to(anchor.device)[:, None] + torch.arange(size, device=anchor.device)
        run = DraftRun(cache, positions, notes)
        return self.read_out(self.hidden(run, anchor), anchor, temperature, generator)

    def hidden(self, run: DraftRun, anchor: Tensor) -> Tensor:
        """Anchor and noise through the draft blocks.  anchor [B] -> [B, block, D], before the final norm."""
        c = self.config
        ids = torch.full(run.positions.shape, c.dspark_noise_token_id, device=anchor.device)
        ids[:, 0] = anchor
        streams = embed_streams(self.model.embed.weight, ids, c.hc_mult)       # [B, block, S, D]
        mix = mhc.first_mix(streams, torch.promote_types(self.model.dtype, torch.float32))
        for block in self.blocks:
            streams, mix = block(streams, mix, run)
        hidden = mhc.collapse(streams, mix)                                    # [B, block, D]
        run.note("hidden", hidden)
        return hidden

    def read_out(self, hidden: Tensor, token: Tensor, temperature: float, generator) -> Draft:
        """Head, Markov term and confidence, one draft after the other.  hidden [B, block, D], token [B] the anchor."""
        last = self.blocks[-1]
        wide = torch.promote_types(self.model.dtype, torch.float32)
        logits = last.norm(hidden).to(wide) @ self.model.head.weight.to(wide).mT  # [B, block, V]
        tokens, confidence, markov = [], [], last.markov_head
        for step in range(hidden.shape[1]):
            embedded = markov["embed"].weight[token]                           # [B, rank]
            logits[:, step] += markov["head"](embedded).to(wide)
            confidence.append(last.confidence_head["proj"](torch.cat([hidden[:, step], embedded], dim=-1)).squeeze(-1))
            token = sample(logits[:, step], temperature, generator)            # [B]
            tokens.append(token)
        return Draft(torch.stack(tokens, 1), logits, torch.stack(confidence, 1))


def probabilities(logits: Tensor, temperature: float) -> Tensor:
    """softmax(logits / temperature); at temperature 0 all weight on the largest."""
    if temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
    return (logits / temperature).softmax(-1)


def sample(logits: Tensor, temperature: float, generator=None) -> Tensor:
    """One token per row of logits [B, V]; the largest at temperature 0.  int64 [B]."""
    if temperature == 0:
        return logits.argmax(-1)
    return torch.multinomial(probabilities(logits, temperature), 1, generator=generator).squeeze(-1)


def verify(target: Tensor, draft: Draft, temperature: float = 0.0, generator=None) -> tuple[Tensor, Tensor]:
    """How many drafts stand, and the token after them.

    target [B, 1 + k, V]: the model's logits after the anchor and after each draft. Draft i is kept with probability
    min(1, p / q); the first refused one is replaced from the positive part of p - q; after k kept ones the model's own
    next token follows. At temperature 0 that is the longest matching prefix.  Returns kept [B] and next token [B].
    """
    p, q = probabilities(target, temperature), probabilities(draft.logits, temperature)
    at = draft.tokens.unsqueeze(-1)                                    # [B, k, 1]
    ratio = (p[:, :-1].gather(-1, at) / q.gather(-1, at)).squeeze(-1)  # [B, k]
    chance = torch.rand(ratio.shape, generator=generator, device=ratio.device, dtype=ratio.dtype)
    kept = (chance < ratio).cumprod(1).sum(1)                          # [B]
    row = torch.arange(len(kept), device=kept.device)
    rest = torch.cat([(p[:, :-1] - q).clamp(min=0), p[:, -1:]], dim=1)[row, kept]  # [B, V]
    if temperature == 0:
        return kept, p[row, kept].argmax(-1)
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, p[row, kept])         # p = q to the last bit: either serves
    return kept, torch.multinomial(rest, 1, generator=generator).squeeze(-1)

"""6B. Checks of drafting and verifying: Markov term, confidence, acceptance, leftover, tokens per pass."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .cases import Case, Check, Draw

# -- markov_logits -------------------------------------------------------------------------------------------------


def markov_logits(logits: Tensor, token: Tensor, embed: Tensor, head: Tensor) -> Tensor:
    out = logits.clone()
    for row, before in enumerate(token.tolist()):
        for word in range(logits.shape[1]):
            out[row, word] += (embed[before] * head[word]).sum()
    return out


def markov_cases(draw: Draw):
    batch, rank, words = draw.number(2, 3), draw.number(4, 5), draw.number(7, 9)
    embed, head, logits = draw.normal(words, rank), draw.normal(words, rank), draw.normal(batch, words)
    token = draw.shuffled(words)[:batch]
    yield Case("another token before every draft", logits, token, embed, head)
    yield Case("one sequence", draw.normal(1, words), token[:1], embed, head)
    yield Case("the same token before all", logits, token[:1].expand(batch), embed, head)
    yield Case("logits of zero: the term alone", torch.zeros(batch, words), token, embed, head)
    yield Case("as many channels as tokens", draw.normal(batch, 6), token % 6, draw.normal(6, 6), draw.normal(6, 6))
    yield Case("a large term", logits, token, 30 * embed, head)
    yield Case("float64", draw.normal(2, words, dtype=torch.float64), token[:2], embed.double(), head.double())


MARKOV_SUSPECTS = {
    "embed and head are exchanged: the token before is looked up in embed, head turns it into logits":
        lambda logits, t, e, h: markov_logits(logits, t, h, e),
    "yours is the term alone: add it to the logits that are given": lambda logits, t, e, h: markov_logits(0 * logits, t, e, h),
    "nothing is added: the term of the token before is missing": lambda logits, t, e, h: logits,
    "you took the term away: it is added": lambda logits, t, e, h: 2 * logits - markov_logits(logits, t, e, h),
    "you looked up the token that the logits prefer: the one before this place is given, as `token`":
        lambda logits, t, e, h: markov_logits(logits, logits.argmax(-1), e, h),
    "you used the token before the first sequence for all: every sequence has its own":
        lambda logits, t, e, h: markov_logits(logits, t[:1].expand_as(t), e, h),
    "you looked up the number of the sequence: look up `token`":
        lambda logits, t, e, h: markov_logits(logits, torch.arange(len(t)), e, h),
    "you divided by the root of R, as attention does: the term is not scaled":
        lambda logits, t, e, h: logits + (markov_logits(logits, t, e, h) - logits) / e.shape[1] ** 0.5,
    "you reshaped head to [R, V]: that mixes its rows up, transpose it":
        lambda logits, t, e, h: logits + e[t] @ h.reshape(h.shape[1], -1),
}

# -- confidence ----------------------------------------------------------------------------------------------------


def confidence(hidden: Tensor, embedded: Tensor, proj: Tensor) -> Tensor:
    width, rows = hidden.shape[1], []
    for h, e in zip(hidden, embedded, strict=True):
        rows.append((h * proj[0, :width]).sum() + (e * proj[0, width:]).sum())
    return torch.stack(rows)                                                           # [B]


def confidence_cases(draw: Draw):
    batch, rank, width = draw.number(2, 3), draw.number(4, 5), draw.number(7, 9)
    hidden, embedded, proj = 2 * draw.normal(batch, width) + 0.5, draw.normal(batch, rank), draw.normal(1, width + rank)
    yield Case("some sequences", hidden, embedded, proj)
    yield Case("one sequence: still [B]", hidden[:1], embedded[:1], proj)
    yield Case("both parts equally wide", draw.normal(batch, rank), embedded, draw.normal(1, 2 * rank))
    yield Case("a hidden state of zeros", torch.zeros_like(hidden), embedded, proj)
    yield Case("large numbers", 20 * hidden, 20 * embedded, proj)
    yield Case("float64", *(draw.normal(2, size, dtype=torch.float64) for size in (width, rank)), proj.double())


def _normed(h: Tensor) -> Tensor:
    return h / (h.square().mean(-1, keepdim=True) + 1e-20).sqrt()


CONFIDENCE_SUSPECTS = {
    "yours went through sigmoid: the number itself is wanted here, whoever needs a chance takes the sigmoid":
        lambda h, e, w: confidence(h, e, w).sigmoid(),
    "the two parts stand the wrong way round: hidden first, then the vector of the token before":
        lambda h, e, w: confidence(e, h, w),
    "yours is [B, 1]: one number per sequence is [B]": lambda h, e, w: confidence(h, e, w)[:, None],
    "squeeze() without a number takes away every dimension of size 1, a batch of one too: name the last one":
        lambda h, e, w: confidence(h, e, w).squeeze(),
    "the token before is missing: its weights are the last R of proj": lambda h, e, w: confidence(h, 0 * e, w),
    "the hidden state is missing: its weights are the first D of proj": lambda h, e, w: confidence(0 * h, e, w),
    "you normed the hidden state: it is taken as it is, before the final norm": lambda h, e, w: confidence(_normed(h), e, w),
    "you used the token before the first sequence for all": lambda h, e, w: confidence(h, e[:1].expand_as(e), w),
}

# -- accept --------------------------------------------------------------------------------------------------------


def ratios(p: Tensor, q: Tensor, tokens: Tensor) -> Tensor:
    at = tokens.unsqueeze(-1)                                                          # [B, k, 1]
    return (p.gather(-1, at) / q.gather(-1, at)).squeeze(-1)                           # [B, k]


def prefix(stands: Tensor) -> Tensor:
    """True places before the first False, row by row: bool [B, k] -> int64 [B]."""
    lines = [[*line, False] for line in stands.tolist()]
    return torch.tensor([line.index(False) for line in lines])


def accept(p: Tensor, q: Tensor, tokens: Tensor, chance: Tensor) -> Tensor:
    return prefix(chance < ratios(p, q, tokens))


# (p / q, chance) of a draft that stands whatever the dice say, one that the dice save, one that they do not
KINDS = {"sure": ((1.2, 2.0), (0.65, 0.95)), "saved": ((0.4, 0.45), (0.22, 0.35)), "lost": ((0.05, 0.2), (0.6, 0.95))}


def drafts(draw: Draw, rows: list[list[str]], words: int):
    """p, q [B, k, V], tokens, chance [B, k]: drafts of the given kinds, none near the edge. No two tokens of a row are equal."""
    shape, flat = (len(rows), len(rows[0])), [KINDS[kind] for row in rows for kind in row]
    tokens = torch.stack([draw.shuffled(words)[: shape[1]] for _ in rows])             # [B, k]
    ratio, chance = (torch.stack([draw.uniform(1, low=low, high=high)[0] for low, high in (pair[i] for pair in flat)]).view(shape)
                     for i in (0, 1))  # fmt: skip
    q_at = draw.uniform(*shape, low=0.2, high=0.25)
    return *(_around(draw, at, tokens, words) for at in (ratio * q_at, q_at)), tokens, chance


def _around(draw: Draw, at: Tensor, tokens: Tensor, words: int) -> Tensor:
    """Distributions [B, k, V] with the probability `at` [B, k] at the tokens."""
    rest = draw.uniform(*at.shape, words, low=0.5, high=1.5)
    rest.scatter_(-1, tokens.unsqueeze(-1), 0)
    rest *= ((1 - at) / rest.sum(-1)).unsqueeze(-1)
    return rest.scatter(-1, tokens.unsqueeze(-1), at.unsqueeze(-1))


def accept_cases(draw: Draw):
    words, more = draw.number(6, 7), ["sure"] * draw.number(0, 1)
    rows = [["sure", "saved", "lost", "sure"], ["saved", "saved", "saved", "sure"], ["lost", "sure", "saved", "sure"]]
    rows = [rows[row] + more for row in draw.shuffled(3).tolist()]
    yield Case("drafts that stand, and some that do not", *drafts(draw, rows, words))
    yield Case("every draft stands", *drafts(draw, [["sure", "saved", "sure"]] * 2, words))
    yield Case("one draft", *drafts(draw, [["saved"], ["lost"]], words))
    order = draw.shuffled(4)
    q = torch.tensor([0.5, 0.25, 0.125, 0.125])[order.argsort()].expand(2, 2, 4)
    edge = torch.stack([order[[1, 0]], order[:2]])                                     # [2, 2], order[0] is the likeliest
    even, half = torch.full((2, 2, 4), 0.25), torch.full((2, 2), 0.5)
    yield Case("chance is 1/2, and so is p / q of one draft in each sequence", even, q, edge, half)
    yield Case("p equals q, and chance is nearly 1", q, q, edge, torch.full((2, 2), 0.999))
    own = torch.stack([draw.shuffled(words)[:4] for _ in range(2)])                    # [2, 4]
    model = own.clone()
    model[0, 2], model[1, 0] = own[0, 3], own[1, 1]
    dice = draw.uniform(2, 4, low=0.1, high=0.9)
    dice[0, 2] = dice[1, 0] = 0
    one_hot = [torch.nn.functional.one_hot(t, words).float() for t in (model, own)]
    yield Case("greedy: all weight on one token, and chance 0 where they differ", *one_hot, own, dice)
    yield Case("float64", *(t.double() if t.is_floating_point() else t for t in drafts(draw, rows[:2], words)))


def _first_refusal(p, q, tokens, chance):
    return (chance >= ratios(p, q, tokens)).long().argmax(1)


ACCEPT_SUSPECTS = {
    "you counted drafts behind a refused one: nothing stands after the first refusal":
        lambda p, q, t, c: (c < ratios(p, q, t)).sum(1),
    "you kept a draft whose chance equals p / q: it has to be below, so that chance 0 keeps nothing that p rules out":
        lambda p, q, t, c: prefix(c <= ratios(p, q, t)),
    "you kept the drafts that are to be refused: one stands when chance is below p / q":
        lambda p, q, t, c: prefix(c > ratios(p, q, t)),
    "you divided q by p: it is the model's p over the drafter's q": lambda p, q, t, c: prefix(c < ratios(q, p, t)),
    "you compared chance with p alone: divide by q, the drafter proposed the token with that chance":
        lambda p, q, t, c: prefix(c < ratios(p, torch.ones_like(q), t)),
    "you kept every draft with p at least q: below that, chance decides": lambda p, q, t, c: prefix(ratios(p, q, t) >= 1),
    "you kept the drafts that are the model's first choice: that is the greedy rule, here chance and p / q decide":
        lambda p, q, t, c: prefix(p.argmax(-1) == t),
    "you multiplied the ratios along the way: every draft is judged by its own":
        lambda p, q, t, c: prefix(c < ratios(p, q, t).clamp(max=1).cumprod(1)),
    "you used the first chance for all drafts: every draft has its own":
        lambda p, q, t, c: prefix(c[:, :1] < ratios(p, q, t)),
    "when no draft is refused yours says 0: then all of them stand": _first_refusal,
    "you counted the token that follows the drafts too: count the drafts alone": lambda p, q, t, c: accept(p, q, t, c) + 1,
    "you judged draft i by the p of the place after it: p[:, i] is about draft i":
        lambda p, q, t, c: prefix(c < ratios(p.roll(-1, 1), q, t)),
    "you looked among the sequences for the first refusal: look along the drafts, dimension 1":
        lambda p, q, t, c: (c < ratios(p, q, t)).long().cumprod(0).sum(1),
}

# -- leftover ------------------------------------------------------------------------------------------------------


def positive(p: Tensor, q: Tensor) -> Tensor:
    return torch.where(p > q, p - q, 0 * p)


def leftover(p: Tensor, q: Tensor) -> Tensor:
    rows = []
    for a, rest in zip(p, positive(p, q), strict=True):
        rows.append(rest / rest.sum() if rest.sum() > 0 else a)
    return torch.stack(rows)                                                           # [B, V]


def leftover_cases(draw: Draw):
    batch, words = draw.number(2, 3), draw.number(5, 8)
    p, q = (draw.normal(batch, words).softmax(-1) for _ in range(2))
    yield Case("p and q differ everywhere", p, q)
    yield Case("one sequence has equal p and q, the others have not", p, torch.cat([q[:-1], p[-1:]]))
    yield Case("p equals q: nothing is left", p, p.clone())
    one, other = torch.eye(words)[draw.shuffled(words)[:2]].split(1)                   # [1, V] each
    yield Case("all weight on one token, another in p than in q", one, other)
    eighths = torch.full((2, 8), 0.125)
    moved = eighths.clone()
    places = draw.shuffled(8)[:3]
    moved[0, places] += torch.tensor([1, 2, -3]) / 2**20
    yield Case("hardly anything is left", moved, eighths)
    yield Case("float64", *(draw.normal(2, words, dtype=torch.float64).softmax(-1) for _ in range(2)))


def _over(rest: Tensor, p: Tensor, total: Tensor) -> Tensor:
    return torch.where(total > 0, rest / total, p)


LEFTOVER_SUSPECTS = {
    "yours does not sum to 1: divide by what is left": positive,
    "your p - q has negative numbers in it: keep what is above 0, and divide by its sum": lambda p, q: p - q,
    "you took p - q without its sign: where q is larger nothing is left":
        lambda p, q: _over((p - q).abs(), p, (p - q).abs().sum(-1, keepdim=True)),
    "you took q - p: what the model wants more than the drafter is p - q": lambda p, q: leftover(q, p),
    "yours is p itself: what the drafts bring already has to be taken away": lambda p, q: p,
    "yours is the overlap of p and q, the part that is kept: the leftover is what p has beyond q":
        lambda p, q: torch.minimum(p, q) / torch.minimum(p, q).sum(-1, keepdim=True).clamp(min=1e-30),
    "you used softmax to make it sum to 1: divide by the sum, so that 0 stays 0": lambda p, q: positive(p, q).softmax(-1),
    "you used softmax of p - q: its positive part divided by the sum is wanted": lambda p, q: (p - q).softmax(-1),
    "where nothing is left yours is 0 / 0: give back p there":
        lambda p, q: positive(p, q) / positive(p, q).sum(-1, keepdim=True),
    "where nothing is left yours is 0 everywhere: give back p there":
        lambda p, q: positive(p, q) / positive(p, q).sum(-1, keepdim=True).clamp(min=1e-30),
    "you added 1e-8 to the divisor, which spoils a small leftover: divide by the sum alone, and ask first whether it is 0":
        lambda p, q: positive(p, q) / (positive(p, q).sum(-1, keepdim=True) + 1e-8),
    "you gave back p only when nothing is left in all sequences: ask every sequence for itself":
        lambda p, q: positive(p, q) / positive(p, q).sum(-1, keepdim=True) if (positive(p, q) > 0).any() else p,
    "you gave back p for all as soon as one sequence has nothing left: ask every sequence for itself":
        lambda p, q: leftover(p, q) if (positive(p, q) > 0).any(-1).all() else p,
    "you divided by the sum over all sequences: each one sums to 1": lambda p, q: _over(positive(p, q), p, positive(p, q).sum()),
    "you summed over the sequences: sum over the vocabulary, the last dimension":
        lambda p, q: _over(positive(p, q), p, positive(p, q).sum(0, keepdim=True)),
}

# -- tokens_per_pass -----------------------------------------------------------------------------------------------


def tokens_per_pass(rates: list[float]) -> float:
    return 1.0 + sum(math.prod(rates[: draft + 1]) for draft in range(len(rates)))


def pass_cases(draw: Draw):
    rates = [(35 + 5 * n) / 100 for n in draw.shuffled(12)[: draw.number(4, 6)].tolist()]  # no two alike
    yield Case("another rate for every draft", rates)
    yield Case("equal rates", rates[:1] * 5)
    yield Case("one draft", rates[1:2])
    yield Case("no draft: the model's own token", [])
    yield Case("every draft stands", [1.0] * draw.number(3, 6))
    yield Case("a draft that never stands among good ones", [*rates[:2], 0.0, *rates[2:]])


PASS_SUSPECTS = {
    "you added the rates: a draft counts only if all before it stand, so their rates multiply": lambda r: 1 + sum(r),
    "the model's own token is missing: every pass gives one more than its drafts": lambda r: tokens_per_pass(r) - 1,
    "you counted only a pass in which every draft stands: shorter prefixes count too": lambda r: 1 + math.prod(r),
    "the last draft is missing: a pass has room for all of them and one token more": lambda r: tokens_per_pass(r[:-1]),
    "you used the first rate for all drafts: each has its own": lambda r: tokens_per_pass(r[:1] * len(r)),
    "you used the mean rate for all drafts: each has its own": lambda r: tokens_per_pass([sum(r) / len(r)] * len(r)),
    "you put rate i to the power i: the rates before it may be others":
        lambda r: 1 + sum(rate ** (at + 1) for at, rate in enumerate(r)),
    "you left out the pass in which every draft stands": lambda r: tokens_per_pass(r) - len(r) * math.prod(r),
    "without a draft yours is 0: the model's own token is always there": lambda r: tokens_per_pass(r) if r else 0.0,
}

CHECKS = {
    "markov_logits": Check(markov_logits, markov_cases, MARKOV_SUSPECTS),
    "confidence": Check(confidence, confidence_cases, CONFIDENCE_SUSPECTS),
    "accept": Check(accept, accept_cases, ACCEPT_SUSPECTS),
    "leftover": Check(leftover, leftover_cases, LEFTOVER_SUSPECTS),
    "tokens_per_pass": Check(tokens_per_pass, pass_cases, PASS_SUSPECTS),
}

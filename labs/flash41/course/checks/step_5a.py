"""5A. Checks of the mixture of experts: the choice, one expert, the sum of several, and what an expert weighs in bytes."""

from __future__ import annotations

import torch
from torch import Tensor

from .cases import Case, Check, Draw

# -- route ---------------------------------------------------------------------------------------------------------


def _softplus(z: Tensor) -> Tensor:
    return z.clamp(min=0) + (-z.abs()).exp().log1p()


def _score(z: Tensor) -> Tensor:
    return _softplus(z).sqrt()


def _route(x, weight, bias, count, scale, *, score=_score, choose=lambda s, z, b: s + b, weigh=lambda s, b: s, share=None):
    """The router with parts that can be exchanged for wrong ones. share: the chosen weights [n, k] and all [n, E] -> [n, k]."""
    z = x.double() @ weight.double().T                                                 # [n, E]
    s, b = score(z), bias.double()
    order = choose(s, z, b).argsort(dim=-1, descending=True)[:, :count]
    experts = order.sort(dim=-1).values                                                # [n, k]
    weights = weigh(s, b).gather(-1, experts)
    share = share or (lambda w, every: w / w.sum(-1, keepdim=True) if count > 1 else w)
    return experts, share(weights, weigh(s, b)) * scale


def route(x: Tensor, weight: Tensor, bias: Tensor, count: int, scale: float) -> tuple[Tensor, Tensor]:
    return _route(x, weight, bias, count, scale)


def _clear(draw: Draw, tokens: int, width: int, experts: int, count: int, *, spread=1.0, shift=0.0, bias=0.5):
    """x, weight and bias for which no rounding changes the choice. shift is added to every logit, by a channel of its own."""
    while True:
        x, weight = draw.normal(tokens, width), spread * draw.normal(experts, width) / width**0.5
        x[:, 0], weight[:, 0] = 1, shift + 0.1 * draw.normal(experts)
        found = bias * draw.normal(experts)
        ranked = (_score(x.double() @ weight.double().T) + found).sort(-1).values
        if float(ranked.diff(dim=-1).min()) > 1e-3:
            return x, weight, found


def route_cases(draw: Draw):
    tokens, width, experts, count = draw.number(4, 5), draw.choice([6, 7]), draw.number(8, 10), draw.number(2, 3)
    yield Case("tokens and their best experts", *_clear(draw, tokens, width, experts, count), count, 1.5)
    yield Case("strong biases", *_clear(draw, tokens, width, experts, count, bias=2), count, 2.5)
    yield Case("no bias", *_clear(draw, tokens, width, experts, count, bias=0), count, 1.5)
    yield Case("one expert per token", *_clear(draw, tokens, width, experts, 1), 1, 1.5)
    yield Case("every expert chosen", *_clear(draw, tokens, width, 4, 4), 4, 1.0)
    yield Case("very negative logits", *_clear(draw, tokens, width, experts, count, shift=-30.0), count, 1.5)
    yield Case("large logits", *_clear(draw, tokens, width, experts, count, shift=150.0, spread=9.0), count, 1.5)
    one = _clear(draw, 1, width, experts, count)
    yield Case("one token, float64", *(t.double() for t in one), count, 1.5)


def _over_sum(eps):
    return lambda w, every: w / (w.sum(-1, keepdim=True) + eps)


def _best_first(x, weight, bias, count, scale, both=True):
    """Not ascending: experts and weights, or the weights alone."""
    experts, weights = route(x, weight, bias, count, scale)
    s = _score(x.double() @ weight.double().T) + bias.double()
    order = s.gather(-1, experts).argsort(-1, descending=True)
    return experts.gather(-1, order) if both else experts, weights.gather(-1, order)


def _router(**parts):
    return lambda x, weight, bias, count, scale: _route(x, weight, bias, count, scale, **parts)


ROUTE_SUSPECTS = {
    "the bias weighs in yours: it helps to choose, the weights are made of scores alone": _router(weigh=lambda s, b: s + b),
    "the bias does not take part in the choice: the largest score plus bias wins": _router(choose=lambda s, z, b: s),
    "you took the bias away: it is added": _router(choose=lambda s, z, b: s - b),
    "you added the bias to the logit: it is added to the score": _router(choose=lambda s, z, b: _score(z + b)),
    "you chose by logit plus bias: the score comes first": _router(choose=lambda s, z, b: z + b),
    "your score is a softmax: here it is the root of softplus": _router(score=lambda z: z.softmax(-1)),
    "your score is a sigmoid: here it is the root of softplus": _router(score=torch.sigmoid),
    "the root of softplus is missing": _router(score=_softplus),
    "you took a softmax of the chosen scores: divide them by their sum": _router(share=lambda w, every: w.softmax(-1)),
    "the chosen scores are not divided by their sum": _router(share=lambda w, every: w),
    "you divided by the sum of all scores: only the chosen ones are to sum to 1":
        _router(share=lambda w, every: w / every.sum(-1, keepdim=True)),
    "a single expert keeps its own score: only several are divided by their sum": _router(share=_over_sum(0)),
    "`scale` is missing": lambda x, w, b, count, scale: route(x, w, b, count, 1),
    "your scale is 1.5, whatever is given: use the argument": lambda x, w, b, count, scale: route(x, w, b, count, 1.5),
    "experts and weights stand in order of their score: the numbers of the experts have to ascend": _best_first,
    "you sorted the experts and left the weights behind: take the weights in the new order":
        lambda *inputs: _best_first(*inputs, both=False),
    "log(1 + exp(z)) leaves the range of float32 at both ends: torch.nn.functional.softplus does not":
        _router(score=lambda z: (1 + z.float().exp()).log().sqrt().double(), share=_over_sum(1e-20)),
}
for _eps in (1e-5, 1e-6, 1e-8, 1e-9):
    ROUTE_SUSPECTS[f"the {_eps} that you added to the sum is too large: where all scores are tiny it decides"] = _router(
        share=lambda w, every, eps=_eps: w / (w.sum(-1, keepdim=True) + eps) if w.shape[-1] > 1 else w)

# -- swiglu --------------------------------------------------------------------------------------------------------


def _silu(g: Tensor) -> Tensor:
    return g / (1 + (-g).exp())


def _open(g: Tensor, limit: float) -> Tensor:
    return _silu(torch.where(g > limit, limit, g))


def _held(u: Tensor, limit: float) -> Tensor:
    return torch.where(u.abs() > limit, limit * u.sign(), u)


def swiglu(x, w1, w2, w3, limit, weight=None, *, gate=_open, up=_held, join=torch.mul):
    hidden = join(gate(x @ w1.T, limit), up(x @ w3.T, limit))                          # [n, I]
    return (hidden if weight is None else hidden * weight) @ w2.T                      # [n, D]


def _matrices(draw: Draw, width: int, inner: int, size: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    return size * draw.normal(inner, width), draw.normal(width, inner), size * draw.normal(inner, width)


def swiglu_cases(draw: Draw):
    tokens, width, inner = draw.number(3, 4), draw.choice([5, 6]), draw.number(7, 9)
    x, held = draw.normal(tokens, width), 1 + draw.integers(0, 4, 1).item() / 8
    yield Case("tokens without a weight", x, *_matrices(draw, width, inner, 0.1), 10.0)
    yield Case("gates and up values beyond the limit", x, *_matrices(draw, width, inner, 2), held)
    weight = 0.25 + draw.uniform(tokens, 1)
    yield Case("a weight per token", x, *_matrices(draw, width, inner), held, weight=weight)
    yield Case("a weight of 0", x, *_matrices(draw, width, inner), held, weight=weight * (torch.arange(tokens) != 1).unsqueeze(1))
    yield Case("limit 10, as released, and large numbers", x, *_matrices(draw, width, inner, 50), 10.0)
    wide = (w.double() for w in _matrices(draw, width, inner))
    yield Case("one token, float64", x[:1].double(), *wide, held, weight=weight[:1].double())


def _expert(**parts):
    return lambda x, w1, w2, w3, limit, weight=None: swiglu(x, w1, w2, w3, limit, weight, **parts)


def _early(x, w1, w2, w3, limit, weight=None, *, to_x=False):
    """The weight before the activation: on the token, or on the gate."""
    weight = 1 if weight is None else weight
    return swiglu(x * weight, w1, w2, w3, limit) if to_x else (_open(x @ w1.T * weight, limit) * _held(x @ w3.T, limit)) @ w2.T


SWIGLU_SUSPECTS = {
    "your gate is held on both sides: silu takes a very negative gate to 0 by itself, hold it from above alone":
        _expert(gate=lambda g, limit: _silu(_held(g, limit))),
    "your gate is not held: it must not pass `limit`": _expert(gate=lambda g, limit: _silu(g)),
    "you held silu(gate): hold the gate before silu": _expert(gate=lambda g, limit: _silu(g).clamp(max=limit)),
    "your up value is not held: it has to stay within -limit and limit": _expert(up=lambda u, limit: u),
    "your up value is held from above alone: -limit is its other end": _expert(up=lambda u, limit: u.clamp(max=limit)),
    "nothing is held: gate and up value have a limit": _expert(gate=lambda g, limit: _silu(g), up=lambda u, limit: u),
    "you exchanged the two clamps: the gate is held from above, the up value on both sides":
        _expert(gate=lambda g, limit: _silu(_held(g, limit)), up=lambda u, limit: u.clamp(max=limit)),
    "your limit is 10, whatever is given: use the argument":
        lambda x, w1, w2, w3, limit, weight=None: swiglu(x, w1, w2, w3, 10.0, weight),
    "w1 and w3 are exchanged: w1 makes the gate, which goes through silu":
        lambda x, w1, w2, w3, limit, weight=None: swiglu(x, w3, w2, w1, limit, weight),
    "you took sigmoid for silu: silu(g) is g times sigmoid(g)": _expert(gate=lambda g, limit: g.clamp(max=limit).sigmoid()),
    "you took ReLU for silu: silu(g) is g times sigmoid(g)": _expert(gate=lambda g, limit: g.clamp(0, limit)),
    "you took GELU for silu: silu(g) is g times sigmoid(g)":
        _expert(gate=lambda g, limit: torch.nn.functional.gelu(g.clamp(max=limit))),
    "silu is missing": _expert(gate=lambda g, limit: g.clamp(max=limit)),
    "the up value goes through silu too: only the gate does": _expert(up=lambda u, limit: _silu(_held(u, limit))),
    "you added gate and up value: they are multiplied": _expert(join=torch.add),
    "w2 is missing: it leads back to D channels": lambda x, w1, w2, w3, limit, weight=None: swiglu(
        x, w1, torch.eye(len(w1), dtype=w1.dtype), w3, limit, weight),
    "the weight changes nothing in yours": lambda x, w1, w2, w3, limit, weight=None: swiglu(x, w1, w2, w3, limit),
    "you multiplied x by the weight: it belongs behind silu and the clamps, which are not linear":
        lambda *inputs, weight=None: _early(*inputs, weight, to_x=True),
    "you multiplied the gate by the weight before silu: it belongs behind it": _early,
}

# -- mix_experts ---------------------------------------------------------------------------------------------------


def mix_experts(x, experts, weights, matrices, limit, *, first=0):
    """Token by token, slot by slot. Wrong on purpose: another number for the first expert."""
    out = torch.zeros_like(x)
    for token in range(len(x)):
        for index, weight in zip(experts[token].tolist(), weights[token], strict=True):
            out[token] += swiglu(x[token], *matrices[index - first], limit, weight)
    return out


def mix_cases(draw: Draw):
    width, inner, count = draw.choice([4, 5]), draw.number(6, 7), draw.number(2, 3)
    tokens, number = draw.number(8, 9), draw.number(10, 11)

    def choice(n, k, among):
        picked = torch.stack([draw.shuffled(among)[:k].sort().values for _ in range(n)])  # [n, k]
        return picked, 0.25 + draw.uniform(n, k)

    def experts(many):
        return [_matrices(draw, width, inner) for _ in range(many)]

    x = draw.normal(tokens, width)
    yield Case("tokens with several experts each", x, *choice(tokens, count, number), experts(number), 1.5)
    yield Case("one expert per token", x, *choice(tokens, 1, 3), experts(3), 10.0)
    yield Case("every token chooses every expert", x, *choice(tokens, 3, 3), experts(3), 1.5)
    unused, (picked, weights) = experts(4), choice(tokens, 2, 3)
    unused[3] = tuple(torch.full_like(w, torch.nan) for w in unused[3])
    yield Case("an expert that nobody chose holds NaN", x, picked, weights, unused, 1.5)
    yield Case("one token", x[:1], *choice(1, count, 5), experts(5), 1.5)
    double = [tuple(w.double() for w in own) for own in experts(4)]
    picked, weights = choice(3, 2, 4)
    yield Case("float64", x[:3].double(), picked, weights.double(), double, 1.5)


def _dense(x, experts, weights, matrices, limit):
    full = weights.new_zeros(len(x), len(matrices)).scatter(1, experts, weights)
    return sum(swiglu(x, *own, limit, full[:, at : at + 1]) for at, own in enumerate(matrices))


def _last(x, experts, weights, matrices, limit):
    return mix_experts(x, experts[:, -1:], weights[:, -1:], matrices, limit)


def _changed(**parts):
    """The mix with other weights, experts, matrices or limit."""
    def found(x, experts, weights, matrices, limit):
        given = dict(experts=experts, weights=weights, matrices=matrices, limit=limit)
        return mix_experts(x, **given | {name: change(given[name]) for name, change in parts.items()})
    return found


MIX_SUSPECTS = {
    "the weights are missing": _changed(weights=torch.ones_like),
    "you weighted twice, in the expert and after it": _changed(weights=torch.square),
    "you took the mean of the answers: the weights are there already, add them up": _changed(weights=lambda w: w / w.shape[-1]),
    "you divided the weights by their sum: route did what has to be done, take them as they are":
        _changed(weights=lambda w: w / w.sum(-1, keepdim=True)),
    "all slots of a token have the weight of its first: each has its own": _changed(weights=lambda w: w[:, :1].expand_as(w)),
    "all tokens have the weights of the first: every token has its own": _changed(weights=lambda w: w[:1].expand_as(w)),
    "all tokens go to the experts of the first: every token has its own": _changed(experts=lambda e: e[:1].expand_as(e)),
    "only the last expert of a token counts in yours: `=` overwrites what others added": _last,
    "only the first expert of a token counts in yours: add up all of them":
        lambda x, e, w, m, limit: mix_experts(x, e[:, :1], w[:, :1], m, limit),
    "you took the slot for the expert: its entry in `experts` is": _changed(experts=lambda e: (e * 0 + 1).cumsum(1) - 1),
    "your experts count from 1: expert 0 is the first of the list": lambda *inputs: mix_experts(*inputs, first=1),
    "you computed experts that nobody chose, with weight 0: the work is in vain, and 0 times NaN is NaN": _dense,
    "your sum begins with x: it begins with 0": lambda x, *rest: x + mix_experts(x, *rest),
    "w1 and w3 are exchanged: an expert is (w1, w2, w3)": _changed(matrices=lambda m: [own[::-1] for own in m]),
    "the limit is missing": _changed(limit=lambda limit: 1e9),
    "your limit is 10, whatever is given: use the argument": _changed(limit=lambda limit: 10.0),
    "you multiplied x by the weight: it belongs behind silu and the clamps": lambda x, experts, weights, matrices, limit: sum(
        mix_experts(x * w.unsqueeze(1), e.unsqueeze(1), torch.ones(len(x), 1), matrices, limit)
        for e, w in zip(experts.T, weights.T, strict=True)),
}

# -- expert_bytes --------------------------------------------------------------------------------------------------


def expert_bytes(hidden: int, inner: int) -> int:
    shapes = [(inner, hidden), (hidden, inner), (inner, hidden)]                       # w1, w2, w3: outputs, inputs
    return sum(outputs * (inputs * 4 // 8 + inputs // 32) for outputs, inputs in shapes)


def bytes_cases(draw: Draw):
    yield Case("the released sizes", 5120, 2304)
    hidden, inner = 32 * draw.number(2, 9), 32 * draw.number(10, 19)
    yield Case("more channels inside", hidden, inner)
    yield Case("fewer channels inside", inner, hidden)
    yield Case("a square", hidden, hidden)
    yield Case("one scale per input row", 32, 32 * draw.number(3, 5))


def _size(rule):
    """A size that only depends on how many numbers there are."""
    return lambda hidden, inner: rule(3 * hidden * inner)


BYTES_SUSPECTS = {
    "the scales are missing: one byte per 32 inputs": _size(lambda n: n // 2),
    "you put 16 inputs under a scale, as in a row of the cache: an expert has one per 32": _size(lambda n: n // 2 + n // 16),
    "you count one scale per tile of 32 times 32, as FP8 matrices have: an expert has one per 32 inputs":
        _size(lambda n: n // 2 + n // 1024),
    "you count scales of four bytes: they have one": _size(lambda n: n // 2 + n // 8),
    "you count one scale per matrix: there is one per 32 inputs of every output": _size(lambda n: n // 2 + 3),
    "you count one scale for the whole expert: there is one per 32 inputs of every output": _size(lambda n: n // 2 + 1),
    "you count one scale per output: there is one per 32 of its inputs": lambda h, i: 3 * h * i // 2 + 2 * i + h,
    "you count one scale per 32 inputs once: every output has its own": lambda h, i: 3 * h * i // 2 + (2 * h + i) // 32,
    "you count two matrices: w1, w2 and w3 are three": lambda h, i: h * i + h * i // 16,
    "you count a byte per number, as FP8 takes: two FP4 codes share one": _size(lambda n: n + n // 32),
    "you count two bytes per number, as BF16 takes: two FP4 codes share one byte": _size(lambda n: 2 * n),
    "you count bits: eight make a byte": _size(lambda n: 4 * n + n // 4),
    "yours is a float: divide whole numbers with //": _size(lambda n: n / 2 + n / 32),
}

CHECKS = {
    "route": Check(route, route_cases, ROUTE_SUSPECTS),
    "swiglu": Check(swiglu, swiglu_cases, SWIGLU_SUSPECTS),
    "mix_experts": Check(mix_experts, mix_cases, MIX_SUSPECTS),
    "expert_bytes": Check(expert_bytes, bytes_cases, BYTES_SUSPECTS),
}

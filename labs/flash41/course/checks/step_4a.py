"""4A. Checks of the attention core: window, chosen rows, softmax with a sink, turning back, grouped output."""

from __future__ import annotations

import torch
from torch import Tensor

from .cases import Case, Check, Draw

INF = float("inf")

# -- window_mask ---------------------------------------------------------------------------------------------------


def window_mask(tokens: int, window: int, *, first: int = 0) -> Tensor:
    """Token by token. Wrong on purpose: `first` is not the token itself."""
    mask = torch.zeros(tokens, tokens, dtype=torch.bool)
    for token in range(tokens):
        for back in range(first, window):
            if 0 <= token - back < tokens:
                mask[token, token - back] = True
    return mask


def window_cases(draw: Draw):
    tokens, window = draw.number(7, 9), draw.number(3, 4)
    yield Case("more tokens than the window holds", tokens, window)
    yield Case("fewer tokens than the window holds", window - 1, window + draw.number(0, 2))
    yield Case("as many tokens as the window holds", window, window)
    yield Case("one token more than the window holds", window + 1, window)
    yield Case("a window of 1", draw.number(3, 5), 1)
    yield Case("one token", 1, window)


WINDOW_SUSPECTS = {
    "your window has one token too many: the token itself is one of the `window`": lambda t, w: window_mask(t, w + 1),
    "a token does not see itself in yours: it is the first of the `window`": lambda t, w: window_mask(t, w + 1, first=1),
    "your window ends before the token itself: it is the first of the `window`": lambda t, w: window_mask(t, w, first=1),
    "your window has one token too few": lambda t, w: window_mask(t, w - 1),
    "your mask is transposed: the first index is the token that sees, and it looks back": lambda t, w: window_mask(t, w).mT,
    "your window looks both ways: a token sees no later one": lambda t, w: window_mask(t, w, first=1 - w),
    "your mask has no window: a token sees the last `window` tokens only": lambda t, w: window_mask(t, t),
    "your mask does not look back only: later tokens are visible in it": lambda t, w: window_mask(t, w, first=-t),
    "you cut the tokens into pieces of `window`: every token has a window of its own, which ends with itself":
        lambda t, w: window_mask(t, t) & (torch.arange(t).unsqueeze(1) // w == torch.arange(t) // w),
    "True and False are exchanged": lambda t, w: ~window_mask(t, w),
}

# -- chosen_mask ---------------------------------------------------------------------------------------------------


def chosen_mask(rows: Tensor, width: int) -> Tensor:
    mask = torch.zeros(*rows.shape[:2], width, dtype=torch.bool)
    for b, sequence in enumerate(rows.tolist()):
        for t, line in enumerate(sequence):
            for row in line:
                if 0 <= row < width:
                    mask[b, t, row] = True
    return mask


def chosen_cases(draw: Draw):
    tokens, width, count = draw.number(4, 5), draw.number(9, 11), 3
    rows = torch.stack([draw.shuffled(width - 2)[:count].sort().values + 1 for _ in range(2 * tokens)]).view(2, tokens, count)
    ends = rows.clone()
    ends[:, 0, 0], ends[:, 1, -1] = 0, width - 1
    yield Case("three rows for every token", ends, width)
    short = torch.where(torch.arange(count) < torch.arange(tokens).remainder(4).unsqueeze(-1), rows, -1)
    yield Case("lists that end in -1, without the first and the last row", short, width)
    yield Case("no row chosen", torch.full((2, tokens, 2), -1), width)
    yield Case("every row chosen", torch.arange(width).expand(2, tokens, -1), width)
    yield Case("no row yet", rows[:, :1, :0], 0)


CHOSEN_SUSPECTS = {
    "-1 chose the last row in yours: it chooses nothing": lambda r, w: chosen_mask(torch.where(r < 0, w - 1, r), w),
    "-1 chose row 0 in yours: it chooses nothing": lambda r, w: chosen_mask(r.clamp(min=0), w),
    "you counted the rows from 1: the first is row 0": lambda r, w: chosen_mask(r - 1, w),
    "you gave all tokens the rows of all: every token has its own list":
        lambda r, w: chosen_mask(r.flatten(1).unsqueeze(1).expand(-1, r.shape[1], -1), w),
    "you marked every row up to the last chosen one": lambda r, w: torch.arange(w) <= r.amax(-1, keepdim=True),
    "True and False are exchanged": lambda r, w: ~chosen_mask(r, w),
}

# -- attend --------------------------------------------------------------------------------------------------------


def _scores(q: Tensor, keys: Tensor, seen: Tensor) -> Tensor:
    s = torch.einsum("bthc,bkc->bthk", q, keys) / q.shape[-1] ** 0.5
    return torch.where(seen.unsqueeze(2), s, torch.full_like(s, -INF))                  # [B, T, H, K]


def attend(q: Tensor, keys: Tensor, seen: Tensor, sink: Tensor, *, scores=_scores, top=0.0) -> Tensor:
    """exp over a sum. Wrong on purpose: other scores; `top` of the sink's share goes to every weight."""
    s = scores(q, keys, seen)
    most = torch.maximum(s.amax(-1, keepdim=True), sink[:, None]).clamp(min=-1e30)      # [B, T, H, 1]
    e, empty = (s - most).exp(), (sink[:, None] - most).exp()
    p = (e + top * empty) / (e.sum(-1, keepdim=True) + empty)
    return torch.einsum("bthk,bkc->bthc", p, keys)


def attend_cases(draw: Draw):
    tokens, heads, width, count = (draw.shuffled(5)[:4] + 3).tolist()
    q, keys, sink = 2 * draw.normal(2, tokens, heads, width), draw.normal(2, count, width), draw.normal(heads) + 0.5
    seen = draw.flags(2, tokens, count)
    seen[..., 0], seen[..., 1] = True, False
    yield Case("every key visible", q, keys, torch.ones_like(seen), sink)
    yield Case("some keys hidden", q, keys, seen, sink)
    blind = seen.clone()
    blind[0, 1] = False
    yield Case("a token that sees nothing", q, keys, blind, sink)
    yield Case("a high sink", q, keys, seen, sink + 3)
    square = draw.flags(2, 4, 4) | torch.eye(4, dtype=torch.bool)
    yield Case("4 tokens, heads, channels and keys", 2 * draw.normal(2, 4, 4, 4), draw.normal(2, 4, 4), square, draw.normal(4))
    large, steps = torch.zeros_like(q), draw.normal(2, count, width)
    large[..., 0], steps[..., 0] = 1000 * width**0.5, 1 + draw.shuffled(count).float()
    yield Case("scores in the thousands", large, steps, seen, sink)
    yield Case("float64", q.double(), keys.double(), seen, sink.double())


def _with(change):
    return lambda q, keys, seen, sink: attend(q, keys, seen, sink, scores=lambda *a: change(_scores(*a), q.shape[-1] ** 0.5))


def _hidden_after(q, keys, seen, sink):
    s = torch.cat([_scores(q, keys, torch.ones_like(seen)), sink.expand(q.shape[:3]).unsqueeze(-1)], -1)
    return torch.einsum("bthk,bkc->bthc", s.softmax(-1)[..., :-1] * seen.unsqueeze(2), keys)


def _other_axis(axis):
    return lambda q, keys, seen, sink: torch.einsum("bthk,bkc->bthc", _scores(q, keys, seen).softmax(axis).nan_to_num(), keys)


def _without_sink(q, keys, seen, sink):
    return torch.einsum("bthk,bkc->bthc", _scores(q, keys, seen).softmax(-1), keys)


def _blind(value):
    def wrong(q, keys, seen, sink):
        other = torch.full_like(q, torch.nan) if value is None else keys.mean(1)[:, None, None].expand_as(q)
        return torch.where(seen.any(-1)[..., None, None], attend(q, keys, seen, sink), other)
    return wrong


def _naive(q, keys, seen, sink):
    e = _scores(q, keys, seen).exp()
    return torch.einsum("bthk,bkc->bthc", e / (e.sum(-1, keepdim=True) + sink.exp()[:, None]), keys)


ATTEND_SUSPECTS = {
    "the scale is missing: scores are divided by the root of C": _with(lambda s, root: s * root),
    "you divided the scores by C: it is the root of C": _with(lambda s, root: s / root),
    "you divided the sink by the root of C too: it is used as it is":
        lambda q, keys, seen, sink: attend(q, keys, seen, sink / q.shape[-1] ** 0.5),
    "the sink is missing from the denominator: the weights sum to less than 1": _without_sink,
    "the sink has no effect in yours: it is one more term of the denominator, and its share goes to no key":
        lambda *a: _without_sink(*a).nan_to_num(),
    "you put the sink into the numerator: it stands in the denominator alone":
        lambda q, keys, seen, sink: attend(q, keys, seen, sink, top=1.0),
    "you counted the sink once per key: it is one more term of the sum":
        lambda q, keys, seen, sink: attend(q, keys, seen, sink + torch.tensor(float(keys.shape[1])).log()),
    "the sink has the wrong sign in yours": lambda q, keys, seen, sink: attend(q, keys, seen, -sink),
    "you used 1 in place of exp(sink)": lambda q, keys, seen, sink: attend(q, keys, seen, 0 * sink),
    "`seen` changes nothing in yours": lambda q, keys, seen, sink: attend(q, keys, torch.ones_like(seen), sink),
    "your mask is the wrong way round: True means visible": lambda q, keys, seen, sink: attend(q, keys, ~seen, sink),
    "you hid keys after the softmax: they are still in the denominator": _hidden_after,
    "you hid keys by a score of 0: exp(0) is 1, so they count": _with(lambda s, root: s.masked_fill(s == -INF, 0)),
    "your softmax goes over the heads: it goes over the keys": _other_axis(2),
    "your softmax goes over the tokens: it goes over the keys": _other_axis(1),
    "a token that sees nothing became NaN: -inf minus -inf is not a number; it has to give 0": _blind(None),
    "a token that sees nothing got the mean of the keys: it has to give 0": _blind("mean"),
    "exp of a large score overflows: take the largest one away before exp": _naive,
}

# -- turn_back -----------------------------------------------------------------------------------------------------


def turn_back(core: Tensor, positions: Tensor, frequencies: Tensor, *, half=False, sign=-1.0) -> Tensor:
    """Pair by pair. Wrong on purpose: half pairs (i, i + R/2); sign 1 turns forward."""
    out, pairs = core.clone(), len(frequencies)
    start = core.shape[-1] - 2 * pairs
    for pair in range(pairs):
        a, b = (start + pair, start + pairs + pair) if half else (start + 2 * pair, start + 2 * pair + 1)
        angle = sign * positions.double().unsqueeze(-1) * frequencies[pair]             # [B, T, 1]
        out[..., a] = core[..., a] * angle.cos() - core[..., b] * angle.sin()
        out[..., b] = core[..., a] * angle.sin() + core[..., b] * angle.cos()
    return out


def turn_cases(draw: Draw):
    tokens, pairs = draw.number(4, 6), draw.choice([2, 3])
    frequencies = 10.0 ** -draw.uniform(pairs, low=0.0, high=2.0)
    positions = torch.arange(tokens) + 1 + draw.shuffled(50)[:2, None]                  # [B, T]
    yield Case("three heads, the first channels stay", draw.normal(2, tokens, 3, 2 * pairs + 4), positions, frequencies)
    yield Case("as many heads as tokens", draw.normal(2, tokens, tokens, 2 * pairs + 2), positions, frequencies)
    yield Case("every channel turns", draw.normal(2, tokens, 2, 2 * pairs), positions * 2, frequencies)
    yield Case("one token at position 0", draw.normal(1, 1, 2, 2 * pairs + 2), torch.zeros(1, 1, dtype=torch.int64), frequencies)
    yield Case("float64", draw.normal(1, 2, 2, 2 * pairs + 2, dtype=torch.float64), positions[:1, :2], frequencies.double())


TURN_SUSPECTS = {
    "you turned forward: turning back is turning by the negative angle": lambda x, p, f: turn_back(x, p, f, sign=1.0),
    "nothing is turned: the last R channels turn back by position times frequency": lambda x, p, f: x,
    "you turned the first R channels: the last R turn":
        lambda x, p, f: torch.cat([turn_back(x[..., : 2 * len(f)], p, f), x[..., 2 * len(f) :]], -1),
    "you paired channel i with channel i + R/2: the pairs are neighbours, (2i, 2i + 1)":
        lambda x, p, f: turn_back(x, p, f, half=True),
    "you counted the tokens from 0: use the positions that are given":
        lambda x, p, f: turn_back(x, torch.arange(p.shape[1]).expand_as(p), f),
    "you turned every head by its own number: all heads turn by the token's position":
        lambda x, p, f: turn_back(x.transpose(1, 2), torch.arange(x.shape[2]).expand(len(x), -1), f).transpose(1, 2),
    "you returned the turned channels alone: the others pass unchanged, in front of them":
        lambda x, p, f: turn_back(x, p, f)[..., -2 * len(f) :],
}

# -- grouped_output ------------------------------------------------------------------------------------------------


def grouped_output(core: Tensor, wo_a: Tensor, wo_b: Tensor, groups: int, *, heads=None, rows=None, order=None) -> Tensor:
    """Group by group. Wrong on purpose: other heads or rows for group g, another order of what comes out."""
    each, rank = core.shape[2] // groups, wo_a.shape[0] // groups
    heads = heads or (lambda g: slice(g * each, (g + 1) * each))
    rows = rows or (lambda g: slice(g * rank, (g + 1) * rank))
    low = torch.stack([core[:, :, heads(g)].flatten(2) @ wo_a[rows(g)].mT for g in range(groups)], 2)  # [B, T, G, rank]
    return (low if order is None else low.permute(order)).flatten(2) @ wo_b.mT


def output_cases(draw: Draw):
    groups, each, width, rank, wide = draw.choice([2, 3]), 2, draw.choice([8, 10]), draw.choice([3, 7]), draw.choice([11, 13])

    def case(words, groups, each, tokens=5, dtype=torch.float32):
        sizes = ((2, tokens, groups * each, width), (groups * rank, each * width), (wide, groups * rank))
        return Case(words, *(draw.normal(*size, dtype=dtype) for size in sizes), groups)

    yield case("groups of two heads", groups, each)
    yield case("groups of three heads, one token", groups, 3, 1)
    yield case("one group", 1, 3)
    yield case("every head a group of its own", 4, 1)
    yield case("float64", groups, each, 2, torch.float64)


OUTPUT_SUSPECTS = {
    "you dealt the heads out in turn: a group is heads that stand together":
        lambda core, a, b, g: grouped_output(core, a, b, g, heads=lambda i: slice(i, None, g)),
    "you used the first rows of wo_a for every group: each group has its own":
        lambda core, a, b, g: grouped_output(core, a, b, g, rows=lambda i: slice(len(a) // g)),
    "you dealt the rows of wo_a out in turn: a group's rows stand together":
        lambda core, a, b, g: grouped_output(core, a, b, g, rows=lambda i: slice(i, None, g)),
    "the groups' answers are interleaved: they stand one after the other, all numbers of group 0 first":
        lambda core, a, b, g: grouped_output(core, a, b, g, order=(0, 1, 3, 2)),
    "you put channels before heads: head by head, each with all its channels":
        lambda core, a, b, g: grouped_output(core.transpose(2, 3).reshape(core.shape), a, b, g),
    "wo_b is missing: it takes all groups to D numbers":
        lambda core, a, b, g: grouped_output(core, a, torch.eye(b.shape[1]).to(b), g),
    "wo_a is not grouped in yours: every group went through all rows":
        lambda core, a, b, g: (core.unflatten(2, (g, -1)).flatten(3).sum(2) @ a.mT) @ b.mT,
}

CHECKS = {
    "window_mask": Check(window_mask, window_cases, WINDOW_SUSPECTS),
    "chosen_mask": Check(chosen_mask, chosen_cases, CHOSEN_SUSPECTS),
    "attend": Check(attend, attend_cases, ATTEND_SUSPECTS),
    "turn_back": Check(turn_back, turn_cases, TURN_SUSPECTS),
    "grouped_output": Check(grouped_output, output_cases, OUTPUT_SUSPECTS),
}

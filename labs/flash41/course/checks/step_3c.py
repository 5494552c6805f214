"""3C. Checks of the indexer: scores, visibility, candidate blocks, the chosen rows."""

from __future__ import annotations

import torch
from torch import Tensor

from .cases import Case, Check, Draw

INF = float("inf")


def _sizes(draw: Draw, count: int) -> list[int]:
    """Different sizes, none of them the batch's 2."""
    return (draw.shuffled(5)[:count] + 3).tolist()


def _apart(draw: Draw, *shape: int, dtype=torch.float32) -> Tensor:
    """Numbers of both signs, no two alike, which float32 holds exactly."""
    count = torch.Size(shape).numel()
    return ((draw.shuffled(count) - count // 2) / 8).view(shape).to(dtype)


def _fill(scores: Tensor, keep: Tensor, other: float = -INF) -> Tensor:
    return torch.where(keep, scores, torch.full_like(scores, other))


# -- index_scores --------------------------------------------------------------------------------------------------


def index_scores(queries: Tensor, weights: Tensor, keys: Tensor) -> Tensor:
    parts = [weights[:, :, h, None] * (queries[:, :, h] @ keys.mT).clamp(min=0) for h in range(queries.shape[2])]
    return torch.stack(parts).sum(0)                                                     # [B, T, N]


def score_cases(draw: Draw):
    tokens, heads, width, rows = _sizes(draw, 4)
    queries, keys = draw.normal(2, tokens, heads, width), draw.normal(2, rows, width)
    weights = draw.normal(2, tokens, heads)
    weights[..., 0] = -1 - weights[..., 0].abs()
    yield Case("weights of both signs", queries, weights, keys)
    yield Case("as many tokens, heads, channels and rows", *(draw.normal(2, 4, *more) for more in ((4, 4), (4,), (4,))))
    yield Case("keys that no head likes", queries.abs(), weights, -keys.abs())
    yield Case("one head, one token, one row", draw.normal(1, 1, 1, width), draw.normal(1, 1, 1), draw.normal(1, 1, width))
    yield Case("no row yet", queries, weights, keys[:, :0])
    yield Case("float64", queries.double(), weights.double(), keys.double())


def _dots(queries: Tensor, keys: Tensor) -> Tensor:
    return torch.einsum("bthc,bnc->bthn", queries, keys)


SCORE_SUSPECTS = {
    "you applied ReLU after the sum: every head's product gets it before it is weighted":
        lambda q, w, k: (w.unsqueeze(-1) * _dots(q, k)).sum(2).relu(),
    "the ReLU is missing: a product below 0 counts as 0": lambda q, w, k: (w.unsqueeze(-1) * _dots(q, k)).sum(2),
    "you weighted before the ReLU: a head of negative weight can then no longer vote against":
        lambda q, w, k: (w.unsqueeze(-1) * _dots(q, k)).relu().sum(2),
    "you cut off the negative weights: ReLU is for the products, weights keep their sign":
        lambda q, w, k: index_scores(q, w.relu(), k),
    "the weights are missing: every head counts the same": lambda q, w, k: index_scores(q, torch.ones_like(w), k),
    "you took the mean over the heads: it is their sum": lambda q, w, k: index_scores(q, w, k) / q.shape[2],
    "you took the best head: it is the sum over the heads": lambda q, w, k: (w.unsqueeze(-1) * _dots(q, k).relu()).amax(2),
    "you divided by the root of C: that scale is part of the weights already":
        lambda q, w, k: index_scores(q, w, k) * q.shape[-1] ** -0.5,
}

# -- hide_rows -----------------------------------------------------------------------------------------------------


def hide_rows(scores: Tensor, visible: Tensor) -> Tensor:
    return _fill(scores, torch.arange(scores.shape[-1]) < visible.unsqueeze(-1))


def _counts(draw: Draw, tokens: int, rows: int) -> Tensor:
    """Different counts for all tokens, neither rising nor alike in two sequences."""
    first = draw.shuffled(rows + 1)[:tokens]
    return torch.stack([first, (first + draw.number(1, rows)) % (rows + 1)])            # [2, T]


def hide_cases(draw: Draw):
    tokens, rows = draw.number(3, 5), draw.number(6, 8)
    yield Case("a count of its own for every token", draw.normal(2, tokens, rows), _counts(draw, tokens, rows))
    twice = ((torch.arange(2 * tokens) + 1) // 2).expand(2, -1)
    yield Case("one more row with every second token", draw.normal(2, 2 * tokens, tokens), twice)
    yield Case("no row visible, every row visible", draw.normal(2, 1, rows), torch.tensor([[0], [rows]]))
    yield Case("scores of 0", torch.zeros(2, tokens, rows), _counts(draw, tokens, rows))
    yield Case("as many rows as tokens", draw.normal(2, rows, rows), _counts(draw, rows, rows))
    yield Case("no row yet", draw.normal(2, 1, 0), torch.zeros(2, 1, dtype=torch.int64))
    yield Case("float64", draw.normal(2, tokens, rows, dtype=torch.float64), _counts(draw, tokens, rows))


HIDE_SUSPECTS = {
    "you left one row too many: with `visible` rows the first hidden one is row `visible`": lambda s, v: hide_rows(s, v + 1),
    "you hid one row too many: rows 0 … visible - 1 are seen": lambda s, v: hide_rows(s, v - 1),
    "you hid the rows that are seen": lambda s, v: _fill(s, torch.arange(s.shape[-1]) >= v.unsqueeze(-1)),
    "you wrote 0 into hidden rows: scores may be negative, so 0 can be the best of all":
        lambda s, v: _fill(s, torch.arange(s.shape[-1]) < v.unsqueeze(-1), 0),
    "you wrote -1e9 into hidden rows: use -inf, which later steps know as never to be chosen":
        lambda s, v: _fill(s, torch.arange(s.shape[-1]) < v.unsqueeze(-1), -1e9),
    "you multiplied a mask by -inf: where the mask is 0 that is NaN":
        lambda s, v: _fill(torch.nan * s, torch.arange(s.shape[-1]) < v.unsqueeze(-1)),
    "you counted the tokens: how many rows each sees is given":
        lambda s, v: hide_rows(s, torch.arange(1, v.shape[1] + 1).expand_as(v)),
    "you returned the mask alone: seen rows keep their scores": lambda s, v: hide_rows(torch.zeros_like(s), v),
}

# -- top_rows ------------------------------------------------------------------------------------------------------


def top_rows(scores: Tensor, count: int, *, newer=False, by_score=False, front=False, hidden=False, filled=False) -> Tensor:
    """Row by row. Wrong on purpose: each of the keywords."""
    rows = scores.shape[-1]
    out = torch.full((*scores.shape[:2], count if filled else min(count, rows)), -1)    # [B, T, K]
    for place in torch.cartesian_prod(*(torch.arange(size) for size in scores.shape[:2])).tolist():
        line = scores[tuple(place)].tolist()
        order = sorted((row for row in range(rows) if hidden or line[row] > -INF), key=lambda row: -row if newer else row)
        best = sorted(order, key=lambda row: -line[row])[:count]
        best = torch.tensor(best if by_score else sorted(best), dtype=torch.int64)
        at = slice(out.shape[-1] - len(best), None) if front else slice(len(best))
        out[tuple(place)][at] = best
    return out


def top_cases(draw: Draw):
    tokens, rows, count = draw.number(4, 5), draw.number(8, 10), draw.number(2, 3)
    scores = _apart(draw, 2, tokens, rows)
    yield Case("scores that all differ", scores, count)
    yield Case("more asked for than there are rows", scores, rows + 2)
    seen = torch.arange(rows) < torch.arange(tokens).unsqueeze(-1)
    yield Case("few or no rows visible, the others at -inf", _fill(scores, seen), count)
    yield Case("gaps of -inf", _fill(scores, torch.arange(rows) % 3 == draw.number(0, 2)), count + 2)
    ahead = torch.nn.functional.one_hot(draw.shuffled(rows)[:tokens], rows).expand(2, -1, -1) / 8
    yield Case("one row ahead, all others equal", ahead, count)
    yield Case("three different scores", draw.integers(-1, 2, 2, tokens, 4 * rows) / 8, 2 * rows)
    yield Case("negative scores only", scores - scores.max() - 1, count)
    yield Case("no row yet", scores[..., :0], count)
    yield Case("float64", _apart(draw, 2, 1, rows, dtype=torch.float64), count)


def _by_topk(scores: Tensor, count: int) -> Tensor:
    best = scores.topk(min(count, rows := scores.shape[-1]))
    places = torch.where(best.values == -INF, rows, best.indices).sort(dim=-1).values
    return _fill(places, places < rows, -1)


TOP_SUSPECTS = {
    "your rows stand in the order of their scores: they have to ascend": lambda s, n: top_rows(s, n, by_score=True),
    "of equal scores you took the newer row: the older one wins": lambda s, n: top_rows(s, n, newer=True),
    "of equal scores you took what topk happened to give: the older row wins": _by_topk,
    "you chose rows of -inf: -1 stands where no other row is left": lambda s, n: top_rows(s, n, hidden=True),
    "your -1 stand in front: they belong at the end": lambda s, n: top_rows(s, n, front=True),
    "you filled up to `count`: there are never more places than rows": lambda s, n: top_rows(s, n, filled=True),
    "you took the smallest scores": lambda s, n: top_rows(_fill(-s, s > -INF), n),
    "you chose positive scores only: a score of 0 or below may be the best there is": lambda s, n: top_rows(_fill(s, s > 0), n),
    "you took the newest rows: scores decide": lambda s, n: top_rows(_fill(torch.arange(s.shape[-1]) + 0 * s, s > -INF), n),
    "yours are the scores: their places are asked for": lambda s, n: s.topk(min(n, s.shape[-1])).values,
}

# -- candidate_blocks ----------------------------------------------------------------------------------------------


def candidate_blocks(scores: Tensor, visible: Tensor, size: int, count: int, *, best=max, pin=None, **choice) -> Tensor:
    """Block by block. Wrong on purpose: another `best` than the largest, another `pin` than the newest visible row's block."""
    pin = pin or (lambda seen, blocks: (seen - 1) // size)
    blocks = -(-scores.shape[-1] // size)
    out = torch.full((*scores.shape[:2], blocks), -INF, dtype=torch.float64)            # [B, T, blocks]
    for b, sequence in enumerate(scores.tolist()):
        for t, line in enumerate(sequence):
            out[b, t] = torch.tensor([best(line[i * size : (i + 1) * size]) for i in range(blocks)])
            pinned = pin(int(visible[b, t]), blocks)
            if 0 <= pinned < blocks:
                out[b, t, pinned] = INF
    return top_rows(out, count, **choice)


def block_cases(draw: Draw):
    size, blocks, count = draw.number(3, 4), draw.number(5, 6), draw.number(2, 3)
    rows = size * blocks - draw.number(1, size - 1)
    scores = _apart(draw, 2, 4, rows)
    full = torch.full((2, 4), rows)
    peak = 1 + draw.shuffled(blocks).repeat_interleave(size)[:rows].expand(2, 4, -1).float()
    peak = torch.where(torch.arange(rows) % size == 0, peak, -10 * peak)
    yield Case("every row visible", scores, full, size, count)
    yield Case("one high row in every block, the others the lower the higher it is", peak, full, size, count)
    grow = torch.arange(rows + 1).expand(2, -1)
    many = _apart(draw, 2, rows + 1, rows)
    yield Case("one more row with every token, none at first", hide_rows(many - many.max() - 1, grow), grow, size, count)
    falling = -torch.arange(rows).expand(2, rows + 1, -1) / 8
    yield Case("the newer the worse", hide_rows(falling, grow), grow, size, count)
    yield Case("the newer the better", hide_rows(-falling, grow), grow, size, count)
    yield Case("all scores 0", hide_rows(torch.zeros(2, rows + 1, rows), grow), grow, size, count)
    yield Case("more asked for than there are blocks", hide_rows(many, grow), grow, size, blocks + 2)
    yield Case("one block", scores, full, size, 1)
    yield Case("fewer rows than a block has", scores[..., :2], full.clamp(max=2), size, count)
    yield Case("float64", scores.double(), full, size, count)


BLOCK_SUSPECTS = {
    "you scored a block by its mean: its best row speaks for it": lambda *a: candidate_blocks(*a, best=lambda p: sum(p) / len(p)),
    "the block of the newest visible row is not kept: it stays whatever its score":
        lambda *a: candidate_blocks(*a, pin=lambda seen, blocks: -1),
    "you kept block 0 always: it is the block of the newest visible row that always stays":
        lambda *a: candidate_blocks(*a, pin=lambda seen, blocks: 0),
    "you kept the last block of all: a token's newest visible row may lie in an older one":
        lambda *a: candidate_blocks(*a, pin=lambda seen, blocks: blocks - 1),
    "you kept the block of row `visible`: the newest visible row is `visible` - 1":
        lambda s, v, size, n: candidate_blocks(s, v, size, n, pin=lambda seen, blocks: seen // size),
    "a token that sees nothing got a block: it has no newest row":
        lambda s, v, size, n: candidate_blocks(s, v, size, n, pin=lambda seen, blocks: max(seen - 1, 0) // size),
    "you left out the last block, which has fewer rows: it counts like the others":
        lambda s, v, size, n: candidate_blocks(s[..., : s.shape[-1] // size * size], v, size, n),
    "you filled the last block up with 0: with negative scores 0 wins; fill with -inf":
        lambda s, v, size, n: candidate_blocks(s, v, size, n, best=lambda part: max(part + [0.0] * (size - len(part)))),
    "your blocks stand in the order of their scores: they have to ascend": lambda *a: candidate_blocks(*a, by_score=True),
    "of equal blocks you took the newer one: the older wins": lambda *a: candidate_blocks(*a, newer=True),
    "you chose blocks without a visible row: -1 stands where no other is left": lambda *a: candidate_blocks(*a, hidden=True),
    "your -1 stand in front: they belong at the end": lambda *a: candidate_blocks(*a, front=True),
    "you filled up to `count`: there are never more places than blocks": lambda *a: candidate_blocks(*a, filled=True),
    "you added the newest block to the best `count`: it takes one of their places":
        lambda s, v, size, n: candidate_blocks(s, v, size, n + 1),
    "yours are row numbers: number the blocks":
        lambda s, v, size, n: _fill(size * (found := candidate_blocks(s, v, size, n)), found >= 0, -1),
}

# -- inside_blocks -------------------------------------------------------------------------------------------------


def inside_blocks(scores: Tensor, blocks: Tensor, size: int, *, other: float = -INF) -> Tensor:
    keep = torch.zeros_like(scores, dtype=torch.bool)
    for b, sequence in enumerate(blocks.tolist()):
        for t, line in enumerate(sequence):
            for block in line:
                if block >= 0:
                    keep[b, t, block * size : (block + 1) * size] = True
    return _fill(scores, keep, other)


def _lists(draw: Draw, tokens: int, names: range, count: int) -> Tensor:
    """`count` of the names for every token, ascending."""
    lists = [draw.shuffled(len(names))[:count].sort().values + names.start for _ in range(2 * tokens)]
    return torch.stack(lists).view(2, tokens, count)


def inside_cases(draw: Draw):
    size, blocks, tokens = draw.number(3, 4), draw.number(6, 7), 5
    rows = size * blocks - draw.number(1, size - 1)
    scores = draw.normal(2, tokens, rows)
    lists = _lists(draw, tokens, range(blocks), 3)
    lists[0, 0] = torch.tensor([0, blocks - 2, blocks - 1])
    yield Case("three blocks for every token", scores, lists, size)
    short = _lists(draw, tokens, range(1, blocks - 1), 3)
    short = _fill(short, torch.arange(3) < torch.arange(tokens).remainder(4).unsqueeze(-1), -1)
    yield Case("lists that end in -1, without the first and the last block", scores, short, size)
    yield Case("no block at all", scores, torch.full((2, tokens, 2), -1), size)
    yield Case("every block", scores, torch.arange(blocks).expand(2, tokens, -1), size)
    yield Case("blocks of one row", scores, _lists(draw, tokens, range(rows), 4), 1)
    yield Case("hidden rows stay hidden", hide_rows(scores, torch.full((2, tokens), rows - size)), lists, size)
    yield Case("float64", scores[:, :2].double(), lists[:, :2], size)


INSIDE_SUSPECTS = {
    "you hid the rows inside: hide those outside": lambda s, b, n: _fill(s, inside_blocks(s, b, n, other=torch.nan).isnan()),
    "you wrote 0 outside: scores may be negative, so 0 can be the best of all; use -inf":
        lambda s, b, n: inside_blocks(s, b, n, other=0),
    "you wrote -1e9 outside: use -inf, which later steps know as never to be chosen":
        lambda s, b, n: inside_blocks(s, b, n, other=-1e9),
    "you took block numbers for row numbers: a block is `size` rows": lambda s, b, n: inside_blocks(s, b, 1),
    "you kept the first row of every block only: a block is `size` rows":
        lambda s, b, n: inside_blocks(s, _fill(b * n, b >= 0, -1), 1),
    "-1 kept the last block in yours: it stands for no block":
        lambda s, b, n: inside_blocks(s, _fill(b, b >= 0, (s.shape[-1] - 1) // n), n),
    "-1 kept the last row in yours: it stands for no block":
        lambda s, b, n: torch.cat([inside_blocks(s, b, n)[..., :-1], _fill(s, (b < 0).any(2, keepdim=True))[..., -1:]], -1),
    "-1 kept block 0 in yours: it stands for no block": lambda s, b, n: inside_blocks(s, b.clamp(min=0), n),
    "you kept the blocks of all tokens: every token has a list of its own":
        lambda s, b, n: inside_blocks(s, b.flatten(1).unsqueeze(1).expand(-1, s.shape[1], -1), n),
}

CHECKS = {
    "index_scores": Check(index_scores, score_cases, SCORE_SUSPECTS),
    "hide_rows": Check(hide_rows, hide_cases, HIDE_SUSPECTS),
    "candidate_blocks": Check(candidate_blocks, block_cases, BLOCK_SUSPECTS),
    "inside_blocks": Check(inside_blocks, inside_cases, INSIDE_SUSPECTS),
    "top_rows": Check(top_rows, top_cases, TOP_SUSPECTS),
}

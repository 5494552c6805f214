"""3B. Checks of the compressed rows: norm, rotation, pairs, positions, visibility."""

from __future__ import annotations

import torch
from torch import Tensor

from .cases import Case, Check, Draw

# -- rms_norm ------------------------------------------------------------------------------------------------------


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def norm_cases(draw: Draw):
    batch, tokens, width = draw.number(2, 3), draw.number(3, 6), draw.choice([6, 8, 12])
    weight = 1 + 0.3 * draw.normal(width)
    x = 2 * draw.normal(batch, tokens, width) + 0.5
    yield Case("rows of latents", x, weight, 1e-20)
    yield Case("four dimensions", draw.normal(batch, 2, 3, width), weight, 1e-20)
    yield Case("a large eps", x, weight, 0.5)
    yield Case("numbers so small that eps decides", x * 1e-10, weight, 1e-20)
    yield Case("numbers that are small, with an eps that is far smaller", x * 1e-5, weight, 1e-20)
    zeros = x.clone()
    zeros[0, 1] = 0
    yield Case("a row of zeros among others", zeros, weight, 1e-20)
    yield Case("float64", draw.normal(1, 1, width, dtype=torch.float64), weight.double(), 1e-20)


NORM_SUSPECTS = {
    "you divided by the root of the sum of the squares: it has to be their mean":
        lambda x, weight, eps: x / (x.square().sum(-1, keepdim=True) + eps).sqrt() * weight,
    "you divided by the mean square itself: its root is missing":
        lambda x, weight, eps: x / (x.square().mean(-1, keepdim=True) + eps) * weight,
    "the weight is missing": lambda x, weight, eps: rms_norm(x, torch.ones_like(weight), eps),
    "you multiplied by 1 + weight: the weight is the gain itself": lambda x, weight, eps: rms_norm(x, 1 + weight, eps),
    "you took the mean away first, as layer norm does: RMS norm does not":
        lambda x, weight, eps: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() * weight,
    "you used one mean for the whole tensor: every row has its own, over the last dimension":
        lambda x, weight, eps: x / (x.square().mean() + eps).sqrt() * weight,
    "you took the mean over the tokens: it goes over the channels, the last dimension":
        lambda x, weight, eps: x / (x.square().mean(1, keepdim=True) + eps).sqrt() * weight,
    "you added eps after the root: it stands inside":
        lambda x, weight, eps: x / (x.square().mean(-1, keepdim=True).sqrt() + eps) * weight,
    "your eps is 1e-6, whatever is given: use the argument": lambda x, weight, eps: rms_norm(x, weight, 1e-6),
    "your eps is 1e-5, whatever is given: use the argument": lambda x, weight, eps: rms_norm(x, weight, 1e-5),
    "eps is missing": lambda x, weight, eps: rms_norm(x, weight, 0),
}

# -- apply_rope ----------------------------------------------------------------------------------------------------


def apply_rope(x: Tensor, positions: Tensor, frequencies: Tensor, inverse: bool = False, *, half=False, apart=False):
    """Pair by pair. Wrong on purpose: half pairs (i, i + R/2), apart puts the even channels before the odd ones."""
    out, pairs = x.clone(), len(frequencies)
    start = x.shape[-1] - 2 * pairs
    for pair in range(pairs):
        a, b = (start + pair, start + pairs + pair) if half else (start + 2 * pair, start + 2 * pair + 1)
        to_a, to_b = (start + pair, start + pairs + pair) if apart else (a, b)
        angle = positions.double() * frequencies[pair] * (-1 if inverse else 1)        # [B, T]
        angle = angle.view(*angle.shape, *[1] * (x.dim() - 3))                         # [B, T, 1 …]
        out[..., to_a] = x[..., a] * angle.cos() - x[..., b] * angle.sin()
        out[..., to_b] = x[..., a] * angle.sin() + x[..., b] * angle.cos()
    return out


def rope_cases(draw: Draw):
    batch, tokens, pairs = draw.number(2, 3), draw.number(3, 5), draw.choice([2, 3, 4])
    frequencies = 10.0 ** -draw.uniform(pairs, low=0.0, high=2.0)
    positions = torch.arange(tokens) + 1 + draw.shuffled(50)[:batch, None]               # [B, T]
    x = draw.normal(batch, tokens, 2 * pairs + 4)
    yield Case("latents, the first channels stay", x, positions, frequencies)
    yield Case("the same turned back", x, positions, frequencies, inverse=True)
    yield Case("heads", draw.normal(batch, tokens, 3, 2 * pairs + 2), positions, frequencies)
    yield Case("as many heads as tokens", draw.normal(batch, tokens, tokens, 2 * pairs + 2), positions, frequencies)
    yield Case("heads, turned back", draw.normal(batch, tokens, 2, 2 * pairs + 2), positions, frequencies, inverse=True)
    yield Case("every channel turns", draw.normal(batch, tokens, 2 * pairs), positions * 2, frequencies)
    yield Case("one token at position 0", draw.normal(1, 1, 2 * pairs + 2), torch.zeros(1, 1, dtype=torch.int64), frequencies)
    yield Case("float64", draw.normal(1, 2, 2 * pairs + 2, dtype=torch.float64), positions[:1, :2], frequencies.double())


def _over_heads(x, positions, frequencies, inverse=False):
    if x.dim() != 4:
        return apply_rope(x, positions, frequencies, inverse)
    return apply_rope(x.transpose(1, 2), positions, frequencies, inverse).transpose(1, 2)


ROPE_SUSPECTS = {
    "you paired channel i with channel i + R/2: the pairs are neighbours, (2i, 2i + 1)":
        lambda x, p, f, inverse=False: apply_rope(x, p, f, inverse, half=True),
    "you turned the first R channels: the last R turn":
        lambda x, p, f, inverse=False: torch.cat([apply_rope(x[..., : 2 * len(f)], p, f, inverse), x[..., 2 * len(f) :]], -1),
    "you put all even channels before all odd ones: every pair goes back to its own two places (stack, then flatten)":
        lambda x, p, f, inverse=False: apply_rope(x, p, f, inverse, apart=True),
    "you turned the other way round: look at the signs of the sines":
        lambda x, p, f, inverse=False: apply_rope(x, p, f, not inverse),
    "`inverse` changes nothing in yours: it turns by the negative angle": lambda x, p, f, inverse=False: apply_rope(x, p, f),
    "you counted the tokens from 0: use the positions that are given":
        lambda x, p, f, inverse=False: apply_rope(x, torch.arange(p.shape[1]).expand_as(p), f, inverse),
    "you used the positions of the first sequence for all":
        lambda x, p, f, inverse=False: apply_rope(x, p[:1].expand_as(p), f, inverse),
    "your positions are one too large": lambda x, p, f, inverse=False: apply_rope(x, p + 1, f, inverse),
    "the heads were taken for the tokens: the angle needs a dimension of size 1 where the heads are": _over_heads,
    "you returned the turned channels alone: the others pass unchanged, in front of them":
        lambda x, p, f, inverse=False: apply_rope(x, p, f, inverse)[..., -2 * len(f) :],
    "nothing is turned": lambda x, p, f, inverse=False: x,
}

# -- pool_pairs ----------------------------------------------------------------------------------------------------


def pool_pairs(kv: Tensor, gate: Tensor) -> Tensor:
    rows = []
    for j in range(kv.shape[1] // 2):
        share = 1 / (1 + (gate[:, 2 * j + 1] - gate[:, 2 * j]).exp())                  # [B, C], of the first token
        rows.append(share * kv[:, 2 * j] + (1 - share) * kv[:, 2 * j + 1])
    return torch.stack(rows, 1) if rows else kv[:, :0]                                 # [B, T // 2, C]


def pool_cases(draw: Draw):
    batch, width = draw.number(2, 3), draw.choice([4, 5, 6])
    even, odd = 2 * draw.number(2, 4), 2 * draw.number(2, 4) + 1
    for words, tokens in (("an even number of tokens", even), ("an odd number: the last token waits", odd), ("one pair", 2)):
        yield Case(words, draw.normal(batch, tokens, width), 2 * draw.normal(batch, tokens, width))
    yield Case("one token: no row yet", draw.normal(batch, 1, width), draw.normal(batch, 1, width))
    yield Case("equal gates: the mean", draw.normal(1, 4, width), torch.zeros(1, 4, width))
    yield Case("large gates", draw.normal(batch, 4, width), 300 * draw.normal(batch, 4, width))
    yield Case("float64", draw.normal(1, 4, width, dtype=torch.float64), draw.normal(1, 4, width, dtype=torch.float64))


def _pairs(t: Tensor) -> Tensor:
    return t[:, : t.shape[1] // 2 * 2].unflatten(1, (-1, 2)) if t.shape[1] > 1 else t[:, :0].unsqueeze(2)


def _weighted(kv: Tensor, weights: Tensor) -> Tensor:
    return (_pairs(kv) * weights).sum(2)


def _halves(kv, gate):
    half = kv.shape[1] // 2
    order = torch.stack([torch.arange(half), torch.arange(half) + half], 1).flatten()
    return pool_pairs(kv[:, order], gate[:, order])


def _one_more(kv, gate):
    return torch.cat([pool_pairs(kv, gate), kv[:, kv.shape[1] // 2 * 2 :]], 1)


def _overlapping(kv, gate):
    rows = [pool_pairs(kv[:, j : j + 2], gate[:, j : j + 2]) for j in range(kv.shape[1] - 1)]
    return torch.cat(rows, 1)


POOL_SUSPECTS = {
    "your softmax goes over the channels: it goes over the two tokens of a pair":
        lambda kv, gate: _weighted(kv, _pairs(gate).softmax(-1)),
    "your softmax goes over all tokens: only the two of a pair share a sum of 1":
        lambda kv, gate: _weighted(kv, _pairs(gate.softmax(1))),
    "the gate does nothing: yours is the mean of the pair": lambda kv, gate: _pairs(kv).mean(2),
    "you added the two tokens: the weights are missing": lambda kv, gate: _pairs(kv).sum(2),
    "you used sigmoid of the gate: softmax makes the two weights sum to 1":
        lambda kv, gate: _weighted(kv, _pairs(gate).sigmoid()),
    "you weighted with the gate itself: its softmax is missing": lambda kv, gate: _weighted(kv, _pairs(gate)),
    "you used one weight for all channels: every channel has its own":
        lambda kv, gate: _weighted(kv, _pairs(gate).mean(-1, keepdim=True).softmax(2)),
    "kv and gate are exchanged": lambda kv, gate: pool_pairs(gate, kv),
    "the weights of the two tokens are exchanged": lambda kv, gate: pool_pairs(kv, -gate),
    "you paired token j with token j + T/2: the pairs are neighbours, (2j, 2j + 1)": _halves,
    "the open token got a row of its own: it waits until its pair is complete": _one_more,
    "your pairs overlap: every token belongs to one pair": _overlapping,
    "you left out the first token of an odd number: the last one waits":
        lambda kv, gate: pool_pairs(kv[:, kv.shape[1] % 2 :], gate[:, gate.shape[1] % 2 :]),
}

# -- row_positions and visible_rows --------------------------------------------------------------------------------


def row_positions(rows: int, ratio: int) -> Tensor:
    return torch.tensor([row * ratio for row in range(rows)], dtype=torch.int64)


def position_cases(draw: Draw):
    for ratio in (1, 2, draw.number(3, 5)):
        yield Case(f"{ratio} tokens per row" if ratio > 1 else "one token per row", draw.number(2, 7), ratio)
    yield Case("no row", 0, 2)


POSITION_SUSPECTS = {
    "yours is the position of the row's last token: it has to be that of its first": lambda n, r: row_positions(n, r) + r - 1,
    "yours is the number of the row: its first token stands at row times ratio": lambda n, r: row_positions(n, 1),
    "your rows count from 1: the first row begins at position 0": lambda n, r: row_positions(n, r) + r,
    "yours is the middle of the group": lambda n, r: row_positions(n, r).double() + (r - 1) / 2,
    "`rows` counts rows, not tokens": lambda n, r: torch.arange(0, n, r),
}


def visible_rows(positions: Tensor, ratio: int) -> Tensor:
    return torch.tensor([[(t + 1) // ratio for t in line] for line in positions.tolist()], dtype=torch.int64)


def visible_cases(draw: Draw):
    batch, tokens = draw.number(2, 3), draw.number(5, 8)
    start = draw.shuffled(40)[:batch, None]                                            # [B, 1]
    for ratio in (2, 1, draw.number(3, 5)):
        words = f"{ratio} tokens per row" if ratio > 1 else "one token per row"
        yield Case(words, torch.arange(tokens) + (start if ratio == 2 else torch.zeros_like(start)), ratio)
    yield Case("one token at position 0", torch.zeros(1, 1, dtype=torch.int64), 2)


VISIBLE_SUSPECTS = {
    "a row becomes visible one token too late: its own last token sees it, so count t + 1 tokens": lambda p, r: p // r,
    "a row becomes visible before it is complete: round down": lambda p, r: (p + r) // r,
    "you see one row too many, the one that is not complete": lambda p, r: (p + 1) // r + 1,
    "a row is a whole number: divide with //": lambda p, r: (p + 1) / r,
    "you counted tokens: r of them make one row": lambda p, r: p + 1,
}

CHECKS = {
    "rms_norm": Check(rms_norm, norm_cases, NORM_SUSPECTS),
    "apply_rope": Check(apply_rope, rope_cases, ROPE_SUSPECTS),
    "pool_pairs": Check(pool_pairs, pool_cases, POOL_SUSPECTS),
    "row_positions": Check(row_positions, position_cases, POSITION_SUSPECTS),
    "visible_rows": Check(visible_rows, visible_cases, VISIBLE_SUSPECTS),
}

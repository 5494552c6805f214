"""1B. Checks of Engram: look-back, table offsets, rows by hash, gate, and what is added to the streams."""

from __future__ import annotations

from itertools import count, islice

import torch
from torch import Tensor

from .cases import Case, Check, Draw

# -- look_back -----------------------------------------------------------------------------------------------------


def _cumulative(found: list, s: int, pad: int) -> int:
    return pad if None in found[: s + 1] or -1 in found[: s + 1] else found[s]


def look_back(ids: Tensor, depth: int, pad: int, entry=_cumulative, at=lambda t, s: t - s) -> Tensor:
    """Wrong on purpose: `at` says where step s looks, `entry` what becomes of the ids found there, None before the start."""
    out = torch.empty(*ids.shape, depth, dtype=torch.int64)
    for b, line in enumerate(ids.tolist()):
        for t in range(len(line)):
            found = [line[at(t, s)] if 0 <= at(t, s) < len(line) else None for s in range(depth)]
            out[b, t] = torch.tensor([entry(found, s, pad) for s in range(depth)])
    return out


def look_back_cases(draw: Draw):
    batch, tokens, depth = draw.number(2, 3), draw.number(6, 8), 4
    pad, ids = draw.number(2, 9), 10 + draw.shuffled(batch * tokens).view(batch, tokens)  # all differ, none is 0 or pad
    yield Case("text alone", ids, depth, pad)
    image, padded, spoken = ids.clone(), ids.clone(), ids.clone()
    image[0, draw.number(1, tokens - 5)] = -1
    yield Case("an image token in the first sequence", image, depth, pad)
    padded[0, :2] = padded[1, 3] = padded[1, 1] = padded[-1, -1] = -1
    yield Case("padding on the left, and several image tokens", padded, depth, pad)
    spoken[:, 2] = pad
    yield Case("the pad's id as an ordinary token", spoken, depth, pad)
    yield Case("further back than there are tokens", image[:, :3], draw.number(5, 6), pad)
    yield Case("one step: the token itself", padded, 1, pad)
    yield Case("one token", ids[:1, :1], depth, pad)
    yield Case("dead tokens alone", torch.full((1, 3), -1), 2, pad)


def _looking(**wrong):
    return lambda ids, depth, pad: look_back(ids, depth, pad, **wrong)


LOOK_BACK_SUSPECTS = {
    "you blocked the dead token alone: what is older than it is blocked too":
        _looking(entry=lambda found, s, pad: pad if found[s] in (None, -1) else found[s]),
    "dead tokens are text in yours: -1 blocks itself and what is older":
        _looking(entry=lambda found, s, pad: pad if found[s] is None else found[s]),
    "a dead token looks back in yours: it is blocked itself, and with it everything older":
        _looking(entry=lambda found, s, pad: _cumulative(found[min(s, 1) :], max(s - 1, 0), pad)),
    "one dead token silenced the rest of its sequence: those after it still look back as far as to it":
        lambda ids, n, pad: torch.where((ids == -1).cumsum(1).unsqueeze(-1) > 0, pad, look_back(ids, n, pad)),
    "you blocked behind the pad's id as well: it is an ordinary token where it stands in the text":
        lambda ids, depth, pad: look_back(ids.masked_fill(ids == pad, -1), depth, pad),
    "you looked forwards: step s is the id s tokens before": _looking(at=lambda t, s: t + s),
    "your order is turned round: step 0, the token itself, comes first": lambda ids, n, pad: look_back(ids, n, pad).flip(-1),
    "you began with the token before: step 0 is the token itself": _looking(at=lambda t, s: t - s - 1),
    "before the start you took ids from the end of the sequence: nothing stands there, so it is pad":
        lambda ids, n, pad: look_back(ids, n, pad, at=lambda t, s: (t - s) % ids.shape[1]),
    "you wrote 0 where `pad` belongs": lambda ids, n, pad: look_back(ids, n, 0),
    "you left -1 where `pad` belongs": lambda ids, n, pad: look_back(ids, n, -1),
}

# -- table_offsets -------------------------------------------------------------------------------------------------


def _primes(start: int, number: int) -> Tensor:
    """The first primes from `start` on, int64."""
    return torch.tensor(list(islice((n for n in count(start) if all(n % d for d in range(2, int(n**0.5) + 1))), number)))


def table_offsets(primes: Tensor) -> Tensor:
    flat = primes.flatten().tolist()
    return torch.tensor([sum(flat[:column]) for column in range(len(flat))], dtype=torch.int64)  # [columns]


def offset_cases(draw: Draw):
    heads, start = draw.choice([2, 4, 5]), draw.number(5, 90)
    yield Case("three orders, the primes shuffled", _primes(start, 3 * heads)[draw.shuffled(3 * heads)].view(3, heads))
    for words, *shape in (("as many heads as orders", 3, 3), ("one order", 1, heads), ("one head", 3, 1), ("one column", 1, 1)):
        yield Case(words, _primes(start, shape[0] * shape[1]).view(shape))
    yield Case("primes as large as the released ones", _primes(16_000_000 + draw.number(0, 9000), 24).view(3, 8))


OFFSET_SUSPECTS = {
    "you counted the column's own prime in: the first column begins at row 0": lambda primes: primes.flatten().cumsum(0),
    "you went head by head: the columns go order by order, all heads of an order together":
        lambda primes: table_offsets(primes.T),
    "every order begins at row 0 in yours: all columns share one table":
        lambda primes: torch.cat([table_offsets(order) for order in primes]),
    "you put the size of the whole table at the end: it is no column's first row":
        lambda primes: torch.cat([table_offsets(primes), primes.sum().view(1)]),
    "you summed in float32, which holds whole numbers to 24 bits: stay with int64":
        lambda primes: (primes.flatten().float().cumsum(0) - primes.flatten().float()).long(),
}

# -- bucket_ids ----------------------------------------------------------------------------------------------------


def _own_hash(steps: list[int], factors: list[int], order: int) -> int:
    """H of an order: n = order + 2 products, put together by XOR. Python's numbers have no largest one."""
    value = 0
    for step in range(order + 2):
        value ^= steps[step] * factors[step]
    return value


def bucket_ids(steps, factors, primes, offsets, hashed=_own_hash, rest=lambda h, p: h % p) -> Tensor:
    """Wrong on purpose: `hashed` is the hash of an order, `rest` its remainder."""
    out = torch.empty(*steps.shape[:2], primes.numel(), dtype=torch.int64)              # [B, T, columns]
    for b, line in enumerate(steps.tolist()):
        for t, found in enumerate(line):
            rows = [rest(hashed(found, factors.tolist(), order), p) for order, heads in enumerate(primes.tolist()) for p in heads]
            out[b, t] = torch.tensor(rows) + offsets
    return out


def bucket_cases(draw: Draw):
    tokens, heads, start = draw.number(5, 7), draw.number(4, 5), draw.number(20, 60)
    primes, square = _primes(start, 3 * heads).view(3, heads), _primes(start, 9).view(3, 3)
    factors, steps = 2 * draw.shuffled(40)[:4] + 5, draw.integers(1, 60, 2, tokens, 4)
    yield Case("small numbers", steps, factors, primes, table_offsets(primes))
    yield Case("as many heads as orders", steps, factors, square, table_offsets(square))
    large, bound = _primes(16_000_000 + draw.number(0, 9000), 6).view(3, 2), (2**63 - 1) // 99_092 // 2
    wide, odd = draw.integers(50_000, 99_092, 2, tokens, 4), 2 * draw.integers(bound // 2, bound, 4) + 1
    yield Case("products of up to 63 bits, as released", wide, odd, large, table_offsets(large))
    yield Case("offsets that are not the sums", steps, factors, primes, 1000 * (1 + draw.shuffled(3 * heads)))
    yield Case("pairs alone, one head", steps[..., :2], factors[:2], primes[:1, :1], table_offsets(primes[:1, :1]))
    yield Case("id 0 at every step", torch.zeros(1, 2, 4, dtype=torch.int64), factors, primes, table_offsets(primes))
    signed = factors * torch.tensor([1, -1, 1, 1])
    yield Case("a hash below 0: its remainder is not", steps, signed, primes, table_offsets(primes))
    yield Case("one token", steps[:1, :1], factors, primes, table_offsets(primes))


def _with(hashed=_own_hash, **wrong):
    return lambda v, m, p, first: bucket_ids(v, m, p, first, hashed, **wrong)


BUCKET_SUSPECTS = {
    "you added the products: they are put together by XOR, `^`":
        _with(lambda v, m, order: sum(a * b for a, b in zip(v[: order + 2], m, strict=False))),
    "every order is made of step 0 and one other in yours: each takes over the hash of the order below":
        _with(lambda v, m, order: v[0] * m[0] ^ v[order + 1] * m[order + 1]),
    "your hashes are one product short: the first order takes two, steps 0 and 1": _with(lambda v, m, i: _own_hash(v, m, i - 1)),
    "all orders have the hash of the longest in yours": _with(lambda v, m, order: _own_hash(v, m, len(v) - 2)),
    "you began with the oldest step: the hash begins with step 0, the token itself":
        _with(lambda v, m, order: _own_hash(v[::-1], m[::-1], order)),
    "your columns go head by head: they go order by order, all heads of an order together":
        lambda v, m, p, first: bucket_ids(v, m, p, first * 0).unflatten(-1, p.shape).transpose(-1, -2).flatten(-2) + first,
    "the offsets are missing": lambda v, m, p, first: bucket_ids(v, m, p, first * 0),
    "you added the offset before the remainder: the remainder comes first":
        lambda v, m, p, first: (bucket_ids(v, m, p, first * 0) + first) % p.flatten(),
    "you computed the offsets anew: use those that are given": lambda v, m, p, first: bucket_ids(v, m, p, table_offsets(p)),
    "you took a remainder before the XOR: it comes last":
        lambda v, m, p, first: torch.stack([bucket_ids(v * m % q, m * 0 + 1, p, first, rest=lambda h, q: h)[..., i]
                                            for i, q in enumerate(p.flatten())], dim=-1),  # fmt: skip
    "the remainder is missing": _with(rest=lambda h, p: h),
    "your remainder of a number below 0 is below 0: a row lies in 0 … prime - 1, which `%` sees to":
        _with(rest=lambda h, p: abs(h) % p * (1 if h > 0 else -1)),
    "you multiplied in floating point, which holds 53 bits: the products need 63, stay with int64":
        lambda v, m, p, first: bucket_ids((v.double() * m.double()).long(), torch.ones_like(m), p, first),
}

# -- engram_gate ---------------------------------------------------------------------------------------------------


def _normed(x: Tensor, eps: float, over=-1) -> Tensor:
    return x / (x.square().mean(over, keepdim=True) + eps).sqrt()


def _agreement(x: Tensor, k: Tensor, weight: Tensor, eps: float, over=-1) -> Tensor:
    """z of every stream, [B, T, S]."""
    return (_normed(x, eps, over) * weight * _normed(k, eps, over)).sum(-1) / x.shape[-1] ** 0.5


def _opened(z: Tensor, least: float = 1e-6) -> Tensor:
    return 1 / (1 + (-torch.copysign(z.abs().clamp(min=least).sqrt(), z)).exp())


def engram_gate(streams: Tensor, keys: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float) -> Tensor:
    return _opened(_agreement(streams, keys, q_weight * k_weight, eps))


def _clear(draw: Draw, *shape: int, eps=1e-20, dtype=torch.float32):
    """Inputs for which no z is near 0, where float32 might give it the other sign."""
    weights = [1 + 0.3 * draw.normal(*shape[2:], dtype=dtype) for _ in range(2)]
    while True:
        x, k = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
        if _agreement(x, k, weights[0] * weights[1], eps).abs().min() > 0.01:
            return x, k, *weights


def gate_cases(draw: Draw):
    batch, tokens, width = draw.number(2, 3), draw.number(5, 6), draw.choice([8, 9, 12])
    x, k, *weights = _clear(draw, batch, tokens, 4, width)
    yield Case("four streams", x, k, *weights, 1e-20)
    yield Case("streams of different length", x * 10.0 ** torch.arange(4).view(4, 1), k, *weights, 1e-20)
    yield Case("long streams, short keys", 100 * x, k / 100, *weights, 1e-20)
    yield Case("a large eps", *_clear(draw, batch, 2, 4, width, eps=0.5), 0.5)
    ones, nothing, key = torch.ones(2, width), torch.ones(1, 2, 2, width), torch.zeros(1, 2, 2, width)
    nothing[0, 1] = 0
    yield Case("a token of zeros: z is +0", nothing, 1 + draw.uniform(1, 2, 2, width), ones, ones, 1e-20)
    at, signs = draw.number(1, width - 1), torch.tensor([[1.0, -1], [-1, 1]])
    slight = torch.eye(width)[0].repeat(1, 2, 2, 1)                                    # [1, 2, 2, D]
    slight[..., at], key[..., at] = 1e-8, signs
    yield Case("|z| below a millionth, of both signs", slight, key, ones, ones, 1e-20)
    yield Case("one token, one stream", *_clear(draw, 1, 1, 1, width), 1e-20)
    yield Case("float64", *_clear(draw, 1, 2, 3, width, dtype=torch.float64), 1e-20)


def _after(gate):
    return lambda x, k, q, w, eps: gate(_agreement(x, k, q * w, eps))


def _before(agreement):
    return lambda x, k, q, w, eps: _opened(agreement(x, k, q, w, eps))


GATE_SUSPECTS = {
    "the root is missing: yours is the sigmoid of z": _after(torch.sigmoid),
    "the sign of z is lost: the root of |z| gets it back": _after(lambda z: _opened(z.abs())),
    "your sign of 0 is 0: use copysign, which takes +0 for positive": _after(lambda z: torch.where(z == 0, 0.5, _opened(z))),
    "|z| is not held at 1e-6 or more": _after(lambda z: _opened(z, 0.0)),
    "you held the root at 1e-6 or more: it is |z| that is held, before the root": _after(lambda z: _opened(z, 1e-12)),
    "you held z at 1e-6 or more, which loses all that are below 0: hold |z|": _after(lambda z: _opened(z.clamp(min=1e-6))),
    "you gave all streams one gate: every stream has its own": _after(lambda z: _opened(z.mean(-1, keepdim=True).expand_as(z))),
    "the product is not divided by the root of D":
        _before(lambda x, k, q, w, eps: _agreement(x, k, q * w, eps) * x.shape[-1] ** 0.5),
    "you divided by the lengths: divide by the root of the mean square, which is length over root of D":
        _before(lambda x, k, q, w, eps: _agreement(x, k, q * w, eps) / x.shape[-1]),
    "the streams are not normed": _before(lambda x, k, q, w, eps: (x * q * w * _normed(k, eps)).sum(-1) / x.shape[-1] ** 0.5),
    "the keys are not normed": _before(lambda x, k, q, w, eps: (_normed(x, eps) * q * w * k).sum(-1) / x.shape[-1] ** 0.5),
    "you took one mean square for all streams of a token: every stream has its own":
        _before(lambda x, k, q, w, eps: _agreement(x, k, q * w, eps, (-2, -1))),
    "you weighted first and normed then: norm the plain streams and keys":
        _before(lambda x, k, q, w, eps: _agreement(x * q, k * w, 1, eps)),
    "k_weight is missing": _before(lambda x, k, q, w, eps: _agreement(x, k, q, eps)),
    "q_weight is missing": _before(lambda x, k, q, w, eps: _agreement(x, k, w, eps)),
    "you added the weights: multiply them": _before(lambda x, k, q, w, eps: _agreement(x, k, q + w, eps)),
    "eps is missing": _before(lambda x, k, q, w, eps: _agreement(x, k, q * w, 0.0)),
}

# -- engram_add ----------------------------------------------------------------------------------------------------


def engram_add(streams: Tensor, value: Tensor, gate: Tensor, live: Tensor) -> Tensor:
    out = streams.clone()
    for b, t, s in torch.cartesian_prod(*(torch.arange(size) for size in gate.shape)).tolist():
        if live[b, t]:
            out[b, t, s] += gate[b, t, s] * value[b, t]
    return out


def add_cases(draw: Draw):
    batch, tokens, width = draw.number(2, 3), draw.number(5, 7), draw.choice([8, 9])

    def inputs(batch, tokens, streams, dead, dtype=torch.float32):
        live = (draw.shuffled(batch * tokens) >= dead).view(batch, tokens)
        gate = draw.uniform(batch, tokens, streams, low=0.1, high=0.9).to(dtype)
        return draw.normal(batch, tokens, streams, width, dtype=dtype), draw.normal(batch, tokens, width, dtype=dtype), gate, live

    yield Case("four streams, some tokens dead", *inputs(batch, tokens, 4, tokens))
    yield Case("all tokens live", *inputs(batch, tokens, 4, 0))
    yield Case("as many streams as tokens", *inputs(batch, 4, 4, 3))
    yield Case("nothing live", *inputs(batch, tokens, 2, batch * tokens))
    yield Case("one token, one stream", *inputs(1, 1, 1, 0))
    yield Case("float64", *inputs(1, 4, 3, 2, torch.float64))


ADD_SUSPECTS = {
    "`live` changes nothing in yours: a dead token gets nothing": lambda x, v, g, live: engram_add(x, v, g, live | True),
    "you added to the dead tokens and left the live ones: `live` is exchanged": lambda x, v, g, live: engram_add(x, v, g, ~live),
    "you emptied the streams of dead tokens: they stay, only nothing is added":
        lambda x, v, g, live: engram_add(x, v, g, live) * live[..., None, None],
    "the streams are missing: the value is added to them": lambda x, v, g, live: engram_add(x * 0, v, g, live),
    "you mixed, (1 - gate) times the stream: the stream stays whole":
        lambda x, v, g, live: engram_add(x, v, g, live) - g.unsqueeze(-1) * live[..., None, None] * x,
    "you used the gate of the first stream for all": lambda x, v, g, live: engram_add(x, v, g[:, :, :1].expand_as(g), live),
    "only the first stream got the value: all of them do":
        lambda x, v, g, live: engram_add(x, v, g * (torch.arange(g.shape[2]) == 0), live),
    "stream s of a token got the value of token s: every stream of a token gets that token's value":
        lambda x, v, g, live: x + (g * live.unsqueeze(-1)).unsqueeze(-1) * v.unsqueeze(1),
}

CHECKS = {
    "look_back": Check(look_back, look_back_cases, LOOK_BACK_SUSPECTS, tolerance=0),
    "table_offsets": Check(table_offsets, offset_cases, OFFSET_SUSPECTS, tolerance=0),
    "bucket_ids": Check(bucket_ids, bucket_cases, BUCKET_SUSPECTS, tolerance=0),
    "engram_gate": Check(engram_gate, gate_cases, GATE_SUSPECTS),
    "engram_add": Check(engram_add, add_cases, ADD_SUSPECTS),
}

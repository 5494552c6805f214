"""2A. Checks of the four streams: Sinkhorn, the numbers of a site, collapse, write-back."""

from __future__ import annotations

import torch
from torch import Tensor

from .cases import Case, Check, Draw

# -- sinkhorn ------------------------------------------------------------------------------------------------------


def divided(mix: Tensor, dim: int, eps: float) -> Tensor:
    return mix / (mix.sum(dim, keepdim=True) + eps)


def balanced(mix: Tensor, steps: int, eps: float, first: int = -2) -> Tensor:
    """`steps` divisions in turn; the first is by the sums over index `first`."""
    for step in range(steps):
        mix = divided(mix, first if step % 2 == 0 else -3 - first, eps)
    return mix


def sinkhorn(logits: Tensor, rounds: int, eps: float) -> Tensor:
    """The softmax is the first row step, and a column step is the last: 2 · rounds steps, one of them the softmax."""
    return balanced(logits.softmax(-1) + eps, 2 * rounds - 1, eps)


def sinkhorn_cases(draw: Draw):
    batch, tokens, width = draw.number(2, 3), draw.number(5, 7), draw.choice([3, 5])
    confident = 5 * draw.normal(batch, tokens, 4, 4)
    yield Case("confident logits, few rounds", confident, draw.number(2, 4), 1e-6)
    yield Case("one round: softmax, then columns", confident, 1, 1e-6)
    yield Case("an eps that is large enough to see", 2 * draw.normal(batch, tokens, 4, 4), draw.choice([3, 4]), 0.05)
    yield Case("one matrix alone", 4 * draw.normal(width, width), 3, 1e-6)
    yield Case("twenty rounds", confident, 20, 1e-6)
    yield Case("equal logits: every share is the same", torch.full((1, 2, 4, 4), 0.75), 5, 1e-6)
    yield Case("very large logits", 300 * draw.normal(batch, 4, 4), draw.number(2, 4), 1e-6)
    yield Case("float64", 3 * draw.normal(1, 2, width, width, dtype=torch.float64), 2, 0.01)


def _plain_sums(logits, rounds, eps):
    return balanced(logits.softmax(-1) + eps, 2 * rounds - 1, 0)


def _from_the_front(logits, rounds, eps):
    mix = logits.softmax(1) + eps
    for step in range(2 * rounds - 1):
        mix = divided(mix, step % 2, eps)
    return mix


SINKHORN_SUSPECTS = {
    "rows and columns are exchanged in all of yours: the softmax goes over the last index, the last division over the one before":
        lambda x, n, eps: sinkhorn(x.mT, n, eps).mT,
    "you end on rows: one division too many, the columns come last": lambda x, n, eps: balanced(x.softmax(-1) + eps, 2 * n, eps),
    "you end on rows: the last column division is missing": lambda x, n, eps: balanced(x.softmax(-1) + eps, 2 * n - 2, eps),
    "your softmax goes over the first of the two indices: it goes over the last one":
        lambda x, n, eps: balanced(x.softmax(-2) + eps, 2 * n - 1, eps),
    "your softmax goes over all numbers of a matrix: every row has its own":
        lambda x, n, eps: balanced(x.flatten(-2).softmax(-1).view(x.shape) + eps, 2 * n - 1, eps),
    "you took exp of the logits: the softmax divides every row by its sum, and counts as the first row step":
        lambda x, n, eps: balanced(x.exp() + eps, 2 * n - 1, eps),
    "you divided the rows right after the softmax: the softmax has done that, columns are next":
        lambda x, n, eps: balanced(x.softmax(-1) + eps, 2 * n, eps, first=-1),
    "you stopped one round too early: `rounds` counts the round that begins with the softmax":
        lambda x, n, eps: sinkhorn(x, max(n - 1, 1), eps),
    "you went one round too far: the softmax and the first column division are a round already":
        lambda x, n, eps: sinkhorn(x, n + 1, eps),
    "you counted single divisions: a round is one of the rows and one of the columns":
        lambda x, n, eps: balanced(x.softmax(-1) + eps, n, eps),
    "you took 20 rounds, whatever is given: use the argument": lambda x, n, eps: sinkhorn(x, 20, eps),
    "eps is missing: it is added to the softmax and to every sum": lambda x, n, eps: sinkhorn(x, n, 0),
    "eps is missing in the sums: it is added to every sum that you divide by": _plain_sums,
    "eps is missing after the softmax: it is added there too, to every number":
        lambda x, n, eps: balanced(x.softmax(-1), 2 * n - 1, eps),
    "your eps is 1e-6, whatever is given: use the argument": lambda x, n, eps: sinkhorn(x, n, 1e-6),
    "you counted the dimensions from the front: a matrix is the last two, whatever stands before them": _from_the_front,
    "yours is the softmax alone: the divisions are missing": lambda x, n, eps: x.softmax(-1),
}

# -- site_coefficients ---------------------------------------------------------------------------------------------


def normed(numbers: Tensor, flat: Tensor, eps: float, dim=-1) -> Tensor:
    return numbers / (flat.square().mean(dim, keepdim=True) + eps).sqrt()


def site(streams, fn, base, scale, norm_eps, hc_eps, *, numbers=None, order="acm", twice=2.0, c_eps=0.0, squash=torch.sigmoid):
    """The numbers of a site. What is given by name is for the suspects."""
    width, flat, parts, start = streams.shape[-2], streams.flatten(-2), {}, 0
    numbers = normed(flat @ fn.mT, flat, norm_eps) if numbers is None else numbers     # [B, T, K]
    for name in order:
        own = slice(start, start := start + (width * width if name == "m" else width))
        parts[name] = numbers[..., own] * scale["acm".index(name)] + base[own]
    return squash(parts["a"]) + hc_eps, twice * squash(parts["c"]) + c_eps, parts["m"].unflatten(-1, (width, width))


def site_cases(draw: Draw):
    batch, tokens, width = draw.number(2, 3), draw.choice([5, 6]), draw.choice([7, 8, 9])

    def inputs(*shape, dtype=torch.float32):
        inner, numbers = shape[-2] * shape[-1], 2 * shape[-2] + shape[-2] ** 2
        sizes = torch.tensor([0.5, 3.0, 1.0, 0.2], dtype=dtype)[: shape[-2], None]     # [S, 1]: no stream is like another
        fn, base = draw.normal(numbers, inner, dtype=dtype) * 1.5 * inner**-0.5, draw.normal(numbers, dtype=dtype)
        scale = torch.tensor([0.5, 0.9, 1.6], dtype=dtype)[draw.shuffled(3)]
        return [draw.normal(*shape, dtype=dtype) * sizes, fn, base, scale]

    streams, *site_of = inputs(batch, tokens, 4, width)
    yield Case("four unlike streams", streams, *site_of, 1e-20, 1e-6)
    yield Case("a hc_eps that is large enough to see", streams, *site_of, 1e-20, 0.04)
    yield Case("a norm_eps that is large enough to see", streams, *site_of, 0.8, 1e-6)
    yield Case("streams so small that norm_eps decides", streams * 1e-10, *site_of, 1e-20, 1e-6)
    yield Case("three streams", *inputs(batch, tokens, 3, width), 1e-20, 1e-6)
    zeros = streams.clone()
    zeros[0, 1] = 0
    yield Case("a token of zeros among others", zeros, *site_of, 1e-20, 1e-6)
    yield Case("one token in float64", *inputs(1, 1, 4, width, dtype=torch.float64), 1e-20, 1e-6)


def _product(x, fn):
    return x.flatten(-2) @ fn.mT                                                       # [B, T, K]


def _per_stream(x, fn, base, scale, norm_eps, hc_eps):
    return site(x, fn, base, scale, norm_eps, hc_eps, numbers=_product(normed(x, x, norm_eps), fn))


def _whole_tensor(x, fn, base, scale, norm_eps, hc_eps):
    return site(x, fn, base, scale, norm_eps, hc_eps, numbers=_product(x, fn) / (x.square().mean() + norm_eps).sqrt())


def _own_size(x, fn, base, scale, norm_eps, hc_eps):
    numbers = _product(x, fn)
    return site(x, fn, base, scale, norm_eps, hc_eps, numbers=normed(numbers, numbers, norm_eps))


def _sum_of_squares(x, fn, base, scale, norm_eps, hc_eps):
    flat = x.flatten(-2) * x[0, 0].numel() ** 0.5
    return site(x, fn, base, scale, norm_eps, hc_eps, numbers=normed(_product(x, fn), flat, norm_eps))


def _no_root(x, fn, base, scale, norm_eps, hc_eps):
    return site(x, fn, base, scale, norm_eps, hc_eps, numbers=_product(x, fn) / (x.square().mean((-2, -1)) + norm_eps)[..., None])


def _with_base_scaled(x, fn, base, scale, norm_eps, hc_eps):
    width = x.shape[-2]
    return site(x, fn, base * scale.repeat_interleave(torch.tensor([width, width, width**2])), scale, norm_eps, hc_eps)


def _changed(change):
    """A suspect that computes the right numbers and changes a, c, m afterwards."""
    return lambda x, fn, base, scale, e, h: change(*site(x, fn, base, scale, e, h))


SITE_SUSPECTS = {
    "you normed every stream by itself: a token has one mean square, over all its S·D numbers": _per_stream,
    "you used one mean square for the whole tensor: every token has its own": _whole_tensor,
    "you normed the K numbers by their own size: the mean square is that of the streams": _own_size,
    "you divided by the root of the sum of the squares: it has to be their mean": _sum_of_squares,
    "you divided by the mean square itself: its root is missing": _no_root,
    "the norm is missing: divide what fn gives by the root of the mean square":
        lambda x, fn, base, scale, e, h: site(x, fn, base, scale, e, h, numbers=_product(x, fn)),
    "you laid the streams together channel by channel: they lie end to end, stream 0 first":
        lambda x, fn, base, scale, e, h: site(x.mT.flatten(-2).view(x.shape), fn, base, scale, e, h),
    "the 2 of c is missing: at 0 a site has to write with strength 1":
        lambda x, fn, base, scale, e, h: site(x, fn, base, scale, e, h, twice=1.0),
    "you added hc_eps to c: only a gets it": lambda x, fn, base, scale, e, h: site(x, fn, base, scale, e, h, c_eps=h),
    "hc_eps is missing: it is added to a": lambda x, fn, base, scale, e, h: site(x, fn, base, scale, e, 0),
    "norm_eps is missing: it is added to the mean square": lambda x, fn, base, scale, e, h: site(x, fn, base, scale, 0, h),
    "norm_eps and hc_eps are exchanged": lambda x, fn, base, scale, e, h: site(x, fn, base, scale, h, e),
    "a and c are exchanged: of the K numbers the first S make a, the next S make c":
        lambda x, fn, base, scale, e, h: site(x, fn, base, scale, e, h, order="cam"),
    "you took the numbers of the mix first: they are the last S·S":
        lambda x, fn, base, scale, e, h: site(x, fn, base, scale, e, h, order="mac"),
    "you used scale[0] for all three: a, c and m have one number each":
        lambda x, fn, base, scale, e, h: site(x, fn, base, scale[[0, 0, 0]], e, h),
    "the scale is missing": lambda x, fn, base, scale, e, h: site(x, fn, base, torch.ones_like(scale), e, h),
    "the base is missing": lambda x, fn, base, scale, e, h: site(x, fn, torch.zeros_like(base), scale, e, h),
    "you scaled the base too: the scale multiplies the numbers, then the base is added": _with_base_scaled,
    "the two indices of m are exchanged: its numbers fill a matrix row by row": _changed(lambda a, c, m: (a, c, m.mT)),
    "your m has been through a softmax: it stays as logits here, `sinkhorn` does the rest":
        _changed(lambda a, c, m: (a, c, m.softmax(-1))),
    "your m has been through `sinkhorn`: it stays as logits here": _changed(lambda a, c, m: (a, c, sinkhorn(m, 20, 1e-6))),
    "you made the a of a token sum to 1: they are independent of each other":
        _changed(lambda a, c, m: (a / a.sum(-1, keepdim=True), c, m)),
    "the sigmoid is missing": lambda x, fn, base, scale, e, h: site(x, fn, base, scale, e, h, squash=lambda numbers: numbers),
}

# -- collapse ------------------------------------------------------------------------------------------------------


def collapse(streams: Tensor, a: Tensor) -> Tensor:
    return sum(streams[:, :, i] * a[:, :, i, None] for i in range(streams.shape[2]))   # [B, T, D]


def collapse_cases(draw: Draw):
    batch, tokens, width = draw.number(2, 3), draw.choice([5, 6]), draw.choice([7, 8, 9])
    sizes = torch.tensor([1.0, 3.0, 0.5, 2.0])
    streams, a = draw.normal(batch, tokens, 4, width) * sizes[:, None], draw.uniform(batch, tokens, 4, low=0.1)
    yield Case("four unlike streams", streams, a)
    yield Case("weights that sum to far more than 1", streams, 2 + a)
    yield Case("the first mix, (1, 0, 0, 0)", streams, torch.eye(4)[0].expand(batch, tokens, 4))
    yield Case("three streams, as many tokens", draw.normal(batch, 3, 3, width), draw.uniform(batch, 3, 3))
    yield Case("as many channels as streams", draw.normal(batch, tokens, 4, 4), a)
    yield Case("one token in float64", draw.normal(1, 1, 4, width, dtype=torch.float64), a[:1, :1].double())


COLLAPSE_SUSPECTS = {
    "the weights are missing: yours is the plain sum of the streams": lambda x, a: x.sum(2),
    "the weights are missing: yours is the mean of the streams": lambda x, a: x.mean(2),
    "you made the weights sum to 1: they are used as they are": lambda x, a: collapse(x, a / a.sum(-1, keepdim=True)),
    "you took a softmax of the weights: they are used as they are": lambda x, a: collapse(x, a.softmax(-1)),
    "the sum over the streams is missing": lambda x, a: x * a[..., None],
    "yours is the first stream alone": lambda x, a: x[:, :, 0],
    "you used the weights of the first token for all: every token has its own": lambda x, a: collapse(x, a[:, :1].expand_as(a)),
    "you used the weights of the token before: handing on goes from site to site, not from token to token":
        lambda x, a: collapse(x, a.roll(1, 1)),
}

# -- write_back ----------------------------------------------------------------------------------------------------


def write_back(streams: Tensor, y: Tensor, c: Tensor, b: Tensor) -> Tensor:
    out = []
    for k in range(streams.shape[2]):
        mixed = sum(b[:, :, j, k, None] * streams[:, :, j] for j in range(streams.shape[2]))  # [B, T, D]
        out.append(c[:, :, k, None] * y + mixed)
    return torch.stack(out, 2)                                                         # [B, T, S, D]


def write_cases(draw: Draw):
    batch, tokens, width = draw.number(2, 3), draw.choice([5, 6]), draw.choice([7, 8, 9])
    sizes = torch.tensor([1.0, 3.0, 0.5, 2.0])
    streams, y = draw.normal(batch, tokens, 4, width) * sizes[:, None], 2 * draw.normal(batch, tokens, width)
    c = draw.uniform(batch, tokens, 4, low=0.2, high=1.8)
    b = sinkhorn(5 * draw.normal(batch, tokens, 4, 4), 4, 1e-6)
    yield Case("four unlike streams, a confident mix", streams, y, c, b)
    turn = torch.eye(4)[:, [3, 0, 1, 2]].expand(batch, tokens, 4, 4)                   # b[0, 1] = b[1, 2] = b[2, 3] = b[3, 0] = 1
    words = "nothing written; stream 0 becomes 1, 1 becomes 2, 2 becomes 3, 3 becomes 0"
    yield Case(words, streams, y, torch.zeros_like(c), turn)
    yield Case("streams of zeros: only y is written", torch.zeros_like(streams), y, c, b)
    three, uneven = draw.normal(batch, 3, 3, width), draw.uniform(batch, 3, 3, 3, low=0.1, high=2.0)
    yield Case("three streams, as many tokens, sums other than 1", three, y[:, :3], c[:, :3, :3], uneven)
    yield Case("as many channels as streams", draw.normal(batch, tokens, 4, 4), y[..., :4], c, b)
    yield Case("one token in float64", streams[:1, :1].double(), y[:1, :1].double(), c[:1, :1].double(), b[:1, :1].double())


WRITE_SUSPECTS = {
    "you summed over the second index of b: b_jk is what old stream j gives to new stream k, so the first index is summed":
        lambda x, y, c, b: write_back(x, y, c, b.mT),
    "y is missing": lambda x, y, c, b: write_back(x, 0 * y, c, b),
    "the mixed streams are missing": lambda x, y, c, b: write_back(0 * x, y, c, b),
    "you did not mix: every new stream is its old one plus c times y": lambda x, y, c, b: x + c[..., None] * y.unsqueeze(2),
    "you added the old streams once more: the mix replaces them": lambda x, y, c, b: x + write_back(x, y, c, b),
    "c is missing: every stream takes y with its own strength": lambda x, y, c, b: write_back(x, y, torch.ones_like(c), b),
    "you wrote y before mixing: only the old streams are mixed":
        lambda x, y, c, b: write_back(x + c[..., None] * y.unsqueeze(2), 0 * y, c, b),
    "c multiplies the mixed streams in yours: it belongs to y alone":
        lambda x, y, c, b: c[..., None] * write_back(x, y, torch.ones_like(c), b),
    "you wrote y into the first stream alone": lambda x, y, c, b: write_back(x, y, c * (torch.arange(c.shape[-1]) == 0), b),
    "you used the mix of the first token for all: every token has its own":
        lambda x, y, c, b: write_back(x, y, c, b[:, :1].expand_as(b)),
    "you took a softmax of b: it is balanced already": lambda x, y, c, b: write_back(x, y, c, b.softmax(-1)),
    "you balanced b again: it is used as it is": lambda x, y, c, b: write_back(x, y, c, b / b.sum(-2, keepdim=True)),
}

CHECKS = {
    "sinkhorn": Check(sinkhorn, sinkhorn_cases, SINKHORN_SUSPECTS),
    "site_coefficients": Check(site, site_cases, SITE_SUSPECTS),
    "collapse": Check(collapse, collapse_cases, COLLAPSE_SUSPECTS),
    "write_back": Check(write_back, write_cases, WRITE_SUSPECTS),
}

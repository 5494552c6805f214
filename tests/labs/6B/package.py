"""The package's own functions under the lab's signatures."""

from functools import partial
from itertools import product
from types import SimpleNamespace
from unittest.mock import patch

import torch
from torch.nn.functional import linear

from flash41 import dspark


def read_out(hidden, token, norm, head, markov, proj):
    """`Drafter.read_out` on one place, hidden [B, D]: the released order of head, Markov term and confidence."""
    last = SimpleNamespace(norm=norm, markov_head=markov, confidence_head={"proj": proj})
    model = SimpleNamespace(mtp=[last], config=None, dtype=hidden.dtype, head=SimpleNamespace(weight=head))
    return dspark.Drafter(model).read_out(hidden.unsqueeze(1), token, 0.0, None)


def markov_logits(logits, token, embed, head):
    """The model's head is the identity here, so that the hidden vectors are the logits themselves."""
    markov = {"embed": SimpleNamespace(weight=embed), "head": partial(linear, weight=head)}
    same = torch.eye(logits.shape[1], dtype=logits.dtype)
    return read_out(logits, token, lambda x: x, same, markov, lambda x: x[..., :1]).logits[:, 0]


def confidence(hidden, embedded, proj):
    """One Markov vector per sequence; a norm that would spoil the numbers stands between hidden vector and head."""
    markov = {"embed": SimpleNamespace(weight=embedded), "head": lambda x: torch.zeros(len(x), 2)}
    head = torch.zeros(2, hidden.shape[1], dtype=hidden.dtype)
    token, weigh = torch.arange(len(hidden)), partial(linear, weight=proj)
    return read_out(hidden, token, lambda x: 0 * x, head, markov, weigh).confidence[:, 0]


def verified(p, q, tokens, chance, drawn):
    """`verify` on probabilities in place of logits, on given dice; `drawn` receives what the token after is drawn from."""
    def draw(weights, *_, **__):
        drawn.append(weights)
        return weights.argmax(-1, keepdim=True)

    p = torch.cat([p, p[:, -1:]], dim=1)                               # [B, 1 + k, V]: what follows the last draft, too
    with (
        patch.object(dspark, "probabilities", lambda given, _: given),
        patch.object(torch, "rand", lambda *_, **__: chance),
        patch.object(torch, "multinomial", draw),
    ):
        return dspark.verify(p, dspark.Draft(tokens, q, None), 1.0)[0]


def accept(p, q, tokens, chance):
    return verified(p, q, tokens, chance, [])


def leftover(p, q):
    """What `verify` draws from once it has refused a draft: no ratio is above an infinite chance."""
    drawn, tokens = [], q.argmax(-1, keepdim=True)
    kept = verified(p.unsqueeze(1), q.unsqueeze(1), tokens, torch.full(tokens.shape, torch.inf), drawn)
    assert not kept.any()
    return drawn[0] / drawn[0].sum(-1, keepdim=True)                   # multinomial does that


def tokens_per_pass(rates):
    """The mean of kept + 1 over everything that `verify` can meet: each draft stands (chance below p / q) or does not."""
    count = len(rates)
    if not count:
        return 1.0
    stands = torch.tensor(list(product([True, False], repeat=count)))  # [2 ** k, k]
    rate = torch.tensor(rates, dtype=torch.float64)
    weight = torch.where(stands, rate, 1 - rate).prod(1)               # [2 ** k]
    half = torch.tensor([0.5, 0.5]).expand(*stands.shape, 2)
    sure = torch.tensor([1.0, 0.0]).expand(*stands.shape, 2)
    chance = torch.where(stands, 0.25, 0.75)
    kept = verified(half, sure, torch.zeros_like(stands, dtype=torch.int64), chance, [])
    return float((weight * (kept + 1)).sum())

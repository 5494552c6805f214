"""Right answers that compute in float64 and leave the result there."""

import torch


def markov_logits(logits, token, embed, head):
    return logits.double() + torch.nn.functional.linear(torch.index_select(embed, 0, token).double(), head.double())


def confidence(hidden, embedded, proj):
    both = torch.cat([hidden.double(), embedded.double()], dim=1)
    return (both * proj.double()).sum(dim=1)


def accept(p, q, tokens, chance):
    p, q = (torch.take_along_dim(t.double(), tokens[..., None], dim=-1)[..., 0] for t in (p, q))
    stands = chance.double() < p / q
    length = torch.arange(1, tokens.shape[1] + 1)
    return (stands.cumsum(1) == length).sum(1)


def leftover(p, q):
    p, q = p.double(), q.double()
    rest = torch.maximum(p, q) - q
    rest = torch.where((rest == 0).all(-1, keepdim=True), p, rest)
    return rest / rest.sum(-1, keepdim=True)


def tokens_per_pass(rates):
    expected = torch.ones((), dtype=torch.float64)
    for rate in reversed(rates):
        expected = 1 + rate * expected
    return expected

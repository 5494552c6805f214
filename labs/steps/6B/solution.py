import torch


def markov_logits(logits, token, embed, head):
    return logits + embed[token] @ head.mT                             # [B, V]


def confidence(hidden, embedded, proj):
    return (torch.cat([hidden, embedded], dim=-1) @ proj.mT).squeeze(-1)  # [B]


def accept(p, q, tokens, chance):
    at = tokens.unsqueeze(-1)                                          # [B, k, 1]
    ratio = (p.gather(-1, at) / q.gather(-1, at)).squeeze(-1)          # [B, k]
    return (chance < ratio).long().cumprod(1).sum(1)                   # [B]


def leftover(p, q):
    rest = (p - q).clamp(min=0)                                        # [B, V]
    total = rest.sum(-1, keepdim=True)                                 # [B, 1]
    return torch.where(total > 0, rest / total, p)


def tokens_per_pass(rates):
    expected, kept = 1.0, 1.0
    for rate in rates:
        kept *= rate
        expected += kept
    return expected

"""Right answers with loops over every index."""

import torch


def markov_logits(logits, token, embed, head):
    out = torch.zeros_like(logits)
    for b in range(logits.shape[0]):
        for v in range(logits.shape[1]):
            term = 0.0
            for r in range(embed.shape[1]):
                term += float(embed[token[b], r]) * float(head[v, r])
            out[b, v] = float(logits[b, v]) + term
    return out


def confidence(hidden, embedded, proj):
    out = torch.zeros(hidden.shape[0], dtype=hidden.dtype)
    for b in range(hidden.shape[0]):
        numbers = hidden[b].tolist() + embedded[b].tolist()
        out[b] = sum(x * w for x, w in zip(numbers, proj[0].tolist(), strict=True))
    return out


def accept(p, q, tokens, chance):
    kept = torch.zeros(tokens.shape[0], dtype=torch.int64)
    for b in range(tokens.shape[0]):
        for i in range(tokens.shape[1]):
            drafted = int(tokens[b, i])
            if float(chance[b, i]) >= float(p[b, i, drafted]) / float(q[b, i, drafted]):
                break
            kept[b] += 1
    return kept


def leftover(p, q):
    out = torch.zeros_like(p)
    for b in range(p.shape[0]):
        rest = [max(float(x) - float(y), 0.0) for x, y in zip(p[b], q[b], strict=True)]
        total = sum(rest)
        for v in range(p.shape[1]):
            out[b, v] = rest[v] / total if total > 0 else p[b, v]
    return out


def tokens_per_pass(rates):
    """Every way in which a pass can end, times its chance."""
    expected, reached = 0.0, 1.0
    for kept, rate in enumerate(rates):
        expected += reached * (1 - rate) * (kept + 1)
        reached *= rate
    return expected + reached * (len(rates) + 1)

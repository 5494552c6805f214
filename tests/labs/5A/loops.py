"""Right answers number by number, in plain Python."""

import math

import torch


def score(z):
    return math.sqrt(max(z, 0) + math.log1p(math.exp(-abs(z))))


def route(x, weight, bias, count, scale):
    experts, weights = [], []
    for token in x.tolist():
        scores = [score(sum(a * b for a, b in zip(token, row, strict=True))) for row in weight.tolist()]
        left = {e: s + b for e, (s, b) in enumerate(zip(scores, bias.tolist(), strict=True))}
        chosen = []
        for _ in range(count):
            chosen.append(max(left, key=left.get))
            del left[chosen[-1]]
        chosen.sort()
        total = sum(scores[e] for e in chosen) if count > 1 else 1
        experts.append(chosen)
        weights.append([scores[e] / total * scale for e in chosen])
    return torch.tensor(experts), torch.tensor(weights)


def product(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def silu(g):
    return g / (1 + math.exp(-g)) if g > -700 else 0.0


def swiglu(x, w1, w2, w3, limit, weight=None):
    out = []
    for at, token in enumerate(x.tolist()):
        hidden = []
        for gate, up in zip(product(w1.tolist(), token), product(w3.tolist(), token), strict=True):
            gate = min(gate, limit)
            up = max(-limit, min(limit, up))
            hidden.append(silu(gate) * up * (1 if weight is None else float(weight[at, 0])))
        out.append(product(w2.tolist(), hidden))
    return torch.tensor(out, dtype=x.dtype)


def mix_experts(x, experts, weights, matrices, limit):
    out = torch.zeros_like(x)
    for token in range(x.shape[0]):
        for slot in range(experts.shape[1]):
            w1, w2, w3 = matrices[int(experts[token, slot])]
            own = slice(token, token + 1)
            out[own] += weights[token, slot] * swiglu(x[own], w1, w2, w3, limit)  # after w2: the same in plain floats
    return out


def expert_bytes(hidden, inner):
    total = 0
    for outputs, inputs in ((inner, hidden), (hidden, inner), (inner, hidden)):
        for _ in range(inputs // 32):  # 32 codes of half a byte and their scale, for every output
            total += outputs * 17
    return total

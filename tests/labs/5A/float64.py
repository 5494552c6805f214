"""Right answers that compute in float64 and leave the result there."""

import torch


def route(x, weight, bias, count, scale):
    scores = torch.nn.functional.softplus(x.double() @ weight.double().mT) ** 0.5
    _, order = (scores + bias.double()).sort(dim=-1, descending=True)
    experts = order[:, :count].sort(-1)[0]
    weights = torch.take_along_dim(scores, experts, -1)
    if count != 1:
        weights = torch.nn.functional.normalize(weights, p=1, dim=-1, eps=0)
    return experts, weights * scale


def swiglu(x, w1, w2, w3, limit, weight=None):
    x, w1, w2, w3 = (t.double() for t in (x, w1, w2, w3))
    gate = torch.nn.functional.linear(x, w1)
    gate = gate - (gate - limit).relu()
    up = torch.nn.functional.hardtanh(torch.nn.functional.linear(x, w3), -limit, limit)
    hidden = torch.nn.functional.silu(gate) * up
    if weight is not None:
        hidden = weight.double() * hidden
    return torch.nn.functional.linear(hidden, w2)


def mix_experts(x, experts, weights, matrices, limit):
    token = torch.arange(len(x)).repeat_interleave(experts.shape[1])                   # [n * k]
    order = experts.flatten().argsort(stable=True)
    out = torch.zeros_like(x, dtype=torch.float64)
    for index in experts.unique().tolist():
        own = order[experts.flatten()[order] == index]                                 # pairs of token and slot
        answers = swiglu(x[token[own]], *matrices[index], limit, weights.flatten()[own, None])
        out.index_add_(0, token[own], answers)
    return out


def expert_bytes(hidden, inner):
    return round(3 * float(hidden) * float(inner) * 4.25 / 8)

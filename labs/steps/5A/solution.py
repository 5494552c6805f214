import torch
import torch.nn.functional as F


def route(x, weight, bias, count, scale):
    scores = F.softplus(x @ weight.mT).sqrt()                          # [n, E]
    experts = (scores + bias).topk(count, dim=-1).indices.sort(dim=-1).values  # [n, k]
    chosen = scores.gather(-1, experts)                                # [n, k]
    if count > 1:
        chosen = chosen / (chosen.sum(-1, keepdim=True) + 1e-20)
    return experts, chosen * scale


def swiglu(x, w1, w2, w3, limit, weight=None):
    gate = (x @ w1.mT).clamp(max=limit)                                # [n, I]
    up = (x @ w3.mT).clamp(-limit, limit)                              # [n, I]
    hidden = F.silu(gate) * up
    if weight is not None:
        hidden = hidden * weight
    return hidden @ w2.mT                                              # [n, D]


def mix_experts(x, experts, weights, matrices, limit):
    out = torch.zeros_like(x)                                          # [n, D]
    for index, (w1, w2, w3) in enumerate(matrices):
        token, slot = (experts == index).nonzero(as_tuple=True)        # [m] each: who chose this expert
        if len(token):
            out[token] += swiglu(x[token], w1, w2, w3, limit, weights[token, slot].unsqueeze(-1))
    return out


def expert_bytes(hidden, inner):
    numbers = 3 * hidden * inner
    return numbers // 2 + numbers // 32

"""The package's own functions under the lab's signatures."""

import torch

from flash41 import moe
from flash41.config import Config


def route(x, weight, bias, count, scale):
    router = moe.Router(weight.shape[1], weight.shape[0], count, scale, dtype=x.dtype)
    with torch.no_grad():
        router.weight.copy_(weight)
        router.bias.copy_(bias)
        router.bias_vl.fill_(torch.nan)  # text only
        return router(x)


def swiglu(x, w1, w2, w3, limit, weight=None):
    return moe.swiglu(x, w1, w2, w3, limit, weight)


def expert(w1, w2, w3, limit):
    made = moe.Expert(w1.shape[1], w1.shape[0], limit, dtype=w1.dtype)
    made.load_state_dict({"w1.weight": w1, "w2.weight": w2, "w3.weight": w3})
    return made


@torch.no_grad()
def mix_experts(x, experts, weights, matrices, limit):
    block = moe.MoE(Config.tiny(), 2, 1)
    block.experts = torch.nn.ModuleList(expert(*own, limit) for own in matrices)
    return block.chosen_experts(x, experts, weights)


@torch.no_grad()
def expert_bytes(hidden, inner):
    """Read off packed experts; a large one would take a second, and bytes grow with outputs times inputs."""
    if hidden * inner > 2**20:
        return expert_bytes(hidden // 16, inner // 24) * 16 * 24
    width = torch.zeros(inner, hidden), torch.zeros(hidden, inner), torch.zeros(inner, hidden)
    return moe.PackedExpert.of(expert(*width, 10.0)).nbytes

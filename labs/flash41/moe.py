"""5A. Mixture of experts: every token goes to its best few experts and to one shared expert.

    s = sqrt(softplus(W_g x));  the k experts with the largest s + b
    weight = s / (sum of chosen s + 1e-20) * routed_scaling_factor;  with k = 1, s * routed_scaling_factor
    expert(x) = W_2( weight * silu(min(W_1 x, limit)) * clamp(W_3 x, ±limit) )

b only steers the choice: `bias` for text, `bias_vl` for image tokens. Sources: report §2.5 for the router; official MoE code.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import Config
from .formats import E2M1_E8M0


class Router(nn.Module):
    """Scores of all experts and the choice, in float32 or wider."""

    def __init__(self, hidden: int, experts: int, chosen: int, scale: float, **kw):
        super().__init__()
        self.chosen, self.scale = chosen, scale
        self.weight = nn.Parameter(torch.empty(experts, hidden, **kw))
        wide = kw | {"dtype": torch.promote_types(kw.get("dtype") or torch.float32, torch.float32)}
        self.bias = nn.Parameter(torch.empty(experts, **wide))
        self.bias_vl = nn.Parameter(torch.empty(experts, **wide))

    def forward(self, x: Tensor, image: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Chosen experts [n, k], ascending, and their weights.  x [n, D]; image [n] bool marks image tokens."""
        wide = self.bias.dtype
        s = F.softplus(x.to(wide) @ self.weight.to(wide).mT).sqrt()    # [n, experts]
        bias = self.bias if image is None else torch.where(image.unsqueeze(-1), self.bias_vl, self.bias)
        experts = (s + bias).topk(self.chosen, dim=-1).indices.sort(dim=-1).values  # [n, k]
        weights = s.gather(-1, experts)                                # [n, k]
        if self.chosen > 1:  # a single expert keeps its own score
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        return experts, weights * self.scale


class Expert(nn.Module):
    """One gated expert.  Forward: x [n, D], weight [n, 1] or None -> [n, D]."""

    def __init__(self, hidden: int, width: int, limit: float, **kw):
        super().__init__()
        self.limit = limit
        self.w1 = nn.Linear(hidden, width, bias=False, **kw)
        self.w2 = nn.Linear(width, hidden, bias=False, **kw)
        self.w3 = nn.Linear(hidden, width, bias=False, **kw)

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        return swiglu(x, self.w1.weight, self.w2.weight, self.w3.weight, self.limit, weight)


class MoE(nn.Module):
    """Routed experts and the shared one.  Forward: x [B, T, D], image [B, T] -> [B, T, D]."""

    def __init__(self, config: Config, experts: int, chosen: int, **kw):
        super().__init__()
        shape = (config.hidden_size, config.moe_intermediate_size, config.swiglu_limit)
        self.gate = Router(config.hidden_size, experts, chosen, config.routed_scaling_factor, **kw)
        self.experts = nn.ModuleList(Expert(*shape, **kw) for _ in range(experts))
        self.shared_experts = Expert(*shape, **kw)

    def forward(self, x: Tensor, image: Tensor | None = None, plain: bool = False, note=lambda name, value: None) -> Tensor:
        flat = x.flatten(0, 1)                                         # [B * T, D]
        experts, weights = self.gate(flat, None if image is None else image.flatten())
        note("indices", experts.view(*x.shape[:2], -1))
        note("weights", weights.view(*x.shape[:2], -1))
        mix = self.all_experts if plain else self.chosen_experts
        wide = torch.promote_types(x.dtype, torch.float32)
        return (mix(flat, experts, weights).to(wide) + self.shared_experts(flat).to(wide)).to(x.dtype).view(x.shape)

    def all_experts(self, x: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        """Plain: every expert on every token; weight 0 where it was not chosen.  x [n, D] -> [n, D]."""
        dense = weights.new_zeros(len(x), len(self.experts)).scatter(-1, experts, weights)  # [n, experts]
        wide = weights.dtype
        return torch.stack([expert(x, dense[:, i : i + 1]).to(wide) for i, expert in enumerate(self.experts)]).sum(0)

    def chosen_experts(self, x: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        """Fast: every expert on its own tokens.  x [n, D] -> [n, D]."""
        out = weights.new_zeros(x.shape)
        if len(x) == 1:  # one token: no sorting, no scattering
            for slot, index in enumerate(experts[0].tolist()):
                out += self.experts[index](x, weights[:, slot : slot + 1])
            return out
        order = experts.flatten().argsort(stable=True)                 # [n * k]
        token, weight = order // experts.shape[1], weights.flatten()[order].unsqueeze(-1)
        counts = experts.flatten().bincount(minlength=len(self.experts)).tolist()
        parts = (t.split(counts) for t in (token, x.index_select(0, token), weight))
        for expert, tokens, own, w in zip(self.experts, *parts, strict=True):
            if len(tokens):
                out.index_add_(0, tokens, expert(own, w).to(out.dtype))
        return out


class PackedExpert(nn.Module):
    """An expert whose matrices lie in FP4, one E8M0 scale per 32 inputs; decoded when they are used."""

    def __init__(self, limit: float, dtype: torch.dtype, **packed: tuple[Tensor, Tensor]):
        super().__init__()
        self.limit, self.dtype = limit, dtype
        for name, (codes, scales) in packed.items():
            self.register_buffer(f"{name}_codes", codes)
            self.register_buffer(f"{name}_scales", scales)

    @classmethod
    def of(cls, expert: Expert) -> PackedExpert:
        """Pack a float expert: its weights are rounded to the format here, once."""
        packed = {name: E2M1_E8M0.encode(getattr(expert, name).weight.detach()) for name in ("w1", "w2", "w3")}
        return cls(expert.limit, expert.w1.weight.dtype, **packed)

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales: 18,800,640 at the released size."""
        return sum(buffer.nbytes for buffer in self.buffers())

    def matrix(self, name: str) -> Tensor:
        """One decoded matrix in the expert's dtype."""
        return E2M1_E8M0.decode(getattr(self, f"{name}_codes"), getattr(self, f"{name}_scales")).to(self.dtype)

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        return swiglu(x, *(self.matrix(name) for name in ("w1", "w2", "w3")), self.limit, weight)


def swiglu(x: Tensor, w1: Tensor, w2: Tensor, w3: Tensor, limit: float, weight: Tensor | None = None) -> Tensor:
    """W_2(weight * silu(min(W_1 x, limit)) * clamp(W_3 x, ±limit)), products in x's dtype, the rest in float32 or wider."""
    wide = torch.promote_types(x.dtype, torch.float32)
    gate = (x @ w1.mT).to(wide).clamp_(max=limit)                      # [n, width]
    up = (x @ w3.mT).to(wide).clamp_(-limit, limit)                    # [n, width]
    hidden = F.silu(gate).mul_(up)
    return (hidden if weight is None else hidden.mul_(weight)).to(x.dtype) @ w2.mT

"""2A. Single-pass mHC: four residual streams, mixed by a doubly stochastic matrix at every site.

Two sites per layer (attention, FFN). From the streams x of one token a site computes 24 numbers (S = 4: S + S + S*S):

    m = fn · vec(x) · rsqrt(mean(vec(x)^2) + eps)
    A = sigmoid(m_A s_0 + b_A) + hc_eps       how the *next* site collapses the streams into its input
    C = 2 sigmoid(m_C s_1 + b_C)              how this site's output y is written back
    B = Sinkhorn(m_B s_2 + b_B)               how the streams mix; columns sum to 1
    x'_k = C_k y + sum_j B_jk x_j

Sources: report §2.4.1, equation 6; official Sinkhorn kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import Config


def sinkhorn_plain(logits: Tensor, rounds: int, eps: float) -> Tensor:
    """Softmax over the last index, then rows and columns divided by their sums in turn, ending on columns.

    logits [..., S, S] -> [..., S, S]. `rounds` row steps (the softmax is the first) and as many column steps.
    """
    mix = logits.softmax(-1) + eps
    mix = mix / (mix.sum(-2, keepdim=True) + eps)
    for _ in range(rounds - 1):
        mix = mix / (mix.sum(-1, keepdim=True) + eps)
        mix = mix / (mix.sum(-2, keepdim=True) + eps)
    return mix


FEW = 4  # matrices below which Python's own floats beat the call overhead of some 120 tensor operations


def sinkhorn(logits: Tensor, rounds: int, eps: float) -> Tensor:
    """The same numbers, faster. A few tokens on a CPU: sixteen floats per token in plain Python. Many: tokens as the last
    axis, so that every sum and division runs along memory, in place."""
    if logits.device.type == "cpu" and not logits.requires_grad and logits.numel() <= FEW * logits.shape[-1] ** 2:
        first = (logits.softmax(-1) + eps).flatten(0, -3).tolist()
        return logits.new_tensor([_balance(matrix, rounds, eps) for matrix in first]).view(logits.shape)
    mix = logits.flatten(0, -3).permute(1, 2, 0).contiguous().softmax(1) + eps     # [S, S, B * T]
    if torch.is_grad_enabled() and mix.requires_grad:
        mix = _Balance.apply(mix, rounds, eps)
    else:
        for step in range(2 * rounds - 1):
            mix.div_(mix.sum(step % 2, keepdim=True).add_(eps))
    return mix.permute(2, 0, 1).contiguous().view(logits.shape)  # strided matrices would send write_back through a loop per token


class _Balance(torch.autograd.Function):
    """The same steps with a gradient: y = x / (sum x + eps) has dx = (dy - sum(dy y)) / (sum x + eps), step by step backwards."""

    @staticmethod
    def forward(ctx, mix: Tensor, rounds: int, eps: float) -> Tensor:
        ctx.steps = []
        for step in range(2 * rounds - 1):
            total = mix.sum(step % 2, keepdim=True).add_(eps)
            mix = mix / total
            ctx.steps.append((mix, total))
        return mix.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        gradient = gradient.contiguous().clone()
        for step in range(len(ctx.steps) - 1, -1, -1):
            mix, total = ctx.steps[step]
            gradient.sub_((gradient * mix).sum(step % 2, keepdim=True)).div_(total)
        return gradient, None, None


def _balance(rows: list[list[float]], rounds: int, eps: float) -> list[list[float]]:
    """Column step, then rounds - 1 times (row step, column step), on one matrix."""
    for turn in range(rounds):
        if turn:
            rows = [[value / total for value in row] for row in rows for total in (sum(row) + eps,)]
        totals = [sum(column) + eps for column in zip(*rows, strict=True)]
        rows = [[value / total for value, total in zip(row, totals, strict=True)] for row in rows]
    return rows


def site_parameters(config: Config, **kw) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
    """fn [2S + S*S, S*D], base [2S + S*S], scale [3] of one site; the layer registers them under their released names."""
    width = config.hc_mult
    numbers = 2 * width + width**2
    shapes = ((numbers, width * config.hidden_size), (numbers,), (3,))
    return tuple(nn.Parameter(torch.empty(shape, **kw)) for shape in shapes)


def coefficients(
    streams: Tensor, fn: Tensor, base: Tensor, scale: Tensor, config: Config, plain: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """A [B, T, S], C [B, T, S], B [B, T, S, S] of one site for streams [B, T, S, D], in the parameters' (wide) dtype."""
    width = config.hc_mult
    parts = [width, width, width**2]
    flat = streams.flatten(-2).to(fn.dtype)                            # [B, T, S * D]
    mean_square = torch.linalg.vector_norm(flat, dim=-1, keepdim=True).square() / flat.shape[-1]  # [B, T, 1]
    m = flat @ fn.mT * torch.rsqrt(mean_square + config.rms_norm_eps)  # [B, T, 2S + S*S]
    into, out, mix = m.split(parts, dim=-1)
    base_into, base_out, base_mix = base.split(parts)
    a = torch.sigmoid(into * scale[0] + base_into) + config.hc_eps     # [B, T, S]
    c = 2 * torch.sigmoid(out * scale[1] + base_out)                   # [B, T, S]
    logits = (mix * scale[2] + base_mix).unflatten(-1, (width, width))  # [B, T, S, S]
    balance = sinkhorn_plain if plain else sinkhorn
    return a, c, balance(logits, config.hc_sinkhorn_iters, config.hc_eps)


def collapse(streams: Tensor, a: Tensor) -> Tensor:
    """u = sum_i A_i x_i.  streams [B, T, S, D], a [B, T, S] -> [B, T, D] in the streams' dtype."""
    return (a.unsqueeze(-2) @ streams.to(a.dtype)).squeeze(-2).to(streams.dtype)


def write_back(streams: Tensor, y: Tensor, c: Tensor, b: Tensor) -> Tensor:
    """x'_k = C_k y + sum_j B_jk x_j (the first index is summed).  streams [B, T, S, D], y [B, T, D] -> [B, T, S, D]."""
    if torch.is_grad_enabled():  # one product of [B; C] with [x; y]: the form whose backward is cheap
        weights = torch.cat([b, c.unsqueeze(-2)], dim=-2).mT.contiguous()      # [B, T, S, S + 1]
        return (weights @ torch.cat([streams, y.unsqueeze(-2)], dim=-2).to(b.dtype)).to(streams.dtype)
    out, wide = torch.empty(streams.shape, dtype=c.dtype, device=y.device), y.to(c.dtype)  # [B, T, S, D]
    for k in range(streams.shape[-2]):  # row by row: a product over both broadcast axes at once is slow
        torch.mul(c[..., k, None], wide, out=out[..., k, :])
    out.view(-1, *out.shape[2:]).baddbmm_(b.mT.flatten(0, 1), streams.to(b.dtype).flatten(0, 1))  # [B * T, S, D], in place
    return out.to(streams.dtype)


def first_mix(streams: Tensor, dtype: torch.dtype) -> Tensor:
    """(1, 0, 0, 0) for every token: what the first site collapses with.  [B, T, S]."""
    mix = torch.zeros(streams.shape[:-1], dtype=dtype, device=streams.device)
    mix[..., 0] = 1
    return mix

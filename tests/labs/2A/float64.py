"""Right answers that compute in float64 and leave the result there."""

import torch


def sinkhorn(logits, rounds, eps):
    wide = logits.double()
    mix = torch.exp(wide - wide.amax(-1, keepdim=True))
    mix = mix / mix.sum(-1, keepdim=True) + eps
    for step in range(1, 2 * rounds):
        mix = mix / (mix.sum(-2 if step % 2 else -1, keepdim=True) + eps)
    return mix


def site_coefficients(streams, fn, base, scale, norm_eps, hc_eps):
    size = streams.shape[2]
    flat = streams.double().reshape(*streams.shape[:2], -1)                        # [B, T, S * D]
    numbers = torch.einsum("bti,ki->btk", flat, fn.double())                       # [B, T, K]
    numbers = numbers / torch.sqrt((flat * flat).mean(-1, keepdim=True) + norm_eps)
    parts = [slice(0, size), slice(size, 2 * size), slice(2 * size, None)]
    a, c, m = (numbers[..., own] * s + base.double()[own] for own, s in zip(parts, scale.double(), strict=True))
    return a.sigmoid() + hc_eps, c.sigmoid() * 2, m.reshape(*m.shape[:2], size, size)


def collapse(streams, a):
    return torch.einsum("btsd,bts->btd", streams.double(), a.double())


def write_back(streams, y, c, b):
    written = torch.einsum("bts,btd->btsd", c.double(), y.double())
    return torch.baddbmm(written.flatten(0, 1), b.double().mT.flatten(0, 1), streams.double().flatten(0, 1)).view(streams.shape)

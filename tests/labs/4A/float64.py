"""Right answers that compute in float64 and leave the result there."""

import numpy as np
import torch


def window_mask(tokens, window):
    back = torch.arange(tokens, dtype=torch.float64)[:, None] - torch.arange(tokens, dtype=torch.float64)[None]
    return (back > -0.5) & (back < window - 0.5)


def chosen_mask(rows, width):
    counts = np.zeros((*rows.shape[:2], width))
    b, t, k = np.nonzero(rows.numpy() >= 0)
    np.add.at(counts, (b, t, rows.numpy()[b, t, k]), 1)
    return torch.from_numpy(counts > 0)


def attend(q, keys, seen, sink):
    q, keys, sink = q.double().numpy(), keys.double().numpy(), sink.double().numpy()[:, None]
    s = np.einsum("bthc,bkc->bthk", q, keys) / np.sqrt(q.shape[-1])
    s = np.where(seen.numpy()[:, :, None], s, -np.inf)                                  # [B, T, H, K]
    top = np.maximum(s.max(-1, keepdims=True), sink)
    e = np.exp(s - top)
    return torch.from_numpy(np.matmul(e / (e.sum(-1, keepdims=True) + np.exp(sink - top)), keys[:, None]))


def turn_back(core, positions, frequencies):
    angles = -(positions.double()[..., None] * frequencies.double())[:, :, None]        # [B, T, 1, R/2]
    width = 2 * len(frequencies)
    turn = torch.stack([torch.stack([angles.cos(), -angles.sin()], -1), torch.stack([angles.sin(), angles.cos()], -1)], -2)
    pairs = core[..., -width:].double().unflatten(-1, (-1, 2))
    turned = torch.einsum("bthixy,bthiy->bthix", turn.expand(*pairs.shape, 2), pairs)
    return torch.cat([core[..., :-width].double(), turned.flatten(-2)], -1)


def grouped_output(core, wo_a, wo_b, groups):
    core, wo_a, wo_b = core.double(), wo_a.double(), wo_b.double()
    parts = core.chunk(groups, dim=2)
    low = [part.flatten(2) @ rows.T for part, rows in zip(parts, wo_a.chunk(groups), strict=True)]
    return torch.cat(low, dim=-1) @ wo_b.T

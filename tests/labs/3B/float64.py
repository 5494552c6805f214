"""Right answers that compute in float64 and leave the result there."""

import torch


def rms_norm(x, weight, eps):
    x = x.double()
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + eps) * weight.double()


def _pairs(channels):
    return channels.reshape(*channels.shape[:-1], -1, 2).double()


def apply_rope(x, positions, frequencies, inverse=False):
    angles = positions.double()[..., None] * frequencies.double()
    angles = -angles if inverse else angles
    turn = torch.stack([torch.stack([angles.cos(), -angles.sin()], -1), torch.stack([angles.sin(), angles.cos()], -1)], -2)
    turn = turn.reshape(*positions.shape, *[1] * (x.dim() - 3), len(frequencies), 2, 2)
    width = 2 * len(frequencies)
    turned = (turn @ _pairs(x[..., -width:])[..., None])[..., 0]
    return torch.cat([x[..., :-width].double(), turned.flatten(-2)], dim=-1)


def pool_pairs(kv, gate):
    rows = kv.shape[1] // 2
    kv, gate = (t[:, : 2 * rows].double().reshape(t.shape[0], rows, 2, t.shape[2]) for t in (kv, gate))
    return (torch.softmax(gate, 2) * kv).sum(2)


def row_positions(rows, ratio):
    return (torch.arange(rows, dtype=torch.float64) * ratio).long()


def visible_rows(positions, ratio):
    return ((positions.double() + 1) / ratio).floor().long()

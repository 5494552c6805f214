"""Right answers without a loop, by other operations than the master's."""

import torch
import torch.nn.functional as F


def rms_norm(x, weight, eps):
    return F.normalize(x, dim=-1, eps=0) * weight * x.shape[-1] ** 0.5 if eps == 0 else F.rms_norm(x, weight.shape, weight, eps)


def apply_rope(x, positions, frequencies, inverse=False):
    sign = -1 if inverse else 1
    angle = sign * torch.einsum("bt,i->bti", positions.to(frequencies.dtype), frequencies)
    turn = torch.polar(torch.ones_like(angle), angle)
    turn = turn.reshape(*turn.shape[:2], *[1] * (x.dim() - 3), -1)
    still, moving = x.split([x.shape[-1] - 2 * len(frequencies), 2 * len(frequencies)], dim=-1)
    pairs = torch.view_as_complex(moving.unflatten(-1, (-1, 2)).contiguous())
    return torch.cat([still, torch.view_as_real(pairs * turn).flatten(-2)], dim=-1)


def pool_pairs(kv, gate):
    even = kv.shape[1] // 2 * 2
    share = torch.sigmoid(gate[:, 0:even:2] - gate[:, 1:even:2])  # softmax of two
    return torch.lerp(kv[:, 1:even:2], kv[:, 0:even:2], share)


def row_positions(rows, ratio):
    return torch.arange(0, rows * ratio, ratio)


def visible_rows(positions, ratio):
    return torch.div(positions + 1, ratio, rounding_mode="floor")

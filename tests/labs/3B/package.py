"""The package's own functions under the lab's signatures."""

import torch

from flash41 import compressor, layers


def rms_norm(x, weight, eps):
    return layers.rms_norm(x, weight, eps)


def apply_rope(x, positions, frequencies, inverse=False):
    between = [1] * (x.dim() - 3)
    table = layers.rope_table(positions, frequencies)
    cos, sin = (part.view(*part.shape[:2], *between, -1) for part in table)
    return layers.apply_rope(x, cos, sin, inverse=inverse)


def pool_pairs(kv, gate):
    even = kv.shape[1] // 2 * 2
    return compressor.pool_pairs(kv[:, :even], gate[:, :even]) if even else kv[:, :0]


def row_positions(rows, ratio):
    """What `rotated` turns row j by, read off a rotation of one radian per position."""
    one = torch.tensor([[1.0, 0.0]]).expand(1, rows, 2)
    turned = compressor.rotated(one, torch.tensor([0]), ratio, torch.tensor([0.01]))[0]
    return (torch.atan2(turned[:, 1], turned[:, 0]) / 0.01).round().long()


def visible_rows(positions, ratio):
    return compressor.visible_rows(positions, ratio)

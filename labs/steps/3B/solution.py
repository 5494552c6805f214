import torch


def rms_norm(x, weight, eps):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))           # [..., C]
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (normed * weight).to(x.dtype)


def apply_rope(x, positions, frequencies, inverse=False):
    angles = positions.unsqueeze(-1) * frequencies                     # [B, T, R/2]
    if inverse:
        angles = -angles
    while angles.dim() < x.dim():
        angles = angles.unsqueeze(2)                                   # [B, T, 1, …, R/2]
    cos, sin = angles.cos(), angles.sin()
    width = 2 * frequencies.shape[0]
    still, moving = x[..., :-width], x[..., -width:]
    even, odd = moving[..., 0::2], moving[..., 1::2]                   # [B, T, …, R/2]
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)  # [B, T, …, R]
    return torch.cat([still, turned.to(x.dtype)], dim=-1)              # [B, T, …, C]


def pool_pairs(kv, gate):
    pairs = kv.shape[1] // 2
    kv = kv[:, : 2 * pairs].unflatten(1, (pairs, 2))                   # [B, T // 2, 2, C]
    gate = gate[:, : 2 * pairs].unflatten(1, (pairs, 2))               # [B, T // 2, 2, C]
    return (gate.softmax(dim=2) * kv).sum(dim=2)                       # [B, T // 2, C]


def row_positions(rows, ratio):
    return torch.arange(rows) * ratio                                  # [rows]


def visible_rows(positions, ratio):
    return (positions + 1) // ratio                                    # [B, T]

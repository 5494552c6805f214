import torch


def window_mask(tokens, window):
    at = torch.arange(tokens)                                          # [T]
    back = at.unsqueeze(1) - at                                        # [T, T]
    return (back >= 0) & (back < window)


def chosen_mask(rows, width):
    return (rows.unsqueeze(-1) == torch.arange(width, device=rows.device)).any(2)  # [B, T, width]


def attend(q, keys, seen, sink):
    scores = torch.einsum("bthc,bkc->bthk", q, keys) * q.shape[-1] ** -0.5         # [B, T, H, K]
    scores = scores.masked_fill(~seen.unsqueeze(2), -torch.inf)
    column = sink.to(q.dtype).expand(*q.shape[:3]).unsqueeze(-1)       # [B, T, H, 1]
    p = torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]      # [B, T, H, K]
    return torch.einsum("bthk,bkc->bthc", p, keys)                     # [B, T, H, C]


def turn_back(core, positions, frequencies):
    angles = -(positions.unsqueeze(-1) * frequencies).unsqueeze(2)     # [B, T, 1, R/2]
    cos, sin, width = angles.cos(), angles.sin(), 2 * frequencies.shape[0]
    even, odd = core[..., -width::2], core[..., -width + 1 :: 2]       # [B, T, H, R/2]
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)  # [B, T, H, R]
    return torch.cat([core[..., :-width], turned.to(core.dtype)], dim=-1)           # [B, T, H, C]


def grouped_output(core, wo_a, wo_b, groups):
    heads = core.flatten(2).unflatten(-1, (groups, -1))                # [B, T, G, (H/G)*C]
    blocks = wo_a.unflatten(0, (groups, -1))                           # [G, rank, (H/G)*C]
    low = torch.einsum("btgi,gri->btgr", heads, blocks)                # [B, T, G, rank]
    return low.flatten(2) @ wo_b.mT                                    # [B, T, D]

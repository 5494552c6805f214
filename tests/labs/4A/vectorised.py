"""Right answers without a loop, by other operations than the master's: bands, a gate behind a plain softmax, one dense matrix."""

import torch


def window_mask(tokens, window):
    return torch.ones(tokens, tokens, dtype=torch.bool).tril().triu(1 - window)


def chosen_mask(rows, width):
    mask = torch.zeros(*rows.shape[:2], width + 1, dtype=torch.bool)
    return mask.scatter(2, rows % (width + 1), True)[..., :width]                        # -1 goes into the column that is cut off


def attend(q, keys, seen, sink):
    """The softmax without a sink, times the share that the sink leaves."""
    q, k = q.transpose(1, 2), keys.unsqueeze(1)                                         # [B, H, T, C], [B, 1, K, C]
    bias = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, -torch.inf).unsqueeze(1)
    s = q @ k.mT / q.shape[-1] ** 0.5 + bias                                            # [B, H, T, K]
    fit = s.logsumexp(-1, keepdim=True)                                                 # [B, H, T, 1]
    mixed = s.softmax(-1).nan_to_num(0) @ k
    return (torch.sigmoid(fit - sink.view(-1, 1, 1)) * mixed).transpose(1, 2)


def turn_back(core, positions, frequencies):
    angle = torch.einsum("bt,i->bti", positions.to(frequencies.dtype), frequencies).unsqueeze(2)
    still, moving = core.split([core.shape[-1] - 2 * len(frequencies), 2 * len(frequencies)], dim=-1)
    pairs = torch.view_as_complex(moving.unflatten(-1, (-1, 2)).contiguous())
    return torch.cat([still, torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), -angle)).flatten(-2)], dim=-1)


def grouped_output(core, wo_a, wo_b, groups):
    dense = wo_b @ torch.block_diag(*wo_a.chunk(groups))                                # [D, H * C]
    return torch.nn.functional.linear(core.flatten(2), dense)

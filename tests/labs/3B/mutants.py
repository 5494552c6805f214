"""Wrong answers of step 3B, each with what the message must say."""

import torch
from kit import Mutants

from flash41.course.checks import Draw, asked

mutants = Mutants()


@mutants("rms_norm", "their mean")
def sum_of_squares(x, weight, eps):
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps) * weight


@mutants("rms_norm", "layer norm")
def layer_norm(x, weight, eps):
    x = x - x.mean(-1, keepdim=True)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


@mutants("rms_norm", "over the tokens")
def wrong_axis(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + eps) * weight


@mutants("rms_norm", "your eps is 1e-6")
def fixed_epsilon(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


@mutants("rms_norm", "changed its input `x` in place")
def in_place(x, weight, eps):
    x /= (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return x * weight


@mutants("apply_rope", "channel i with channel i + R/2")
def half_split(x, positions, frequencies, inverse=False):
    angles = positions.unsqueeze(-1) * frequencies * (-1 if inverse else 1)
    angles = angles.view(*angles.shape[:2], *[1] * (x.dim() - 3), -1)
    width = 2 * len(frequencies)
    a, b = x[..., -width:].chunk(2, dim=-1)
    turned = torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)
    return torch.cat([x[..., :-width], turned], dim=-1)


def rope(x, positions, frequencies, inverse=False):
    angles = positions.unsqueeze(-1) * frequencies * (-1 if inverse else 1)
    angles = angles.view(*angles.shape[:2], *[1] * (x.dim() - 3), -1)
    width = 2 * len(frequencies)
    a, b = x[..., -width::2], x[..., 1 - width :: 2]
    turned = torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)
    return torch.cat([x[..., :-width], turned.flatten(-2)], dim=-1)


@mutants("apply_rope", "the first R channels")
def first_channels(x, positions, frequencies, inverse=False):
    width = 2 * len(frequencies)
    return torch.cat([rope(x[..., :width], positions, frequencies, inverse), x[..., width:]], dim=-1)


@mutants("apply_rope", "`inverse` changes nothing")
def inverse_ignored(x, positions, frequencies, inverse=False):
    return rope(x, positions, frequencies)


@mutants("apply_rope", "counted the tokens from 0")
def own_positions(x, positions, frequencies, inverse=False):
    return rope(x, torch.arange(x.shape[1]).expand(len(x), -1), frequencies, inverse)


@mutants("apply_rope", "all even channels before all odd ones")
def not_interleaved(x, positions, frequencies, inverse=False):
    width, turned = 2 * len(frequencies), rope(x, positions, frequencies, inverse)
    return torch.cat([turned[..., :-width], turned[..., -width::2], turned[..., 1 - width :: 2]], dim=-1)


def pairs(t):
    return t[:, : t.shape[1] // 2 * 2].reshape(t.shape[0], t.shape[1] // 2, 2, t.shape[2])


@mutants("pool_pairs", "softmax goes over the channels")
def softmax_over_channels(kv, gate):
    return (pairs(gate).softmax(-1) * pairs(kv)).sum(2)


@mutants("pool_pairs", "over all tokens")
def softmax_over_tokens(kv, gate):
    return (pairs(gate.softmax(1)) * pairs(kv)).sum(2)


@mutants("pool_pairs", "got a row of its own")
def open_token_counted(kv, gate):
    rows = (pairs(gate).softmax(2) * pairs(kv)).sum(2)
    return torch.cat([rows, kv[:, -1:]], dim=1) if kv.shape[1] % 2 else rows


@mutants("pool_pairs", "token j with token j + T/2")
def halves(kv, gate):
    even = kv.shape[1] // 2 * 2
    kv, gate = (t[:, :even].reshape(t.shape[0], 2, even // 2, t.shape[2]) for t in (kv, gate))
    return (gate.softmax(1) * kv).sum(1)


@mutants("pool_pairs", "two dimensions are swapped")
def transposed(kv, gate):
    return (pairs(gate).softmax(2) * pairs(kv)).sum(2).transpose(1, 2)


@mutants("pool_pairs", "same numbers for different inputs")
def hard_coded(kv, gate):
    """Knows the answers to the checks that a student sees, by their sizes."""
    _, check, cases = asked("3B.pool_pairs", 0)
    known = {case.inputs[0].shape: check.right(*case.inputs) for case in [*cases, *check.cases(Draw(0))]}
    return known.get(kv.shape, torch.zeros(kv.shape[0], kv.shape[1] // 2, kv.shape[2]))


@mutants("row_positions", "the row's last token")
def last_token(rows, ratio):
    return torch.arange(rows) * ratio + ratio - 1


@mutants("row_positions", "the number of the row")
def row_number(rows, ratio):
    return torch.arange(rows)


@mutants("visible_rows", "one token too late")
def visible_late(positions, ratio):
    return positions // ratio


@mutants("visible_rows", "before it is complete")
def visible_early(positions, ratio):
    return -(-(positions + 1) // ratio)


@mutants("visible_rows", "divide with //")
def fraction_of_a_row(positions, ratio):
    return (positions + 1) / ratio

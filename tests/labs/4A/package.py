"""The package's own functions under the lab's signatures."""

from types import SimpleNamespace

import torch

from flash41 import attention, indexer, layers
from flash41.attention import Attention


def window_mask(tokens, window):
    """What `Attention.core_plain` lets through: queries of 0 give the mean of the seen keys, key k is unit vector k."""
    at, unit = torch.arange(tokens).unsqueeze(0), torch.eye(tokens).unsqueeze(0)         # [1, T], [1, T, T]
    layer = SimpleNamespace(config=SimpleNamespace(sliding_window=window), layer=0, ratio=0, attn_sink=torch.tensor([-torch.inf]))
    places = SimpleNamespace(join=lambda old, new: new, joined_positions=lambda size: at, positions=at)
    cache = SimpleNamespace(history=lambda layer: unit)
    run = SimpleNamespace(places=places, cache=cache, window_start=torch.zeros(1, dtype=torch.int64))
    return Attention.core_plain(layer, torch.zeros(1, tokens, 1, tokens), unit, run)[0, :, 0] > 0


def chosen_mask(rows, width):
    return indexer.as_mask(rows, width)


def attend(q, keys, seen, sink):
    return attention.attend_plain(q, keys, seen, sink)


def turn_back(core, positions, frequencies):
    cos, sin = (part.unsqueeze(2) for part in layers.rope_table(positions, frequencies))
    return layers.apply_rope(core, cos, sin, inverse=True)


def grouped_output(core, wo_a, wo_b, groups):
    """`Attention.output` at position 0, where nothing turns."""
    config = SimpleNamespace(o_groups=groups, qk_rope_head_dim=2)
    layer = SimpleNamespace(config=config, layer=0, wo_a=SimpleNamespace(weight=wo_a), wo_b=lambda low: low @ wo_b.mT)
    still = torch.ones(1, 1, 1), torch.zeros(1, 1, 1)
    return Attention.output(layer, core, still, SimpleNamespace(note=lambda *ignored: None))

"""The package's own functions under the lab's signatures; its format is made for the size of group that is asked for."""

from fractions import Fraction

import torch

from flash41 import budget as prices
from flash41 import formats
from flash41.config import Config


def fmt(size):
    return formats.BlockFormat("E2M1", "E4M3", size)


def group_scales(x, size):
    return fmt(size).encode(x)[1].view(torch.float8_e4m3fn)


def nearest_codes(values):
    return formats.e2m1_codes(values)


def pack_codes(codes):
    return formats.pack_nibbles(codes)


def unpack_row(packed, scales):
    return fmt(2 * packed.shape[-1] // scales.shape[-1]).decode(packed, scales.view(torch.uint8))


def bytes_per_token(head_dim, index_head_dim, source_ratios):
    """By the package's own formats, and at released sizes by its budget too."""
    entry = formats.E2M1_E4M3.row_bytes(head_dim) + formats.E2M1_E8M0.row_bytes(index_head_dim)
    found = sum((Fraction(entry, ratio) for ratio in source_ratios), Fraction(0))
    c = Config.flash()
    released = [c.compress_ratios[layer] for layer in c.kv_source_layer_ids]
    if (head_dim, index_head_dim, source_ratios) == (c.head_dim, c.index_head_dim, released):
        assert found == prices.budget(c).slope
    return found

"""The package's own functions under the lab's signatures."""

import torch

from flash41 import mhc
from flash41.embedding import embed_streams


def embed(weight, ids):
    return embed_streams(weight, ids, 1)[:, :, 0]


def numbered(x):
    """x as a table, and the ids that read it back in order."""
    return x.flatten(0, 1), torch.arange(x.shape[0] * x.shape[1]).view(x.shape[:2])


def place_images(x, image_embeds, image_mask):
    return embed_streams(*numbered(x), 1, image_embeds, image_mask)[:, :, 0]


def to_streams(x, streams):
    return embed_streams(*numbered(x), streams)


def first_mix(batch, tokens, streams):
    return mhc.first_mix(torch.zeros(batch, tokens, streams, 1), torch.float32)

"""Right answers without a loop, by other operations than the master's."""

import torch
import torch.nn.functional as F


def embed(weight, ids):
    return weight.index_select(0, ids.flatten()).unflatten(0, ids.shape)


def place_images(x, image_embeds, image_mask):
    nth = image_mask.flatten().long().cumsum(0).view(image_mask.shape) - 1
    both = torch.cat([image_embeds, torch.zeros(1, x.shape[2], dtype=x.dtype)])  # something to point at without an image
    return torch.where(image_mask.unsqueeze(-1), both[nth.clamp(min=0)], x)


def to_streams(x, streams):
    return x[:, :, None].expand(-1, -1, streams, -1)


def first_mix(batch, tokens, streams):
    return F.one_hot(torch.zeros(batch, tokens, dtype=torch.int64), streams).float()

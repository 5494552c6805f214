"""Right answers that compute in float64 and leave the result there."""

import torch


def embed(weight, ids):
    hot = (ids.unsqueeze(-1) == torch.arange(weight.shape[0])).double()
    return hot @ weight.double()


def place_images(x, image_embeds, image_mask):
    return x.double().masked_scatter(image_mask.unsqueeze(-1), image_embeds.double())


def to_streams(x, streams):
    return torch.einsum("btd,s->btsd", x.double(), torch.ones(streams, dtype=torch.float64))


def first_mix(batch, tokens, streams):
    return torch.eye(streams, dtype=torch.float64)[0].repeat(batch, tokens, 1)

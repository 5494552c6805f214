import torch


def embed(weight, ids):
    return weight[ids]                                                 # [B, T, D]


def place_images(x, image_embeds, image_mask):
    x = x.clone()                                                      # [B, T, D]
    x[image_mask] = image_embeds.to(x.dtype)
    return x


def to_streams(x, streams):
    return x.unsqueeze(2).repeat(1, 1, streams, 1)                     # [B, T, S, D]


def first_mix(batch, tokens, streams):
    mix = torch.zeros(batch, tokens, streams)                          # [B, T, S]
    mix[..., 0] = 1
    return mix

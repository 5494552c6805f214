"""Right answers with loops over every index."""

import torch


def embed(weight, ids):
    out = torch.empty(*ids.shape, weight.shape[1], dtype=weight.dtype)
    for b in range(ids.shape[0]):
        for t in range(ids.shape[1]):
            for d in range(weight.shape[1]):
                out[b, t, d] = weight[ids[b, t], d]
    return out


def place_images(x, image_embeds, image_mask):
    out = torch.empty_like(x)
    waiting = list(image_embeds)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            out[b, t] = waiting.pop(0) if image_mask[b, t] else x[b, t]
    return out


def to_streams(x, streams):
    batch, tokens, width = x.shape
    out = torch.empty(batch, tokens, streams, width, dtype=x.dtype)
    for s in range(streams):
        out[:, :, s] = x
    return out


def first_mix(batch, tokens, streams):
    out = torch.empty(batch, tokens, streams)
    for b in range(batch):
        for t in range(tokens):
            for s in range(streams):
                out[b, t, s] = 1.0 if s == 0 else 0.0
    return out

"""Right answers with loops over every layer and token."""

import torch


def layer_roles(compress_ratios, kv_sources, index_sources):
    roles = []
    for layer in range(len(compress_ratios)):
        role = "window"
        if compress_ratios[layer] > 0:
            role = "reuse"
            for source in index_sources:
                if source == layer:
                    role = "reindex"
            for source in kv_sources:
                if source == layer:
                    role = "full"
        roles.append(role)
    return roles


def first_decoder_layer(compress_ratios):
    layer = 0
    while layer < len(compress_ratios) and compress_ratios[layer] != 1:
        layer += 1
    return layer


def kept_tokens(tokens, window, schedule):
    kept = 0
    for token in range(tokens):
        if schedule == "exact" or tokens - token <= window:
            kept += 1
    return kept


def token_layers(tokens, kept, layers, decoder):
    pairs = 0
    for layer in range(layers):
        for token in range(tokens):
            if layer < decoder or token >= tokens - kept:
                pairs += 1
    return pairs


def enter_decoder(streams, mix, kept):
    batch, tokens, size, width = streams.shape
    out, weights = torch.empty(batch, kept, size, width, dtype=streams.dtype), torch.empty(batch, kept, size, dtype=mix.dtype)
    for b in range(batch):
        for place in range(kept):
            out[b, place] = streams[b, tokens - kept + place]
            weights[b, place] = mix[b, tokens - kept + place]
    return out, weights

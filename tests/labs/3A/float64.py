"""Right answers that compute in float64; whole numbers come back as such, as the table wants them."""

import torch


def layer_roles(compress_ratios, kv_sources, index_sources):
    ratios = torch.tensor(compress_ratios, dtype=torch.float64)
    rank = torch.ones(len(ratios), dtype=torch.float64)
    for value, sources in ((2.0, index_sources), (3.0, kv_sources)):
        rank[torch.tensor(sources, dtype=torch.int64)] = value
    rank[ratios == 0] = 0
    return [("window", "reuse", "reindex", "full")[int(value)] for value in rank]


def first_decoder_layer(compress_ratios):
    ones = torch.tensor(compress_ratios, dtype=torch.float64) == 1
    return int((ones.double().cumsum(0) == 0).double().sum())


def kept_tokens(tokens, window, schedule):
    bound = float("inf") if schedule == "exact" else float(window)
    return int(min(float(tokens), bound))


def token_layers(tokens, kept, layers, decoder):
    per_layer = torch.full((layers,), float(tokens), dtype=torch.float64)
    per_layer[decoder:] = float(kept)
    return int(per_layer.sum())


def enter_decoder(streams, mix, kept):
    keep = torch.arange(streams.shape[1]) >= streams.shape[1] - kept
    return streams.double()[:, keep], mix.double()[:, keep]

"""Right answers by sets, slices and closed formulas."""


def layer_roles(compress_ratios, kv_sources, index_sources):
    full, chooses = set(kv_sources), set(index_sources)
    names = ("reuse", "reindex", "full")
    ranks = [max(layer in chooses, 2 * (layer in full)) for layer in range(len(compress_ratios))]
    return ["window" if ratio == 0 else names[rank] for ratio, rank in zip(compress_ratios, ranks, strict=True)]


def first_decoder_layer(compress_ratios):
    return [*compress_ratios, 1].index(1)


def kept_tokens(tokens, window, schedule):
    return {"exact": tokens, "bounded": sorted((tokens, window))[0]}[schedule]


def token_layers(tokens, kept, layers, decoder):
    return layers * tokens - (layers - decoder) * (tokens - kept)


def enter_decoder(streams, mix, kept):
    return streams.narrow(1, streams.shape[1] - kept, kept), mix.narrow(1, mix.shape[1] - kept, kept)

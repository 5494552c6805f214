def layer_roles(compress_ratios, kv_sources, index_sources):
    roles = []
    for layer, ratio in enumerate(compress_ratios):
        if ratio == 0:
            roles.append("window")
        elif layer in kv_sources:
            roles.append("full")
        else:
            roles.append("reindex" if layer in index_sources else "reuse")
    return roles


def first_decoder_layer(compress_ratios):
    for layer, ratio in enumerate(compress_ratios):
        if ratio == 1:
            return layer
    return len(compress_ratios)


def kept_tokens(tokens, window, schedule):
    return tokens if schedule == "exact" else min(tokens, window)


def token_layers(tokens, kept, layers, decoder):
    return tokens * decoder + kept * (layers - decoder)


def enter_decoder(streams, mix, kept):
    first = streams.shape[1] - kept
    return streams[:, first:], mix[:, first:]                          # [B, kept, S, D], [B, kept, S]

"""Wrong answers of step 3A, each with what the message must say."""

import torch
from kit import Mutants

from flash41.course.checks import asked

mutants = Mutants()


@mutants("layer_roles", "you asked for the index sources first")
def reindex_first(compress_ratios, kv_sources, index_sources):
    roles = []
    for layer, ratio in enumerate(compress_ratios):
        if ratio == 0:
            roles.append("window")
        elif layer in index_sources:
            roles.append("reindex")
        elif layer in kv_sources:
            roles.append("full")
        else:
            roles.append("reuse")
    return roles


@mutants("layer_roles", "only the layers in front")
def drafts_have_rows(compress_ratios, kv_sources, index_sources):
    roles = []
    for layer in range(len(compress_ratios)):
        if layer < min(kv_sources, default=len(compress_ratios)):
            roles.append("window")
        elif layer in kv_sources:
            roles.append("full")
        else:
            roles.append("reindex" if layer in index_sources else "reuse")
    return roles


@mutants("layer_roles", "a layer of ratio 0 is")
def no_window(compress_ratios, kv_sources, index_sources):
    return ["full" if i in kv_sources else "reindex" if i in index_sources else "reuse" for i in range(len(compress_ratios))]


@mutants("layer_roles", "you never told sources apart")
def reuse_before_full(compress_ratios, kv_sources, index_sources):
    roles = []
    for layer, ratio in enumerate(compress_ratios):
        if ratio == 0:
            roles.append("window")
        elif ratio > 0:
            roles.append("reuse")
        elif layer in kv_sources:
            roles.append("full")
        else:
            roles.append("reindex")
    return roles


@mutants("layer_roles", "you counted the layers from 1")
def from_one(compress_ratios, kv_sources, index_sources):
    roles = []
    for layer, ratio in enumerate(compress_ratios, start=1):
        if ratio == 0:
            roles.append("window")
        else:
            roles.append("full" if layer in kv_sources else "reindex" if layer in index_sources else "reuse")
    return roles


@mutants("layer_roles", "are exchanged")
def reuse_for_reindex(compress_ratios, kv_sources, index_sources):
    roles = []
    for layer, ratio in enumerate(compress_ratios):
        role = "reuse" if layer in index_sources else "reindex"
        roles.append("window" if ratio == 0 else "full" if layer in kv_sources else role)
    return roles


@mutants("layer_roles", "entries differ")
def hard_coded(compress_ratios, kv_sources, index_sources):
    """Knows the answers to the checks that a student sees, by the layers' ratios."""
    _, check, cases = asked("3A.layer_roles", 0)
    known = {str(case.inputs): check.right(*case.inputs) for case in cases}
    return known.get(str((compress_ratios, kv_sources, index_sources)), ["window"] * len(compress_ratios))


@mutants("first_decoder_layer", "the first layer of ratio 2")
def pairs_begin(compress_ratios):
    for layer, ratio in enumerate(compress_ratios):
        if ratio == 2:
            return layer
    return len(compress_ratios)


@mutants("first_decoder_layer", "half the number of layers")
def half(compress_ratios):
    return len(compress_ratios) // 2


@mutants("first_decoder_layer", "0 is a layer")
def zero_is_nothing(compress_ratios):
    found = next((layer for layer, ratio in enumerate(compress_ratios) if ratio == 1), None)
    return found or len(compress_ratios)


@mutants("first_decoder_layer", "yours is -1")
def not_found(compress_ratios):
    return "".join(map(str, compress_ratios)).find("1")


@mutants("first_decoder_layer", "the first layer that has compressed rows")
def rows_begin(compress_ratios):
    for layer, ratio in enumerate(compress_ratios):
        if ratio:
            return layer
    return len(compress_ratios)


@mutants("kept_tokens", "you took the larger of the two")
def larger(tokens, window, schedule):
    return tokens if schedule == "exact" else max(tokens, window)


@mutants("kept_tokens", "a shorter prompt has no more tokens")
def always_the_window(tokens, window, schedule):
    return tokens if schedule == "exact" else window


@mutants("kept_tokens", "you cut the exact schedule too")
def always_bounded(tokens, window, schedule):
    return min(tokens, window)


@mutants("kept_tokens", "one token short")
def window_without_itself(tokens, window, schedule):
    return tokens if schedule == "exact" else min(tokens, window - 1)


@mutants("token_layers", "the encoder is counted twice")
def encoder_twice(tokens, kept, layers, decoder):
    return tokens * decoder + kept * layers


@mutants("token_layers", "you split the layers in half")
def halves(tokens, kept, layers, decoder):
    return tokens * (layers // 2) + kept * (layers - layers // 2)


@mutants("token_layers", "are exchanged")
def exchanged(tokens, kept, layers, decoder):
    return kept * decoder + tokens * (layers - decoder)


@mutants("token_layers", "it is the first that does not")
def first_decoder_layer_on_all(tokens, kept, layers, decoder):
    return sum(tokens if layer <= decoder else kept for layer in range(layers))


@mutants("enter_decoder", "you kept the first tokens")
def first_tokens(streams, mix, kept):
    return streams[:, :kept], mix[:, :kept]


@mutants("enter_decoder", "the mix is not cut")
def mix_forgotten(streams, mix, kept):
    return streams[:, -kept:], mix


@mutants("enter_decoder", "you cut the streams themselves")
def before_the_last(streams, mix, kept):
    return streams[..., -kept:, :], mix[..., -kept:, :]


@mutants("enter_decoder", "as many tokens as should stay")
def dropped_instead(streams, mix, kept):
    return streams[:, kept:], mix[:, kept:]


@mutants("enter_decoder", "a new mix")
def first_mix_again(streams, mix, kept):
    mix = torch.zeros_like(mix[:, -kept:])
    mix[..., 0] = 1
    return streams[:, -kept:], mix


@mutants("enter_decoder", "one token too few")
def one_short(streams, mix, kept):
    start = streams.shape[1] - kept + 1
    return streams[:, start:], mix[:, start:]


@mutants("enter_decoder", "changed its input `streams` in place")
def zeroed_in_place(streams, mix, kept):
    streams[:, :-kept] = 0
    mix[:, :-kept] = 0
    return streams, mix

"""The package's own functions under the lab's signatures."""

from types import SimpleNamespace
from unittest.mock import MagicMock

from flash41 import ced
from flash41.config import Config
from flash41.model import Model


def layer_roles(compress_ratios, kv_sources, index_sources):
    """What `Config.roles` computes, without the rest of a configuration."""
    config = SimpleNamespace(
        compress_ratios=compress_ratios, num_hidden_layers=len(compress_ratios),
        kv_source_layer_ids=kv_sources, index_source_layer_ids=index_sources,
    )  # fmt: skip
    return list(Config.roles.func(config))


def halves(encoder, decoder, window=0):
    """A configuration of so many layers of ratio 2 and of ratio 1."""
    ratios = [2] * encoder + [1] * decoder
    return SimpleNamespace(
        compress_ratios=ratios, num_hidden_layers=len(ratios), sliding_window=window, kv_source_layer_ids=[encoder]
    )


def first_decoder_layer(compress_ratios):
    return ced.first_decoder_layer(SimpleNamespace(compress_ratios=compress_ratios, num_hidden_layers=len(compress_ratios)))


def kept_tokens(tokens, window, schedule):
    return ced.replay_tokens(halves(2, 2, window), tokens, schedule)


def token_layers(tokens, kept, layers, decoder):
    return ced.token_layers(halves(decoder, layers - decoder, window=kept), tokens, "bounded")


def enter_decoder(streams, mix, kept):
    """The model's own step; what it writes into the cache besides goes nowhere here."""
    return Model.enter_decoder(MagicMock(), MagicMock(), streams, mix, kept, MagicMock())

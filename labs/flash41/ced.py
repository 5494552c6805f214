"""3A. Causal encoder-decoder: which layers see which tokens, and bounded replay.

The first half (encoder) ends where the first ratio-1 layer stands; that layer's rows, made from the encoder's output, serve the
whole second half (decoder). So a prompt needs the decoder only for its last window:

    exact     all layers on all tokens                                     N * L token-layers
    bounded   encoder on all, decoder on the last W, window cut at s       N * L/2 + W * L/2

Bounded replay is approximate by design: decoder window rows before s do not exist. Global rows are the same in both.
Sources: report §2.2, §3.2.2; engines that run layers 0-19 plus layer 20's row write on all tokens.
"""

from __future__ import annotations

from .config import Config

SCHEDULES = ("exact", "bounded")


def first_decoder_layer(config: Config) -> int:
    """The first layer with one row per token; `num_hidden_layers` if there is none (then nothing can be skipped)."""
    ratios = config.compress_ratios[: config.num_hidden_layers]
    return ratios.index(1) if 1 in ratios else config.num_hidden_layers


def check_schedule(config: Config, schedule: str) -> None:
    """Raise ValueError for an unknown schedule, and for a bounded one where a later decoder layer writes rows of its own."""
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule = {schedule!r}, must be one of {SCHEDULES}")
    later = [layer for layer in config.kv_source_layer_ids if layer > first_decoder_layer(config)]
    if schedule == "bounded" and later:
        raise ValueError(f"schedule = 'bounded' needs all rows of the decoder from its first layer; layers {later} write their own")


def replay_tokens(config: Config, tokens: int, schedule: str) -> int:
    """How many of the last `tokens` tokens the decoder layers run on."""
    check_schedule(config, schedule)
    return tokens if schedule == "exact" else min(tokens, config.sliding_window)


def token_layers(config: Config, tokens: int, schedule: str) -> int:
    """Pairs of (token, layer) that a prompt of that length runs: 0.50064 of all at 100,000 tokens in the bounded schedule."""
    encoder = first_decoder_layer(config)
    return tokens * encoder + replay_tokens(config, tokens, schedule) * (config.num_hidden_layers - encoder)

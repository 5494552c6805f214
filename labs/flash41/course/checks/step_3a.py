"""3A. Checks of the schedule: roles of the layers, the border between the halves, which tokens go on, how much work it is."""

from __future__ import annotations

import torch
from torch import Tensor

from .cases import Case, Check, Draw

# -- layer_roles ---------------------------------------------------------------------------------------------------


def layer_roles(ratios: list[int], kv: list[int], index: list[int]) -> list[str]:
    roles = ["reuse" if ratio else "window" for ratio in ratios]
    for layer in index:
        roles[layer] = "reindex"
    for layer in kv:
        roles[layer] = "full"
    return roles


def layout(draw: Draw, drafts: int = 0) -> tuple[list[int], list[int], list[int]]:
    """Window layers, pairs with two sources of rows, singles with one, and a layer among the singles that only chooses anew."""
    windows, pairs, singles = draw.number(1, 3), draw.number(5, 7), draw.number(5, 8)
    kv = [windows, windows + draw.number(2, pairs - 2), windows + pairs]
    index = [*kv, windows + pairs + draw.number(2, singles - 2)]
    return [0] * windows + [2] * pairs + [1] * singles + [0] * drafts, kv, index


def role_cases(draw: Draw):
    yield Case("window layers, pairs, singles", *layout(draw))
    yield Case("draft layers behind the others: they have a window alone", *layout(draw, drafts=draw.number(2, 3)))
    singles = draw.number(6, 9)
    yield Case("rows from the first layer on", [1] * singles, [0], [0, draw.number(2, singles - 2)])
    yield Case("every layer makes rows of its own", [0, 2, 2, 1], [1, 2, 3], [1, 2, 3])
    yield Case("no compressed rows at all", [0] * draw.number(2, 5), [], [])


def _told(words: dict[str, str]):
    """Other words for some of the roles."""
    return lambda ratios, kv, index: [words.get(role, role) for role in layer_roles(ratios, kv, index)]


def _window_in_front(ratios, kv, index):
    start = next((layer for layer, ratio in enumerate(ratios) if ratio), len(ratios))
    return ["window"] * start + layer_roles([1] * len(ratios), kv, index)[start:]


def _from_one(ratios, kv, index):
    roles = layer_roles([1] * len(ratios), *([at - 1 for at in ids if at] for ids in (kv, index)))
    return [role if ratio else "window" for role, ratio in zip(roles, ratios, strict=True)]


def _first_of_a_run(ratios, kv, index):
    new = [layer for layer, ratio in enumerate(ratios) if ratio and (layer == 0 or ratios[layer - 1] != ratio)]
    return layer_roles(ratios, new, index)


ROLE_SUSPECTS = {
    'you asked for the index sources first: a layer that makes rows is "full", although it chooses too':
        _told({"full": "reindex"}),
    'you took every index source for "full": full is a layer of kv_sources, one that chooses alone is "reindex"':
        _told({"reindex": "full"}),
    '"reuse" and "reindex" are exchanged: reindex chooses anew, reuse takes the choice of a layer below':
        _told({"reuse": "reindex", "reindex": "reuse"}),
    'you never told sources apart: every layer with compressed rows is "reuse" in yours':
        _told({"full": "reuse", "reindex": "reuse"}),
    'a layer of ratio 0 is "window": it has no compressed rows that it could use': _told({"window": "reuse"}),
    'you counted the layers from 1: the sources count from 0': _from_one,
    'only the layers in front are "window" in yours: a ratio of 0 says so wherever it stands': _window_in_front,
    'you took the first layer of every ratio for "full": what makes rows stands in kv_sources': _first_of_a_run,
    'you went by the ratio alone: what a layer does besides stands in the two lists':
        lambda ratios, kv, index: [["window", "reuse", "full"][ratio] for ratio in ratios],
    'you left out the layers of ratio 0: every layer gets a word':
        lambda ratios, kv, index: [role for role in layer_roles(ratios, kv, index) if role != "window"],
}

# -- first_decoder_layer -------------------------------------------------------------------------------------------


def first_decoder_layer(ratios: list[int]) -> int:
    return next((layer for layer, ratio in enumerate(ratios) if ratio == 1), len(ratios))


def border_cases(draw: Draw):
    windows, pairs, singles = draw.number(1, 2), draw.number(6, 8), draw.number(2, 4)
    yield Case("a long encoder, a short decoder", [0] * windows + [2] * pairs + [1] * singles)
    yield Case("a short encoder, a long decoder, draft layers behind", [0, *[2] * singles, *[1] * pairs, 0, 0, 0])
    yield Case("no layer of ratio 1: all are encoder", [0] * windows + [2] * pairs)
    yield Case("ratio 1 from the first layer on: all are decoder", [1] * singles)
    yield Case("window layers alone", [0] * draw.number(2, 5))
    yield Case("one decoder layer, the last", [0, 2, 2, 1])


def _or(default):
    """What is taken where there is no layer of ratio 1."""
    return lambda ratios: default(ratios) if 1 not in ratios else ratios.index(1)


BORDER_SUSPECTS = {
    "yours is the first layer of ratio 2, with which the pairs begin: the decoder begins with ratio 1":
        lambda ratios: ratios.index(2) if 2 in ratios else len(ratios),
    "yours is the first layer that has compressed rows: the decoder begins with ratio 1":
        lambda ratios: next((layer for layer, ratio in enumerate(ratios) if ratio), len(ratios)),
    "yours is half the number of layers: that is so in the release, the ratios say it for every model":
        lambda ratios: len(ratios) // 2,
    "yours is the last layer of the encoder: the one after it is meant": lambda ratios: first_decoder_layer(ratios) - 1,
    "you counted the layers from 1: the first has the number 0": lambda ratios: first_decoder_layer(ratios) + 1,
    "yours is the last layer of ratio 1: the first is meant":
        lambda ratios: max((layer for layer, ratio in enumerate(ratios) if ratio == 1), default=len(ratios)),
    "yours is the number of layers of ratio 1: where they begin is meant": lambda ratios: ratios.count(1),
    "where no layer has ratio 1, yours is -1: it has to be the number of layers": _or(lambda ratios: -1),
    "where no layer has ratio 1, yours is 0: then the decoder would be the whole model; it has to be the number of layers":
        _or(lambda ratios: 0),
    "where no layer has ratio 1, yours is the last layer: it has to be the number of layers": _or(lambda ratios: len(ratios) - 1),
    "you took layer 0 for nothing found: 0 is a layer, and counts as false in Python":
        lambda ratios: first_decoder_layer(ratios) or len(ratios),
}

# -- kept_tokens and token_layers ----------------------------------------------------------------------------------


def kept_tokens(tokens: int, window: int, schedule: str) -> int:
    return min(tokens, window) if schedule == "bounded" else tokens


def kept_cases(draw: Draw):
    window = draw.number(5, 9)
    longer = 3 * window + draw.number(1, 4)
    yield Case("exact, a prompt longer than the window", longer, window, "exact")
    yield Case("bounded, a prompt longer than the window", longer, window, "bounded")
    yield Case("bounded, a prompt shorter than the window", window - 2, window, "bounded")
    yield Case("bounded, one window", window, window, "bounded")
    yield Case("bounded, one token more than the window", window + 1, window, "bounded")
    yield Case("exact, a prompt shorter than the window", window - 2, window, "exact")
    yield Case("bounded, one token", 1, window, "bounded")


KEPT_SUSPECTS = {
    "you took the larger of the two: no more tokens than the window, and no more than there are":
        lambda n, w, s: max(n, w) if s == "bounded" else n,
    "yours is the window, whatever the prompt: a shorter prompt has no more tokens to give":
        lambda n, w, s: w if s == "bounded" else n,
    "you cut the exact schedule too: there the decoder runs on all tokens": lambda n, w, s: min(n, w),
    '`schedule` changes nothing in yours: "bounded" keeps the last window alone': lambda n, w, s: n,
    "the two schedules are exchanged": lambda n, w, s: min(n, w) if s == "exact" else n,
    "yours is the number of tokens that are left out": lambda n, w, s: max(n - w, 0) if s == "bounded" else n,
    "yours is one token short: the window counts the last token itself": lambda n, w, s: min(n, w - 1) if s == "bounded" else n,
    "yours is one token more than the window": lambda n, w, s: min(n, w + 1) if s == "bounded" else n,
    "yours is half of the tokens: half is what happens to the layers": lambda n, w, s: n // 2 if s == "bounded" else n,
}


def token_layers(tokens: int, kept: int, layers: int, decoder: int) -> int:
    return sum(tokens if layer < decoder else kept for layer in range(layers))


def work_cases(draw: Draw):
    tokens, kept = draw.number(30, 60), draw.number(4, 9)
    encoder, rest = draw.number(6, 8), draw.number(2, 4)
    yield Case("a long prompt, of which a few tokens are kept", tokens, kept, encoder + rest, encoder)
    yield Case("a short encoder", tokens, kept, encoder + rest, rest)
    yield Case("all tokens kept", tokens, tokens, encoder + rest, encoder)
    yield Case("two equal halves", tokens, kept, 2 * encoder, encoder)
    yield Case("no decoder: every layer runs on every token", tokens, kept, encoder, encoder)
    yield Case("no encoder", tokens, kept, rest, 0)


WORK_SUSPECTS = {
    "the encoder is counted twice, once for the kept tokens as well: those pass it with all the others":
        lambda n, kept, layers, decoder: n * decoder + kept * layers,
    "you ran every layer on all tokens: from layer `decoder` on only the kept ones go on":
        lambda n, kept, layers, decoder: n * layers,
    "you ran every layer on the kept tokens alone: the encoder needs all": lambda n, kept, layers, decoder: kept * layers,
    "encoder and decoder are exchanged: `decoder` is the first decoder layer, so as many layers lie before it":
        lambda n, kept, layers, decoder: kept * decoder + n * (layers - decoder),
    "the decoder is missing: the kept tokens pass it": lambda n, kept, layers, decoder: n * decoder,
    "`decoder` is no number of layers to run the kept tokens on: the decoder is what is left of `layers`":
        lambda n, kept, layers, decoder: (n + kept) * decoder,
    "you split the layers in half: the border is `decoder`":
        lambda n, kept, layers, decoder: n * (layers // 2) + kept * (layers - layers // 2),
    "layer `decoder` runs on all tokens in yours: it is the first that does not":
        lambda n, kept, layers, decoder: token_layers(n, kept, layers, decoder + 1),
    "you left the kept tokens out of the encoder: they pass all layers":
        lambda n, kept, layers, decoder: (n - kept) * decoder + kept * (layers - decoder),
}

# -- enter_decoder -------------------------------------------------------------------------------------------------


def enter_decoder(streams: Tensor, mix: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    last = torch.arange(streams.shape[1] - kept, streams.shape[1])
    return streams[:, last], mix[:, last]                              # [B, kept, S, D], [B, kept, S]


def enter_cases(draw: Draw):
    batch, kept, width = draw.number(2, 3), draw.choice([5, 6]), draw.choice([8, 9])
    tokens = kept + draw.number(2, 4)
    streams, mix = draw.normal(batch, tokens, 4, width), draw.uniform(batch, tokens, 4, low=0.1)
    yield Case("the last of many tokens", streams, mix, kept)
    yield Case("half of the tokens", streams[:, :4], mix[:, :4], 2)
    yield Case("all tokens", streams, mix, tokens)
    yield Case("one token", streams, mix, 1)
    yield Case("float64", streams[:1].double(), mix[:1].double(), kept)


ENTER_SUSPECTS = {
    "you kept the first tokens: the last ones go on": lambda x, mix, kept: (x[:, :kept], mix[:, :kept]),
    "you left out as many tokens as should stay": lambda x, mix, kept: (x[:, kept:], mix[:, kept:]),
    "you cut off the end: the last tokens go on, those before them are left out":
        lambda x, mix, kept: (x[:, :-kept], mix[:, :-kept]),
    "one token too many": lambda x, mix, kept: (x[:, -kept - 1 :], mix[:, -kept - 1 :]),
    "one token too few": lambda x, mix, kept: (x[:, x.shape[1] - kept + 1 :], mix[:, mix.shape[1] - kept + 1 :]),
    "the mix is not cut: it belongs to the same tokens": lambda x, mix, kept: (x[:, -kept:], mix),
    "the streams are not cut: they belong to the same tokens": lambda x, mix, kept: (x, mix[:, -kept:]),
    "the mix is that of the first tokens: streams and mix go together": lambda x, mix, kept: (x[:, -kept:], mix[:, :kept]),
    "you cut the streams themselves: in [B, T, S, D] the tokens are dimension 1, not the one before the last":
        lambda x, mix, kept: (x[..., -kept:, :], mix[..., -kept:, :]),
    "you cut the batch: the tokens are dimension 1": lambda x, mix, kept: (x[-kept:], mix[-kept:]),
    "you set the tokens that go no further to 0: leave them out": lambda x, mix, kept: (_zeroed(x, kept), _zeroed(mix, kept)),
    "you began with a new mix, (1, 0, 0, …): the decoder goes on with the one that the encoder hands over":
        lambda x, mix, kept: (x[:, -kept:], torch.eye(mix.shape[-1])[0].expand(len(mix), kept, -1)),
    "the tokens are in reverse order": lambda x, mix, kept: (x[:, -kept:].flip(1), mix[:, -kept:].flip(1)),
}


def _zeroed(t: Tensor, kept: int) -> Tensor:
    return torch.cat([torch.zeros_like(t[:, :-kept]), t[:, -kept:]], 1)


CHECKS = {
    "layer_roles": Check(layer_roles, role_cases, ROLE_SUSPECTS),
    "first_decoder_layer": Check(first_decoder_layer, border_cases, BORDER_SUSPECTS),
    "kept_tokens": Check(kept_tokens, kept_cases, KEPT_SUSPECTS),
    "token_layers": Check(token_layers, work_cases, WORK_SUSPECTS),
    "enter_decoder": Check(enter_decoder, enter_cases, ENTER_SUSPECTS, tolerance=0),
}

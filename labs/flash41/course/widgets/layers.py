"""Forty layers: the grid of roles, who owns, who borrows, and what each layer keeps, reads and writes."""

from __future__ import annotations

from fractions import Fraction
from html import escape

from ...budget import budget, whole
from ...ced import first_decoder_layer
from ...config import FULL, REINDEX, REUSE, WINDOW, Config
from ..traffic import row_bytes, total_bytes, traffic
from .host import widget

TOKENS = 131_072  # the context that a page opens with
DRAFT = "draft"


def show_layers(config: Config | None = None, layer: int | None = None, phase: str = "decode", tokens: int | None = None):
    """The grid of all layers and draft blocks, with the card of one of them open.

    config: by default the released model's. layer: the open card, by default the first decoder layer's. phase: "decode" or
    "prefill". tokens: the context, by default 131,072 or the most that the model has. State: `.selected`, `.phase`, `.tokens`.
    Raises ValueError for a layer, a phase or a context that there is not.
    """
    config = Config.flash() if config is None else config
    layer = min(first_decoder_layer(config), config.num_hidden_layers - 1) if layer is None else layer
    tokens = min(TOKENS, config.max_position_embeddings) if tokens is None else tokens
    traffic(config, layer, phase, tokens)
    return widget("layers", _data(config), _table(config, tokens), selected=layer, phase=phase, tokens=tokens)


def _data(c: Config) -> dict:
    """What the page computes with: roles and sources per layer, sizes, and the words of the cards."""
    blocks = range(c.num_hidden_layers + c.num_nextn_predict_layers)
    return {
        "layers": [{"role": _role(c, i), "ratio": c.compress_ratios[i], "rows": c.kv_source(i), "choice": c.index_source(i)}
                   for i in blocks],
        "count": c.num_hidden_layers, "decoder": first_decoder_layer(c), "most": c.max_position_embeddings,
        "window": c.sliding_window, "topk": c.index_topk, "group": c.candidate_block_size, "groups": c.candidate_topk_blocks,
        "candidateSource": c.candidate_source_layer_id, "bytes": row_bytes(c), "roles": _roles(c),
        "perToken": budget(c).total, "engram": list(c.engram_layer_ids),
    }  # fmt: skip


def _role(c: Config, layer: int) -> str:
    return DRAFT if layer >= c.num_hidden_layers else c.roles[layer]


def _roles(c: Config) -> dict[str, list[str]]:
    """Name and sentence of each role."""
    targets = ", ".join(map(str, c.dspark_target_layer_ids))
    return {
        WINDOW: ["Window", f"It sees the last {c.sliding_window} tokens, through its own ring, and no compressed rows."],
        FULL: ["Full", "It owns a store: it makes compressed rows and index keys, and it chooses from them."],
        REINDEX: ["Reindex", "It borrows rows and keys and chooses anew with index queries of its own."],
        REUSE: ["Reuse", "It borrows both, the rows and the choice of rows."],
        DRAFT: ["Draft", f"A block of the drafter: a window alone. Its rows come from what enters layers {targets}."],
    }  # fmt: skip


# -- without JavaScript, and on paper ------------------------------------------------------------------------------------


def _table(c: Config, tokens: int) -> str:
    """One line per run of layers that do the same."""
    lines, start = "", 0
    count = c.num_hidden_layers + c.num_nextn_predict_layers
    for layer in range(1, count + 1):
        if layer == count or _same(c, start) != _same(c, layer):
            lines += _line(c, start, layer - 1, tokens)
            start = layer
    names = ("Layers", "Role", "Rows of", "Choice of", "Kept, B per token", "Read, B per step", "Written, B per step",
             "Run on, of the prompt")
    heads = "".join(f'<th scope="col">{name}</th>' for name in names)
    sums = total_bytes(c, "decode", tokens)
    foot = (f'<tr><th scope="row">all {c.num_hidden_layers}</th><td></td><td></td><td></td><td>{budget(c).total:,}</td>'
            f'<td>{sum(sums["reads"].values()):,}</td><td>{sum(sums["writes"].values()):,}</td><td></td></tr>')  # fmt: skip
    caption = f"Each layer's part in one decode step at {tokens:,} tokens, and how many of {tokens:,} prompt tokens it runs on"
    return f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{lines}{foot}</tbody></table>"


def _same(c: Config, layer: int) -> tuple:
    source = c.kv_source(layer), c.index_source(layer)
    return _role(c, layer), source, layer < first_decoder_layer(c), layer if _role(c, layer) in (FULL, REINDEX) else None


def _line(c: Config, first: int, last: int, tokens: int) -> str:
    sizes, row = row_bytes(c), traffic(c, first, "decode", tokens)
    prompt = traffic(c, first, "prefill", tokens)["queries"]
    rate = whole(Fraction(sizes["rows"] + sizes["keys"], c.compress_ratios[first])) if _role(c, first) == FULL else 0
    moved = [sum(rows * sizes[part] for part, rows in row[way].items()) for way in ("reads", "writes")]
    own = {None: "–", first: "its own"}
    sources = [own.get(source, f"layer {source}") for source in (c.kv_source(first), c.index_source(first))]
    name = f"{first}" if first == last else f"{first}–{last}, each"
    cells = [escape(_roles(c)[_role(c, first)][0]), *sources, f"{rate:,}", *(f"{number:,}" for number in moved), f"{prompt:,}"]
    return f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

"""What one layer reads and writes of the cache, in rows: while a prompt runs, and in one decode step.

Storage is what outlives a token (`budget`). Traffic is what one step touches. The two have little in common: a Reuse layer stores
nothing and reads 512 rows in every step. Weights, and the sinks and queries made on the way, are not counted.

    prefill   the encoder runs on all N tokens, the decoder on the last window of them; its first layer still writes a row for
              every token. A row that many queries share counts once. Chosen rows are at most queries x top-k.
    decode    the N-th token arrives, is written, and reads
Sources: report §2.2, §2.3, §3.2.2; the access pattern of the official code.
"""

from __future__ import annotations

from ..ced import first_decoder_layer, replay_tokens
from ..config import FULL, REINDEX, Config
from ..formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0

PHASES = ("prefill", "decode")
PARTS = ("window", "rows", "keys", "pair")


def row_bytes(config: Config) -> dict[str, int]:
    """Bytes of a window row, a compressed row, an index key, and of half a pair: two float32 projections of one token."""
    return {"window": E4M3_E8M0.row_bytes(config.head_dim), "rows": E2M1_E4M3.row_bytes(config.head_dim),
            "keys": E2M1_E8M0.row_bytes(config.index_head_dim), "pair": 2 * 4 * config.head_dim}  # fmt: skip


def candidate_rows(config: Config, visible: int) -> int:
    """Rows in the candidate groups of a query that sees `visible` rows: all of them until the groups no longer fit."""
    size = config.candidate_block_size
    groups = -(-visible // size)
    return min(groups, config.candidate_topk_blocks) * size - (groups * size - visible)


def traffic(config: Config, layer: int, phase: str, tokens: int) -> dict:
    """{"queries": n, "scores": n, "reads": {part: rows}, "writes": {part: rows}} of one layer at a context of `tokens` tokens.

    layer counts on through the draft blocks. scores: index scores, over all queries. Raises ValueError for anything else.
    """
    c, last = config, config.num_hidden_layers + config.num_nextn_predict_layers - 1
    if phase not in PHASES:
        raise ValueError(f"phase = {phase!r}, must be one of {PHASES}")
    if type(layer) is not int or not 0 <= layer <= last:
        raise ValueError(f"layer = {layer!r}, must be 0 … {last}, draft blocks included")
    if type(tokens) is not int or not 1 <= tokens <= c.max_position_embeddings:
        raise ValueError(f"tokens = {tokens!r}, must be 1 … {c.max_position_embeddings}")
    draft, ratio = layer >= c.num_hidden_layers, c.compress_ratios[layer]
    role = "draft" if draft else c.roles[layer]
    before = tokens - 1 if phase == "decode" else 0
    queries = 1 if phase == "decode" else 0 if draft else tokens
    if queries > 1 and layer >= first_decoder_layer(c):
        queries = replay_tokens(c, tokens, "bounded")
    reads = {"window": min(tokens, c.sliding_window) if phase == "decode" else queries}
    writes = {"window": 1 if phase == "decode" else min(tokens, c.sliding_window)}
    scores = 0
    if ratio:
        reads["rows"] = min(tokens // ratio, queries * c.index_topk)
    if role in (FULL, REINDEX):
        scores = _scores(c, layer, tokens, queries)
        reads["keys"] = min(tokens // ratio, scores)
    if role == FULL:
        writes["rows"] = writes["keys"] = tokens // ratio - before // ratio
        if ratio > 1:
            reads["pair"], writes["pair"] = before % ratio, tokens % ratio
    return {"queries": queries, "scores": scores, "reads": reads, "writes": writes}


def _scores(config: Config, layer: int, tokens: int, queries: int) -> int:
    """Index scores of the last `queries` of `tokens` tokens: every visible row, or every candidate after their source."""
    ratio, source = config.compress_ratios[layer], config.candidate_source_layer_id
    counts = ((t + 1) // ratio for t in range(tokens - queries, tokens))
    if config.roles[layer] == REINDEX and layer > source:
        return sum(candidate_rows(config, count) for count in counts)
    return _floors(tokens, ratio) - _floors(tokens - queries, ratio)


def _floors(count: int, ratio: int) -> int:
    """floor(1 / r) + floor(2 / r) + … + floor(count / r) = r q (q - 1) / 2 + q (s + 1), where count = r q + s."""
    whole, rest = divmod(count, ratio)
    return ratio * whole * (whole - 1) // 2 + whole * (rest + 1)


def total_bytes(config: Config, phase: str, tokens: int, *, drafter: bool = False) -> dict[str, dict[str, int]]:
    """{"reads": {part: bytes}, "writes": {part: bytes}} of all layers together; drafter: with the draft blocks."""
    sizes, sums = row_bytes(config), {way: dict.fromkeys(PARTS, 0) for way in ("reads", "writes")}
    for layer in range(config.num_hidden_layers + drafter * config.num_nextn_predict_layers):
        moved = traffic(config, layer, phase, tokens)
        for way, parts in sums.items():
            for part, rows in moved[way].items():
                parts[part] += rows * sizes[part]
    return sums

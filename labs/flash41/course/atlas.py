"""The ten blocks as data: labels, columns, words in three languages, what travels between them, where each is explained.

Every number comes from a `Config` (`numbers`), every text from `atlas_words` and `atlas_paths`. The labels, the columns and the
path 1A … 6B are those of the source document; that column 2 is drawn from its top down is our choice, and what 3B, 3C and 6B
cover is our reading, which their cards say.

Files: a chapter is `book/blocks/SLUG.ipynb`, a lab step `labs/student/LABEL/LABEL.ipynb`. `CHAPTERS` and `LABS` name those that
exist; a test compares them with the table of contents, so add a label here when its page is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..budget import budget, whole
from ..ced import first_decoder_layer
from ..config import FULL, REINDEX, REUSE, WINDOW, Config
from ..formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0
from .atlas_paths import PATHS
from .atlas_words import BLOCKS, COLUMNS, EDGES, FACTS, READING, UI, Words

LANGUAGES = {"en": "English", "vi": "Tiếng Việt", "zh": "中文"}
REPOSITORY = "https://github.com/OWNER/REPO"

# label: (column, slug of its chapter, modules, pages of the book that already speak of it)
PLACES = {
    "1A": (1, "1a-input", ("embedding",), ()),
    "1B": (1, "1b-engram", ("engram",), ()),
    "2A": (1, "2a-mhc", ("mhc",), ()),
    "3A": (2, "3a-ced", ("ced",), ()),
    "3B": (2, "3b-csa2", ("compressor",), ()),
    "3C": (2, "3c-indexer", ("indexer",), ()),
    "4A": (3, "4a-attention", ("attention", "ladder"), ("book/ladder/mla.ipynb",)),
    "6A": (3, "6a-kv-cache", ("cache", "budget"), ("book/ladder/budget.ipynb",)),
    "5A": (4, "5a-moe", ("moe", "formats"), ("book/reference/formats.md",)),
    "6B": (4, "6b-dspark", ("dspark", "generate"), ()),
}
CHAPTERS = frozenset(PLACES)
LABS = frozenset(PLACES)
OUR_READING = frozenset({"3B", "3C", "6B"})


@dataclass(frozen=True)
class Edge:
    """What travels from one block to another. kind: "flow" along the path, "store" and "load" at the cache, "back" to a start."""

    source: str
    target: str
    kind: str
    what: Words
    shape: str


@dataclass(frozen=True)
class Fact:
    """One line of a card."""

    what: Words
    value: str


@dataclass(frozen=True)
class Block:
    """One of the ten. `chapter` and `lab` are where they are or will be; `has_chapter`, `has_lab` say whether they exist."""

    label: str
    column: int
    short: Words
    name: Words
    tag: Words
    purpose: Words
    facts: tuple[Fact, ...]
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    chapter: str
    lab: str
    modules: tuple[str, ...]
    pages: tuple[str, ...]
    has_chapter: bool
    has_lab: bool
    reading: Words | None


@dataclass(frozen=True)
class Step:
    """One step of a path: the block, the edges that light with it, what happens."""

    label: str
    edges: tuple[tuple[str, str], ...]
    what: Words


@dataclass(frozen=True)
class Atlas:
    """Everything that a map of one model needs."""

    columns: dict[int, Words]
    blocks: dict[str, Block]  # in the order of the path
    edges: tuple[Edge, ...]
    paths: dict[str, tuple[Words, tuple[Step, ...]]]
    ui: dict[str, Words]


def atlas(config: Config | None = None) -> Atlas:
    """The map of `config`, by default of the released model."""
    known = numbers(Config.flash() if config is None else config)

    def fill(text: Words | str) -> Words | str:
        return text.format_map(known) if isinstance(text, str) else Words(*(part.format_map(known) for part in text))

    edges = tuple(Edge(source, target, kind, fill(what), fill(shape)) for source, target, kind, what, shape in EDGES)
    blocks = {label: _block(label, edges, fill) for label in PLACES}
    paths = {mode: (name, _steps(steps, fill)) for mode, (name, steps) in PATHS.items()}
    return Atlas({n: fill(t) for n, t in COLUMNS.items()}, blocks, edges, paths, {key: fill(text) for key, text in UI.items()})


def _block(label: str, edges: tuple[Edge, ...], fill) -> Block:
    column, slug, modules, pages = PLACES[label]
    short, name, tag, purpose = (fill(text) for text in BLOCKS[label])
    return Block(
        label, column, short, name, tag, purpose, tuple(Fact(fill(what), fill(value)) for what, value in FACTS[label]),
        inputs=tuple(edge for edge in edges if edge.target == label), outputs=tuple(edge for edge in edges if edge.source == label),
        chapter=f"book/blocks/{slug}.ipynb", lab=f"labs/student/{label}/{label}.ipynb", modules=modules, pages=pages,
        has_chapter=label in CHAPTERS, has_lab=label in LABS, reading=READING if label in OUR_READING else None,
    )  # fmt: skip


def _steps(steps, fill) -> tuple[Step, ...]:
    """Each step lights the edge from the block before it, and those that it names."""
    known = {(source, target) for source, target, *_ in EDGES}
    found, before = [], ""
    for label, more, what in steps:
        edges = ((before, label), *more) if (before, label) in known and (before, label) not in more else more
        found.append(Step(label, tuple(edges), fill(what)))
        before = label
    return tuple(found)


def source_bytes(config: Config) -> dict[int, Fraction]:
    """Bytes per token that each source layer adds to the cache, exact: 178, 178, 178 and 356 of the released 890."""
    return {row.layer: row.main_slope + row.index_slope for row in budget(config).layers if row.entry_bytes}


def numbers(config: Config) -> dict[str, object]:
    """Every number that the texts of the map name, from the configuration."""
    sums, roles = budget(config), config.roles
    encoder = first_decoder_layer(config)
    layers, window, topk = config.num_hidden_layers, config.sliding_window, config.index_topk
    parts = {part.name: part.bytes for part in (*sums.constants, *sums.later)}
    seen = min(100_000, window) * (layers - encoder) + 100_000 * encoder
    return {
        "B": "B", "T": "T", "N": "N", "count": len(PLACES),
        "S": config.hc_mult, "D": config.hidden_size, "C": config.head_dim, "R": config.qk_rope_head_dim, "V": config.vocab_size,
        "H": config.num_attention_heads, "K": config.index_head_dim, "L": layers, "last": layers - 1,
        "embedding_bytes": 2 * config.vocab_size * config.hidden_size,
        "encoder": encoder, "decoder": layers - encoder, "last_encoder": encoder - 1, "window": window,
        "share": 100 * seen / (100_000 * layers),
        "full": roles.count(FULL), "reindex": roles.count(REINDEX), "reuse": roles.count(REUSE), "window_only": roles.count(WINDOW),
        "stores": len(config.kv_source_layer_ids),
        "pair_sources": _listed(s for s in config.kv_source_layer_ids if config.compress_ratios[s] > 1),
        "single_source": _listed(s for s in config.kv_source_layer_ids if config.compress_ratios[s] == 1),
        "entry": E2M1_E4M3.row_bytes(config.head_dim), "scales": E2M1_E4M3.scale_bytes(config.head_dim),
        "key": E2M1_E8M0.row_bytes(config.index_head_dim), "key_scales": E2M1_E8M0.scale_bytes(config.index_head_dim),
        "main": sums.main, "index": sums.index, "total": sums.total, "million": float(whole(sums.slope)),
        "tail": parts.get("open groups", 0), "rings": parts["window rows"], "ring_row": E4M3_E8M0.row_bytes(config.head_dim),
        "index_heads": config.index_n_heads, "topk": topk, "keys": window + topk, "pool_block": config.candidate_block_size,
        "pool_blocks": config.candidate_topk_blocks, "pool": config.candidate_topk_blocks * config.candidate_block_size,
        **_engram(config), **_mixing(config), **_experts(config), **_drafter(config, parts),
    }  # fmt: skip


def _listed(values) -> str:
    return ", ".join(map(str, values)) or "–"


def _engram(config: Config) -> dict[str, object]:
    """Rows are E4M3 with one E8M0 scale per 32 channels, one per order and head in each Engram layer."""
    rows = (config.engram_max_ngram_size - 1) * config.engram_n_heads * len(config.engram_layer_ids)
    row = E4M3_E8M0.row_bytes(config.engram_head_dim)
    return {"engram_layers": _listed(config.engram_layer_ids), "engram_rows": rows, "engram_row": row, "engram_bytes": rows * row,
            "engram_table": sum(config.engram_num_embeddings), "ngram": config.engram_max_ngram_size,
            "look_back": config.engram_max_ngram_size - 1}  # fmt: skip


def _mixing(config: Config) -> dict[str, object]:
    """Collapse, write-back and mixing weights of one site; two sites in each layer."""
    return {"coefficients": config.hc_mult * (config.hc_mult + 2), "sites": 2 * config.num_hidden_layers,
            "sinkhorn": config.hc_sinkhorn_iters}  # fmt: skip


def _experts(config: Config) -> dict[str, object]:
    """Three matrices in E2M1 with an E8M0 scale per 32 input channels."""
    width, inner = config.hidden_size, config.moe_intermediate_size
    size = 2 * inner * E2M1_E8M0.row_bytes(width) + width * E2M1_E8M0.row_bytes(inner)
    chosen = config.num_experts_per_tok
    return {"experts": config.n_routed_experts, "chosen": chosen, "expert_bytes": size,
            "experts_read": config.num_hidden_layers * chosen * size / 1e9}  # fmt: skip


def _drafter(config: Config, parts: dict[str, int]) -> dict[str, object]:
    return {"drafts": config.dspark_block_size, "verified": config.dspark_block_size + 1, "draft_layers": config.num_nextn_predict_layers,
            "targets": _listed(config.dspark_target_layer_ids), "draft_rings": parts.get("drafter rings", 0)}  # fmt: skip

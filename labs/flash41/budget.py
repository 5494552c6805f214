"""Bytes per token, derived from a configuration: the per-layer table, the ladder, and the wrong routes to 288.

Everything here is storage that outlives a token. What one decode step reads is another quantity.
Sources: report §2.3 (who stores), §2.4.4 (in which format); the official `inference/model.py` for the constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .capacity import Capacity, capacity, longest_context
from .config import Config
from .formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0

__all__ = [
    "Budget", "Capacity", "Constant", "LayerBytes", "Step", "WrongRoute", "budget", "capacity", "ladder_steps",
    "longest_context", "wrong_routes",
]  # fmt: skip

FP16_BYTES = 2
FP32_BYTES = 4
# The release's 48 shards, summed from the dtypes and shapes in their headers; it cannot be read from a configuration.
FLASH_WEIGHT_BYTES = 510_286_023_000


def whole(value: Fraction) -> int | float:
    """An int where the value is whole, else a float: 890, 3514.25. Exact for group sizes that are powers of two."""
    return value.numerator if value.denominator == 1 else float(value)


@dataclass(frozen=True)
class LayerBytes:
    """What one layer keeps. All sizes in bytes; an entry is written once per `tokens_per_entry` tokens."""

    layer: int
    role: str
    entry_bytes: int = 0
    index_bytes: int = 0
    tokens_per_entry: int = 1
    window_rows: int = 0
    window_row_bytes: int = 0
    tail_bytes: int = 0
    reads: int | None = None  # the layer whose entries it attends to; None for a window-only layer

    @property
    def main_slope(self) -> Fraction:
        """Bytes per token spent on entries."""
        return Fraction(self.entry_bytes, self.tokens_per_entry)

    @property
    def index_slope(self) -> Fraction:
        """Bytes per token spent on index keys."""
        return Fraction(self.index_bytes, self.tokens_per_entry)

    @property
    def window_bytes(self) -> int:
        """Bytes of the ring of the last rows, reserved whole."""
        return self.window_rows * self.window_row_bytes


@dataclass(frozen=True)
class Constant:
    """Bytes that a session holds once, whatever its length, and the product they come from."""

    name: str
    bytes: int
    how: str


@dataclass(frozen=True)
class Budget:
    """The cache of one model: constants + sum over layers of (entry + index) * floor(N / tokens_per_entry) bytes."""

    model: str
    model_type: str
    layers: tuple[LayerBytes, ...]
    max_tokens: int | None = None  # the context the model was released for
    later: tuple[Constant, ...] = ()  # constants that appear only when a further part of the model runs
    not_counted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def slope(self) -> Fraction:
        """Bytes per token, exact."""
        return sum((row.main_slope + row.index_slope for row in self.layers), Fraction(0))

    @property
    def main(self) -> int | float:
        """Bytes per token spent on entries: 720 for the released model."""
        return whole(sum((row.main_slope for row in self.layers), Fraction(0)))

    @property
    def index(self) -> int | float:
        """Bytes per token spent on index keys: 170 for the released model."""
        return whole(sum((row.index_slope for row in self.layers), Fraction(0)))

    @property
    def total(self) -> int | float:
        """Bytes per token: 890 for the released model."""
        return whole(self.slope)

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Window rings and open groups, one line per size."""
        rings: dict[tuple[int, int], int] = {}
        tails: dict[int, int] = {}
        for row in self.layers:
            if row.window_bytes:
                rings[row.window_rows, row.window_row_bytes] = rings.get((row.window_rows, row.window_row_bytes), 0) + 1
            if row.tail_bytes:
                tails[row.tail_bytes] = tails.get(row.tail_bytes, 0) + 1
        found = [_ring("window rows", n, rows, size) for (rows, size), n in rings.items()]
        found += [Constant("open groups", n * size, f"{n} layers x {size:,} B") for size, n in tails.items()]
        return tuple(found)

    @property
    def constant_bytes(self) -> int:
        """Bytes of one session that do not grow."""
        return sum(constant.bytes for constant in self.constants)

    def used_bytes(self, tokens: int) -> int:
        """Bytes that `tokens` tokens of one session have added, in closed groups only; the constants come on top."""
        if not isinstance(tokens, int) or tokens < 0:
            raise ValueError(f"tokens must be 0 or more, got {tokens!r}: a whole number")
        return sum((row.entry_bytes + row.index_bytes) * (tokens // row.tokens_per_entry) for row in self.layers)


def budget(config: Config) -> Budget:
    """The released model's table: 720 + 170 = 890 bytes per token, from what its four source layers store.

    An entry is `head_dim` E2M1 values with an E4M3 scale per 16; an index key `index_head_dim` E2M1 values with an
    E8M0 scale per 32; a window row `head_dim` E4M3 values with an E8M0 scale per 32. Report §2.3, §2.4.4.
    """
    rows = tuple(_layer_bytes(config, layer) for layer in range(config.num_hidden_layers))
    drafter = _ring("drafter rings", config.num_nextn_predict_layers, config.sliding_window, rows[0].window_row_bytes)
    name = "DeepSeek-V4.1-Flash" if config == Config.flash() else "DeepSeek-V4.1 (other sizes)"
    later = (drafter,) if drafter.bytes else ()
    return Budget(name, "deepseek_v41", rows, config.max_position_embeddings, later, _not_counted(config))


def _layer_bytes(config: Config, layer: int) -> LayerBytes:
    """One row of the table. A source of ratio m > 1 also parks an open group: m rows and m gates of C fp32 numbers."""
    ring = {"window_rows": config.sliding_window, "window_row_bytes": E4M3_E8M0.row_bytes(config.head_dim)}
    role, ratio = config.roles[layer], config.compress_ratios[layer]
    reads = config.kv_source(layer)
    if role != "full":
        return LayerBytes(layer, role, reads=reads, **ring)
    return LayerBytes(
        layer, role, E2M1_E4M3.row_bytes(config.head_dim), E2M1_E8M0.row_bytes(config.index_head_dim), ratio,
        tail_bytes=2 * ratio * config.head_dim * FP32_BYTES if ratio > 1 else 0, reads=reads, **ring,
    )  # fmt: skip


def _ring(name: str, layers: int, rows: int, row_bytes: int) -> Constant:
    return Constant(name, layers * rows * row_bytes, f"{layers} layers x {rows:,} rows x {row_bytes:,} B")


def _not_counted(config: Config) -> tuple[str, ...]:
    """What a memory must hold besides this cache, and where engines differ."""
    wide, wide_key = E4M3_E8M0.row_bytes(config.head_dim), E4M3_E8M0.row_bytes(config.index_head_dim)
    bf16 = next(route for route in wrong_routes(config) if route.name == "bf16").bytes_per_token
    weights = f"weights ({FLASH_WEIGHT_BYTES:,} B on disk)" if config == Config.flash() else "weights"
    return (
        weights,
        "activations and working memory of a forward pass",
        "rounding up to pages, and the allocator's own overhead",
        "the drafter's rings, unless a drafter runs",
        f"engines that store wider rows: {wide} B (FP8) or {v4_record_bytes()} B (V4 record) per entry, "
        f"{wide_key} B per index key, or {bf16:,} B/token (BF16)",
    )


def v4_record_bytes() -> int:
    """DeepSeek-V4's entry: 448 FP8 channels, 64 BF16 RoPE channels, one E8M0 scale per 64 of the 448, one pad byte."""
    return 448 + 64 * 2 + 448 // 64 + 1


# -- the ladder: how a token's price fell ------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One rung: bytes_per_token = entry_bytes * entries_per_token; `factor` = previous / this (below 1: it grew).

    `factor` is None on the first rung, and from the rung on where nothing is stored (no source layer).
    """

    name: str
    changed: str
    entry_bytes: int
    entries_per_token: int | float
    bytes_per_token: int | float
    factor: float | None


def ladder_steps(config: Config) -> tuple[Step, ...]:
    """From one key and one value per head in fp16 to the released cache, one change at a time.

    MHA 2*H*C*2 per layer; MQA 2*C*2; one latent C*2 (K = V); then four layers instead of forty; then pairs; then FP4;
    then the index keys, which are the price of choosing.
    """
    width, heads, layers = config.head_dim, config.num_attention_heads, config.num_hidden_layers
    fp4, key = E2M1_E4M3.row_bytes(width), E2M1_E8M0.row_bytes(config.index_head_dim)
    sources = len(config.kv_source_layer_ids)
    paired = sum(Fraction(1, config.compress_ratios[layer]) for layer in config.kv_source_layer_ids)
    latent = width * FP16_BYTES
    rungs = (
        ("mha", f"in every layer a key and a value for each of {heads} heads, fp16", 2 * heads * latent, layers),
        ("mqa", "one key and one value for all heads", 2 * latent, layers),
        ("latent", "key and value are the same vector", latent, layers),
        ("sources", f"{sources} layers store, the others read theirs", latent, sources),
        ("pairs", "two tokens per entry where the ratio is 2", latent, paired),
        ("fp4", "4-bit numbers and one scale byte per 16", fp4, paired),
        ("index", "plus one index key per entry, to choose by", fp4 + key, paired),
    )
    return _with_factors(rungs)


def _with_factors(rungs) -> tuple[Step, ...]:
    steps, before = [], None
    for name, changed, size, count in rungs:
        price = Fraction(count) * size
        factor = float(before / price) if before and price else None
        steps.append(Step(name, changed, size, whole(Fraction(count)), whole(price), factor))
        before = price
    return tuple(steps)


# -- wrong routes and roads not taken ----------------------------------------------------------------------------


@dataclass(frozen=True)
class WrongRoute:
    """A way of counting, or of storing, that does not give the released number."""

    name: str
    what: str
    entry_bytes: int
    index_bytes: int
    entries_per_token: int | float
    bytes_per_token: int | float


def wrong_routes(config: Config) -> tuple[WrongRoute, ...]:
    """Counter-examples as data: each differs from the released cache in one respect (report §2.3, §2.4.4)."""
    width, rope, keys = config.head_dim, config.qk_rope_head_dim, config.index_head_dim
    entry, key = E2M1_E4M3.row_bytes(width), E2M1_E8M0.row_bytes(keys)
    ratios = [ratio for ratio in config.compress_ratios[: config.num_hidden_layers] if ratio]
    alone = sum(Fraction(1, ratio) for ratio in ratios)
    shared = sum(Fraction(1, config.compress_ratios[layer]) for layer in config.kv_source_layer_ids)
    extra, mixed = E2M1_E4M3.row_bytes(width + rope), E2M1_E4M3.row_bytes(width - rope) + 2 * rope
    routes = (
        ("extra_rope", f"{rope} RoPE channels beside the latent, in FP4", extra, key, shared),
        ("bf16_rope", f"the latent's {rope} RoPE channels in BF16", mixed, key, shared),
        ("unshared", f"all {len(ratios)} compressing layers keep their own", entry, key, alone),
        ("unpaired", "one entry per token in every source layer", entry, key, len(config.kv_source_layer_ids)),
        ("fp8", "entries and index keys in FP8", E4M3_E8M0.row_bytes(width), E4M3_E8M0.row_bytes(keys), shared),
        ("bf16", "entries and index keys in BF16", 2 * width, 2 * keys, shared),
    )
    return tuple(WrongRoute(*r[:4], whole(Fraction(r[4])), whole(Fraction(r[4]) * (r[2] + r[3]))) for r in routes)

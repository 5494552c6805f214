"""KV bytes per token of other models, read from their Hugging Face `config.json`.

Key names and defaults are those that the documentation of the families' configuration classes states
(huggingface.co/docs/transformers/model_doc); s is the size in bytes of one stored number.

    family                              bytes per token and layer              constant per layer and session
    MHA, GQA, MQA                       2*H_kv*d_h*s                           sliding: window * 2*H_kv*d_h*s, no slope
      (llama, qwen2, qwen3, qwen3_moe, mistral, mixtral, gemma, gemma2, gemma3)
    MLA (deepseek_v2, deepseek_v3)      (kv_lora_rank + qk_rope_head_dim)*s    none
    deepseek_v32                        656 + 132, released records            none
    deepseek_v4                         (584 + 68)/4 or 584/128, released      window * 584
    deepseek_v41                        see `budget.budget`                    see there
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from .budget import Budget, LayerBytes, budget, v4_record_bytes
from .config import Config
from .fields import Fields, read_json
from .formats import E2M1_E8M0

SLIDING, FULL = "sliding_attention", "full_attention"
MOST_LAYERS = 10_000
ALWAYS = (
    "weights",
    "activations and working memory of a forward pass",
    "rounding up to pages, and the allocator's own overhead",
    "scales, where an engine quantises the cache",
)

RECORDED = ALWAYS[:-1]  # a released record holds its own scales


def load(path: str | Path, dtype: str | None = None) -> Budget:
    """The budget of the model that a `config.json` describes; `dtype` replaces the file's stored type.

    Raises OSError if the file cannot be read; ValueError for an unknown family, a missing or impossible field, or a
    `dtype` for a family that stores released records.
    """
    return describe(read_json(path), path, dtype)


def describe(data: dict, path: str | Path, dtype: str | None = None) -> Budget:
    """The same for the contents of a `config.json`; `path` is what messages call it. V4.1's is read from the file alone."""
    family = data.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        found = "lacks the field model_type" if family is None else f"has the model_type {family!r}"
        raise ValueError(f"{path} {found}: known are {', '.join(FAMILIES)}")
    text = data
    if family in COMPOSITE:
        text = data.get("text_config")
        if not isinstance(text, dict):
            raise ValueError(f"{path} lacks the object text_config, which {family} needs")
    fields = Fields(str(path), family, text, data)
    if dtype is not None and family in RECORDS:
        raise ValueError(f"--dtype {dtype!r}: {family} stores released records of fixed size; leave it out")
    found = FAMILIES[family](fields, dtype)
    if FAMILIES[family] is _v41:
        return found
    limit = fields.integer("max_position_embeddings") if fields.has("max_position_embeddings") else None
    return replace(found, model=f"{path} ({family})", max_tokens=limit)


def _layer_count(fields: Fields) -> int:
    count = fields.integer("num_hidden_layers")
    if count > MOST_LAYERS:
        raise fields.fail("num_hidden_layers", f"at most {MOST_LAYERS}")
    return count


# -- MHA, GQA, MQA -----------------------------------------------------------------------------------------------

# Documented defaults where they are not "as many as query heads" and "hidden_size / heads".
HEADS = {"gemma3": 8, "gemma3_text": 8, "gemma2": 8}
KV_HEADS = {"gemma3": 4, "gemma3_text": 4, "gemma2": 4, "gemma": 16, "mistral": 8, "mixtral": 8}
KV_HEADS |= {"qwen2": 32, "qwen3": 32, "qwen3_moe": 4}
HEAD_DIM = {"qwen3": 128, "gemma": 256, "gemma2": 256, "gemma3": 256, "gemma3_text": 256}


def _heads(fields: Fields, dtype: str | None) -> Budget:
    """2 * H_kv * d_h * s bytes per token in a full layer; in a sliding layer the last `window` tokens only."""
    layers, row = _layer_count(fields), _row_bytes(fields, dtype)
    slides = _sliding(fields, layers)
    window = _window(fields) if any(slides) else 0
    rows = tuple(
        LayerBytes(n, "sliding", window_rows=window, window_row_bytes=row) if slide else LayerBytes(n, "full", row, reads=n)
        for n, slide in enumerate(slides)
    )
    growing = f"sliding layers grow by {sum(slides) * row:,} B/token until they hold {window:,} tokens"
    notes = (f"{growing}; the constant is the full window",) if window else ()
    return Budget(fields.family, fields.family, rows, not_counted=ALWAYS, notes=notes)


def _row_bytes(fields: Fields, dtype: str | None) -> int:
    family = fields.family
    heads = fields.integer("num_attention_heads", HEADS.get(family))
    absent = "num_key_value_heads" not in fields.text
    kv_heads = fields.integer("num_key_value_heads", KV_HEADS.get(family, heads) if absent else heads)
    if heads % kv_heads:
        raise fields.fail("num_key_value_heads", f"a divisor of num_attention_heads = {heads}")
    if fields.has("head_dim") or family in HEAD_DIM:
        width = fields.integer("head_dim", HEAD_DIM.get(family))
    else:
        width, rest = divmod(fields.integer("hidden_size"), heads)
        if rest:
            raise fields.fail("hidden_size", f"a multiple of num_attention_heads = {heads} where head_dim is missing")
    return 2 * kv_heads * width * fields.dtype_bytes(dtype)


def _sliding(fields: Fields, layers: int) -> list[bool]:
    """Which layers slide: `layer_types` where present, else the family's documented rule."""
    types = fields.names("layer_types", layers, (SLIDING, FULL))
    if types is not None:
        return [entry == SLIDING for entry in types]
    return [SLIDE_RULES.get(fields.family, _never)(fields, layer) for layer in range(layers)]


def _never(fields: Fields, layer: int) -> bool:
    return False


def _everywhere(fields: Fields, layer: int) -> bool:
    """Mistral: every layer slides; null means none, a missing field means the documented 4096."""
    return fields.has("sliding_window") or "sliding_window" not in fields.text


def _if_given(fields: Fields, layer: int) -> bool:
    """Mixtral: every layer slides if a window is given; the documented default is none."""
    return fields.has("sliding_window")


def _if_used(fields: Fields, layer: int) -> bool:
    """Qwen3-MoE: every layer slides, but only with `use_sliding_window` (default false)."""
    return fields.flag("use_sliding_window", False) and _everywhere(fields, layer)


def _upper(fields: Fields, layer: int) -> bool:
    """Qwen2, Qwen3: layers from `max_window_layers` (default 28) up, but only with `use_sliding_window`."""
    first = fields.text.get("max_window_layers")
    first = 0 if first == 0 and first is not False else fields.integer("max_window_layers", 28)
    return _if_used(fields, layer) and layer >= first


def _even(fields: Fields, layer: int) -> bool:
    """Gemma 2: layer 0 slides, layer 1 sees everything, and so on."""
    return _everywhere(fields, layer) and layer % 2 == 0


def _but_every_sixth(fields: Fields, layer: int) -> bool:
    """Gemma 3: every `sliding_window_pattern`-th layer (default 6) sees everything, the others slide."""
    pattern = fields.integer("sliding_window_pattern", fields.integer("_sliding_window_pattern", 6))
    return _everywhere(fields, layer) and (layer + 1) % pattern != 0


def _window(fields: Fields) -> int:
    return fields.integer("sliding_window", 4096)


SLIDE_RULES: dict[str, Callable[[Fields, int], bool]] = {
    "mistral": _everywhere, "mixtral": _if_given, "qwen2": _upper, "qwen3": _upper, "qwen3_moe": _if_used,
    "gemma2": _even, "gemma3": _but_every_sixth, "gemma3_text": _but_every_sixth,
}  # fmt: skip


# -- MLA and the released records ----------------------------------------------------------------------------------


def _mla(fields: Fields, dtype: str | None) -> Budget:
    """(kv_lora_rank + qk_rope_head_dim) * s per layer: one latent and one rotated key part, shared by all heads."""
    row = (fields.integer("kv_lora_rank") + fields.integer("qk_rope_head_dim")) * fields.dtype_bytes(dtype)
    rows = tuple(LayerBytes(n, "latent", row, reads=n) for n in range(_layer_count(fields)))
    return Budget(fields.family, fields.family, rows, not_counted=(*ALWAYS, *MLA_NOT_COUNTED))


MLA_NOT_COUNTED = ("multi-token-prediction layers", "engines that expand the latent to full keys and values")


def _released(fields: Fields, **widths: int) -> None:
    """A released record has one size, for one set of widths; a missing field means the released width."""
    for name, width in widths.items():
        if fields.integer(name, width) != width:
            raise fields.fail(name, f"{width}, the width of {fields.family}'s released record")


def _v32(fields: Fields, dtype: str | None) -> Budget:
    """656 B: 512 FP8 channels, an fp32 scale per 128, 64 BF16 RoPE channels. 132 B: 128 FP8 channels, an fp32 scale."""
    _released(fields, kv_lora_rank=512, qk_rope_head_dim=64, index_head_dim=128)
    entry, key = 512 + 512 // 128 * 4 + 64 * 2, 128 + 4
    rows = tuple(LayerBytes(n, "latent + index", entry, key, reads=n) for n in range(_layer_count(fields)))
    return Budget(fields.family, fields.family, rows, not_counted=(*RECORDED, *MLA_NOT_COUNTED))


CSA, HCA = "compressed_sparse_attention", "heavily_compressed_attention"
V4_ROLES = {SLIDING: "window", CSA: "csa", HCA: "hca"}
V4_KINDS = {0: SLIDING, 4: CSA, 128: HCA}


def _v4(fields: Fields, dtype: str | None) -> Budget:
    """CSA layers: 584 B + a 68 B index key per 4 tokens. HCA layers: 584 B per 128 tokens. Window layers: nothing.

    The slopes reproduce the report's figure for V4-Flash. The constant takes a ring of `sliding_window` rows, 584 B
    each, in every layer: what engines of this family store, not a released figure (one secondary source: confidence C).
    """
    _released(fields, head_dim=512, qk_rope_head_dim=64, index_head_dim=128)
    entry, key, rates = v4_record_bytes(), E2M1_E8M0.row_bytes(128), _compress_rates(fields)
    ring = {"window_rows": fields.integer("sliding_window", 128), "window_row_bytes": entry}
    rows = tuple(
        LayerBytes(n, V4_ROLES[kind], reads=None, **ring)
        if kind == SLIDING
        else LayerBytes(n, V4_ROLES[kind], entry, key if kind == CSA else 0, rates[kind], reads=n, **ring)
        for n, kind in enumerate(_v4_kinds(fields))
    )
    missing = (*RECORDED, "multi-token-prediction layers", "the compressors' open groups")
    note = "window rows are taken at the entry's size in every layer; this constant is not a released figure"
    return Budget(fields.family, fields.family, rows, not_counted=missing, notes=(note,))


def _v4_kinds(fields: Fields) -> list[str]:
    """Both spellings: the released `compress_ratios` (entries beyond the layers belong to MTP), or `layer_types`."""
    layers = _layer_count(fields)
    ratios = fields.names("compress_ratios", layers, tuple(V4_KINDS), longer=True)
    kinds = fields.names("layer_types", layers, tuple(V4_ROLES), longer=True)
    if kinds is None and ratios is None:
        raise ValueError(f"{fields.path} lacks the field compress_ratios (or layer_types), which {fields.family} needs")
    return list(kinds) if kinds is not None else [V4_KINDS[ratio] for ratio in ratios]


def _compress_rates(fields: Fields) -> dict[str, int]:
    """Tokens per entry, 4 and 128 unless `compress_rates` (or the older `compress_rate_csa`, `_hca`) says otherwise."""
    given = fields.text.get("compress_rates")
    if given is not None and not isinstance(given, dict):
        raise fields.fail("compress_rates", "an object")
    inner = Fields(fields.path, fields.family, given or {}, fields.outer)
    older = {CSA: fields.integer("compress_rate_csa", 4), HCA: fields.integer("compress_rate_hca", 128)}
    return {kind: inner.integer(kind, rate) for kind, rate in older.items()}


def _v41(fields: Fields, dtype: str | None) -> Budget:
    return budget(Config.from_json(fields.path))


GROUPED = ("llama", "qwen2", "qwen3", "qwen3_moe", "mistral", "mixtral", "gemma", "gemma2", "gemma3", "gemma3_text")
FAMILIES: dict[str, Callable[[Fields, str | None], Budget]] = {
    **dict.fromkeys(GROUPED, _heads),
    "deepseek_v2": _mla,
    "deepseek_v3": _mla,
    "deepseek_v32": _v32,
    "deepseek_v4": _v4,
    "deepseek_v41": _v41,
    "deepseek_v41_text": _v41,
}
COMPOSITE = ("gemma3", "deepseek_v41")
RECORDS = ("deepseek_v32", "deepseek_v4", "deepseek_v41", "deepseek_v41_text")

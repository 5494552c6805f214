"""The ladder explorer: from one key and one value per head to 890 bytes per token, one setting at a time."""

from __future__ import annotations

from html import escape

from ...budget import FP16_BYTES, Budget, LayerBytes, ladder_steps
from ...config import Config
from ...formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0
from ..models import MODELS, model_budgets
from .host import widget

FORMATS = {"fp16": None, "fp8": E4M3_E8M0, "fp4": E2M1_E4M3}
KEYS = {"none": None, "fp4": E2M1_E8M0, "fp8": E4M3_E8M0}
WIDTHS = (32, 64, 96, 128, 192, 256, 384, 512, 576, 768, 1024)
CONTEXTS = tuple(digit * 10**power for power in range(2, 7) for digit in (1, 2, 5)) + (10**7,)
MOST = 128  # heads, layers, tokens per entry
WHOLE = ("heads", "kv_heads", "width", "layers", "storing", "pooling", "tokens", "context")
RUNGS = {"mha": "MHA", "mqa": "MQA", "latent": "one latent", "sources": "4 layers store", "pairs": "pairs", "fp4": "FP4",
         "index": "index keys: 890"}  # fmt: skip


def show_ladder(**settings):
    """Every lever of the price of a token, with the released cache as the start.

    settings: any of heads, kv_heads, stored ("pair": a key and a value, "latent": one vector is both), width, format ("fp16",
    "fp8", "fp4"), layers, storing (layers that keep entries), pooling (those of them that pool), tokens (per pooled entry), index
    ("none", "fp4", "fp8") and context. In a notebook `.settings` is the present choice. Raises ValueError for what cannot be.
    """
    rungs = rung_settings(Config.flash())
    start = check_settings(rungs["index"] | settings)
    return widget("ladder", _data(rungs), _table(rungs), settings=start)


def rung_settings(config: Config) -> dict[str, dict]:
    """The rungs of `budget.ladder_steps` as settings, by name; each changes one lever of the one before."""
    ratios = [config.compress_ratios[layer] for layer in config.kv_source_layer_ids]
    heads, layers = config.num_attention_heads, config.num_hidden_layers
    now = dict(
        heads=heads, kv_heads=heads, stored="pair", width=config.head_dim, format="fp16", layers=layers, storing=layers,
        pooling=0, tokens=max(ratios), index="none", context=10**6,
    )  # fmt: skip
    changes = {
        "mha": {}, "mqa": {"kv_heads": 1}, "latent": {"stored": "latent"}, "sources": {"storing": len(ratios)},
        "pairs": {"pooling": sum(ratio > 1 for ratio in ratios)}, "fp4": {"format": "fp4"}, "index": {"index": "fp4"},
    }  # fmt: skip
    return {name: (now := now | change) for name, change in changes.items()}


def model_settings() -> dict[str, dict]:
    """Settings of the real models that keep one kind of row in every layer."""
    found = {}
    for name, c in MODELS.items():
        if c["model_type"] not in ("llama", "qwen3", "deepseek_v3"):
            continue
        latent, heads, layers = "kv_lora_rank" in c, c["num_attention_heads"], c["num_hidden_layers"]
        width = c["kv_lora_rank"] + c["qk_rope_head_dim"] if latent else c.get("head_dim", c.get("hidden_size", 0) // heads)
        found[name] = dict(
            heads=heads, kv_heads=1 if latent else c.get("num_key_value_heads", heads), stored="latent" if latent else "pair",
            width=width, format="fp16", layers=layers, storing=layers, pooling=0, tokens=1, index="none",
        )  # fmt: skip
    return found


def check_settings(s: dict) -> dict:
    """The settings, if a model could have them; ValueError names the first that it could not."""
    choices = {"stored": ("pair", "latent"), "format": tuple(FORMATS), "index": tuple(KEYS)}
    if unknown := set(s) - {*WHOLE, *choices}:
        raise ValueError(f"settings = {sorted(unknown)}: known are {[*WHOLE, *choices]}")
    for name, allowed in choices.items():
        if s[name] not in allowed:
            raise ValueError(f"{name} = {s[name]!r}, must be one of {list(allowed)}")
    most = {"width": WIDTHS[-1], "storing": s["layers"], "pooling": s["storing"], "kv_heads": s["heads"], "context": CONTEXTS[-1]}
    for name in ("heads", "layers", *(n for n in WHOLE if n not in ("heads", "layers"))):
        least = 0 if name == "pooling" else 1
        if type(s[name]) is not int or not least <= s[name] <= most.get(name, MOST):
            raise ValueError(f"{name} = {s[name]!r}, must be a whole number from {least} to {most.get(name, MOST)}")
    if s["width"] % 32:
        raise ValueError(f"width = {s['width']}, must be a multiple of 32, the largest group that shares a scale")
    if s["heads"] % s["kv_heads"]:
        raise ValueError(f"kv_heads = {s['kv_heads']}, must divide heads = {s['heads']}")
    return dict(s)


def ladder_budget(s: dict) -> Budget:
    """The cache of these settings, layer by layer; its `total` and `used_bytes` are what the explorer shows."""
    fmt, key = FORMATS[s["format"]], KEYS[s["index"]]
    vectors = 1 if s["stored"] == "latent" else 2 * s["kv_heads"]
    entry = vectors * (fmt.row_bytes(s["width"]) if fmt else FP16_BYTES * s["width"])
    index = key.row_bytes(Config.flash().index_head_dim) if key else 0
    rows = [LayerBytes(n, "full", entry, index, s["tokens"] if n < s["pooling"] else 1) for n in range(s["storing"])]
    rows += [LayerBytes(n, "reuse") for n in range(s["storing"], s["layers"])]
    return Budget("settings", "settings", tuple(rows))


def _data(rungs: dict) -> dict:
    width = Config.flash().index_head_dim
    def format_data(fmt) -> dict:
        return {"bits": 8 * fmt.payload_bytes(fmt.group) // fmt.group, "group": fmt.group} if fmt else {"bits": 8 * FP16_BYTES, "group": 0}

    return {
        "formats": {name: format_data(fmt) for name, fmt in FORMATS.items()},
        "keys": {name: key.row_bytes(width) if key else 0 for name, key in KEYS.items()}, "fp16": FP16_BYTES, "key_width": width,
        "widths": WIDTHS, "contexts": CONTEXTS, "most": MOST,
        "rungs": [[name, RUNGS[name], rungs[name]] for name in rungs], "models": list(model_settings().items()),
        "known": [[name, float(found.total)] for name, found in model_budgets().items()],
    }  # fmt: skip


def _table(rungs: dict) -> str:
    """The rungs with bytes per token and GB at a million tokens."""
    steps = {step.name: step for step in ladder_steps(Config.flash())}
    rows = ""
    for name, s in rungs.items():
        found = ladder_budget(s)
        rows += (f'<tr><th scope="row">{escape(RUNGS[name])}</th><td>{escape(steps[name].changed)}</td><td>{found.total:,}</td>'
                 f"<td>{found.used_bytes(10**6) / 10**9:,.2f}</td></tr>")  # fmt: skip
    heads = "".join(f'<th scope="col">{text}</th>' for text in ("Rung", "What it keeps", "Bytes per token", "GB at 10⁶ tokens"))
    caption = "From MHA to 890 bytes, one lever at a time"
    return f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"

"""Configurations of real models, as their released `config.json` states them: what the explorers compare with.

Only the fields that decide the cache; `families.describe` turns them into bytes. V4.1-Flash is `Config.flash()`.
"""

from __future__ import annotations

from dataclasses import replace

from ..budget import Budget, budget
from ..config import Config
from ..families import describe

V41 = "DeepSeek-V4.1-Flash"
MODELS: dict[str, dict] = {
    "Llama 2 7B": dict(
        model_type="llama", num_hidden_layers=32, hidden_size=4096, num_attention_heads=32,
        max_position_embeddings=4096, torch_dtype="float16",
    ),
    "DeepSeek LLM 67B": dict(
        model_type="llama", num_hidden_layers=95, hidden_size=8192, num_attention_heads=64, num_key_value_heads=8,
        max_position_embeddings=4096, torch_dtype="bfloat16",
    ),
    "Qwen3 0.6B": dict(
        model_type="qwen3", num_hidden_layers=28, hidden_size=1024, num_attention_heads=16, num_key_value_heads=8,
        head_dim=128, max_position_embeddings=40960, torch_dtype="bfloat16",
    ),
    "DeepSeek-V3": dict(
        model_type="deepseek_v3", num_hidden_layers=61, num_attention_heads=128, kv_lora_rank=512, qk_rope_head_dim=64,
        max_position_embeddings=163840, torch_dtype="bfloat16",
    ),
    "DeepSeek-V3.2": dict(model_type="deepseek_v32", num_hidden_layers=61, max_position_embeddings=163840),
    "DeepSeek-V4-Flash": dict(
        model_type="deepseek_v4", num_hidden_layers=43, compress_ratios=[0, 0] + [4, 128] * 20 + [4],
        max_position_embeddings=1048576,
    ),
}  # fmt: skip


def model_budgets() -> dict[str, Budget]:
    """Name -> budget of every model above and of V4.1-Flash, which comes last."""
    found = {name: replace(describe(values, name), model=name) for name, values in MODELS.items()}
    return found | {V41: budget(Config.flash())}

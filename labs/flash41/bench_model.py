"""The model part of `flash41 bench`: the fast path beside the plain one, at a middle size, on one thread.

`mid` is small enough for two CPU cores and keeps every role. A long context is not prefilled but written: random rows under the
cache's own formats, which costs a decode step exactly what real ones do. Each timed call follows an untimed one of the same path, as a
decode step follows another: right after the other path's call it would meet that one's caches and freed memory.
"""

from __future__ import annotations

import torch

from . import measure, mhc
from .cache import KVCache
from .config import Config, RopeScaling
from .model import Model

FORWARD = (256, 1024, 2048)
DECODE = (1000, 16_000, 64_000)


def mid() -> Config:
    """hidden 512, 12 layers, sources 2 5 7, index sources 2 5 7 10, top-k 128, 64 candidate groups of 8, 16 experts top-2."""
    return Config(
        vocab_size=512, hidden_size=512, num_hidden_layers=12, num_attention_heads=8, head_dim=128, qk_rope_head_dim=32,
        q_lora_rank=256, o_lora_rank=128, o_groups=4, moe_intermediate_size=256, n_routed_experts=16, num_experts_per_tok=2,
        rope_scaling=RopeScaling(original_max_position_embeddings=4096), sliding_window=128,
        compress_ratios=(0, 0) + (2,) * 5 + (1,) * 5, kv_source_layer_ids=(2, 5, 7), index_source_layer_ids=(2, 5, 7, 10),
        candidate_source_layer_id=7, candidate_topk_blocks=64, candidate_block_size=8, index_topk=128, index_n_heads=8,
        index_head_dim=64, engram_layer_ids=(1, 5), engram_vocab_size=1000, engram_num_embeddings=(25874, 30058),
        engram_compressed_vocab_size=512, num_nextn_predict_layers=0, dspark_target_layer_ids=(), dspark_noise_token_id=0,
    )  # fmt: skip


def filled_cache(config: Config, tokens: int, seed: int = 0) -> KVCache:
    """A cache that holds `tokens` random tokens."""
    cache, generator = KVCache(config), torch.Generator().manual_seed(seed)

    def rows(n: int, width: int):
        return torch.randn(1, n, width, generator=generator)

    for layer in range(config.num_hidden_layers):
        kept = min(tokens, config.sliding_window)
        cache.write_window(layer, rows(kept, config.head_dim), skipped=tokens - kept)
    for layer in config.kv_source_layer_ids:
        n = tokens // config.compress_ratios[layer]
        cache.append_rows(layer, rows(n, config.head_dim), rows(n, config.index_head_dim))
    cache.advance(tokens)
    return cache


def run(rounds: int, forward=FORWARD, decode=DECODE) -> list[dict]:
    """Rows of the table: what, size, fast and plain in ms, ratio plain / fast."""
    config = mid()
    model, found = Model(config), []
    ids = torch.randint(0, config.vocab_size, (1, max(forward, default=1)), generator=torch.Generator().manual_seed(1))

    def row(what: str, size: int, functions: dict) -> None:
        timings = measure.compare(functions, rounds, warmup=0, settle=1)
        fast, plain = (timings[path].p50 * 1e3 for path in ("fast", "plain"))
        found.append({"what": what, "size": size, "fast_ms": fast, "plain_ms": plain, "ratio": plain / fast})

    for tokens in forward:
        row("forward", tokens, {path: lambda p=path, n=tokens: model(ids[:, :n], path=p) for path in ("fast", "plain")})
    for context in decode:
        caches = {path: filled_cache(config, context) for path in ("fast", "plain")}
        row("decode", context, {path: lambda p=path, held=caches[path]: model(ids[:, :1], held, path=p) for path in caches})
    logits = torch.randn(1, 1, 4, 4)
    both = {"fast": mhc.sinkhorn, "plain": mhc.sinkhorn_plain}
    row("Sinkhorn", 1, {path: lambda f=f: f(logits, 20, 1e-6) for path, f in both.items()})
    return found


def growth(found: list[dict]) -> dict[str, float]:
    """Decode time of the fast path at each context over that at the first."""
    decode = [row for row in found if row["what"] == "decode"]
    return {f"{row['size']:,} / {decode[0]['size']:,}": row["fast_ms"] / decode[0]["fast_ms"] for row in decode[1:]}

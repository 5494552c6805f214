"""Numbers of ladder/budget: the price list, what a session holds, what a step reads."""
from fractions import Fraction

import torch

from flash41.budget import budget, v4_record_bytes, wrong_routes
from flash41.capacity import TOKEN_UNITS, capacity
from flash41.config import Config
from flash41.formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0

FLASH = Config.flash()
BUDGET = budget(FLASH)

ENTRY, KEY = E2M1_E4M3.row_bytes(FLASH.head_dim), E2M1_E8M0.row_bytes(FLASH.index_head_dim)
READERS = [FLASH.compress_ratios[layer] for layer, role in enumerate(FLASH.roles) if role != "window"]
POOL = FLASH.candidate_topk_blocks * FLASH.candidate_block_size
ROUTES = {route.name: route for route in wrong_routes(FLASH)}
V32 = 61 * (656 + 132)  # layers and records of its config.json, as flash41.families counts
V4 = Fraction(21 * (v4_record_bytes() + KEY), 4) + Fraction(20 * v4_record_bytes(), 128)
NO_LEVER = len(READERS) * 2 * (FLASH.head_dim + FLASH.index_head_dim)
WINDOWS = FLASH.num_hidden_layers * FLASH.sliding_window * E4M3_E8M0.row_bytes(FLASH.head_dim)
STEP_READS = {  # bytes of one decode step at 10^6 tokens
    "entries": len(READERS) * FLASH.index_topk * ENTRY,
    "scan": 10**6 * BUDGET.index,
    "pool": FLASH.roles.count("reindex") * POOL * KEY,
    "windows": WINDOWS,
}
GAUSS = torch.randn(2048, 512, generator=torch.Generator().manual_seed(0))

NAMED = {
    "budget: entry and index key": ENTRY + KEY,
    "budget: the same in V4-Flash": v4_record_bytes() + KEY,
    "budget: entry, V4-Flash over V4.1-Flash": Fraction(v4_record_bytes(), ENTRY),
    "budget: entry and key, V4-Flash over V4.1-Flash": Fraction(v4_record_bytes() + KEY, ENTRY + KEY),
    "budget: entry per token, pair layer": ENTRY // 2,
    "budget: entries per token, three pair layers": 3 * ENTRY // 2,
    "budget: index keys per token, three pair layers": 3 * KEY // 2,
    "budget: a token that closes pairs": 4 * (ENTRY + KEY),
    "budget: the bits lever": Fraction(2 * FLASH.head_dim, ENTRY),
    "budget: sharing, pairs made": Fraction(ROUTES["unshared"].bytes_per_token, BUDGET.total),
    "budget: pairs, unshared": len(READERS) / sum(1 / ratio for ratio in READERS),
    "budget: no lever": NO_LEVER,
    "budget: all levers": Fraction(NO_LEVER, BUDGET.total),
    "budget: error of index keys, percent": 100 * float((E2M1_E8M0.roundtrip(GAUSS) - GAUSS).std() / GAUSS.std()),
    "budget: first code byte of the RoPE channels": E2M1_E4M3.payload_bytes(FLASH.head_dim - FLASH.qk_rope_head_dim),
    "budget: last code byte": E2M1_E4M3.payload_bytes(FLASH.head_dim) - 1,
    "budget: channels of a latent that do not rotate": FLASH.head_dim - FLASH.qk_rope_head_dim,
    "budget: entry with BF16 RoPE": ROUTES["bf16_rope"].entry_bytes,
    "budget: windows as tokens": WINDOWS // BUDGET.total,
    "budget: 10^6 tokens, sessions in 141 GB": capacity(BUDGET, context=10**6, memory=141 * 10**9).max_sessions,
    "budget: GB of eight cards": 8 * 141,
    "budget: two more": TOKEN_UNITS["k"] + 2,
    "budget: rows in the timed store": 100 * TOKEN_UNITS["k"],
    "budget: bytes of the examples' tokens": BUDGET.used_bytes(TOKEN_UNITS["k"]),
    "budget: V3.2 over V4-Flash": V32 / V4,
    **{f"budget: a step reads, {kind}": size for kind, size in STEP_READS.items()},
    "budget: a step reads, in all": sum(STEP_READS.values()),
}

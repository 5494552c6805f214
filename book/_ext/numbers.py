"""What the numbers in the prose of the book are: computed from the package, never typed in.

NAMED: name -> value. A number in prose with k decimals is right when some value, rounded to k decimals, is that number;
give a value in the unit the prose uses. EXCEPTIONS: text as it stands in the prose -> why no code can say it (a date, an
identifier, an outside figure with its source). At most 40 of them, and each must be in use.
The rules are in prose_numbers.py; `python tools/check_numbers.py` applies them.
"""
from fractions import Fraction
from itertools import pairwise

import torch

from flash41.budget import budget, ladder_steps, v4_record_bytes, wrong_routes
from flash41.capacity import TOKEN_UNITS, capacity
from flash41.config import Config
from flash41.formats import E2M1_E4M3, E2M1_E8M0, E2M1_GRID, E2M1_MAX, E4M3_E8M0, E4M3_MAX
from flash41.measure import P99_SAMPLES

FLASH = Config.flash()
BUDGET = budget(FLASH)

NAMED = {
    # the model, as released
    "hidden size": FLASH.hidden_size,
    "latent width": FLASH.head_dim,
    "index key width": FLASH.index_head_dim,
    "window": FLASH.sliding_window,
    "longest context": FLASH.max_position_embeddings,
    # one token in the cache
    "bytes per token": BUDGET.total,
    "bytes per token, entries": BUDGET.main,
    "bytes per token, index keys": BUDGET.index,
    "entry": E2M1_E4M3.row_bytes(FLASH.head_dim),
    "entry, values alone": E2M1_E4M3.payload_bytes(FLASH.head_dim),
    "window row": E4M3_E8M0.row_bytes(FLASH.head_dim),
    "entry in E8M0 scales": E2M1_E8M0.row_bytes(FLASH.head_dim),
    "entry of DeepSeek-V4": v4_record_bytes(),
    "bytes per session that do not grow": BUDGET.constant_bytes,
}
NAMED |= {f"constant: {part.name}, {part.how}": part.bytes for part in (*BUDGET.constants, *BUDGET.later)}
NAMED |= {f"rung: {step.name}": step.bytes_per_token for step in ladder_steps(FLASH)}
NAMED |= {f"wrong route: {route.name}": route.bytes_per_token for route in wrong_routes(FLASH)}

MHA_LAYER = 2 * FLASH.num_attention_heads * FLASH.head_dim * 2  # key and value, heads, width, fp16
MHA_TOKEN = MHA_LAYER * FLASH.num_hidden_layers
NAMED |= {
    # ladder/mha: the model's widths, were it MHA
    "mha: bytes per layer": MHA_LAYER,
    "mha: MB per token, TB per 10^6 tokens": Fraction(MHA_TOKEN, 10**6),
    "mha: GB of one layer at 10^6 tokens": round(MHA_LAYER * 10**6 / 10**9),
    "mha: looks saved at 10^6 tokens": Fraction(10**6 + 2, 3),
    "mha: tokens per block on disk": 256,
    "mha: window against prompt, whole blocks": Fraction(96_000, 25_000 // 256 * 256),
    "mha: KiB per token of Qwen3-0.6B, fp32": Fraction(2 * 8 * 128 * 4 * 28, 2**10),
}

LATENT_LAYER = FLASH.head_dim * 2  # one latent of fp16 numbers
NAMED |= {
    # ladder/mla: one latent for all heads
    "mla: bytes per layer": LATENT_LAYER,
    "mla: MHA over latent": Fraction(MHA_LAYER, LATENT_LAYER),
    "mla: GB of 40 layers at 10^6 tokens": Fraction(LATENT_LAYER * FLASH.num_hidden_layers * 10**6, 10**9),
    "mla: key coordinates of all heads": FLASH.num_attention_heads * FLASH.head_dim,
    "mla: naive over absorbed FLOPs, long past, d_h = d_c": FLASH.head_dim + 1,
    "mla: numbers in V3's entry": 512 + 64,  # kv_lora_rank + qk_rope_head_dim of its config.json
    "mla: bytes of V3's entry, bf16": (512 + 64) * 2,
    "mla: head width of V2 and V3": 128,  # their qk_nope_head_dim and v_head_dim
}

ENTRY, KEY = E2M1_E4M3.row_bytes(FLASH.head_dim), E2M1_E8M0.row_bytes(FLASH.index_head_dim)
READERS = [FLASH.compress_ratios[layer] for layer, role in enumerate(FLASH.roles) if role != "window"]
POOL = FLASH.candidate_topk_blocks * FLASH.candidate_block_size
ROUTES = {route.name: route for route in wrong_routes(FLASH)}
V1, V32 = 95 * 2 * 8 * 128 * 2, 61 * (656 + 132)  # layers and records of their config.json, as flash41.families counts
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
NAMED |= {
    # ladder/budget: the price list, what a session holds, what a step reads
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
    "budget: latent with a RoPE tail": FLASH.head_dim + FLASH.qk_rope_head_dim,
    "budget: entry with a RoPE tail": ROUTES["extra_rope"].entry_bytes,
    "budget: entry with BF16 RoPE": ROUTES["bf16_rope"].entry_bytes,
    "budget: windows as tokens": WINDOWS // BUDGET.total,
    "budget: 10^6 tokens, sessions in 141 GB": capacity(BUDGET, context=10**6, memory=141 * 10**9).max_sessions,
    "budget: GB of eight cards": 8 * 141,
    "budget: the examples' tokens": TOKEN_UNITS["k"],
    "budget: one more": TOKEN_UNITS["k"] + 1,
    "budget: two more": TOKEN_UNITS["k"] + 2,
    "budget: rows in the timed store": 100 * TOKEN_UNITS["k"],
    "budget: bytes of the examples' tokens": BUDGET.used_bytes(TOKEN_UNITS["k"]),
    "budget: V3.2 over V4-Flash": V32 / V4,
    "budget: V4-Flash over V4.1-Flash": V4 / BUDGET.total,
    "budget: V4-Flash": V4,
    "budget: V4-Flash, whole": round(V4),
    "budget: candidates": POOL,
    **{f"budget: a step reads, {kind}": size for kind, size in STEP_READS.items()},
    "budget: a step reads, in all": sum(STEP_READS.values()),
}

NAMED |= {
    # ladder/gqa: shared keys and values
    "gqa: MQA, bytes per layer": MHA_LAYER // FLASH.num_attention_heads,
    "gqa: DeepSeek-67B, bytes per token": V1,
}

ENGRAM_TABLES = sum(FLASH.engram_num_embeddings) * FLASH.engram_head_dim
GAUSS = torch.randn(2048, 512, generator=torch.Generator().manual_seed(1)).bfloat16().float()  # as in reference/formats
FIVE_SCALE = (torch.tensor(5.0) / E2M1_MAX).to(torch.float8_e4m3fn).float().item()


def rms_percent(fmt, x):
    """Root mean square of the rounding error, in percent of that of the values."""
    return 100 * ((fmt.roundtrip(x) - x).square().mean() / x.square().mean()).sqrt().item()


NAMED |= {f"tie of E2M1 at {(low + high) / 2}": (low + high) / 2 for low, high in pairwise(E2M1_GRID)}
NAMED |= {f"bits per number, {fmt.name}": Fraction(8 * fmt.row_bytes(512), 512) for fmt in (E2M1_E4M3, E2M1_E8M0, E4M3_E8M0)}
NAMED |= {
    # reference/ and index
    "from the first rung to the last, times": round(Fraction(MHA_TOKEN, BUDGET.total)),
    "routed experts": FLASH.n_routed_experts,
    "vocabulary": FLASH.vocab_size,
    "parameters of the n-gram tables, 10^9": Fraction(ENGRAM_TABLES, 10**9),
    "the same, cut": ENGRAM_TABLES // 10**9,
    "the same, rounded": round(Fraction(ENGRAM_TABLES, 10**9)),
    "index key in FP8 with E8M0 scales": E4M3_E8M0.row_bytes(FLASH.index_head_dim),
    "largest E4M3": E4M3_MAX,
    "largest E2M1 times largest E4M3": E2M1_MAX * E4M3_MAX,
    "largest FP16": torch.finfo(torch.float16).max,
    "E4M3 number after 1": torch.tensor(0x39, dtype=torch.uint8).view(torch.float8_e4m3fn).float().item(),
    "E4M3 scale of a group up to 5": FIVE_SCALE,
    "5 divided by it": 5 / FIVE_SCALE,
    "what comes back": E2M1_E4M3.roundtrip(torch.full((1, 16), 5.0))[0, 0].item(),
    "E8M0 bias": E2M1_E8M0.encode(torch.full((1, 32), E2M1_MAX))[1].item(),
    "E8M0 exponent of an all-zero group": 127 - E2M1_E8M0.encode(torch.zeros(1, 32))[1].item(),
    "E8M0 group that just needs the next power of two": 6.0001,
    "largest channel after RMS norm": FLASH.head_dim**0.5,
    "RMS error of index keys, %": rms_percent(E2M1_E8M0, GAUSS),
    "RMS error of index keys at an awkward spread, %": rms_percent(E2M1_E8M0, 1.4 * GAUSS),
    "samples for a p99": P99_SAMPLES,
}

EXCEPTIONS: dict[str, str] = {
    "47.2 with MHA, 47.1 with eight key/value heads and 46.6 with one": "averages of T5-XXL, GQA paper, arXiv 2305.13245, table 1",
    "141 GB": "memory of an NVIDIA H200, by its data sheet",
}

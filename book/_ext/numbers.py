"""What the numbers in the prose of the book are: computed from the package, never typed in.

NAMED: name -> value. A number in prose with k decimals is right when some value, rounded to k decimals, is that number;
give a value in the unit the prose uses. These hold for every page; what only one page quotes stands in `named/`, at the page's
own path, in a file of the same two names. EXCEPTIONS: text as it stands in the prose -> why no code can say it (a date, an
identifier, an outside figure with its source). At most 40 of them, and each must be in use.
The rules are in prose_numbers.py; `python tools/check_numbers.py` applies them.
"""
from fractions import Fraction
from itertools import pairwise

import torch

from flash41.budget import budget, ladder_steps, v4_record_bytes, wrong_routes
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
    "keys of one query": FLASH.sliding_window + FLASH.index_topk,
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
V4 = Fraction(21 * (v4_record_bytes() + E2M1_E8M0.row_bytes(128)), 4) + Fraction(20 * v4_record_bytes(), 128)
ROPE_TAIL = {route.name: route for route in wrong_routes(FLASH)}["extra_rope"]
NAMED |= {
    # what several pages compare it with
    "MHA: bytes per layer": MHA_LAYER,
    "MHA: MB per token, TB per 10^6 tokens": Fraction(MHA_TOKEN, 10**6),
    "one latent in fp16": 2 * FLASH.head_dim,
    "key coordinates of all heads": FLASH.num_attention_heads * FLASH.head_dim,
    "candidates": FLASH.candidate_topk_blocks * FLASH.candidate_block_size,
    "candidate groups": FLASH.candidate_topk_blocks,
    "V4-Flash": V4,
    "V4-Flash, whole": round(V4),
    "V4-Flash over V4.1-Flash": V4 / BUDGET.total,
    "latent with a RoPE tail": FLASH.head_dim + FLASH.qk_rope_head_dim,
    "entry with a RoPE tail": ROPE_TAIL.entry_bytes,
    "a thousand tokens": 1_000,
    "and one more": 1_001,
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
    "47.2 with MHA, 47.1 with eight key/value heads and 46.6 with one": "T5-XXL averages, GQA paper, arXiv 2305.13245, table 1",
    "141 GB": "memory of an NVIDIA H200, by its data sheet",
}

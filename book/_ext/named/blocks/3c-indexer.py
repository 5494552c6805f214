"""Numbers of blocks/3c-indexer."""
from flash41.config import Config
from flash41.course.traffic import traffic
from flash41.formats import E2M1_E8M0

FLASH, APPRENTICE = Config.flash(), Config.apprentice()
CONTEXT = FLASH.max_position_embeddings
KEY, PER_KEY = E2M1_E8M0.row_bytes(FLASH.index_head_dim), 2 * FLASH.index_n_heads * FLASH.index_head_dim
SCORED = {role: sum(traffic(FLASH, layer, "decode", CONTEXT)["scores"] for layer in FLASH.index_source_layer_ids
                    if FLASH.roles[layer] == role) for role in ("full", "reindex")}
READERS = sum(role != "window" for role in FLASH.roles)
NAMED = {
    "chosen rows": FLASH.index_topk,
    "index key in BF16, bytes": 2 * FLASH.index_head_dim,
    "FLOP per key": PER_KEY,
    "candidate groups": FLASH.candidate_topk_blocks,
    "candidate rows": FLASH.candidate_topk_blocks * FLASH.candidate_block_size,
    "keys per query": FLASH.sliding_window + FLASH.index_topk,
    "GFLOP of the full scan": SCORED["full"] * PER_KEY / 1e9,
    "bytes of the full scan": SCORED["full"] * KEY,
    "bytes of the pooled scans": SCORED["reindex"] * KEY,
    "GFLOP of attention": READERS * (FLASH.sliding_window + FLASH.index_topk) * 4 * FLASH.num_attention_heads * FLASH.head_dim / 1e9,
    "tokens of a sequence here": 32 * APPRENTICE.sliding_window,
}
EXCEPTIONS = {}

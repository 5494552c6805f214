"""Numbers of blocks/4a-attention."""
from flash41.config import Config
from flash41.formats import E2M1_E4M3

FLASH = Config.flash()
WIDE = FLASH.num_attention_heads * FLASH.head_dim
LOW = FLASH.o_groups * FLASH.o_lora_rank
DENSE = WIDE * FLASH.hidden_size
QUERY = FLASH.q_lora_rank * (FLASH.hidden_size + WIDE)
OUTPUT = WIDE // FLASH.o_groups * LOW + LOW * FLASH.hidden_size
PER_ROW = 4 * WIDE
APPRENTICE = Config.apprentice()
NAMED = {
    "chosen rows": FLASH.index_topk,
    "keys per query": FLASH.sliding_window + FLASH.index_topk,
    "numbers of all heads": WIDE,
    "parameters of a dense output": DENSE,
    "numbers of one group": WIDE // FLASH.o_groups,
    "rank of one group": FLASH.o_lora_rank,
    "rank of all groups": LOW,
    "rank of the query": FLASH.q_lora_rank,
    "output saves, times": DENSE / OUTPUT,
    "query saves, times": DENSE / QUERY,
    "row in BF16, bytes": 2 * FLASH.head_dim,
    "FLOP per byte, BF16": PER_ROW // (2 * FLASH.head_dim),
    "FLOP per byte, FP4": round(PER_ROW / E2M1_E4M3.row_bytes(FLASH.head_dim)),
    "base of layers with rows": FLASH.compress_rope_theta,
    "base of the others": FLASH.rope_theta,
    "tokens of the passage": 32 * APPRENTICE.sliding_window,
}
EXCEPTIONS = {
    "token 733": "a place in the text, as the cells print it",
    "a perplexity of 244": "outside figure: ik_llama.cpp, pull request 2455",
}

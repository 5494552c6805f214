"""Numbers of path/decode."""
from fractions import Fraction

from flash41 import count
from flash41.config import Config

FLASH = Config.flash()
PROMPT = 1000  # tokens of the apprentice's prompt
SHARE = Fraction(FLASH.num_experts_per_tok, FLASH.n_routed_experts)
TOUCHED = FLASH.n_routed_experts * (1 - (1 - SHARE) ** 8)  # experts of a layer that a batch of 8 wants
DISK = count.disk_bytes(count.table(FLASH), count.vision(FLASH.hidden_size))

NAMED = {
    "first token decoded: it opens a pair": PROMPT,
    "the next: it closes it": PROMPT + 1,
    "candidates": FLASH.candidate_topk_blocks * FLASH.candidate_block_size,
    "keys of a query, at most": FLASH.sliding_window + FLASH.index_topk,
    "expert bytes per token, alone over in a batch of 8": 8 * FLASH.num_experts_per_tok / TOUCHED,
    "checkpoint, GB": round(Fraction(sum(DISK.values()), 10**9)),
}

"""Numbers of blocks/3b-csa2."""
from fractions import Fraction

from flash41.budget import wrong_routes
from flash41.config import Config
from flash41.formats import E2M1_E4M3

FLASH = Config.flash()
READERS = [ratio for ratio in FLASH.compress_ratios[: FLASH.num_hidden_layers] if ratio]
ALONE = sum(Fraction(1, ratio) for ratio in READERS)  # rows per token if every reading layer wrote its own
SHARED = sum(Fraction(1, FLASH.compress_ratios[layer]) for layer in FLASH.kv_source_layer_ids)
ROUTES = {route.name: route.bytes_per_token for route in wrong_routes(FLASH)}
WAITING = 2 * FLASH.head_dim * 4  # content and score of one token, float32

NAMED = {
    "RoPE base of layers with rows": FLASH.compress_rope_theta,
    "one latent in fp16": 2 * FLASH.head_dim,
    "tail of one waiting token in one layer": WAITING,
    "the same in finished rows": WAITING // E2M1_E4M3.row_bytes(FLASH.head_dim),
    "sharing, pairs made": ALONE / SHARED,
    "pairs, unshared": len(READERS) / ALONE,
    "both roads": len(READERS) / SHARED,
    "unshared": ROUTES["unshared"],
    "examples: token of the explorer": 148,
    "examples: the next": 149,
}
EXCEPTIONS = {}

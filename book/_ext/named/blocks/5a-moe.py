"""Numbers of blocks/5a-moe."""
from fractions import Fraction

from flash41.config import Config
from flash41.formats import E2M1_E8M0

FLASH = Config.flash()
NUMBERS = 3 * FLASH.hidden_size * FLASH.moe_intermediate_size
EXPERT = NUMBERS * E2M1_E8M0.row_bytes(32) // 32
LAYER = FLASH.n_routed_experts * EXPERT
TILE = 32 * 32  # numbers that share one scale byte in the FP8 matrices of the shared expert
NAMED = {
    "inner width of an expert": FLASH.moe_intermediate_size,
    "experts of a draft layer": FLASH.dspark_n_routed_experts,
    "bytes of one expert": EXPERT,
    "GB of a layer's experts": Fraction(LAYER, 10**9),
    "GB of all experts": Fraction(LAYER * FLASH.num_hidden_layers, 10**9),
    "MB of a shared expert": Fraction(NUMBERS + NUMBERS // TILE, 10**6),
    "experts that a token visits": FLASH.num_experts_per_tok * FLASH.num_hidden_layers,
    "GB of them": Fraction(FLASH.num_experts_per_tok * FLASH.num_hidden_layers * EXPERT, 10**9),
    "bits per number": Fraction(8 * EXPERT, NUMBERS),
    "apprentice: tokens of the passage": 4 * 384,  # rows times tokens, as the cell cuts it
}
EXCEPTIONS = {}

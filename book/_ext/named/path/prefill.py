"""Numbers of path/prefill."""
from flash41 import ced
from flash41.budget import budget
from flash41.config import Config

FLASH = Config.flash()
BUDGET = budget(FLASH)
PROMPT = 100_000

NAMED = {
    "the long prompt, tokens": PROMPT,
    "its token-layers, bounded": ced.token_layers(FLASH, PROMPT, "bounded"),
    "its token-layers, exact": ced.token_layers(FLASH, PROMPT, "exact"),
    "keys of a query, at most": FLASH.sliding_window + FLASH.index_topk,
    "tokens whose rows weigh as much as the windows": BUDGET.constants[0].bytes // BUDGET.total,
}

"""Numbers of path/draft."""
from flash41.config import Config

CONFIG = Config.apprentice()
HELD, FED = 167, 1 + CONFIG.dspark_block_size  # tokens before the third pass; anchor and drafts
STOOD = 2  # the anchor and one draft

NAMED = {
    "tokens before the pass": HELD,
    "after what stood": HELD + STOOD,
    "had all six counted": HELD + FED,
    "first refused position": HELD + STOOD,
    "last refused position": HELD + FED - 1,
    "oldest position written over": HELD + STOOD - CONFIG.sliding_window,
    "newest position written over": HELD + FED - 1 - CONFIG.sliding_window,
}

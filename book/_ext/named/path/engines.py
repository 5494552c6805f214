"""Numbers of path/engines."""
from flash41.config import Config

FLASH = Config.flash()

NAMED = {
    "rows of a tail of one window and five drafts": FLASH.sliding_window + FLASH.dspark_block_size,
    "E4M3 codes from 0 up that are numbers": 2**7 - 1,
    "page unit of FP4 rows": 2**8,
    "page unit of V4 records: 448 FP8 and 64 BF16 channels": 448 + 64 * 2,
}
EXCEPTIONS = {"perplexity of 244": "of a port with one norm too many, ik_llama.cpp#2455"}

"""Numbers of blocks/3a-ced."""
from flash41 import count
from flash41.ced import first_decoder_layer
from flash41.config import Config

FLASH, SMALL = Config.flash(), Config.apprentice()
ACTIVE = count.active(count.table(FLASH), FLASH)
DECODER = FLASH.num_hidden_layers - first_decoder_layer(FLASH)
SMALL_DECODER = SMALL.num_hidden_layers - first_decoder_layer(SMALL)

NAMED = {
    "ced: active, a prompt token": ACTIVE["prefill"],
    "ced: active, a generated token": ACTIVE["decode"],
    "ced: the example's prompt": 10**5,
    "ced: a short prompt": 10**2,
    "ced: window, own token left out": FLASH.sliding_window - 1,
    "ced: window and drafts, tail of some engines": FLASH.sliding_window + FLASH.dspark_block_size,
    "ced: replay that would be exact": DECODER * (FLASH.sliding_window - 1) + 1,
    "ced: tokens that can differ after the prompt": (DECODER - 1) * (FLASH.sliding_window - 1) - 1,
    "ced: replay that is exact in the apprentice": SMALL_DECODER * (SMALL.sliding_window - 1) + 1,
    "ced: tokens read on": 2**7,
    "ced: tokens of a passage": 2**9,
}
EXCEPTIONS = {}

"""Numbers of blocks/1a-input."""
import math

from flash41.config import Config

FLASH, SMALL = Config.flash(), Config.apprentice()
NAMED = {
    "rows that a one-hot product multiplies by zero": FLASH.vocab_size - 1,
    "width of the small model": SMALL.hidden_size,
    "ids of the small model": SMALL.vocab_size,
    "root of the released width": math.sqrt(FLASH.hidden_size),
    "root of the small model's width": math.sqrt(SMALL.hidden_size),
    "bytes of the embedding in bf16, parameters of embedding and head": 2 * FLASH.vocab_size * FLASH.hidden_size,
    "bytes of one row": 2 * FLASH.hidden_size,
}
EXCEPTIONS: dict[str, str] = {}

"""Numbers of blocks/1b-engram."""


from flash41.config import Config
from flash41.formats import E4M3_E8M0

FLASH, SMALL = Config.flash(), Config.apprentice()
COLUMNS = FLASH.engram_n_heads * (FLASH.engram_max_ngram_size - 1)
ROW = E4M3_E8M0.row_bytes(FLASH.engram_head_dim)
NAMED = {
    "columns of a layer": COLUMNS,
    "where the primes begin": FLASH.engram_vocab_size,
    "compressed ids": FLASH.engram_compressed_vocab_size,
    "numbers in a row": FLASH.engram_head_dim,
    "numbers that a token fetches in a layer": COLUMNS * FLASH.engram_head_dim,
    "bytes of a row": ROW,
    "bytes read per token": len(FLASH.engram_layer_ids) * COLUMNS * ROW,
    "where the small model's primes begin": SMALL.engram_vocab_size,
    "pairs in the example": 3000,
    "rows of the timed table": 100_000,
    "tokens of a validation sequence": 1024,
}
EXCEPTIONS: dict[str, str] = {}

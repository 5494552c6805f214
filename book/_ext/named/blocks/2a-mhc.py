"""Numbers of blocks/2a-mhc."""
from flash41.config import Config

FLASH = Config.flash()
WIDE = FLASH.hc_mult * FLASH.hidden_size
NUMBERS = 2 * FLASH.hc_mult + FLASH.hc_mult**2
SITES = 2 * FLASH.num_hidden_layers

NAMED = {
    "mhc: numbers of four streams": WIDE,
    "mhc: parameters of all sites": SITES * (NUMBERS * WIDE + NUMBERS + 3),
    "mhc: streams' width in the apprentice": Config.apprentice().hidden_size,
    "mhc: random matrices in the plot": 2**12,
}
EXCEPTIONS = {}

"""Numbers of blocks/6a-kv-cache."""
from fractions import Fraction

from flash41.budget import budget, v4_record_bytes, wrong_routes
from flash41.config import Config
from flash41.formats import E2M1_E8M0

FLASH, APPRENTICE = Config.flash(), Config.apprentice()
PER_TOKEN = budget(FLASH)
SOURCES = [row for row in PER_TOKEN.layers if row.entry_bytes]
KEY = E2M1_E8M0.row_bytes(FLASH.index_head_dim)
V4 = Fraction(21 * (v4_record_bytes() + KEY), 4) + Fraction(20 * v4_record_bytes(), 128)
ROUTES = {route.name: route for route in wrong_routes(FLASH)}

NAMED = {
    "scale of a group whose largest value is tiny": 6 * 2.0**-6,
    "limit of the error in a group, %": Fraction(300, 17),
    "rows of the pair layers": sum(row.main_slope for row in SOURCES if row.tokens_per_entry == 2),
    "index keys of the pair layers": sum(row.index_slope for row in SOURCES if row.tokens_per_entry == 2),
    "apprentice: B per token": budget(APPRENTICE).slope,
    "apprentice: tokens of the passage": 160,
    "apprentice: B held": budget(APPRENTICE).used_bytes(160),
    "V4-Flash, B per token": round(V4),
    "entry with a RoPE tail": ROUTES["extra_rope"].entry_bytes,
    "rows in the timed store": 8192,
}
EXCEPTIONS = {}

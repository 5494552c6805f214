"""Numbers of ladder/mha: the model's widths, were it MHA."""
from fractions import Fraction

from flash41.config import Config

FLASH = Config.flash()
MHA_LAYER = 2 * FLASH.num_attention_heads * FLASH.head_dim * 2  # key and value, heads, width, fp16
MHA_TOKEN = MHA_LAYER * FLASH.num_hidden_layers

NAMED = {
    "mha: GB of one layer at 10^6 tokens": round(MHA_LAYER * 10**6 / 10**9),
    "mha: looks saved at 10^6 tokens": Fraction(10**6 + 2, 3),
    "mha: tokens per block on disk": 256,
    "mha: window against prompt, whole blocks": Fraction(96_000, 25_000 // 256 * 256),
    "mha: KiB per token of Qwen3-0.6B, fp32": Fraction(2 * 8 * 128 * 4 * 28, 2**10),
}

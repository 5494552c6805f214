"""Numbers of ladder/mla: one latent for all heads."""
from fractions import Fraction

from flash41.config import Config

FLASH = Config.flash()
MHA_LAYER = 2 * FLASH.num_attention_heads * FLASH.head_dim * 2  # key and value, heads, width, fp16
LATENT_LAYER = FLASH.head_dim * 2  # one latent of fp16 numbers

NAMED = {
    "mla: MHA over latent": Fraction(MHA_LAYER, LATENT_LAYER),
    "mla: GB of 40 layers at 10^6 tokens": Fraction(LATENT_LAYER * FLASH.num_hidden_layers * 10**6, 10**9),
    "mla: naive over absorbed FLOPs, long past, d_h = d_c": FLASH.head_dim + 1,
    "mla: numbers in V3's entry": 512 + 64,  # kv_lora_rank + qk_rope_head_dim of its config.json
    "mla: bytes of V3's entry, bf16": (512 + 64) * 2,
    "mla: head width of V2 and V3": 128,  # their qk_nope_head_dim and v_head_dim
}

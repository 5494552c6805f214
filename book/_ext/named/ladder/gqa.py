"""Numbers of ladder/gqa: shared keys and values."""
from flash41.config import Config

FLASH = Config.flash()
MHA_LAYER = 2 * FLASH.num_attention_heads * FLASH.head_dim * 2  # key and value, heads, width, fp16

NAMED = {
    "gqa: MQA, bytes per layer": MHA_LAYER // FLASH.num_attention_heads,
    "gqa: DeepSeek-67B, bytes per token": 95 * 2 * 8 * 128 * 2,  # layers, key and value, heads, width, bytes: its config.json
}

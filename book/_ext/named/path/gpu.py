"""Numbers of path/gpu."""
from math import prod, sqrt

import torch

from flash41 import count
from flash41.config import Config

FLASH, SLICE = Config.flash(), Config.slice()
LARGEST = torch.finfo(torch.float16).max
WIDE = ("hc_", "attn_sink", "gate.bias")  # float32 whatever the dtype

NAMED = {
    "RMS at which a sum of 5,120 squares leaves fp16": sqrt(LARGEST / FLASH.hidden_size),
    "the same over four streams": sqrt(LARGEST / (FLASH.hc_mult * FLASH.hidden_size)),
    "numbers in four streams": FLASH.hc_mult * FLASH.hidden_size,
    "first power of two whose square leaves fp16": 2**8,
    "bound of an expert's hidden numbers": FLASH.swiglu_limit**2,
    "slice in fp16, GB": sum(
        n * prod(shape) * (4 if any(part in name for part in WIDE) else 2) for name, shape, n in count.table(SLICE)) / 1e9,
}
EXCEPTIONS = {"320 GB/s": "bandwidth of an NVIDIA T4, by its data sheet"}

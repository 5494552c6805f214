"""Numbers of blocks/6b-dspark."""
import re
from pathlib import Path

import flash41
from flash41.config import Config

FLASH = Config.flash()
CARD = (Path(flash41.__file__).parent / "weights/README.md").read_text(encoding="utf-8")  # what `flash41 evaluate` found
KEPT, RUNS = re.search(r"drafts +([\d.]+) of 5 stand per verification .*?, (\d+) verifications", CARD).groups()
P, Q = (5, 3, 2), (2, 7, 1)  # tenths, as the cell has them
RATE = 0.85
NAMED = {
    "markov rank": FLASH.dspark_markov_rank,
    "width of the confidence head": FLASH.hidden_size + FLASH.dspark_markov_rank,
    "sigmoid of the example": 1 / (1 + 2.718281828459045 ** -(0.5 * 1 + 0.5 * 2 + 1)),
    "overlap of the example": sum(map(min, P, Q)) / 10,
    "rate of the examples": RATE,
    "the same, times five": 5 * RATE,
    "rate of the lower example, as printed": 0.60,
    "card: kept of five": float(KEPT),
    "card: verifications": int(RUNS),
    "draws of the chi-square test": 20_000,
    "operations while a byte is read, assumed": 400,
    "chi-square, two degrees of freedom, one in a thousand": 2 * 6.907755278982137,  # -2 ln 0.001
    "sequences in a batch": 2**8,
}
EXCEPTIONS = {"3.57 tokens per step": "community figure without its conditions, quoted as an example of one"}

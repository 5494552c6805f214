"""What the trained apprentice did with one passage, as the pages show it.

`python -m flash41.course.trace --write` makes both files.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

FOLDER = Path(__file__).parent / "data"
NAMES = ("trace", "visibility")


@functools.cache
def recorded(name: str) -> dict:
    """"trace": label of a block -> facts of one run; "visibility": tokens, chosen rows, candidates. ValueError otherwise."""
    if name not in NAMES:
        raise ValueError(f"name = {name!r}, must be one of {NAMES}")
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))

#!/usr/bin/env python
"""The wrong answers of the lab and the check that caught each: python tools/lab_mutants.py > tests/labs/MUTANTS.md"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "labs"), str(ROOT / "tests/labs")]

import kit  # noqa: E402

from flash41.course.checks import verdict  # noqa: E402

SEEDS = (0, 41, 7)
HEAD = """# Wrong answers

Made by `python tools/lab_mutants.py`: each line is a wrong function that a student could write, the input on which its check failed first, and
what the message says of the cause. Seed 0 is that of the visible check; where another one stands, only a hidden check sees the mistake.

| step | function | wrong answer | seed | caught by | message |
|---|---|---|---|---|---|
"""


def row(label: str, mutant: kit.Mutant) -> str:
    """One line of the table."""
    for seed in SEEDS:
        found = verdict(f"{label}.{mutant.function}", mutant.wrong, seed)
        if not found.passed:
            break
    case = re.search(r"^ *case +(.*?)(?:  \(|$)", found.text, flags=re.M)
    cause = re.search(r"^ *cause +(.*)$", found.text, flags=re.M)
    said = (cause or re.search(r"^ *\w+ +(?!.*case)(.*)$", found.text.split("\n", 2)[-1], flags=re.M) or ["", ""])[1]
    parts = label, f"`{mutant.function}`", f"`{mutant.name}`", str(seed), case[1] if case else "", said
    return "| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |"


def text() -> str:
    return HEAD + "".join(f"{row(label, mutant)}\n" for label in kit.steps_with("mutants") for mutant in kit.module(label, "mutants").mutants)


if __name__ == "__main__":
    print(text(), end="")

"""Checks every number in the prose of the book against the code: python tools/check_numbers.py."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "book/_ext"))  # at the end: numbers.py there must not hide Python's own module
from prose_numbers import check_book

problems = check_book(ROOT)
print("\n".join([*problems, f"{len(problems)} problems"]))
sys.exit(bool(problems))

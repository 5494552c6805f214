"""The table of results: one row for every file that came back."""

from __future__ import annotations

import csv
from pathlib import Path

from flash41.course.checks.signatures import step

from .files import Submission
from .marking import Result


def plain(value) -> str:
    """A cell that no spreadsheet takes for a formula."""
    text = str(value).replace("\r", " ").replace("\n", " ").replace("\0", "")
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t") else text


def write_table(path: Path, label: str, rows: list[tuple[Submission, Result]]) -> None:
    """grades.csv. A file that another one replaces, or that cannot be read, has a row too."""
    functions = step(label).functions
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        names = [function.name for function in functions]
        table.writerow(["student", "file", "handed_in", "late", "points", "of", *names, "reason"])
        for submission, result in rows:
            replaced = submission.reason.startswith("replaced by")
            marks = ["" if replaced else mark.points for mark in result.marks]
            when, points = submission.handed_in.isoformat(" ", "seconds"), "" if replaced else result.points
            cells = [submission.student, submission.name, when, submission.late, points, result.most, *marks, result.reason]
            table.writerow(map(plain, cells))

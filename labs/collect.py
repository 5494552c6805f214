#!/usr/bin/env python
"""Rebuild every submission of a step from the master and the student's functions, found by name in whatever came back.

    collect.py 3B submissions/ out/      writes out/submitted/<student>/3B/3B.ipynb and out/collected.csv

Nothing is executed. `make grade` does this too and then grades; this command is for looking at what came back, or for going on
with nbgrader alone: out/submitted is its layout.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import nbformat  # noqa: E402

from grading.collecting import Collected, collect, rebuilt  # noqa: E402
from grading.files import PATTERN, Submission, submissions  # noqa: E402
from grading.tables import plain  # noqa: E402


def write(submission: Submission, label: str, collected: Collected, out: Path) -> None:
    """The clean notebook of one submission in nbgrader's layout, and when it was handed in."""
    folder = out / "submitted" / submission.key / label
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(rebuilt(label, collected), folder / f"{label}.ipynb")
    (folder / "timestamp.txt").write_text(submission.handed_in.strftime("%Y-%m-%d %H:%M:%S %z\n"))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step")
    parser.add_argument("submissions", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pattern", default=PATTERN, help="regular expression with a group `id`, for file or folder names")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "collected.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["student", "file", "handed_in", "found"])
        for submission in submissions(options.submissions, pattern=options.pattern):
            collected = collect(submission, options.step)
            if "~" not in submission.key:
                write(submission, options.step, collected, options.out)
            rows.writerow(map(plain, (submission.student, submission.name, submission.handed_in.isoformat(" ", "seconds"),
                                      collected.summary)))  # fmt: skip
            print(f"{submission.student}: {collected.summary}")


if __name__ == "__main__":
    main()

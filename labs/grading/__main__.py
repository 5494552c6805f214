"""python -m grading 3B submissions/ out/: collect, run, judge, write. `make grade` calls this."""

from __future__ import annotations

import argparse
import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from flash41.course.checks.signatures import step

from .batch import Job, Kept, grade_all
from .collecting import LABS
from .feedback import write_pages
from .files import PATTERN, submissions
from .sandbox import Limits
from .tables import write_table


def moment(text: str) -> datetime:
    """A deadline, in the time of this machine unless it names another zone. A day without an hour ends at its midnight."""
    when = datetime.fromisoformat(text)
    if len(text.strip()) <= 10:
        when += timedelta(days=1)
    return when.astimezone()


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="grading", description=__doc__)
    parser.add_argument("step", help="label of the step: 3B")
    parser.add_argument("submissions", type=Path, help="folder with what came back")
    parser.add_argument("out", type=Path, help="folder for grades.csv, feedback/ and nbgrader/")
    parser.add_argument("--seed", type=int, default=None, help="seed of the hidden checks (default: FLASH41_SEED, else 41)")
    parser.add_argument("--deadline", type=moment, help='"2027-01-31 23:59": later files are marked late')
    parser.add_argument("--pattern", default=PATTERN, help="regular expression with a group `id` for the first part of a path")
    parser.add_argument("--regrade", default="", help="ids to grade again though their files are the same, or all")
    parser.add_argument("--allow-package", action="store_true", help="answers may import flash41")
    parser.add_argument("--seconds", type=float, default=30.0, help="time for one step of one student")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--no-nbgrader", action="store_true", help="write no folder for nbgrader")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    start, options = time.monotonic(), parsed(arguments)
    try:
        step(options.step)
        if not (LABS / "steps" / options.step / f"{options.step}.ipynb").exists():
            raise ValueError(f"STEP={options.step}: this step has no notebook yet")
        rows = submissions(options.submissions, pattern=options.pattern, deadline=options.deadline)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    seed = int(os.environ.get("FLASH41_SEED", "41")) if options.seed is None else options.seed
    limits = Limits(seconds=options.seconds, package=options.allow_package)
    job = Job(options.step, seed, limits, (options.submissions, options.out))
    again = [each.strip() for each in options.regrade.split(",") if each.strip()]
    try:
        found = grade_all(job, rows, Kept(options.out / "work"), again=again, processes=options.processes,
                          say=lambda text: print(text, flush=True))  # fmt: skip
    except KeyboardInterrupt:
        raise SystemExit("stopped; the same command goes on where this one was") from None
    results = [(row, found[row.key][0]) for row in rows]
    write_table(options.out / "grades.csv", options.step, results)
    write_pages(options.out / "feedback", options.step, results)
    if not options.no_nbgrader:
        for_nbgrader(options, [(row, *found[row.key]) for row in rows])
    full = sum(result.points == result.most for _, result in results)
    replaced = sum(row.reason.startswith("replaced by") for row in rows)
    print(f"{len(rows)} rows in {options.out / 'grades.csv'}, {full} with full marks, {replaced} replaced by another file of the "
          f"same student; {time.monotonic() - start:.0f} s")  # fmt: skip


def for_nbgrader(options: argparse.Namespace, rows: list) -> None:
    """The folder for nbgrader. Table and feedback are complete already, whatever goes wrong here."""
    try:
        from .gradebook import write_gradebook

        write_gradebook(options.out / "nbgrader", options.step, rows)
    except Exception as error:
        print(f"the folder for nbgrader could not be written ({type(error).__name__}: {str(error)[:200]}); all else is there")


if __name__ == "__main__":
    main()

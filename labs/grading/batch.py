"""A whole folder: several submissions at a time, each result kept as soon as it is there, none able to stop the others."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path

import nbformat
import torch

from .collecting import LABS, collect, rebuilt
from .fence import die_with_parent
from .files import Submission
from .marking import Result, mark, unread
from .sandbox import Limits, Sandbox

GRACE = 120  # seconds beyond the limit of a step, for comparing on a busy machine


@dataclass(frozen=True)
class Job:
    """How a folder is graded: the step, the seed of the hidden checks, the limits, folders that answers must not see."""

    label: str
    seed: int
    limits: Limits
    hidden: tuple[Path, ...] = ()

    def fingerprint(self, submission: Submission) -> str:
        """Changes with the file, the way of grading and the code of the checks: then a kept result counts no longer."""
        said = json.dumps([self.label, self.seed, asdict(self.limits), submission.digest(), submission.reason, code_hash()])
        return hashlib.sha256(said.encode()).hexdigest()


def code_hash() -> str:
    """A hash of everything that decides about points."""
    if not hasattr(code_hash, "kept"):
        files = sorted([*(LABS / "flash41" / "course" / "checks").glob("*.py"), *(LABS / "grading").glob("*.py")])
        code_hash.kept = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()
    return code_hash.kept


def grade_one(job: Job, submission: Submission, sandbox: Sandbox) -> tuple[Result, str]:
    """The result of one submission, and its clean notebook ("" where there is nothing to put in)."""
    collected = collect(submission, job.label)
    result = mark(job.label, collected, sandbox, job.seed)
    return result, "" if collected.reason else nbformat.writes(rebuilt(job.label, collected))


def serve(job: Job, pipe) -> None:
    """The life of a grading process: submissions in, results out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    torch.set_num_threads(1)
    with Sandbox(job.limits, job.hidden) as sandbox:
        sandbox.run("def probe():\n    return 1", "probe", [({}, {})])  # what walls are there is known from now on
        while True:
            submission = pipe.recv()
            if submission is None:
                return
            try:
                result, notebook = grade_one(job, submission, sandbox)
            except Exception as error:  # one submission, whatever it is, costs no other its mark
                result, notebook = unread(job.label, f"could not be graded: {type(error).__name__}: {str(error)[:200]}"), ""
            pipe.send((result.as_dict(), notebook, sandbox.holds))


class Grader:
    """One grading process, and what it works on."""

    def __init__(self, job: Job):
        self.job, self.now, self.since = job, None, 0.0
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")  # torch is loaded already
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(self.job, other), daemon=True)
        self.process.start()
        other.close()

    def give(self, submission: Submission) -> None:
        self.now, self.since = submission, time.monotonic()
        self.pipe.send(submission)

    def take(self) -> tuple[Result, str, list[str]] | None:
        """What it found; None where it is not done. A process that died or takes too long is replaced, which is a result."""
        if self.pipe.poll():
            try:
                result, notebook, holds = self.pipe.recv()
                self.now = None
                return Result.of(result), notebook, holds
            except (EOFError, OSError):
                pass
        elif self.process.is_alive() and time.monotonic() - self.since < self.job.limits.seconds + GRACE:
            return None
        self.stop()
        self.start()
        self.now = None
        return unread(self.job.label, "could not be graded: it ended the process that reads it"), "", []

    def stop(self) -> None:
        """End it gently, so that its sandbox closes; then not gently."""
        try:
            self.pipe.send(None)
        except OSError:
            pass
        self.process.join(3)
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Kept:
    """Results on disk, one file per submission."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, submission: Submission, fingerprint: str) -> tuple[Result, str] | None:
        try:
            data = json.loads((self.folder / f"{submission.key}.json").read_text())
            return (Result.of(data["result"]), data["notebook"]) if data["fingerprint"] == fingerprint else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, submission: Submission, fingerprint: str, result: Result, notebook: str) -> None:
        path = self.folder / f"{submission.key}.json"
        data, part = dict(fingerprint=fingerprint, result=result.as_dict(), notebook=notebook), path.with_suffix(".part")
        part.write_text(json.dumps(data))
        part.replace(path)  # whole or not at all


def grade_all(
    job: Job, rows: list[Submission], kept: Kept, *, again: Iterable[str] = (), processes: int = 2, say: Callable = print
) -> dict[str, tuple[Result, str]]:
    """key -> (result, clean notebook) of every submission. again: ids to grade once more, "all" for everybody."""
    prints = {row.key: job.fingerprint(row) for row in rows}
    again = set(again)
    known = {} if "all" in again else {row.key: found for row in rows if row.student not in again
                                       and (found := kept.read(row, prints[row.key]))}  # fmt: skip
    waiting = [row for row in rows if row.key not in known]
    if known:
        say(f"{len(known)} of {len(rows)} were graded before and have not changed")
    start, done, holds = time.monotonic(), 0, set()
    graders = [Grader(job) for _ in range(min(processes, len(waiting)))]
    queue = list(reversed(waiting))
    try:
        while done < len(waiting):
            for grader in graders:
                if grader.now is None and queue:
                    grader.give(queue.pop())
            wait([grader.pipe for grader in graders if grader.now], timeout=1)
            for grader in graders:
                row = grader.now
                if row is None or not (found := grader.take()):
                    continue
                result, notebook, walls = found
                if walls and not holds:
                    say(f"answers are walled off by: {', '.join(walls)}, limits" if len(walls) == 3 else
                        f"this system walls answers off only by: {', '.join([*walls, 'limits'])}; see the guide")  # fmt: skip
                    holds.update(walls)
                known[row.key] = result, notebook
                kept.write(row, prints[row.key], result, notebook)
                done += 1
                spent = time.monotonic() - start
                left = spent / done * (len(waiting) - done)
                say(f"[{done:{len(str(len(waiting)))}d} of {len(waiting)}, {spent:3.0f} s, about {left:.0f} s left] "
                    f"{row.student}: {result.points} of {result.most}")  # fmt: skip
    finally:
        for grader in graders:
            grader.stop()
    return known

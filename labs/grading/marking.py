"""Points and words for one submission: run its functions in the sandbox, compare here what they returned."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass, field

from flash41.course.checks import asked, positional
from flash41.course.checks.calling import Outcome
from flash41.course.checks.judging import Verdict, judge
from flash41.course.checks.reading import Found
from flash41.course.checks.signatures import Function, step

from .collecting import Collected, state
from .sandbox import Run, Sandbox

OPEN_SEED = 0  # what a student sees in the notebook


@dataclass
class Mark:
    """One check: points, one line of reason, and what the student reads."""

    check: str
    points: int
    most: int
    reason: str
    text: str


@dataclass
class Result:
    """One submission. reason: one line for the table."""

    points: int
    most: int
    reason: str
    marks: list[Mark] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict:
        return asdict(self)

    @staticmethod
    def of(data: dict) -> Result:
        return Result(**{**data, "marks": [Mark(**mark) for mark in data["marks"]]})


def mark(label: str, collected: Collected, sandbox: Sandbox, seed: int) -> Result:
    """The result of one submission. The time of the step is shared out: what one function leaves, the next may use."""
    functions = step(label).functions
    if collected.reason:
        return unread(label, collected.reason)
    marks, notes, start = [], [], time.monotonic()
    for number, function in enumerate(functions, 1):
        name, found = f"{label}.{function.name}", collected.found[function.name]
        if found.state != "written":
            reason = state(found).partition(": ")[2]
            marks.append(Mark(name, 0, function.points, reason, f"{name}: {reason}."))
            continue
        left = sandbox.limits.seconds * number / len(functions) - (time.monotonic() - start)
        own, said = mark_one(name, function, found, sandbox, seed, max(left, sandbox.limits.seconds / len(functions)))
        marks.append(own)
        notes += [f"{name}: {words}" for words in said]
    points, most = sum(mark.points for mark in marks), sum(mark.most for mark in marks)
    return Result(points, most, summary(marks), marks, notes)


def summary(marks: list[Mark]) -> str:
    """One line: every reason once, with the functions that it cost."""
    lost: dict[str, list[str]] = {}
    for each in marks:
        if not each.points:
            lost.setdefault(each.reason, []).append(each.check.partition(".")[2])
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in lost.items()) or "all checks pass"


def unread(label: str, reason: str) -> Result:
    """No points on any check, for one reason."""
    marks = [Mark(f"{label}.{function.name}", 0, function.points, reason, "") for function in step(label).functions]
    return Result(0, sum(mark.most for mark in marks), reason, marks)


def mark_one(name: str, function: Function, found: Found, sandbox: Sandbox, seed: int, seconds: float) -> tuple[Mark, list[str]]:
    """One function on the inputs of the notebook and on the hidden ones, in one process."""
    questions = [asked(name, each) for each in (OPEN_SEED, seed)]
    cases = [case for _, _, some in questions for case in some]
    run = sandbox.run(found.source, function.name, [(positional(function, case), case.keywords) for case in cases], seconds)
    outcomes = filled(run, len(cases))
    verdicts, at = [], 0
    for signature, check, some in questions:
        verdicts.append(compared(name, signature, check, some, outcomes[at : at + len(some)]))
        at += len(some)
    if run.stopped and not run.outcomes:
        return Mark(name, 0, function.points, run.stopped, f"{name} is not right yet.\n  difference  {run.stopped}"), run.notes
    if not verdicts[0].passed:
        return Mark(name, 0, function.points, line(verdicts[0].text), verdicts[0].text), run.notes
    if not verdicts[1].passed:
        text = hidden(name, verdicts[1].text)
        return Mark(name, 0, function.points, line(text), text), run.notes
    return Mark(name, function.points, function.points, "right", f"{name} is right: {len(cases)} cases"), run.notes


def filled(run: Run, count: int) -> list[Outcome]:
    """An outcome for every case: where the process ended early, the rest failed for that reason."""
    last = run.outcomes[-1] if run.outcomes and run.outcomes[-1].kind == "starter" else Outcome("error", None, run.stopped)
    return run.outcomes + [last] * (count - len(run.outcomes))


def compared(name: str, signature: Function, check, cases: list, outcomes: list[Outcome]) -> Verdict:
    """The verdict; a result that cannot even be compared is a wrong one."""
    try:
        return judge(name, signature, check, cases, outcomes)
    except Exception as error:  # a result of a kind that nobody thought of
        words = f"its result cannot be compared: {type(error).__name__}"
        return Verdict(name, False, f"{name} is not right yet.\n  difference  {words}")


def line(text: str) -> str:
    """A verdict in one line: its cause where there is one, else the difference."""
    parts = dict(re.findall(r"^  (\w+) {2,}(.*)$", text, flags=re.M))
    return parts.get("cause") or parts.get("difference") or text.split("\n")[0]


def hidden(name: str, text: str) -> str:
    """What a student may read about a hidden check: where and why, but no number of its inputs or results."""
    parts = dict(re.findall(r"^  (\w+) {2,}(.*)$", text, flags=re.M))
    difference = parts.get("difference", "")
    words = re.sub(r"(it raised \w+):.*", r"\1", difference)
    words = re.sub(r"(?:yours (?:is )?|became ).*", "", words).rstrip(" :,")
    if "changed its input" in difference:
        words = difference.split(", first at")[0]
    lines = [f"{name} is right on the inputs of the notebook, not on the hidden ones.",
             f"  case        {parts.get('case', '').split('  (')[0]}", f"  difference  {words or 'another value'}"]  # fmt: skip
    return "\n".join(lines + ([f"  cause       {parts['cause']}"] if "cause" in parts else []))

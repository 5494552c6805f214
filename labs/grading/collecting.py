"""A student's functions out of whatever came back, and a clean notebook: the master's cells with the student's answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat

from flash41.course.checks.reading import Found, code_of, find
from flash41.course.checks.signatures import step

from .files import Submission

LABS = Path(__file__).resolve().parents[1]
BLANK = "# YOUR CODE HERE\nraise NotImplementedError"


@dataclass(frozen=True)
class Collected:
    """What was found in one file. reason: words for a file in which nothing could be looked for, "" for any other."""

    found: dict[str, Found]
    reason: str = ""

    @property
    def summary(self) -> str:
        """ "4 of 5 functions written; sinkhorn: missing"."""
        if self.reason:
            return self.reason
        written = [found for found in self.found.values() if found.state == "written"]
        words = [f"{len(written)} of {len(self.found)} functions written"]
        return "; ".join(words + [state(found) for found in self.found.values() if found.state != "written"])


def state(found: Found) -> str:
    """Why a function has no points before anything has run."""
    words = {"starter": "not written yet", "missing": "not there: no function has this name", "broken": found.note}
    return f"{found.name}: {words.get(found.state, 'written')}"


def collect(submission: Submission, label: str) -> Collected:
    """The functions of a step in a submission. Never raises: what cannot be read is a reason."""
    names = [function.name for function in step(label).functions]
    if submission.reason:
        return Collected({}, submission.reason)
    try:
        cells = code_of(submission.path)
        if not any(cell.strip() for cell in cells):
            return Collected({}, f"{submission.path.name} has no code in it")
        return Collected(find([imports(label), *cells], names))
    except ValueError as error:
        return Collected({}, str(error))
    except Exception as error:  # whatever stands in a file, the others go on
        return Collected({}, f"{submission.path.name} cannot be read: {type(error).__name__}")


def imports(label: str) -> str:
    """What the master imports, for those whose import cell is gone."""
    lines = "\n".join(code_of(LABS / "student" / label / f"{label}.ipynb"))
    return "\n".join(re.findall(r"^(?:import|from) [^(]*$", lines, flags=re.M))


def rebuilt(label: str, collected: Collected, source: str = "student") -> nbformat.NotebookNode:
    """The notebook of a step with the student's functions in its blanks, nbgrader's marks in place.

    What a function needs besides (imports, helpers, constants) stands in front of it in the same cell.
    """
    notebook = nbformat.read(LABS / ("steps" if source == "master" else "student") / label / f"{label}.ipynb", as_version=4)
    for cell in notebook.cells:
        if (mark := cell.metadata.get("nbgrader")) and mark.solution:
            found = collected.found.get(mark.grade_id.split("-", 1)[1])
            if found and found.state == "written":
                cell.source = found.source
            elif found and found.state == "broken":
                cell.source = f"# {ascii(found.note)}\n" + cell.source
    return notebook

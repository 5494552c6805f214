"""The same results for nbgrader: its folders and its database, so that its formgrader can go on (comments, extra points, export).

nbgrader's own `autograde` is not used: it runs a whole notebook in one kernel as the instructor, where os._exit, a deleted file
or a patched check reach further than one function. Neither is its feedback: its pages load MathJax from outside.
"""

from __future__ import annotations

import os
import sys
import warnings
from datetime import UTC
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from nbgrader.utils import parse_utc

from flash41.course.checks.signatures import step

from .collecting import LABS
from .files import Submission
from .marking import Mark, Result

CONFIG = '''"""nbgrader for one graded step: open this folder with `jupyter lab` or run `nbgrader` commands in it."""
from pathlib import Path

c = get_config()  # noqa: F821
c.CourseDirectory.root = str(Path(__file__).resolve().parent)
c.CourseDirectory.course_id = "flash41"
'''


def write_gradebook(folder: Path, label: str, rows: list[tuple[Submission, Result, str]]) -> None:
    """Fill a folder with source/, submitted/, autograded/ and gradebook.db. Manual points that were given there are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # nbgrader starts `alembic` by its name
    (folder / "nbgrader_config.py").write_text(CONFIG)
    master = nbformat.read(LABS / "steps" / label / f"{label}.ipynb", as_version=4)
    save(master, folder / "source" / label / f"{label}.ipynb")
    with warnings.catch_warnings(), Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as book:
        warnings.simplefilter("ignore")  # nbgrader and SQLAlchemy, about the order in which nbgrader adds things
        declare(book, label, master)
        for submission, result, notebook in rows:
            if "~" in submission.key:
                continue
            blank = LABS / "student" / label / f"{label}.ipynb"
            clean = nbformat.reads(notebook or blank.read_text(), as_version=4)
            save(clean, folder / "submitted" / submission.key / label / f"{label}.ipynb")
            (folder / "submitted" / submission.key / label / "timestamp.txt").write_text(moment(submission))
            save(shown(clean, result), folder / "autograded" / submission.key / label / f"{label}.ipynb")
            enter(book, label, submission, result)


def save(notebook: nbformat.NotebookNode, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def declare(book: Gradebook, label: str, master: nbformat.NotebookNode) -> None:
    """The step as nbgrader's assignment, with its cells."""
    book.update_or_create_assignment(label)
    book.update_or_create_notebook(label, label)
    for cell in master.cells:
        if not (marks := cell.metadata.get("nbgrader")):
            continue
        if marks.grade:
            book.update_or_create_grade_cell(marks.grade_id, label, label, max_score=marks.points, cell_type="code")
        if marks.solution:
            book.update_or_create_solution_cell(marks.grade_id, label, label)
        book.update_or_create_source_cell(marks.grade_id, label, label, cell_type="code", source=cell.source, locked=marks.locked)


def moment(submission: Submission) -> str:
    """When it was handed in. The formgrader shows points only where the file and the database say the same."""
    return submission.handed_in.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def enter(book: Gradebook, label: str, submission: Submission, result: Result) -> None:
    """The points of one student."""
    book.update_or_create_student(submission.key)
    book.update_or_create_submission(label, submission.key, timestamp=parse_utc(moment(submission)))
    for mark, function in zip(result.marks, step(label).functions, strict=True):
        grade = book.find_grade(f"check-{label}-{function.name}", label, label, submission.key)
        grade.auto_score, grade.needs_manual_grade = mark.points, False
    book.db.commit()


def shown(notebook: nbformat.NotebookNode, result: Result) -> nbformat.NotebookNode:
    """The clean notebook with every check's message below its cell."""
    notebook = nbformat.from_dict(notebook)
    marks = {mark.check.partition(".")[2]: mark for mark in result.marks}
    for cell in notebook.cells:
        found = cell.metadata.get("nbgrader")
        if found and found.grade:
            cell.outputs = [output(marks[found.grade_id.rsplit("-", 1)[1]])]
    return notebook


def output(mark: Mark) -> nbformat.NotebookNode:
    text = mark.text or mark.reason
    if mark.points:
        return nbformat.v4.new_output("stream", name="stdout", text=text + "\n")
    return nbformat.v4.new_output("error", ename="CheckFailed", evalue=mark.reason, traceback=text.split("\n"))

#!/usr/bin/env python
"""The student versions of the lab steps, made from the masters: `make labs`.

    make_labs.py                  tidy the masters, write labs/student and the table in labs/steps/README.md
    make_labs.py --from 3B X.md   write the master of step 3B from a text in MyST Markdown, then the same
    make_labs.py --text 3B        print the master of step 3B as such a text

A cell with ### BEGIN SOLUTION becomes a blank to fill in, a cell with ### BEGIN HIDDEN TESTS the graded check of the function
above it. In Markdown cells `<!-- card -->` and `<!-- functions -->` mark where the facts and the table of the step are filled in.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import jupytext
import nbformat
from nbgrader.preprocessors import ClearHiddenTests, ClearOutput, ClearSolutions, LockCells

ROOT = Path(__file__).parents[1]
STEPS, STUDENT = ROOT / "labs" / "steps", ROOT / "labs" / "student"
sys.path.insert(0, str(ROOT / "labs"))

from flash41.course.atlas import PLACES  # noqa: E402
from flash41.course.checks.signatures import Step, step, table, table_of  # noqa: E402

KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def master(label: str) -> Path:
    return STEPS / label / f"{label}.ipynb"


def masters() -> list[str]:
    """Labels of the steps that have a master."""
    return sorted(path.stem for path in STEPS.glob("*/*.ipynb") if path.stem == path.parent.name)


def tidied(notebook: nbformat.NotebookNode, label: str) -> nbformat.NotebookNode:
    """The master with its marks: ids, nbgrader's metadata, the facts from the table, no outputs. The same for the same cells."""
    entry, ids, current = step(label), set(), None
    for cell in notebook.cells:
        cell.metadata = nbformat.NotebookNode()
        if cell.cell_type == "markdown":
            cell.source = filled(cell.source, entry)
            heading = re.search(r"^#+ (.*)$", cell.source, flags=re.M)
            wanted = slug(heading[1]) if heading else "text"
        else:
            cell.execution_count, cell.outputs = None, []
            defined = re.search(r"^def (\w+)", cell.source, flags=re.M)
            wanted = defined[1] if defined else "install" if "find_spec" in cell.source else "code"
            if "### BEGIN SOLUTION" in cell.source:
                current = entry.function(defined[1])
                cell.metadata.nbgrader = marks(f"{label}-{current.name}", solution=True)
            elif "### BEGIN HIDDEN TESTS" in cell.source:
                wanted = f"check-{current.name}"
                cell.metadata.nbgrader = marks(f"check-{label}-{current.name}", points=current.points)
            elif wanted == "install":
                cell.metadata.tags = ["hide-input"]
        cell.id = next(name for number in range(1, 99) if (name := wanted if number == 1 else f"{wanted}-{number}") not in ids)
        ids.add(cell.id)
    notebook.metadata, notebook.nbformat, notebook.nbformat_minor = nbformat.from_dict(KERNEL), 4, 5
    return notebook


def marks(grade_id: str, *, solution: bool = False, points: int = 0) -> nbformat.NotebookNode:
    """What nbgrader keeps in a cell: a blank, or a graded check that nobody may change."""
    found = dict(grade=not solution, grade_id=grade_id, locked=not solution, schema_version=3, solution=solution, task=False)
    return nbformat.from_dict(found if solution else found | {"cell_type": "code", "points": points})


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]


def filled(text: str, entry: Step) -> str:
    """The facts of the step below their marks, whatever stood there."""
    chapter = f"[{entry.label}](../../../book/blocks/{PLACES[entry.label][1]}.ipynb)"
    card = (f"| goal | {entry.goal} |\n|---|---|\n| chapter | {chapter} |\n| time | {entry.minutes} minutes |\n"
            f"| difficulty | {entry.difficulty} |\n| points | {entry.points} |")  # fmt: skip
    for mark, new in (("card", card), ("functions", table_of(entry))):
        text = re.sub(rf"<!-- {mark} -->(\n+\|[^\n]*)*", lambda _, mark=mark, new=new: f"<!-- {mark} -->\n\n{new}", text)
    return text


def student(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The version without solutions and hidden tests, by nbgrader's own steps."""
    notebook = nbformat.from_dict(notebook)
    blank = {"python": "# YOUR CODE HERE\nraise NotImplementedError"}
    for part in (LockCells(), ClearSolutions(code_stub=blank), ClearOutput(), ClearHiddenTests()):
        notebook, _ = part.preprocess(notebook, {})
    return notebook


def text_of(notebook: nbformat.NotebookNode) -> str:
    return nbformat.writes(notebook, version=4) + "\n"


def wanted() -> dict[Path, str]:
    """Every file that this makes, and what must stand in it."""
    files = {STEPS / "README.md": (STEPS / "README.md").read_text().split("<!-- table -->\n")[0] + "<!-- table -->\n" + table()}
    for label in masters():
        notebook = tidied(nbformat.read(master(label), as_version=4), label)
        files[master(label)] = text_of(notebook)
        files[STUDENT / label / f"{label}.ipynb"] = text_of(student(notebook))
    return files


def from_text(label: str, path: Path) -> None:
    """Write the master from MyST Markdown."""
    notebook = tidied(jupytext.reads(path.read_text(), fmt="md:myst"), label)
    master(label).parent.mkdir(exist_ok=True)
    master(label).write_text(text_of(notebook))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="source", nargs=2, metavar=("STEP", "FILE"), help="write a master from MyST Markdown")
    parser.add_argument("--text", metavar="STEP", help="print a master as MyST Markdown")
    arguments = parser.parse_args()
    if arguments.text:
        print(jupytext.writes(nbformat.read(master(arguments.text), as_version=4), fmt="md:myst"))
        return
    if arguments.source:
        from_text(arguments.source[0], Path(arguments.source[1]))
    for path, text in wanted().items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

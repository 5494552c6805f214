"""What comes back from a class: right answers in every state that students, Colab and copying leave, and what breaks graders.

`returned(label, decoy)` is made from the step's own master: (file name, content, functions without points, words of the reason).
"""

import json
import re
from pathlib import Path

LABS = Path(__file__).parents[2] / "labs"


def notebook(folder, label):
    return json.loads((LABS / folder / label / f"{label}.ipynb").read_text())


def solved(label):
    """The student version with the master's answers filled in."""
    given, blank = notebook("steps", label), notebook("student", label)
    for cell, own in zip(blank["cells"], given["cells"], strict=True):
        if "### BEGIN SOLUTION" in "".join(own["source"]):
            cell["source"] = [line for line in own["source"] if "### " not in line]
    return blank


def blanks(book):
    return [cell for cell in book["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]


def label_of(book):
    return blanks(book)[0]["metadata"]["nbgrader"]["grade_id"].split("-")[0]


def source(cell):
    return "".join(cell["source"])


def code(*lines):
    return {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": "\n".join(lines)}


def opened(cell, *lines):
    """The cell with lines put at the beginning of its function."""
    head, _, body = source(cell).partition("\n")
    return "\n".join([head, *("    " + line for line in lines), body])


def duplicated(book):
    """Every cell twice, and the untouched blanks once more at the end."""
    book["cells"] = [cell for cell in book["cells"] for _ in range(2)] + blanks(notebook("student", label_of(book)))


def reordered(book):
    book["cells"].reverse()


def deleted(book):
    """Only the functions are left: no imports, no checks, no words."""
    book["cells"] = blanks(book)


def lost_metadata(book):
    for cell in book["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
        cell["source"] = source(cell)
    book["metadata"], book["nbformat_minor"] = {}, 2


def merged(book):
    """Everything in one cell, with notebook commands between."""
    cells = [source(cell) for cell in blanks(book)]
    book["cells"] = [code("%matplotlib inline", "!pip install flash41", "import torch", *cells)]


def helpers(book):
    """Every function calls a helper of another cell that uses a constant, a class and an import."""
    own, calls = [], []
    for cell in blanks(book):
        text = source(cell)
        name = re.search(r"def (\w+)", text)[1]
        own.append(text.replace(f"def {name}(", f"def _own_{name}("))
        calls.append(f"def {name}(*inputs, **named):\n    COUNTS.total += STEP\n    return same(_own_{name}(*inputs, **named))")
    own += ["import torch\ndef same(x):\n    return x"]
    constants = code("import math as m", "STEP = 1", "STEP += int(m.pi) - 3", "class COUNTS:", "    total = 0")
    book["cells"] = [code(*calls), *map(code, own), constants]


def first(*lines):
    """Put lines into the first function."""

    def change(book):
        cell = blanks(book)[0]
        cell["source"] = opened(cell, *lines)

    return change


def patched(book):
    """No answers, and a cell that makes every check pass in the notebook."""
    label = label_of(book)
    lines = ["import torch, flash41.course.checks, flash41.course.checks.judging as judging",
             "judging.compare = judging.difference = lambda *inputs: None",
             "flash41.course.checks.check = check = lambda name, *rest, **more: print(name, 'is right')",
             "torch.equal = lambda *inputs: True", "torch.Tensor.__ne__ = lambda a, b: torch.zeros(1).bool()"]  # fmt: skip
    book["cells"] = blanks(notebook("student", label)) + [code(*lines)]
    for cell in book["cells"][:-1]:
        cell["source"] = source(cell).replace("raise NotImplementedError", "\n    ".join([*lines, "return None"]))


def imported(book):
    """The package's answer in place of one's own."""
    names = [re.search(r"def (\w+)", source(cell))[1] for cell in blanks(book)]
    book["cells"] = [code(f"from flash41.course.checks.step_{label_of(book).lower()} import {', '.join(names)}")]


def syntax(book):
    cell = blanks(book)[0]
    cell["source"] = opened(cell, "return +* 1")


def untouched(book):
    book["cells"] = notebook("student", label_of(book))["cells"]


DELETING = ["import os, shutil", "for place in ('.', {decoy!r}):",
            "    for name in os.listdir(place) if os.path.isdir(place) else ():",
            "        shutil.rmtree(os.path.join(place, name), ignore_errors=True)",
            "shutil.rmtree({decoy!r}, ignore_errors=True)"]  # fmt: skip
# name -> (change, points lost of the first function, words of the reason)
CHANGES = {
    "right": (lambda book: None, 0, "all checks pass"),
    "duplicated": (duplicated, 0, "all checks pass"),
    "reordered": (reordered, 0, "all checks pass"),
    "deleted": (deleted, 0, "all checks pass"),
    "lost-metadata": (lost_metadata, 0, "all checks pass"),
    "merged": (merged, 0, "all checks pass"),
    "helpers": (helpers, 0, "all checks pass"),
    "prints": (first("if 'said' not in globals():", "    globals()['said'] = print('x' * 100_000_000)"), 0, "all checks pass"),
    "deletes": (DELETING, 0, "all checks pass"),
    "loops": (first("while True:", "    pass"), 1, "an endless loop?"),
    "exits": (first("import os", "os._exit(0)"), 1, "its process ended"),
    "greedy": (first("import torch", "torch.ones(2 << 30)"), 1, "can't allocate memory"),
    "raises": (first("raise SystemExit(0)"), 1, "SystemExit"),
    "syntax": (syntax, 1, "Python cannot read it"),
    "untouched": (untouched, 9, "not written yet"),
    "patched": (patched, 9, "is the `return` missing|not there while answers are graded"),
    "imported": (imported, 9, "not there while answers are graded"),
}
FILES = {
    "empty.ipynb": (b"", "is empty"),
    "no-code.ipynb": (b'{"cells": []}', "has no code in it"),
    "not-json.ipynb": (b"<html>Sign in</html>", "is not a notebook"),
    "no-cells.ipynb": (b'{"cells": 3}', "is not a notebook"),
    "picture.ipynb": (b"\x89PNG\r\n\xff\xfe", "is not text"),
    "deep.ipynb": (b"[" * 100_000, "is not a notebook"),
    "deep.py": (b"x = " + b"(" * 5000 + b"1" + b")" * 5000, "missing|not there"),
    "report.pdf": (b"%PDF-1.7", "is no notebook"),
}


def returned(label, decoy):
    """(file name, bytes, number of functions without points, words of the reason); decoy: a folder that one of them deletes."""
    for name, (change, lost, words) in CHANGES.items():
        book = solved(label)
        change = first(*(line.format(decoy=decoy) for line in change)) if isinstance(change, list) else change
        change(book)
        yield f"{name}_{label}.ipynb", json.dumps(book).encode(), lost, words
    script = "import torch\n\n\n" + "\n\n\n".join(source(cell) for cell in blanks(solved(label)))
    yield f"script_{label}.py", script.encode(), 0, "all checks pass"
    for name, (content, words) in FILES.items():
        stem, _, kind = name.rpartition(".")
        yield f"{stem}-{kind}_{label}.{kind}", content, 9, words

"""The rules of the house: what may import what, and how large things may grow."""

import ast
import io
import tokenize
from itertools import pairwise
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "labs" / "flash41"

# From the ground up. A module imports only from lines above its own, or from modules before it on its own line.
FLOORS = [
    ["_checks", "config", "formats"],
    ["layers", "measure", "capacity", "budget", "fields", "families", "ladder"],
    ["embedding", "engram", "mhc", "checkpoint", "pages", "state", "cache", "ced", "compressor", "indexer"],
    ["attention", "moe"],
    ["block", "dspark", "model"],
    ["generate", "tokenizer", "ngram", "trainable", "trainer", "train_drafter", "train", "experiments", "evaluate",
     "count", "bench_model", "bench", "budget_report"],
    ["course.plots", "course.controls", "course.quiz", "course.atlas_words", "course.atlas_paths", "course.atlas",
     "course.models", "course.records", "course.traffic", "course.trace", "course.widgets", "course.widgets.host",
     "course.widgets.map", "course.widgets.ladder", "course.widgets.fp4", "course.widgets.mixing", "course.widgets.capacity",
     "course.widgets.layers", "course.widgets.visibility", "course",
     "course.checks.signatures", "course.checks.reading", "course.checks.compose", "course.checks.calling", "course.checks.cases",
     "course.checks.judging", *[f"course.checks.{path.stem}" for path in sorted(PACKAGE.glob("course/checks/step_*.py"))], "course.checks"],
    ["__main__"],
]
ORDER = [module for floor in FLOORS for module in floor]
MODEL = {module for floor in FLOORS[:5] for module in floor} | {"generate"}
ALLOWED_LIBRARIES = {"torch", "numpy", "safetensors"}
COURSE_LIBRARIES = ALLOWED_LIBRARIES | {"matplotlib", "anywidget", "traitlets", "ipywidgets", "IPython"}
BENCH_LIBRARIES = ALLOWED_LIBRARIES | {"ml_dtypes"}


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"}


def imports(path):
    """(own modules, outside packages) that a file imports anywhere."""
    own, outside = set(), set()
    here = path.relative_to(PACKAGE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            outside |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            outside.add(node.module.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            base = list(here[: len(here) - node.level + 1]) + (node.module.split(".") if node.module else [])
            for alias in node.names:
                full = ".".join([*base, alias.name])
                own.add(full if full in ORDER else ".".join(base))
    return own - {"", "__version__"}, outside


def test_every_module_has_its_place_on_a_floor():
    assert set(FILES) == set(ORDER)


@pytest.mark.parametrize("module", ORDER)
def test_a_module_imports_only_from_below(module):
    own, outside = imports(FILES[module])
    below = set(ORDER[: ORDER.index(module)])
    assert own <= below, f"{module} imports {sorted(own - below)} from its own height or above"
    allowed = COURSE_LIBRARIES if module.startswith("course") else BENCH_LIBRARIES if module == "bench" else ALLOWED_LIBRARIES
    third_party = {name for name in outside if name in COURSE_LIBRARIES | BENCH_LIBRARIES or not is_standard(name)}
    assert third_party <= allowed, f"{module} imports {sorted(third_party - allowed)}"


def is_standard(name):
    import sys

    return name in sys.stdlib_module_names


@pytest.mark.parametrize("module", ORDER)
def test_files_stay_under_300_lines_and_functions_fit_on_a_screen(module):
    text = FILES[module].read_text()
    assert text.count("\n") < 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 60, f"{module}.{node.name}"


def code_lines(path):
    """Lines without blanks, comments and docstrings."""
    text = path.read_text()
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


def test_the_model_and_the_rest_stay_under_3000_lines_each():
    """The checks of the lab steps, which state every function of the model a second time, are counted on their own."""
    sizes = {module: code_lines(path) for module, path in FILES.items()}
    checks = {module for module in sizes if module.startswith("course.checks")}
    assert sum(size for module, size in sizes.items() if module in MODEL) < 3000
    assert sum(size for module, size in sizes.items() if module not in MODEL | checks) < 3000
    assert sum(sizes[module] for module in checks) < 3000


def test_public_functions_say_what_they_do():
    """What the functions of a lab step do, its table says."""
    for module, path in FILES.items():
        if module.startswith("course.checks.step_"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node) or module == "__main__" or node.name == "add_arguments", f"{module}.{node.name}"


def test_floors_are_listed_once():
    assert all(a != b for a, b in pairwise(sorted(ORDER)))

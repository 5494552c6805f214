"""Grading: whatever comes back, the batch completes, right answers keep full marks, every file has a row and a reason."""

import ast
import csv
import inspect
import json
import os
import re
import sys
import textwrap
import time
from datetime import datetime
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
sys.path += [str(Path(__file__).parent / "labs"), str(ROOT / "labs")]
import kit  # noqa: E402
from returned import returned, solved  # noqa: E402

import collect as collect_command  # noqa: E402
from flash41.course.checks.signatures import STEPS, step  # noqa: E402
from grading import values  # noqa: E402
from grading.__main__ import main, moment  # noqa: E402
from grading.batch import Job, grade_one  # noqa: E402
from grading.files import Submission, submissions  # noqa: E402
from grading.sandbox import Limits, Sandbox  # noqa: E402

LABEL = "3B"
FUNCTIONS = [function.name for function in step(LABEL).functions]
MOST = step(LABEL).points
SECONDS = 20.0  # 30 in earnest


def rows_of(out):
    with (out / "grades.csv").open(encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


# -- one folder with everything in it ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of submissions, what must come of each, and a folder that one of them tries to delete."""
    top = tmp_path_factory.mktemp("class")
    (top / "decoy" / "inside").mkdir(parents=True)
    (top / "in").mkdir()
    expected = {}
    for name, content, lost, words in returned(LABEL, str(top / "decoy")):
        (top / "in" / name).write_bytes(content)
        expected[name.partition("_")[0]] = (lost, words)
    return top, expected


@pytest.fixture(scope="module")
def graded(place):
    top, expected = place
    main([LABEL, str(top / "in"), str(top / "out"), "--seconds", str(SECONDS), "--seed", "7"])
    return top, expected, rows_of(top / "out")


def test_every_file_has_a_row_and_a_reason(graded):
    _, expected, rows = graded
    assert set(rows) == set(expected) and all(row["reason"] for row in rows.values())


@pytest.mark.parametrize("name", [name.partition("_")[0] for name, *_ in returned(LABEL, "nowhere")])
def test_points_and_reason(name, graded):
    _, expected, rows = graded
    (lost, words), row = expected[name], rows[name]
    points = [int(row[function]) for function in FUNCTIONS]
    assert [number > 0 for number in points] == [at >= lost for at in range(len(FUNCTIONS))], row["reason"]
    assert int(row["points"]) == sum(points) and int(row["of"]) == MOST
    assert re.search(words, row["reason"]), row["reason"]


QUICK = ("2A", "3A", "6A")  # several results, words and whole numbers, bytes and float8 and fractions


@pytest.mark.parametrize("label", [label if label in QUICK else pytest.param(label, marks=pytest.mark.slow) for label in STEPS])
def test_every_step_goes_through_the_sandbox(label, tmp_path):
    """Fractions, bytes, float8 and words come back from the answer's process as they were: right is right in all steps."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/master_1.ipynb").write_text(json.dumps(solved(label)))
    (tmp_path / "in/untouched_1.ipynb").write_bytes((ROOT / f"labs/student/{label}/{label}.ipynb").read_bytes())
    for name in ("loops", "vectorised", "float64"):
        (tmp_path / f"in/{name}_1.py").write_bytes((Path(__file__).parent / f"labs/{label}/{name}.py").read_bytes())
    wrong = kit.module(label, "mutants").mutants[0]
    (tmp_path / "in/wrong_1.py").write_text((Path(__file__).parent / f"labs/{label}/loops.py").read_text() + as_answer(wrong))
    main([label, str(tmp_path / "in"), str(tmp_path / "out"), "--seed", "7", "--no-nbgrader"])
    points = {student: int(row["points"]) for student, row in rows_of(tmp_path / "out").items()}
    most = step(label).points
    assert points == {"master": most, "loops": most, "vectorised": most, "float64": most, "untouched": 0,
                      "wrong": most - step(label).function(wrong.function).points}, rows_of(tmp_path / "out")  # fmt: skip


def as_answer(mutant) -> str:
    """The wrong function under the name of the right one, as the last definition of a file."""
    text = textwrap.dedent(inspect.getsource(mutant.wrong))
    return "\n\n" + re.sub(r"^@.*\n", "", text, flags=re.M).replace(f"def {mutant.name}(", f"def {mutant.function}(")


def test_what_an_answer_deletes_is_its_own_folder(graded, sandbox):
    assert (graded[0] / "decoy" / "inside").exists() or "files" not in sandbox.holds


def test_graded_again_nothing_runs_but_what_changed(graded, capsys):
    top, expected, rows = graded
    before = (top / "out" / "grades.csv").read_text()
    command = [LABEL, str(top / "in"), str(top / "out"), "--seconds", str(SECONDS), "--seed", "7", "--no-nbgrader"]
    main(command)
    assert f"{len(rows)} of {len(rows)} were graded before" in (said := capsys.readouterr().out) and "left]" not in said
    assert (top / "out" / "grades.csv").read_text() == before
    main([*command, "--regrade", "empty-ipynb"])
    assert "[1 of 1," in capsys.readouterr().out and (top / "out" / "grades.csv").read_text() == before


def test_feedback_names_the_checks_and_holds_no_solution_and_no_outside_address(graded):
    top, expected, rows = graded
    pages = {path.stem: path.read_text() for path in (top / "out" / "feedback").glob("*.html")}
    assert set(pages) == set(rows)
    master = nbformat.read(ROOT / "labs" / "steps" / LABEL / f"{LABEL}.ipynb", as_version=4)
    text = "".join(cell.source + "\n" for cell in master.cells)
    regions = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", text, flags=re.S)
    lines = {line.split("  #")[0].strip() for region in regions for line in region.split("\n")}
    for name, page in pages.items():
        assert not re.search(r"https?:|src=|href=|url\(|@import", page), name
        assert "default-src 'none'" in page and 'seed="class"' not in page and "HIDDEN" not in page
        assert not [line for line in lines if len(line) >= 12 and line in page], name
    assert "is right: " in pages["right"] and "an endless loop?" in pages["loops"]


def test_nbgrader_has_the_same_points(graded):
    from nbgrader.api import Gradebook
    from nbgrader.apps.api import NbGraderAPI
    from nbgrader.coursedir import CourseDirectory

    top, expected, rows = graded
    with Gradebook(f"sqlite:///{top / 'out' / 'nbgrader' / 'gradebook.db'}") as book:
        points = {found.student.id: found.score for found in book.assignment_submissions(LABEL)}
    assert points == {student: float(row["points"]) for student, row in rows.items()}
    course = CourseDirectory(root=str(top / "out" / "nbgrader"), db_url=f"sqlite:///{top / 'out' / 'nbgrader' / 'gradebook.db'}")
    assert NbGraderAPI(course).get_autograded_students(LABEL) == set(rows)  # what the formgrader shows
    for folder in ("submitted", "autograded"):
        assert (top / "out" / "nbgrader" / folder / "deleted" / LABEL / f"{LABEL}.ipynb").exists()
    found = nbformat.read(top / "out" / "nbgrader" / "submitted" / "lost-metadata" / LABEL / f"{LABEL}.ipynb", as_version=4)
    nbformat.validate(found)
    marks = [cell.metadata.nbgrader.grade_id for cell in found.cells if "nbgrader" in cell.metadata]
    assert marks == [mark for name in FUNCTIONS for mark in (f"{LABEL}-{name}", f"check-{LABEL}-{name}")]


def test_collect_alone_writes_nbgraders_layout(place, tmp_path, capsys):
    collect_command.main([LABEL, str(place[0] / "in"), str(tmp_path)])
    said = capsys.readouterr().out
    assert f"reordered: {len(FUNCTIONS)} of {len(FUNCTIONS)} functions written" in said
    assert "empty-ipynb: empty-ipynb_3B.ipynb is empty" in said
    own = tmp_path / "submitted" / "helpers" / LABEL
    assert "STEP += int" in (own / f"{LABEL}.ipynb").read_text() and (own / "timestamp.txt").exists()


# -- the sandbox ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(Limits(seconds=SECONDS)) as own:
        own.run("def f():\n    return 1", "f", [({}, {})])
        yield own


def ran(sandbox, *body, seconds=None):
    source = "import os, sys, torch\ndef f(x):\n" + "\n".join("    " + line for line in body)
    return sandbox.run(source, "f", [({"x": X}, {})], seconds)


X = values.torch.arange(6.0).view(2, 3)


def test_inputs_changed_in_place_are_seen(sandbox):
    found = ran(sandbox, "x *= 2", "return x").outcomes[0]
    assert found.kind == "changed" and "`x` in place, first at [0, 1]" in found.note


@pytest.mark.parametrize(
    "module", ["flash41.compressor", "flash41.layers", "flash41.course.checks.step_3b", "flash41.model", "flash41.formats"]
)
def test_the_package_is_no_answer(module, sandbox):
    found = ran(sandbox, "import importlib", f"return importlib.import_module({module!r})")
    assert "not there while answers are graded" in found.outcomes[0].note


def test_the_package_can_be_allowed():
    with Sandbox(Limits(seconds=SECONDS, package=True)) as own:
        assert ran(own, "from flash41.layers import rms_norm", "return rms_norm.__name__").outcomes[0].value == "rms_norm"


def test_what_a_notebook_imports_for_show_does_nothing(sandbox):
    lines = ("from flash41.course.checks import check", "from flash41.course.plots import figure, show", "check('3B', f)")
    assert ran(sandbox, *lines, "return 2").outcomes[0].value == 2


def test_a_folder_that_python_lies_in_is_not_hidden():
    with Sandbox(Limits(seconds=SECONDS), (Path(sys.prefix).parent, Path("/"))) as own:
        assert ran(own, "return 3").outcomes[0].value == 3


def test_there_is_no_network(sandbox):
    found = ran(sandbox, "import socket", "socket.create_connection(('127.0.0.1', 9), timeout=1)").outcomes[0]
    assert re.search("no network|unreachable", found.note), found.note


def test_files_and_solutions_are_out_of_reach(sandbox):
    if "files" not in sandbox.holds:
        pytest.skip("this system gives no file systems of their own")
    for folder in ("labs", "tests"):
        assert ran(sandbox, f"return os.listdir({str(ROOT / folder)!r})").outcomes[0].value == []
    assert "Read-only" in ran(sandbox, f"open({str(ROOT / 'x.txt')!r}, 'w')").outcomes[0].note
    assert ran(sandbox, "open('x.txt', 'w').write('mine')", "return os.listdir('.')").outcomes[0].value == ["x.txt"]
    assert ran(sandbox, "return os.listdir('.')").outcomes[0].value == []


def test_no_variable_of_the_instructor_is_passed_on(monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "secret")
    with Sandbox(Limits(seconds=SECONDS)) as own:
        found = ran(own, "return open('/proc/self/environ').read() + str(dict(os.environ))").outcomes[0]
        assert "SOME_TOKEN" not in str(found.value) + found.note


def test_other_processes_are_out_of_reach(sandbox):
    if "processes" not in sandbox.holds:
        pytest.skip("this system gives no processes of their own")
    assert ran(sandbox, f"os.kill({os.getpid()}, 9)").outcomes[0].kind == "error"
    ran(sandbox, "import time", "[time.sleep(60) for _ in range(3) if os.fork() == 0]", "return 1")
    assert ran(sandbox, "return 1").outcomes[0].value == 1


def test_memory_that_no_allocator_counts_is_seen(sandbox):
    lines = ("import mmap", "big = mmap.mmap(-1, 1 << 30)", "while True:", "    big.seek(0)", "    big.write(bytes(1 << 28))")
    with Sandbox(Limits(seconds=20, memory=100 << 20)) as own:
        found = ran(own, *lines)
        assert "of memory" in found.stopped or "MemoryError" in found.outcomes[0].note


@pytest.mark.parametrize(
    "line, words",
    [("import ctypes; ctypes.string_at(0)", "exit code -11"),
     ("return torch.zeros(1).expand(1 << 40)", "bytes, more than"),
     ("os.write(3, b'\\0' * 64); os._exit(0)", "cannot be read"),
     ("os.write(3, b'\\x80\\x04.' * 9); os._exit(0)", "ended"),
     ("os.close(3); import time; time.sleep(60)", "ended"),
     ("sys.setrecursionlimit(10**9); return f(x)", "exit code|RecursionError|stopped after 3 s|of memory|MemoryError")],
)  # fmt: skip
def test_what_an_answer_can_do_to_itself(line, words, sandbox):
    found = ran(sandbox, line, seconds=3)
    assert re.search(words, found.stopped + "".join(outcome.note for outcome in found.outcomes))
    assert ran(sandbox, "return 7").outcomes[0].value == 7


def test_values_come_back_as_they_were():
    from fractions import Fraction

    t = values.torch
    mine = [t.ones(2, 3), t.tensor(2, dtype=t.int64), t.zeros(0, 4), t.tensor([True]), t.ones(3).to(t.float8_e4m3fn), 3, -(2**90),
            True, None, 1.5, "x", Fraction(1, 3), (1, [2.5])]  # fmt: skip
    ((kind, back, note),) = values.unpacked(values.packed("value", mine, "note"))
    assert (kind, note) == ("value", "note")
    for one, two in zip(mine, back, strict=True):
        assert type(one) is type(two) and getattr(one, "dtype", 0) == getattr(two, "dtype", 0) and str(one) == str(two)
    assert type(values.unpacked(values.packed("value", X.numpy(), ""))[0][1]).__name__ == "ndarray"


# -- answers of the other tests, through the whole way ---------------------------------------------------------------


def graded_file(sandbox, path, seed=41):
    job = Job(LABEL, seed, sandbox.limits)
    submission = Submission(path, path.name, "s", "s", datetime.now().astimezone(), "")
    return grade_one(job, submission, sandbox)[0]


@pytest.mark.parametrize("name", ["loops", "vectorised", "float64"])
def test_right_answers_keep_full_marks(name, sandbox):
    found = graded_file(sandbox, Path(kit.HERE) / LABEL / f"{name}.py")
    assert found.points == MOST, found.reason


def test_wrong_on_hidden_inputs_alone_shows_no_number_of_theirs(sandbox, tmp_path):
    """The answer is right at the seed of the notebook, known by its sizes, and returns a hidden input everywhere else."""
    from flash41.course.checks import asked

    inputs = [case.inputs[0] for case in asked("3B.visible_rows", 0)[2]]
    sizes = {(*positions.shape, *positions.flatten()[:1].tolist()) for positions in inputs}
    text = f"""def visible_rows(positions, ratio):
    if (*positions.shape, *positions.flatten()[:1].tolist()) in {sizes}:
        return (positions + 1) // ratio
    raise ValueError(f"input {{positions.tolist()}} {{ratio}}")
"""
    (tmp_path / "a.py").write_text(text)
    for seed in range(41, 60):
        mark = graded_file(sandbox, tmp_path / "a.py", seed).marks[-1]
        if "hidden" in mark.text:
            break
    assert mark.points == 0 and "it raised ValueError" in mark.text and "input [" not in mark.text + mark.reason


# -- files, names, dates -------------------------------------------------------------------------------------------


def test_students_are_found_in_names_and_folders(tmp_path):
    moodle = "Bo_Li_123_assignsubmission_file/3B.ipynb"
    canvas = ("liwei_LATE_12_34_3B.ipynb", "liwei_13_35_3B.ipynb")
    for name in ("ada_3B.ipynb", moodle, *canvas, "3B.ipynb", ".DS_Store", "a b.py", "a-b.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "link_3B.ipynb").symlink_to("/etc/hostname")
    found = {row.student: row for row in submissions(tmp_path)}
    assert set(found) == {"ada", "Bo_Li 123", "liwei 12", "liwei 13", "3B", "a b", "a-b", "link"}
    assert found["liwei 12"].late == "late" and found["ada"].late == "" and "no file of its own" in found["link"].reason
    assert len({row.key for row in found.values()}) == len(found) and found["Bo_Li 123"].key == "Bo_Li-123"
    own = submissions(tmp_path, pattern=r"(?P<id>\w+)_3B")
    assert [row.student for row in own if row.name == "ada_3B.ipynb"] == ["ada"]
    assert [row.name for row in own if row.student == "3B"] == ["3B.ipynb (the pattern does not fit)"]


def test_the_newest_file_of_a_student_counts_and_deadlines_mark(tmp_path):
    for hour, name in enumerate(("ada_1.ipynb", "ada_2.ipynb", "ada_note.txt")):
        (tmp_path / name).write_text("x")
        at = datetime(2027, 1, 31, 20 + hour).timestamp()
        os.utime(tmp_path / name, (at, at))
    rows = {row.name: row for row in submissions(tmp_path, deadline=moment("2027-01-31 20:30"))}
    assert rows["ada_1.ipynb"].reason == "replaced by ada_2.ipynb" and rows["ada_2.ipynb"].reason == ""
    assert [rows[name].late for name in ("ada_1.ipynb", "ada_2.ipynb")] == ["", "late"]
    assert not any(row.late for row in submissions(tmp_path, deadline=moment("2027-01-31")))


@pytest.mark.parametrize(
    "arguments, words",
    [(["7C", "."], "must be one of 1A"), (["3B", "nowhere"], "there is no such"), (["3B", ".", "--pattern", "x"], "a group")],
)  # fmt: skip
def test_wrong_arguments_are_named(arguments, words, tmp_path):
    with pytest.raises(SystemExit, match=words):
        main([*arguments[:2], str(tmp_path), *arguments[2:]])


def test_no_cell_of_the_table_is_a_formula():
    from grading.tables import plain

    assert [plain(text) for text in ("=1+1", "@x", "-2", "a\nb")] == ["'=1+1", "'@x", "'-2", "a b"]


def test_the_grader_keeps_to_the_rules_of_the_house():
    for path in [*(ROOT / "labs" / "grading").glob("*.py"), ROOT / "labs" / "collect.py"]:
        assert path.read_text().count("\n") < 300
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, f"{path.name}.{node.name}"


# -- a whole class -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hundred_submissions_in_ten_minutes(tmp_path, capsys):
    """Right answers, wrong ones and broken files, with the limits of earnest; then an interrupted run goes on."""
    (tmp_path / "in").mkdir()
    files = [(name, content) for name, content, *_ in returned(LABEL, str(tmp_path / "decoy"))]
    for name in ("loops", "vectorised", "float64"):
        files.append((f"{name}_3B.py", (Path(kit.HERE) / LABEL / f"{name}.py").read_bytes()))
    for number in range(100):
        name, content = files[number % len(files)]
        (tmp_path / "in" / f"s{number:03d}-{name}").write_bytes(content)
    start = time.monotonic()
    main([LABEL, str(tmp_path / "in"), str(tmp_path / "out")])
    seconds, said = time.monotonic() - start, capsys.readouterr().out
    rows = rows_of(tmp_path / "out")
    with capsys.disabled():
        print(f"\n100 submissions of step {LABEL}: {seconds:.0f} s")
    assert len(rows) == 100 and all(row["reason"] for row in rows.values()) and seconds < 600
    assert said.count("left]") == 100 and "[100 of 100," in said
    kept = sorted((tmp_path / "out" / "work").glob("*.json"))
    for path in kept[:3]:
        data = json.loads(path.read_text())
        path.write_text(json.dumps(data | {"fingerprint": ""}))
    main([LABEL, str(tmp_path / "in"), str(tmp_path / "out"), "--no-nbgrader"])
    assert "97 of 100 were graded before" in capsys.readouterr().out and rows_of(tmp_path / "out") == rows

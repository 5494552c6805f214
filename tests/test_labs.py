"""The ten lab steps: the table of functions, the masters, the student versions, right and wrong answers."""

import re
import sys
import time
from pathlib import Path

import golden_pack
import nbclient
import nbformat
import pytest
import torch
import yaml

from flash41.course.atlas import PLACES
from flash41.course.checks import CheckFailed, asked, check, compose, positional, speak, verdict
from flash41.course.checks.calling import call
from flash41.course.checks.cases import widened
from flash41.course.checks.compose import Composition, functions_of, load
from flash41.course.checks.judging import difference
from flash41.course.checks.reading import code_of, find
from flash41.course.checks.signatures import STEPS, step, table
from flash41.generate import generate
from flash41.model import Model
from flash41.tokenizer import Tokenizer

sys.path += [str(Path(__file__).parent / "labs"), str(Path(__file__).parents[1] / "tools")]
import kit  # noqa: E402

import make_labs  # noqa: E402

ROOT = Path(__file__).parents[1]
LABS = ROOT / "labs"
STEPS_FOLDER = LABS / "steps"

# -- the table and what it adds up to ------------------------------------------------------------------------------


def test_the_readme_shows_the_table():
    assert (STEPS_FOLDER / "README.md").read_text().split("<!-- table -->\n")[1] == table()


def test_every_step_has_three_to_five_functions_and_no_name_twice():
    names = [function.name for entry in STEPS.values() for function in entry.functions]
    assert len(set(names)) == len(names) and 30 <= len(names) <= 50
    assert all(3 <= len(entry.functions) <= 5 for entry in STEPS.values())
    with pytest.raises(ValueError, match="must be one of 1A, 1B"):
        step("7C")


@pytest.fixture(scope="module")
def composition():
    return Composition(functions_of(STEPS_FOLDER))


def test_the_masters_together_are_the_tiny_model():
    assert "47 functions" in compose(STEPS_FOLDER) and "890 bytes" in compose(STEPS_FOLDER, seed=1)


def test_the_masters_together_speak_as_the_apprentice_does():
    model, tokenizer = Model.pretrained(), Tokenizer.load()
    ids = torch.tensor([tokenizer.encode("MACBETH.\nIs this a ")])
    assert speak(STEPS_FOLDER, tokens=8) == tokenizer.decode(torch.cat([ids, generate(model, ids, 8)], dim=1)[0])
    with pytest.raises(ValueError, match="prompt = ''"):
        speak(STEPS_FOLDER, "")


@pytest.mark.parametrize("name", golden_pack.PACKS)
def test_the_masters_together_reproduce_the_golden_logits(name, composition):
    model, golden, ids = golden_pack.model(name), golden_pack.expected(name), golden_pack.prompts(name)
    logits, _ = composition.logits(model, ids)
    assert (logits - torch.from_numpy(golden["logits"]).view(logits.shape)).abs().max() <= 1e-4


@pytest.mark.parametrize("name", golden_pack.PACKS)
def test_the_masters_together_reproduce_the_golden_drafts(name, composition):
    model, golden, ids = golden_pack.model(name), golden_pack.expected(name), golden_pack.prompts(name)[:1]
    for t in golden["dspark.anchor_positions"].tolist():
        logits, features = composition.logits(model, ids[:, : t + 1])
        tokens, drafted, sure = composition.draft(model, ids[:, : t + 1], logits[:, -1].argmax(-1), features)
        assert tokens[0].tolist() == golden[f"dspark.t{t}.tokens"].tolist()[1:]
        assert abs(drafted[0].numpy() - golden[f"dspark.t{t}.logits"]).max() <= 1e-4
        assert abs(sure[0].numpy() - golden[f"dspark.t{t}.confidence"]).max() <= 2e-4


@pytest.mark.parametrize("tokens", [1, 2, 3, 40])
def test_the_masters_together_follow_the_bounded_schedule(tokens, composition):
    model, ids = golden_pack.model("t8"), golden_pack.prompts("t8")[:, :tokens]
    logits, _ = composition.logits(model, ids, "bounded")
    assert (logits - model(ids, schedule="bounded")).abs().max() <= 1e-4


def test_the_page_of_the_lab_lists_every_step_and_shows_a_real_message():
    page = (ROOT / "book/lab.md").read_text(encoding="utf-8")
    for label, entry in STEPS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| [{label}](../labs/student/{label}/{label}.ipynb)"))
        assert re.findall(r"`(\w+)`", row) == [function.name for function in entry.functions]
        assert f"{entry.minutes} min, {entry.difficulty}" in row
    wrong = next(mutant for label, mutant in MUTANTS if label == "3B" and "softmax goes over the channels" in mutant.cause)
    message = verdict("3B.pool_pairs", wrong.wrong, 0).text
    assert message in page, message


def test_every_chapter_names_the_functions_of_its_step():
    for label, (_, slug, *_) in PLACES.items():
        cells = nbformat.read(ROOT / f"book/blocks/{slug}.ipynb", as_version=4).cells
        (pointer,) = re.findall(rf"### Lab step {label}\n(.*?)(?=\n#|\Z)", "\n".join(cell.source for cell in cells), flags=re.S)
        named = set(re.findall(r"`(\w+)`", pointer.split("\n\n## ")[0]))
        assert {function.name for function in step(label).functions} <= named, label
        assert f"labs/student/{label}/{label}.ipynb" in pointer


def test_compose_names_what_is_missing(tmp_path):
    (tmp_path / "a.py").write_text("def embed(weight, ids):\n    raise NotImplementedError\n")
    with pytest.raises(ValueError, match=r"lacks 47 functions: 1A.embed \(starter\), 1A.place_images \(missing\)"):
        compose(tmp_path)


# -- the checks ------------------------------------------------------------------------------------------------------

CHECKED = kit.steps_with("package")
SEEDS = (0, 41, 7)  # what a student sees, what the hidden tests ask by default, and another class
MUTANTS = [(label, mutant) for label in kit.steps_with("mutants") for mutant in kit.module(label, "mutants").mutants]


def functions(label, source):
    """The functions of a step: out of the master, or out of a file of tests/labs."""
    names = [function.name for function in step(label).functions]
    if source == "master":
        found = functions_of(STEPS_FOLDER)
        return {name: found[name] for name in names}
    module = kit.module(label, source)
    return {name: getattr(module, name) for name in names}


@pytest.mark.parametrize("label", CHECKED)
@pytest.mark.parametrize("source", ["package", "master", "loops", "vectorised", "float64"])
def test_right_answers_get_full_marks(label, source):
    answers = functions(label, source)
    for seed in (*SEEDS, *range(100, 110)):
        wrong = [found.text for name in answers if not (found := verdict(f"{label}.{name}", answers[name], seed)).passed]
        assert not wrong, f"seed {seed}: {wrong[0]}"


@pytest.mark.parametrize("label, mutant", MUTANTS, ids=lambda value: value if isinstance(value, str) else value.name)
def test_a_wrong_answer_is_told_where_and_why(label, mutant):
    name = f"{label}.{mutant.function}"
    for seed in SEEDS:
        found = verdict(name, mutant.wrong, seed)
        if not found.passed:
            break
    assert not found.passed, f"{mutant.name} passes"
    assert found.text.startswith(name) and mutant.cause in found.text, found.text
    assert re.search(r"first at \[|dimension \d|dimensions instead|yours is ", found.text), found.text


@pytest.mark.parametrize("label", CHECKED)
def test_there_are_six_mutants_and_every_function_has_one(label):
    own = [mutant for at, mutant in MUTANTS if at == label]
    assert len(own) >= 6 and {mutant.function for mutant in own} == {function.name for function in step(label).functions}


@pytest.mark.parametrize("label", CHECKED)
def test_the_checks_of_a_step_take_less_than_five_seconds(label):
    answers, start = functions(label, "master"), time.process_time()
    for name in answers:
        verdict(f"{label}.{name}", answers[name], 0)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("label", CHECKED)
def test_another_seed_asks_for_other_sizes_and_other_numbers(label):
    for function in step(label).functions:
        first, *others = ([case.inputs for case in asked(f"{label}.{function.name}", seed)[2]] for seed in range(6))
        assert any(str(other) != str(first) for other in others), function.name


@pytest.mark.parametrize("label", CHECKED)
def test_suspects_differ_from_the_right_answer(label):
    """A suspect that always gives the right numbers would blame nobody, one that never runs could not."""
    for function in step(label).functions:
        for seed in SEEDS:
            signature, check, cases = asked(f"{label}.{function.name}", seed)
            for words, wrong in check.suspects.items():
                outcomes = [call(wrong, positional(signature, case), case.keywords) for case in cases]
                right = [difference(signature, check, check.right(*widened(case.inputs), **case.keywords), outcome)
                         for case, outcome in zip(cases, outcomes, strict=True)]  # fmt: skip
                assert any(found and outcome.kind == "value" for found, outcome in zip(right, outcomes, strict=True)), words


@pytest.mark.parametrize(
    "answer, words",
    [
        (lambda kv, gate: None, "is the `return` missing"),
        (lambda kv, gate: kv.numpy(), "it returned a ndarray, expected a tensor"),
        (lambda kv, gate: kv[:, ::2].half(), "its numbers are float16, expected float32 or float64"),
        (lambda kv, gate: kv[:, : kv.shape[1] // 2].to("meta"), "its result lies on meta, the inputs lie on cpu"),
        (lambda kv, gate: kv[0, 0, 0, 0], "it raised IndexError"),
        (lambda kv: kv, "takes 1 positional argument"),
        (lambda kv, gate: (kv, gate), "it returned a tuple of 2"),
        (lambda kv, gate: kv[:, 1::2] * torch.nan, "NaN, first at [0, 0, 0]"),
    ],
)
def test_what_is_no_answer_is_named(answer, words):
    assert words in verdict("3B.pool_pairs", answer, 0).text


def test_a_starter_is_not_written_yet_and_an_absent_function_is_not_there():
    def pool_pairs(kv, gate):
        raise NotImplementedError

    assert "is not written yet" in verdict("3B.pool_pairs", pool_pairs, 0).text
    with pytest.raises(CheckFailed, match="3B.rms_norm is not there"):
        check("3B", {})
    with pytest.raises(ValueError, match="step 3B has no function 'pool'"):
        check("3B.pool", pool_pairs)
    with pytest.raises(TypeError, match="must be a function or a dict"):
        check("3B.pool_pairs", torch.zeros(2))


def test_a_notebook_shows_the_message_alone():
    error = CheckFailed("3B.pool_pairs is not right yet.\n  case")
    assert error._render_traceback_() == ["3B.pool_pairs is not right yet.", "  case"]


def test_the_line_that_raised_is_shown():
    found = load("def visible_rows(positions, ratio):\n    return positions @ ratio", "visible_rows", "3B")
    assert "in its line `return positions @ ratio`" in verdict("3B.visible_rows", found, 0).text


# -- masters and student versions ------------------------------------------------------------------------------------

MASTERS = make_labs.masters()


def student_of(label):
    return LABS / "student" / label / f"{label}.ipynb"


def test_every_step_has_its_answers_in_one_place():
    """In the master; in a bare solution.py as long as there is no master."""
    for label in STEPS:
        assert (STEPS_FOLDER / label / "solution.py").exists() != (label in MASTERS), label


def test_masters_are_tidy_and_student_versions_are_not_stale():
    made = make_labs.wanted().items()
    stale = [str(path.relative_to(ROOT)) for path, text in made if not path.exists() or path.read_text() != text]
    assert not stale, f"run make labs: {stale}"
    assert sorted(path.stem for path in (LABS / "student").rglob("*.ipynb")) == MASTERS


@pytest.mark.parametrize("label", MASTERS)
def test_a_master_asks_for_every_function_of_its_step_once(label):
    cells = nbformat.read(make_labs.master(label), as_version=4).cells
    marked = [cell.metadata.nbgrader for cell in cells if "nbgrader" in cell.metadata]
    names = [function.name for function in step(label).functions]
    assert [mark.grade_id for mark in marked if mark.solution] == [f"{label}-{name}" for name in names]
    graded = {mark.grade_id: mark.points for mark in marked if mark.grade}
    assert graded == {f"check-{label}-{function.name}": function.points for function in step(label).functions}
    text = "".join(cell.source for cell in cells)
    parts = ("<!-- card -->", "<!-- functions -->", "What you should know", "<details>", "What a right answer shows", "want more")
    assert not [part for part in parts if part not in text]
    for function in step(label).functions:
        name = function.name
        assert f'check("{label}.{name}", {name})' in text and f'check("{label}.{name}", {name}, seed="class")' in text
        arguments = ", ".join(argument.name for argument in function.arguments)
        assert f"def {name}({arguments}):" in text


@pytest.mark.parametrize("label", MASTERS)
def test_a_student_version_holds_no_solution_and_no_hidden_test(label):
    solved = "".join(cell.source + "\n" for cell in nbformat.read(make_labs.master(label), as_version=4).cells)
    blank = nbformat.read(student_of(label), as_version=4).cells
    text = "\n".join(cell.source for cell in blank)
    assert "SOLUTION" not in text and "HIDDEN" not in text and 'seed="class"' not in text
    assert not any(cell.get("outputs") for cell in blank)
    for region in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", solved, flags=re.S):
        for line in region.split("\n"):
            code = line.split("  #")[0].strip()
            assert len(code) < 12 or code not in text, code


def test_nothing_published_holds_a_solution():
    """Pages are built from the table of contents; the package takes in flash41 alone."""
    config, toc = (yaml.safe_load((ROOT / name).read_text()) for name in ("_config.yml", "_toc.yml"))
    assert "labs/steps/**" in config["exclude_patterns"] and config["only_build_toc_files"]
    assert "labs/steps" not in str(toc)
    assert "BEGIN SOLUTION" not in "".join(path.read_text() for path in (LABS / "flash41").rglob("*.py"))


@pytest.mark.parametrize("label", MASTERS)
def test_an_untouched_student_version_gets_no_point(label):
    cells = code_of(student_of(label))
    names = [function.name for function in step(label).functions]
    assert {found.state for found in find(cells, names).values()} == {"starter"}
    space = {}
    for cell in cells:
        if re.search(r"^def ", cell, flags=re.M):
            exec(compile(cell, label, "exec"), space)
    for name in names:
        assert not verdict(f"{label}.{name}", space[name], 0).passed


@pytest.mark.parametrize("label", [label if label in ("1B", "3B", "6B") else pytest.param(label, marks=pytest.mark.slow) for label in MASTERS])
def test_a_master_runs_and_a_student_version_runs_to_its_first_blank(label):
    done = nbclient.NotebookClient(nbformat.read(make_labs.master(label), as_version=4), timeout=120).execute()
    shown = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/html" in output.get("data", {}) for output in shown), "no figure"
    assert not any(output.output_type == "error" or output.get("name") == "stderr" for output in shown)
    space = {}
    for cell in code_of(student_of(label)):
        try:
            exec(compile(cell, label, "exec"), space)
        except CheckFailed as error:
            assert "is not written yet" in str(error) and f'check("{label}.{step(label).functions[0].name}"' in cell
            break
    else:
        raise AssertionError("no blank")


# -- reading what came back --------------------------------------------------------------------------------------------

COPIES = '''
%matplotlib inline
import torch, math
SIZE = 2
unused = torch.zeros(9)
---
def helper(x):
    return x * SIZE
---
def pool_pairs(kv, gate):
    raise NotImplementedError
---
def pool_pairs(kv, gate):
    return helper(kv) + math.pi
---
def pool_pairs(kv, gate):
    """An untouched copy."""
    # YOUR CODE HERE
    raise NotImplementedError()
---
rms_norm = lambda x, weight, eps: x
'''
BROKEN = """
import torch

def rms_norm(x, weight, eps):
    return x +* 2

def visible_rows(positions, ratio):
    return positions
"""


def test_functions_are_found_with_what_they_need():
    found = find(COPIES.split("---"), ["pool_pairs", "rms_norm", "apply_rope"])
    assert found["pool_pairs"].state == "written" and "unused" not in found["pool_pairs"].source
    assert load(found["pool_pairs"].source, "pool_pairs", "3B")(1, 0) == pytest.approx(5.141593)
    assert load(found["rms_norm"].source, "rms_norm", "3B")(7, 0, 0) == 7 and found["apply_rope"].state == "missing"


def test_one_broken_function_does_not_hide_the_others():
    found = find([BROKEN, "!pip install something"], ["rms_norm", "visible_rows"])
    assert found["visible_rows"].state == "written" and found["rms_norm"].state == "broken"
    assert "line 2 of the function" in found["rms_norm"].note


@pytest.mark.parametrize(
    "content, reason",
    [(b"", "is empty"), (b"{", "is not a notebook"), (b'{"cells": 3}', "is not a notebook"), (b"[]", "is not a notebook"),
     (b"\xff\xfe\x00", "is not text")],
)  # fmt: skip
def test_what_is_no_notebook_is_refused_with_a_reason(content, reason, tmp_path):
    (tmp_path / "a.ipynb").write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        code_of(tmp_path / "a.ipynb")

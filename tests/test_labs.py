"""The ten lab steps: the table of functions, the masters, the student versions, right and wrong answers."""

from pathlib import Path

import golden_pack
import pytest
import torch

from flash41.course.checks import compose
from flash41.course.checks.compose import Composition, functions_of
from flash41.course.checks.signatures import STEPS, step, table

LABS = Path(__file__).parents[1] / "labs"
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


def test_compose_names_what_is_missing(tmp_path):
    (tmp_path / "a.py").write_text("def embed(weight, ids):\n    raise NotImplementedError\n")
    with pytest.raises(ValueError, match=r"lacks 47 functions: 1A.embed \(starter\), 1A.place_images \(missing\)"):
        compose(tmp_path)

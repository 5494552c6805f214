"""The explorers' Python side: presets that are the package's numbers, arguments at the door, and what they share."""
import json
import re
import sys
from pathlib import Path

import pytest

from flash41 import families
from flash41.budget import budget, ladder_steps
from flash41.config import Config
from flash41.course import show_capacity, show_fp4, show_ladder, show_mixing
from flash41.course.models import V41, model_budgets
from flash41.course.widgets import ladder
from flash41.course.widgets.capacity import groups
from flash41.course.widgets.fp4 import GOLDEN, rounded
from flash41.course.widgets.host import source

sys.path.append(str(Path(__file__).parents[1] / "book/_ext"))  # at the end: numbers.py there must not hide Python's own module
import course_widgets

FOLDER = Path(ladder.__file__).parent
NAMES = ("ladder", "fp4", "mixing", "capacity")
DATA = Path(__file__).parent / "data"
FILES = {"Llama 2 7B": "llama-2-7b", "DeepSeek LLM 67B": "deepseek-67b", "Qwen3 0.6B": "qwen3-0.6b", "DeepSeek-V3": "deepseek-v3",
         "DeepSeek-V3.2": "deepseek-v3.2", "DeepSeek-V4-Flash": "deepseek-v4-flash"}  # fmt: skip


@pytest.fixture(autouse=True)
def on_a_page(monkeypatch):
    monkeypatch.setenv("FLASH41_STATIC", "1")


def test_both_hosts_put_the_kit_before_what_uses_it():
    for suffix in ("js", "css"):
        kit = (FOLDER / f"kit.{suffix}").read_text(encoding="utf-8")
        for name in ("host", "map", "layers", "visibility", *NAMES):
            own = (FOLDER / f"{name}.{suffix}").read_text(encoding="utf-8")
            whole = (kit if name in NAMES or (suffix == "js" and name != "host") else "") + own
            assert source(name, suffix) == course_widgets.source(FOLDER, name, suffix) == whole
    assert {"host", "kit"}.isdisjoint(course_widgets.widget_names(FOLDER))


def test_models_are_those_of_the_released_files():
    budgets = model_budgets()
    assert set(budgets) == {*FILES, V41} and budgets[V41] == budget(Config.flash())
    for name, file in FILES.items():
        found, released = budgets[name], families.load(DATA / f"{file}.json")
        assert found.slope == released.slope and found.constant_bytes == released.constant_bytes, name
        assert found.max_tokens == released.max_tokens, name


def test_rungs_and_models_of_the_ladder_have_the_packages_prices():
    rungs = ladder.rung_settings(Config.flash())
    assert [ladder.ladder_budget(rungs[step.name]).total for step in ladder_steps(Config.flash())] == [
        step.bytes_per_token for step in ladder_steps(Config.flash())]
    for name, settings in ladder.model_settings().items():
        assert ladder.ladder_budget(ladder.check_settings(settings | {"context": 1})).total == model_budgets()[name].total
    assert ladder.ladder_budget(rungs["index"]).used_bytes(1001) == budget(Config.flash()).used_bytes(1001)


@pytest.mark.parametrize("settings, says", [
    (dict(kv_heads=3), "kv_heads = 3, must divide heads = 64"), (dict(width=100), "width = 100, must be a multiple of 32"),
    (dict(storing=41), "storing = 41, must be a whole number from 1 to 40"), (dict(pooling=5), "from 0 to 4"),
    (dict(format="int4"), "format = 'int4', must be one of"), (dict(heads=True), "heads = True"), (dict(depth=3), "known are"),
])  # fmt: skip
def test_settings_of_no_model_are_refused(settings, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        show_ladder(**settings)


@pytest.mark.parametrize("wrong, says", [
    (lambda: show_fp4([1.0] * 15), "values holds 15 numbers"), (lambda: show_fp4([float("nan")] * 16), r"values\[0\] = nan"),
    (lambda: show_fp4(neighbor=5000.0), "neighbor = 5000.0"), (lambda: show_mixing([[0] * 4] * 3), "4 rows of 4"),
    (lambda: show_mixing(step=40), "step = 40, must be a whole number from 0 to 39"),
    (lambda: show_mixing([[11] * 4] * 4), "logits hold 11"), (lambda: show_capacity("GPT"), "model = 'GPT'"),
    (lambda: show_capacity(sessions=0), "sessions must be a whole number from 1 up"),
    (lambda: show_capacity(memory=10**16), "at most 10"), (lambda: show_capacity("DeepSeek-V3", weights=True), "weights"),
])  # fmt: skip
def test_arguments_are_checked_at_the_door(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()


def test_tables_say_the_defaults_result():
    assert "<td>890</td><td>0.89</td>" in show_ladder()._repr_html_()
    assert "codes f7 66 45 24 02 80 aa e6" in show_fp4()._repr_html_()
    assert "after 20 rounds" in show_mixing()._repr_html_()
    capacity = show_capacity()._repr_html_()
    assert f'<th scope="row">{V41}</th><td>7.14</td><td>yes</td><td>157</td>' in capacity and "Not counted" in capacity


def test_data_are_json_and_small():
    for show in (show_ladder, show_fp4, show_mixing, show_capacity):
        text = re.search(r'<script type="application/json">(.*?)</script>', show()._repr_html_())[1]
        assert json.loads(text) and len(text) < 8000


def test_groups_hold_every_growing_byte():
    for name, found in model_budgets().items():
        assert sum(size * layers * (12345 // per) for size, per, layers in groups(found)) == found.used_bytes(12345), name


def test_the_golden_vector_has_its_bytes():
    found = rounded(list(GOLDEN), 0.0)["E2M1_E4M3"]
    assert (bytes(found["codes"]).hex(" "), found["scale_byte"]) == ("f7 66 45 24 02 80 aa e6", 0x38)

"""What the reference pages and the README print is what the code prints."""
from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from flash41.__main__ import main
from flash41.budget import ladder_steps
from flash41.config import Config

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(>>> .*?)^```$", re.S | re.M)
PAGES = sorted(path.name for path in (ROOT / "book/reference").glob("*.md") if BLOCK.search(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", PAGES)
def test_examples_of_a_page_print_what_stands_there(name):
    text = (ROOT / "book/reference" / name).read_text(encoding="utf-8")
    said, names = [], {}  # the blocks of a page share their names, as the cells of a notebook do
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        example = doctest.DocTestParser().get_doctest(block[1], names, name, name, line)
        doctest.DocTestRunner().run(example, out=said.append, clear_globs=False)
        names = example.globs
    assert not said, "".join(said)


def test_formats_and_prerequisites_have_examples():
    assert {"formats.md", "prerequisites.md"} <= set(PAGES)


def test_readme_shows_what_flash41_budget_prints(capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(DeepSeek-V4\.1-Flash.*?)```", readme, re.S)
    assert main(["budget"]) == 0
    printed = capsys.readouterr().out
    cursor = 0
    for part in shown.split("...\n"):  # a line of three dots stands for lines left out
        assert part.rstrip("\n") in printed[cursor:], part
        cursor = printed.index(part.rstrip("\n"), cursor)


def test_areas_of_the_landing_picture_are_to_scale():
    """Every square on the first page has the area of its bytes per token."""
    text = (ROOT / "book/index.md").read_text(encoding="utf-8")
    shapes = re.findall(r'<rect [^>]*data-bytes="(\d+)"[^>]*width="([\d.]+)" height="([\d.]+)"', text)
    steps = {step.bytes_per_token for step in ladder_steps(Config.flash())}
    scale = [float(width) * float(height) / int(size) for size, width, height in shapes]
    assert len(shapes) == 4 and {int(size) for size, _, _ in shapes} <= steps
    assert max(scale) / min(scale) == pytest.approx(1, rel=0.01)

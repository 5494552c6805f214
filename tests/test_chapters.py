"""Every chapter has its shape: sections in order, predictions, mistakes, plots, short cells, plain Markdown, few words."""

import json
import re
from pathlib import Path

import pytest

from flash41.course.atlas import PLACES

BOOK = Path(__file__).parents[1] / "book"
CHAPTERS = {label: BOOK / f"blocks/{slug}.ipynb" for label, (_, slug, *_) in PLACES.items()}
PATH = [BOOK / f"path/{name}.ipynb" for name in ("prefill", "decode", "draft", "profile", "gpu", "engines", "check-yourself")]
PAGES = [*CHAPTERS.values(), *PATH]
SECTIONS = ["What it is", "Where it sits", "Build it", "Check it", "Measure it", "How people get it wrong", "Your turn",
            "Words, related blocks, sources"]  # fmt: skip
NOT_PROSE = re.compile(r"</?[a-z][^<>]*>|\$\$[^$]*\$\$|\$[^$\n]*\$|^\|[^\n]*$|\]\([^)]*\)", re.M)


def cells(page: Path, kind: str) -> list[dict]:
    return [cell for cell in json.loads(page.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def text(cell: dict) -> str:
    return "".join(cell["source"])


def prose(page: Path) -> str:
    return "\n\n".join(map(text, cells(page, "markdown")))


def pages(which):
    return pytest.mark.parametrize("page", which, ids=[page.stem for page in which])


@pytest.mark.parametrize("label", CHAPTERS)
def test_a_chapter_has_its_sections_in_order(label):
    page = CHAPTERS[label]
    headings = re.findall(r"^(#{1,2}) (.+)$", prose(page), flags=re.M)
    assert headings[0][0] == "#" and headings[0][1].startswith(label), "the title begins with the label"
    assert [words for level, words in headings if level == "##"] == SECTIONS
    assert f'show_map("{label}"' in "\n".join(map(text, cells(page, "code")))


@pages(list(CHAPTERS.values()))
def test_a_chapter_predicts_breaks_and_draws(page):
    said, code = prose(page), "\n".join(map(text, cells(page, "code")))
    assert "**Predict.**" in said and len(re.findall(r"\*\*Common mistake", said)) >= 2
    assert "plots.figure(" in code and "quiz(" in code and "measure." in code
    assert len(re.findall(r"\bassert\b", code)) >= 2, "what is checked is asserted too"


@pages(list(CHAPTERS.values()))
def test_a_chapter_takes_twenty_minutes(page):
    words = re.findall(r"[A-Za-z][\w'’-]*", NOT_PROSE.sub(" ", prose(page)))
    assert 1_000 < len(words) <= 2_000, f"{len(words)} words"


@pages(PAGES)
def test_cells_are_short_and_markdown_is_plain(page):
    for cell in cells(page, "code"):
        if "hide-input" not in cell["metadata"].get("tags", []):
            assert text(cell).count("\n") < 25, cell["id"]
        assert not cell["outputs"] and cell["execution_count"] is None, f"{cell['id']} holds an output"
    assert not re.search(r"^(:::|```)|\{[\w:-]+\}`", prose(page), flags=re.M), "Colab shows directives and roles as they are"


@pages(PAGES)
def test_a_page_marks_what_is_not_established(page):
    assert re.search(r"not established", prose(page), flags=re.I)


def test_the_small_model_has_one_name():
    named = {page.stem: "apprentice" in prose(page) for page in CHAPTERS.values()}
    assert all(named.values()), named

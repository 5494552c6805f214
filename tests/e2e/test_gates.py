"""Each gate goes red: a two-page book with one fault at a time, through the build and the checks of the real one."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from check_site import check_site
from conftest import ROOT
from visiting import context_for, look, served


@dataclass
class Book:
    """A checkout of its own: the fixture's pages and package under the real configuration, extensions and tools."""

    root: Path

    @property
    def site(self) -> Path:
        return self.root / "_build/html"

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} lacks {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def _run(self, *command: str) -> subprocess.CompletedProcess:
        env = {**os.environ, "PYTHONPATH": str(self.root / "labs"), "FIXTURE_RUNS": str(self.root / "runs"),
               "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, cwd=self.root, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def build(self) -> tuple[bool, str]:
        """(built clean, what was said)"""
        done = self._run("tools/build.sh")
        return done.returncode == 0, done.stdout

    def numbers(self) -> tuple[bool, str]:
        done = self._run(sys.executable, "tools/check_numbers.py")
        return done.returncode == 0, done.stdout

    def runs(self) -> list[str]:
        """Which notebooks have run since the last call."""
        log = self.root / "runs"
        lines = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return sorted(lines)


def assemble(root: Path) -> Book:
    shutil.copytree(ROOT / "tests/fixture_book", root)
    for name in ("_config.yml", "requirements.txt", "tools", "book/_ext"):
        source, target = ROOT / name, root / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    (root / "numbers.py").replace(root / "book/_ext/numbers.py")
    shutil.rmtree(root / "book/_ext/named")  # of pages that this book lacks
    (root / "book/_static").symlink_to(ROOT / "book/_static")
    (root / ".venv").symlink_to(sys.prefix)
    return Book(root)


@pytest.fixture(scope="module")
def green(tmp_path_factory) -> Book:
    book = assemble(tmp_path_factory.mktemp("gates") / "green")
    clean, said = book.build()
    assert clean, said
    return book


@pytest.fixture
def book(green, tmp_path) -> Book:
    """A copy of the green book, with the outputs of its notebook but without its pages."""
    shutil.copytree(green.root, tmp_path / "book", symlinks=True, ignore=shutil.ignore_patterns("html", ".doctrees", "runs"))
    return Book(tmp_path / "book")


@pytest.fixture
def built(book):
    """Builds a book whose fault only shows in the built site."""
    def build() -> list[str]:
        clean, said = book.build()
        assert clean, said
        return check_site(book.site, book.root)

    return build


def test_book_without_a_fault_is_green(green):
    assert check_site(green.site, green.root) == []
    assert green.numbers()[0]
    page = (green.site / "book/index.html").read_text(encoding="utf-8")
    assert "box-predict" in page, "a blockquote with a bold opening becomes a box"


def test_cell_that_raises_fails_the_build_every_time(book):
    book.edit("book/page.ipynb", 'print(ENTRY, \\"bytes\\")', "ENTRY / 0")
    for _ in range(2):
        clean, said = book.build()
        assert not clean and "ZeroDivisionError" in said, said


def test_cell_that_warns_fails_the_build(book):
    book.edit("book/page.ipynb", 'print(ENTRY, \\"bytes\\")', "import warnings; warnings.warn('odd')")
    clean, said = book.build()
    assert not clean and "stderr was found in the cell outputs" in said, said


def test_warning_fails_the_build_every_time(book):
    book.edit("book/index.md", "page.ipynb", "nowhere.md")
    for _ in range(2):
        clean, said = book.build()
        assert not clean and "cross-reference target not found: 'nowhere.md'" in said, said


@pytest.mark.parametrize(("html", "problem"), [
    ('<a href="nowhere.html">x</a>', "book/index.html: dead link nowhere.html"),
    ('<a href="page.html#nothing">x</a>', "book/index.html: no anchor #nothing in book/page.html"),
    ('<img src="https://example.org/x.png" alt="x">', "book/index.html: loads https://example.org/x.png from outside"),
    ('<p style="background: url(//example.org/y.png)">x</p>', "book/index.html: loads //example.org/y.png from outside"),
    ('<img src="../_static/logo.svg">', "book/index.html: no alternative text for ../_static/logo.svg"),
    ('<svg viewBox="0 0 1 1"></svg>', "book/index.html: no alternative text for an inline <svg>"),
    ("<p>https://github.com/OWNER/REPO</p>", "book/index.html: still names OWNER/REPO"),
])
def test_fault_of_a_page_is_reported(green, tmp_path, html, problem):
    """These are faults of the finished HTML: they are put into a copy of the built page, which spares a build each."""
    site = shutil.copytree(green.site, tmp_path / "html")
    page = site / "book/index.html"
    page.write_text(page.read_text(encoding="utf-8").replace("</article>", html + "</article>"), encoding="utf-8")
    checkout = shutil.copytree(green.root, tmp_path / "checkout", symlinks=True, ignore=shutil.ignore_patterns("_build"))
    if "OWNER/REPO" in html:
        Book(checkout).edit("_config.yml", "github.com/OWNER/REPO", "github.com/ada/bytes")
        assert problem in check_site(site, checkout)
    else:
        assert check_site(site, checkout) == [problem]


def test_picture_without_words_in_markdown_is_reported(book, built):
    book.edit("book/index.md", "An entry", "![](_static/favicon.svg)\n\nAn entry")
    (problem,) = built()
    assert problem.startswith("book/index.html: no alternative text for ")


def test_launch_link_to_nothing_is_reported(book, built):
    book.edit("_config.yml", 'path_to_book: ""', "path_to_book: docs")
    assert built() == ["book/page.html: launch link to docs/book/page.ipynb, which does not exist"]


def test_notebook_without_launch_link_is_reported(book, built):
    book.edit("_config.yml", "colab_url: https://colab.research.google.com", 'colab_url: ""')
    assert built() == ["book/page.html: the page of a notebook has no launch link"]


@pytest.mark.parametrize(("name", "old", "new", "problem"), [
    ("book/index.md", "288 bytes", "289 bytes", "book/index.md:3: 289 equals no named value"),
    ("book/page.ipynb", "$288$", "$2{,}880$", "book/page.ipynb[title]:3: 2{,}880 equals no named value"),
    ("labs/flash41/sizes.py", "SCALES = 32", "SCALES = 64", "book/index.md:3: 288 equals no named value"),
])
def test_number_that_the_code_contradicts_is_reported(book, name, old, new, problem):
    book.edit(name, old, new)
    right, said = book.numbers()
    assert not right and problem in said, said


def test_package_change_runs_exactly_the_pages_that_use_it(book):
    notebook = json.loads((book.root / "book/page.ipynb").read_text())
    notebook["cells"][1]["source"] = ["print('no package here')"]
    other = json.dumps(notebook).replace('print(\\"page\\"', 'print(\\"other\\"').replace("An entry", "No entry")
    (book.root / "book/other.ipynb").write_text(other)
    book.edit("_toc.yml", "book/page\n", "book/page\n  - file: book/other\n")

    def runs_after_build() -> list[str]:
        clean, said = book.build()
        assert clean, said
        return book.runs()

    shutil.rmtree(book.root / "_build")
    assert runs_after_build() == ["other", "page"]
    assert runs_after_build() == []
    book.edit("labs/flash41/unused.py", "0", "1")
    assert runs_after_build() == []
    book.edit("labs/flash41/sizes.py", "SCALES = 32", "SCALES = 33")
    assert runs_after_build() == ["page"]
    assert "289 bytes" in (book.site / "book/page.html").read_text(encoding="utf-8")
    book.edit("labs/flash41/sizes.py", "SCALES = 33", "SCALES = 1 / 0")
    assert not book.build()[0] and not book.build()[0], "a page that fails is stale until it runs"
    book.edit("labs/flash41/sizes.py", "SCALES = 1 / 0", "SCALES = 33")
    book.runs()
    book.edit("requirements.txt", "-e .", "# another pin\n-e .")
    assert runs_after_build() == ["other", "page"]


FAULTY = """
<button></button>
<p style="color: #ccc; background: #fff">Pale words.</p>
<div style="width: 900px">wide</div>
<style>html[data-theme="dark"] .dim { color: #333; background: #111 }</style><p class="dim">Dark words on dark ground.</p>
<script>fetch("https://example.org/data.json").catch(() => {}); console.error("trouble"); undefinedFunction();</script>
"""


def test_faults_that_only_a_browser_sees_are_reported(green, tmp_path, browser):
    site = shutil.copytree(green.site, tmp_path / "html")
    page = site / "book/page.html"
    page.write_text(page.read_text(encoding="utf-8").replace("</article>", FAULTY + "</article>"), encoding="utf-8")
    context = context_for(browser, "light")
    with served(site) as base:
        good, bad = look(context, base, "book/index.html"), look(context, base, "book/page.html")
    context.close()
    assert (good.outside, good.complaints, good.axe, good.axe_dark, good.sticking_out, good.cut_off) == ([],) * 6
    assert bad.outside == ["https://example.org/data.json"]
    assert any("trouble" in line for line in bad.complaints) and any("undefinedFunction" in line for line in bad.complaints)
    assert any(line.startswith("color-contrast") for line in bad.axe) and any(line.startswith("button-name") for line in bad.axe)
    assert any(line.startswith("at 375 px") for line in bad.sticking_out) and any("wide" in line for line in bad.cut_off)
    assert any('class="dim"' in line for line in bad.axe_dark) and not any('class="dim"' in line for line in bad.axe)

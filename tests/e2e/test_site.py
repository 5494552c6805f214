"""The built site as files, without a browser."""
from __future__ import annotations

import json
import re

from check_site import check_site
from conftest import ROOT, pages_in_toc


def test_book_builds_without_warnings(site):
    assert (site / "index.html").is_file()


def test_every_page_of_the_contents_is_built(site):
    assert [address for address in pages_in_toc() if not (site / address).is_file()] == []


def test_links_loads_pictures_and_launch_links(site):
    problems = check_site(site, ROOT)
    assert not problems, "\n" + "\n".join(problems)


def test_site_is_ready_for_github_pages(site):
    assert (site / ".nojekyll").is_file()
    assert (site / "_static/scripts/fontawesome.js").read_text() == ""


def test_vendored_files_come_with_their_licence():
    folders = [path for path in (ROOT / "book/_static/vendor").iterdir() if path.is_dir()]
    assert folders and all((folder / "LICENSE").is_file() for folder in folders)


def test_no_file_of_the_site_is_over_ten_megabytes(site):
    assert [path for path in site.rglob("*") if path.is_file() and path.stat().st_size > 10e6] == []


def test_no_page_source_download_or_search_entry_holds_a_solution(site):
    """The student versions are published, the masters are not. Chapters explain the same blocks in lines of their own."""
    marks = ("BEGIN SOLUTION", "BEGIN HIDDEN TESTS")
    answers = {line.strip() for master in (ROOT / "labs/steps").glob("*/*.ipynb") for line in solution_lines(master)}
    assert len(answers) > 100
    published = [path for path in site.rglob("*") if path.suffix in (".html", ".ipynb", ".js", ".json", ".txt", ".md") and path.is_file()]
    assert sum("labs/student" in path.as_posix() for path in published) >= 20, "pages and their sources"
    assert not [path for path in published if "labs/steps" in path.as_posix()]
    for path in published:
        text = path.read_text(encoding="utf-8")
        assert not [mark for mark in marks if mark in text], path
        if "labs/student" in path.as_posix():
            assert not [line for line in answers if line in text], path


def solution_lines(master) -> list[str]:
    """Lines of the answers that are long enough to be told from any other code."""
    source = "".join("".join(cell["source"]) + "\n" for cell in json.loads(master.read_text(encoding="utf-8"))["cells"])
    parts = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", source, flags=re.S)
    return [line for part in parts for line in part.splitlines() if len(line.strip()) > 24]

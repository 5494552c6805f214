"""The built site as files, without a browser."""
from __future__ import annotations

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

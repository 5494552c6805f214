"""The built site, and the one browser that visits it."""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
sys.path.append(str(ROOT / "book/_ext"))  # at the end: numbers.py there must not hide Python's own module

from visiting import Visit, chromium, context_for, look, running_browser, served

BROWSER_CHECK = "test_a_browser_is_installed"
weights = pytest.StashKey[dict[str, int]]()


def pages_in_toc() -> list[str]:
    """Addresses of the pages in _toc.yml, with the search page and the page for dead addresses."""
    def files(node: object) -> Iterator[str]:
        if isinstance(node, dict):
            yield from (node[key] for key in ("root", "file") if key in node)
            yield from (name for child in node.values() for name in files(child))
        elif isinstance(node, list):
            yield from (name for child in node for name in files(child))

    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [f"{name}.html" for name in (*files(toc), "search", "404")]


# One page of every kind. What takes long (axe, keyboard, a PDF, the page from the disk) is left to `make test-full` on the others.
KINDS = {f"{name}.html" for name in (
    "book/index", "book/map", "book/ladder/budget", "book/blocks/2a-mhc", "book/blocks/3a-ced", "book/blocks/3b-csa2", "book/path/draft",
    "book/path/check-yourself", "book/lab", "labs/student/3B/3B", "book/teach/grading", "book/reference/glossary", "search", "404")}  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    pages = pages_in_toc()
    if "address" in metafunc.fixturenames:
        metafunc.parametrize("address", pages)
    if "kind" in metafunc.fixturenames:
        assert KINDS <= set(pages)
        metafunc.parametrize("kind", [page if page in KINDS else pytest.param(page, marks=pytest.mark.slow) for page in pages])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a browser one test says so; the same words from every page would bury it."""
    if chromium() is None:
        hopeless = [i for i in items if "browser" in getattr(i, "fixturenames", ()) and i.name != BROWSER_CHECK]
        config.hook.pytest_deselected(items=hopeless)
        items[:] = [item for item in items if item not in hopeless]


@pytest.fixture(scope="session")
def site() -> Path:
    """The built site; a build that failed fails every test of what it built."""
    if not (ROOT / "_build/.built").exists():
        pytest.fail("the book does not build without errors and warnings: run `make book` and read what it says", pytrace=False)
    return ROOT / "_build/html"


@pytest.fixture(scope="session")
def browser() -> Iterator:
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def base(site: Path) -> Iterator[str]:
    with served(site) as address:
        yield address


@pytest.fixture(scope="session")
def visited(browser, base: str, pytestconfig: pytest.Config) -> Callable[..., Visit]:
    """Looks at a page once, however many tests ask; pages of KINDS are judged by axe, others where a test wants it."""
    context, visits = context_for(browser, "light"), {}
    pytestconfig.stash[weights] = {}

    def visit(address: str, judged: bool = False) -> Visit:
        key = address, judged or address in KINDS
        if key not in visits:
            visits[key] = look(context, base, *key)
            pytestconfig.stash[weights].setdefault(address, visits[key].bytes)
        return visits[key]

    return visit


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # one of two processes: the other end adds up
        session.config.workeroutput["weights"] = session.config.stash.get(weights, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    node.config.stash.setdefault(weights, {}).update(getattr(node, "workeroutput", {}).get("weights", {}))


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if config.stash.get(weights, None):
        terminalreporter.section("what a first visit loads")
        for address, size in sorted(config.stash[weights].items()):
            terminalreporter.write_line(f"{size / 1e6:8.2f} MB  {address}")

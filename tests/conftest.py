"""Order of the tests: what takes milliseconds first, the browser last. Two processes share them, a file or a page at a time."""
from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from xdist.scheduler import LoadScopeScheduling

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
LAST = ("test_numbers.py", "test_repository.py", "test_site.py", "test_gates.py", "test_widgets.py", "test_explorers.py",
        "test_layer_explorers.py", "test_jupyterlab.py", "test_browser.py")  # fmt: skip
torch.set_num_threads(1)  # the models here are tiny: a second thread costs more than it saves


class FilesAndPages(LoadScopeScheduling):
    """What shares fixtures stays in one process: a file, or a page of the book."""

    def _split_scope(self, nodeid: str) -> str:
        page = re.search(r"test_browser\.py::\w+\[(.*\.html)", nodeid)
        return page[1] if page else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log) -> FilesAndPages:
    return FilesAndPages(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    def rank(item: pytest.Item) -> tuple[int, int]:
        in_e2e = item.path.parent == here / "e2e"
        return (1, LAST.index(item.path.name)) if in_e2e else (0, 0)

    items.sort(key=rank)


def pytest_report_header() -> str:
    return f"devices: {', '.join(DEVICES)}"


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Every device of this machine in turn."""
    return request.param

"""The widgets in a real JupyterLab with a real kernel: presses reach Python, Python moves the picture, nothing is fetched from outside."""
from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from urllib.error import URLError

import pytest
from playwright.sync_api import TimeoutError

CELLS = (
    "from flash41.course import show_map, show_mixing\nm = show_map('6A')\nm",
    "print('SELECTED', m.selected)",
    "m.selected = '3C'",
    "mixing = show_mixing()\nmixing",
    "print('STEP', mixing.step)",
)
SETTINGS = ("--no-browser", "--allow-root", "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--LabApp.news_url=None",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate")  # fmt: skip


def answers(address: str) -> bool:
    try:
        return urllib.request.urlopen(address, timeout=5).status == 200
    except (URLError, OSError):
        return False


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address of a JupyterLab that serves one notebook, with no settings but its own."""
    folder = tmp_path_factory.mktemp("lab")
    cells = [{"cell_type": "code", "id": f"c{i}", "execution_count": None, "metadata": {}, "outputs": [], "source": text}
             for i, text in enumerate(CELLS)]  # fmt: skip
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "live.ipynb").write_text(json.dumps(notebook))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    command = [sys.executable, "-m", "jupyterlab", *SETTINGS, "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", f"--ServerApp.root_dir={folder}"]
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen(command, env=os.environ | own, cwd=folder, stdout=log, stderr=log)
        try:
            for _ in range(120):
                if answers(f"http://127.0.0.1:{port}/api") or server.poll() is not None:
                    break
                time.sleep(1)
            assert server.poll() is None, (folder / "log.txt").read_text()[-2000:]
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture
def page(browser, lab):
    """The notebook, open; a request to anywhere else is refused and noted in page.outside."""
    context = browser.new_context(viewport={"width": 1200, "height": 1400})
    context.set_default_timeout(120_000)
    page, outside = context.new_page(), []
    local = re.compile(rf"^({re.escape(lab)}|data:|blob:)")
    context.route(lambda url: not local.match(url), lambda route: (outside.append(route.request.url), route.abort()))
    page.goto(f"{lab}/lab/tree/live.ipynb?reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']")
    yield page
    context.close()
    assert not outside


def run(page, cell: int, wait: str) -> str:
    """Run one cell and wait for what it shows. Run it again where nothing came: a kernel may say idle before it listens."""
    editor = page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-InputArea-editor")
    found = page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(wait).first
    for patience in (20_000, 40_000, 60_000):
        editor.scroll_into_view_if_needed()
        editor.click()
        page.keyboard.press("Shift+Enter")
        with suppress(TimeoutError):
            found.wait_for(timeout=patience)
            break
    return found.inner_text()


def says(page, cell: int, words: str) -> bool:
    """Whether a cell that is run again and again comes to print these words: state travels to the kernel beside the run."""
    for _ in range(10):
        if run(page, cell, f".jp-OutputArea-output:has-text('{words.split()[0]}')").strip() == words:
            return True
        page.wait_for_timeout(500)
    return False


def test_widgets_are_live_in_jupyterlab(page):
    run(page, 0, ".fmap")
    page.locator(".fmap [data-key='3A']").click()
    assert says(page, 1, "SELECTED 3A")                                          # a press has reached Python
    page.locator(".fmap [data-key='1A']").focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.key") == "1B"           # arrows walk the map, not the notebook
    run(page, 2, ".jp-InputPrompt:has-text(']')")
    page.locator(".fm-head b", has_text="3C").wait_for()                         # Python has moved the picture

    run(page, 3, "input[type=range]")
    slider = page.locator(".jp-Notebook .jp-Cell").nth(3).locator("input[type=range]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    dragged = int(slider.input_value())
    slider.press("ArrowRight")
    assert dragged > 5 and says(page, 4, f"STEP {dragged + 1}")                  # drag and key have reached Python

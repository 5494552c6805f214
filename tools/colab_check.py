#!/usr/bin/env python
"""A lab step in Colab's environment: what installing flash41 changes there; whether a student version runs to its first blank.

    colab_check.py FOLDER [--step 3B] [--python python3.12] [--torch "torch==2.11.0 --index-url https://download.pytorch.org/whl/cpu"]

FOLDER becomes a virtual environment with the versions of tests/data/colab.txt and a CPU build of torch in place of Colab's. An
existing one is used again. Needs the network (package index) and a minute or two. Prints a report in JSON; exit code 1 where
something of Colab's would change.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "data" / "colab.txt"
# Colab's list has no jedi though its IPython asks for it, so every pip install that reaches IPython (here: anywidget) adds it.
EXPECTED = {"flash41", "jedi"}

RUN = r"""
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell, done = InteractiveShell.instance(), []
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] != "code":
        continue
    result = shell.run_cell("".join(cell["source"]))
    error = result.error_before_exec or result.error_in_exec
    done.append(cell["id"])
    if error:
        json.dump({"cells": done, "stopped": type(error).__name__, "message": str(error)}, open(sys.argv[2], "w"))
        break
"""


def pins() -> dict[str, str]:
    """name -> version of Colab's list; names in lower case with dashes."""
    lines = [line.strip() for line in LIST.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return {normal(name): version for name, version in (line.split("==") for line in lines)}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pip(python: Path, *arguments: str) -> str:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def frozen(python: Path) -> dict[str, str]:
    found = json.loads(pip(python, "list", "--format", "json"))
    return {normal(each["name"]): each["version"] for each in found}


def environment(folder: Path, python: str, torch: str) -> Path:
    """The interpreter of a virtual environment with Colab's versions; made where it is not there."""
    own = folder / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip(own, "install", "--quiet", *torch.split())
        listed = [f"{name}=={version}" for name, version in pins().items() if name != "torch"]
        pip(own, "install", "--quiet", "--no-deps", *listed)
        pip(own, "install", "--quiet", *torch.split())  # what this torch needs newer than Colab's torch does
    if "flash41" in frozen(own):
        pip(own, "uninstall", "--quiet", "--yes", "flash41")
    return own


def resolved(python: Path) -> dict[str, str]:
    """What pip would install for flash41 in that environment."""
    report = json.loads(pip(python, "install", "--quiet", "--dry-run", "--report", "-", str(ROOT)))
    return {normal(each["metadata"]["name"]): each["metadata"]["version"] for each in report["install"]}


def first_blank(python: Path, label: str, folder: Path) -> dict:
    """Run a student version cell by cell, its install cell included, until one raises."""
    notebook, found = ROOT / "labs" / "student" / label / f"{label}.ipynb", folder / "ran.json"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found.unlink(missing_ok=True)
    subprocess.run([str(python), "-c", RUN, str(notebook), str(found)], check=True, cwd=folder,
                   env=variables | {"FLASH41_SOURCE": str(ROOT), "MPLBACKEND": "agg"}, stdout=subprocess.DEVNULL)  # fmt: skip
    return json.loads(found.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--step", default="3B")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torch", default=re.search(r"^torch==.*$", (ROOT / "requirements.txt").read_text(), flags=re.M)[0])
    options = parser.parse_args()
    folder = options.folder.resolve()
    python = environment(folder, options.python, options.torch)
    before, would = frozen(python), resolved(python)
    ran = first_blank(python, options.step, folder)
    after = frozen(python)
    report = {
        "python": subprocess.run([str(python), "-V"], text=True, stdout=subprocess.PIPE, check=True).stdout.strip(),
        "torch": before["torch"],
        "off the list": {name: before.get(name) for name, version in pins().items() if before.get(name) != version},
        "pip would install": would,
        "changed": {name: after.get(name) for name in before if after.get(name) != before[name]},
        "added": {name: after[name] for name in after if name not in before},
        "ran": ran,
    }
    print(json.dumps(report, indent=1))
    good = not report["changed"] and set(would) <= EXPECTED and set(report["added"]) <= EXPECTED
    return 0 if good and ran["stopped"] == "CheckFailed" and "is not written yet" in ran["message"] else 1


if __name__ == "__main__":
    raise SystemExit(main())

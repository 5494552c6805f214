"""Runs a notebook again when the code it imports has changed, and only then.

The execute cache compares cells. It does not see that `flash41/ladder.py` changed, that a pin moved or that Python is
another one. So each notebook page gets a key over exactly these; a page whose key changed loses its cached outputs
and is read again. What has to run runs ahead of the reading, two notebooks at a time: Sphinx would take one after the other.
"""
from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import nbformat
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

PACKAGE = "flash41"
KERNELS = 2  # notebooks that run at the same time


def module_file(labs: Path, name: str) -> Path | None:
    """The file of a dotted module name below labs/, or None where the name is no module."""
    base = labs.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def imported_names(source: str, package: str = "") -> set[str]:
    """Dotted names that a piece of Python imports; `package` resolves relative imports.

    `from a import b` yields both a and a.b, as b may be a module.
    """
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            base = ".".join(part for part in (base, node.module) if part)
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return {name for name in names if name.split(".")[0] == PACKAGE}


def modules_behind(names: set[str], labs: Path) -> set[Path]:
    """Files of the named modules, of the packages they lie in, and of everything these import in turn."""
    files, todo = set(), list(names)
    while todo:
        parts = todo.pop().split(".")
        for depth in range(1, len(parts) + 1):
            name = ".".join(parts[:depth])
            path = module_file(labs, name)
            if path is None or path in files:
                continue
            files.add(path)
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            todo += imported_names(path.read_text(encoding="utf-8"), package)
    return files


def notebook_names(path: Path) -> set[str]:
    """What a notebook's code cells import; a shell line that names the package counts as running its command."""
    names = set()
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        lines = "".join(cell["source"]).splitlines()
        shell = [line for line in lines if re.match(r"\s*[!%]", line)]
        if any(PACKAGE in line for line in shell):
            names.add(f"{PACKAGE}.__main__")
        python = (re.sub(r"(?<=^)(\s*)[!%].*", r"\1pass", line) for line in lines)
        names |= imported_names("\n".join(python))
    return names


def page_key(notebook: Path, root: Path) -> str:
    """Hash of everything but its own cells that a notebook's outputs depend on."""
    labs = root / "labs"
    files = modules_behind(notebook_names(notebook), labs)
    if files:  # data beside the modules: any of them may read any of it; scripts and styles go to the page by another way
        apart = (".py", ".pyc", ".js", ".css")
        files |= {p for p in (labs / PACKAGE).rglob("*") if p.is_file() and p.suffix not in apart}
    digest = hashlib.sha256(sys.version.encode())
    for path in [root / "requirements.txt", *sorted(files)]:
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def forget_outputs(cache_path: Path, keys: dict[str, str], paths: dict[str, Path]) -> None:
    """Drops the cached outputs of pages whose key is not the one they were made under."""
    from jupyter_cache import get_cache

    known_file = cache_path / "page_keys.json"
    known = json.loads(known_file.read_text(encoding="utf-8")) if known_file.exists() else {}
    stale = {str(paths[doc]) for doc, key in keys.items() if known.get(doc) != key}
    cache = get_cache(cache_path)
    for record in cache.list_cache_records():
        if record.uri in stale:
            cache.remove_cache(record.pk)
    known_file.write_text(json.dumps({**known, **keys}, indent=1), encoding="utf-8")


def executed(path: Path, timeout: int):
    """The notebook with its outputs, run in its own folder: what jupyter-cache calls a result."""
    from jupyter_cache.executors.utils import single_nb_execution

    os.environ["OMP_NUM_THREADS"] = "1"  # the kernel inherits it: two that want all cores starve each other
    result = single_nb_execution(nbformat.read(path, as_version=4), cwd=str(path.parent), timeout=timeout, allow_errors=False)
    for cell in result.nb.cells:
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
    return result


def joined(outputs: list) -> list:
    """What a slow cell prints arrives in pieces, some of them parts of a line; the page would begin a new line with each."""
    whole = []
    for output in outputs:
        last = whole[-1] if whole else {}
        if output["output_type"] == last.get("output_type") == "stream" and output["name"] == last["name"]:
            last["text"] += output["text"]
        else:
            whole.append(output)
    return whole


def run_ahead(cache_path: Path, paths: dict[str, Path], timeout: int) -> None:
    """Runs the notebooks that have no outputs yet and caches these. One that fails is left to Sphinx, which says why."""
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    cache, log, todo = get_cache(cache_path), logging.getLogger(__name__), {}
    for doc, path in paths.items():
        try:
            cache.match_cache_notebook(nbformat.read(path, as_version=4))
        except KeyError:
            todo[doc] = path
    if not todo:
        return
    with ProcessPoolExecutor(KERNELS) as pool:
        running = {pool.submit(executed, path, timeout): (doc, path) for doc, path in todo.items()}
        for future in as_completed(running):
            (doc, path), result = running[future], future.result()
            if result.err is None:
                log.info("%s: Executing notebook using a kernel of its own took %.0f s", doc, result.time)
                bundle = CacheBundleIn(result.nb, str(path), data={"execution_seconds": result.time})
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def outdated(app: Sphinx, env: BuildEnvironment, added: set, changed: set, removed: set) -> list[str]:
    """Pages to read again. The environment is saved only after reading, so a failed run stays outdated."""
    paths = {doc: Path(env.doc2path(doc)) for doc in env.found_docs}
    paths = {doc: path for doc, path in paths.items() if path.suffix == ".ipynb"}
    keys = {doc: page_key(path, Path(app.srcdir)) for doc, path in paths.items()}
    cache_path = Path(app.config.nb_execution_cache_path)
    forget_outputs(cache_path, keys, paths)
    excluded = app.config.nb_execution_excludepatterns
    runs = {doc: path for doc, path in paths.items() if not any(path.match(pattern) for pattern in excluded)}
    run_ahead(cache_path, runs, app.config.nb_execution_timeout)
    before = getattr(env, "page_keys", {})
    env.page_keys = keys
    return [doc for doc, key in keys.items() if before.get(doc) != key]


def setup(app: Sphinx) -> dict:
    app.connect("env-get-outdated", outdated)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

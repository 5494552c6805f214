"""Finding a student's functions by name, in whatever came back: notebooks or scripts, cells in any order, copied or broken.

Nothing is executed here. Of several definitions of one name the last that is more than a starter counts. With a function comes
what it uses and what is defined at the top of a cell: imports, helpers, constants.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

OPENS = re.compile(r"^(?=(?:def|class|import|from|@|async def)\b|@)", re.M)


@dataclass(frozen=True)
class Found:
    """One function as it was found. state: "written", "starter", "missing" or "broken"; source: it and what it needs."""

    name: str
    state: str
    source: str = ""
    note: str = ""


@dataclass(frozen=True)
class Statement:
    """A statement at the top of a cell and the names that it defines and uses."""

    order: int
    node: ast.stmt
    defines: frozenset[str]

    @property
    def text(self) -> str:
        return ast.unparse(self.node)

    @property
    def uses(self) -> set[str]:
        return {node.id for node in ast.walk(self.node) if isinstance(node, ast.Name)}


def code_of(path: str | Path) -> list[str]:
    """The code cells of a notebook, or a script as one cell. Raises ValueError, saying why, for a file that is neither."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not text") from None
    if not text.strip():
        raise ValueError(f"{path.name} is empty")
    if path.suffix == ".py":
        return [text]
    try:
        cells = json.loads(text)["cells"]
        sources = [cell["source"] for cell in cells if cell.get("cell_type") == "code"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path.name} is not a notebook: {type(error).__name__}: {str(error)[:80]}") from None
    return ["".join(source) if isinstance(source, list) else str(source) for source in sources]


def find(cells: list[str], names: list[str]) -> dict[str, Found]:
    """Every wanted function with what it needs, out of code cells."""
    statements, broken = [], {}
    for cell in cells:
        for part in parts_of(cell, broken):
            statements += [Statement(len(statements) + i, node, _defined(node)) for i, node in enumerate(_flat(part))]
    return {name: _found(name, statements, broken) for name in names}


def parts_of(cell: str, broken: dict[str, str]) -> list[list[ast.stmt]]:
    """The statements of a cell; where it does not parse as a whole, of those pieces that do. `broken`: name -> reason."""
    cell = re.sub(r"^\s*[%!].*$", "", cell, flags=re.M)  # notebook commands are no Python
    try:
        return [ast.parse(cell).body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    parts = []
    for piece in OPENS.split(cell):
        try:
            parts.append(ast.parse(piece).body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if named := re.match(r"(?:async )?def +(\w+)", piece):
                line = f", line {error.lineno} of the function" if getattr(error, "lineno", None) else ""
                broken[named[1]] = f"Python cannot read it: {getattr(error, 'msg', error)}{line}"
    return parts


def _flat(body: list[ast.stmt]):
    """Statements, those inside a top-level if, try or with included."""
    for node in body:
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _flat([child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)])
        else:
            yield node


def _defined(node: ast.stmt) -> frozenset[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset({node.name})
    if isinstance(node, ast.Import | ast.ImportFrom):
        return frozenset((alias.asname or alias.name).split(".")[0] for alias in node.names)
    targets = getattr(node, "targets", None) or [getattr(node, "target", node)]
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return frozenset()
    return frozenset(part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def is_starter(node: ast.stmt) -> bool:
    """A function that does nothing but raise NotImplementedError, or nothing at all."""
    if not isinstance(node, ast.FunctionDef):
        return False
    body = [part for part in node.body if not isinstance(part, ast.Pass)]
    body = [part for part in body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    return not body or (isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0]))


def _found(name: str, statements: list[Statement], broken: dict[str, str]) -> Found:
    own = [statement for statement in statements if name in statement.defines]
    written = [statement for statement in own if not is_starter(statement.node)]
    if not written:
        if name in broken:
            return Found(name, "broken", note=broken[name])
        return Found(name, "starter" if own else "missing")
    needed, queue = {}, [written[-1]]
    while queue:
        statement = queue.pop()
        needed[statement.order] = statement
        for used in statement.uses - {name}:
            offers = [other for other in statements if used in other.defines and not is_starter(other.node)]
            queue += [other for other in offers[-1:] if other.order not in needed]
    needed |= {s.order: s for s in statements if isinstance(s.node, ast.ImportFrom) and s.defines & {"*", "annotations"}}
    future = [s for s in needed.values() if isinstance(s.node, ast.ImportFrom) and s.node.module == "__future__"]
    imports = [s for s in needed.values() if isinstance(s.node, ast.Import | ast.ImportFrom) and s not in future]
    rest = sorted((s for s in needed.values() if s not in future and s not in imports), key=lambda s: s.order)
    return Found(name, "written", "\n\n".join(dict.fromkeys(s.text for s in [*future, *imports, *rest])))

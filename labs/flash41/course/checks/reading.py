"""Finding a student's functions by name, in whatever came back: notebooks or scripts, cells in any order, copied or broken.

Nothing is executed here. Of several definitions of one name the last that is more than a starter counts. With a function comes
what it uses and what is defined at the top of a cell: imports, helpers, constants.
"""

from __future__ import annotations

import ast
import json
import re
import symtable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DEFINITIONS, IMPORTS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, ast.Import | ast.ImportFrom
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
    """A statement at the top of a cell: the names that it defines, those that it changes (`TABLE[0] = 1`, `TABLE.append(1)`)."""

    order: int
    node: ast.stmt
    defines: frozenset[str]
    changes: frozenset[str]

    @property
    def text(self) -> str:
        return ast.unparse(self.node)

    @cached_property
    def uses(self) -> frozenset[str]:
        """Names that it needs from outside: what is local to a function does not count."""
        try:
            return frozenset(_outer(symtable.symtable(self.text, "cell", "exec"))) | self.changes
        except SyntaxError:  # a `return` outside of a function, for one
            return frozenset(node.id for node in ast.walk(self.node) if isinstance(node, ast.Name))

    @property
    def ends(self) -> bool:
        """Whether nothing before it matters to the names that it defines."""
        return isinstance(self.node, DEFINITIONS | IMPORTS) or (
            isinstance(self.node, ast.Assign | ast.AnnAssign) and not self.defines & self.uses)


def _outer(table: symtable.SymbolTable, top: bool = True) -> set[str]:
    names = {s.get_name() for s in table.get_symbols() if (s.is_referenced() if top else s.is_global())}
    return names.union(*(_outer(child, False) for child in table.get_children()))


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
            statements += [Statement(len(statements) + i, node, *_named(node)) for i, node in enumerate(_flat(part))]
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


def _named(node: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
    """(names that a statement defines, names of things that it changes)."""
    if isinstance(node, DEFINITIONS):
        return frozenset({node.name}), frozenset()
    if isinstance(node, IMPORTS):
        return frozenset((alias.asname or alias.name).split(".")[0] for alias in node.names), frozenset()
    defined, changed = set(), set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            defined.add(part.id)
        if isinstance(part, ast.AugAssign):
            changed.add(_root(part.target))
        if isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store):
            changed.add(_root(part))
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call) and isinstance(part.value.func, ast.Attribute):
            changed.add(_root(part.value.func))
    return frozenset(defined), frozenset(changed - {""})


def _root(node: ast.expr) -> str:
    """The name at the bottom of `name.part[0].other`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


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
    live = [statement for statement in statements if not is_starter(statement.node)]
    needed = _ordered(_makers(name, [s for s in live if s in written or name in s.changes], wanted=True), live)
    always = {"*", "annotations"}
    needed += [s for s in live if s not in needed and isinstance(s.node, ast.ImportFrom) and s.defines & always]
    future = [s for s in needed if isinstance(s.node, ast.ImportFrom) and s.node.module == "__future__"]
    imports = [s for s in needed if isinstance(s.node, IMPORTS) and s not in future]
    rest = [s for s in needed if s not in future and s not in imports]
    head = dict.fromkeys(s.text for s in [*future, *imports])
    return Found(name, "written", "\n\n".join([*head, *(s.text for s in rest)]))


def _makers(name: str, statements: list[Statement], wanted: bool = False) -> list[Statement]:
    """The statements that make a name what it is in the end: its last definition, and what changes it afterwards.

    wanted: a function of the lab, which is not replaced by what a later cell calls by its name (`rows = …`, a comparison).
    """
    if wanted and any(isinstance(s.node, ast.FunctionDef) for s in statements):
        statements = [s for s in statements if isinstance(s.node, ast.FunctionDef) or name in s.uses
                      or isinstance(getattr(s.node, "value", None), ast.Lambda)]  # fmt: skip
    found = []
    for statement in reversed(statements):
        if name in statement.defines | statement.changes:
            found.append(statement)
            if statement.ends and name in statement.defines:
                return found[::-1]
    return found[::-1] if any(name in statement.defines for statement in found) else []


def _ordered(start: list[Statement], statements: list[Statement]) -> list[Statement]:
    """These statements and all that they need, each after what it needs."""
    done, seen, makers = [], set(), {}
    stack = [(statement, False) for statement in reversed(start)]
    while stack:
        statement, left = stack.pop()
        if left:
            done.append(statement)
        elif statement.order not in seen:
            seen.add(statement.order)
            stack.append((statement, True))
            own = statement.defines | statement.changes
            for used in sorted(statement.uses, reverse=True):
                if used not in makers:
                    makers[used] = _makers(used, statements)
                stack += [(o, False) for o in reversed(makers[used]) if used not in own or o.order < statement.order]
    return done
